"""Estimate the fraction of a problem's current time that tuning would save (its headroom).

Headroom is 1 - best / today. ``today`` is the time of the kernel that currently runs. ``best`` is derived from
predictions of the time model and from recorded searches on a GPU:

============  ==================================================  ==================================================
what runs     today                                               best
============  ==================================================  ==================================================
timed         the seconds in the log                              a measured trial, else the model's corrected time
tuned         the seconds of the best trial                       expected result of a search that is twice as long
not tuned     best, times the regret of the model's first choice  the model's corrected time
library       best, divided by a measured ratio                   a measured trial, else the model's corrected time
============  ==================================================  ==================================================

The correction is the ratio of measured to predicted time of the best schedule. Corrections, regrets and ratios are
sampled from recorded runs. Runs of similar problems are sampled more often. Every estimate is therefore a distribution
with an interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from autosched.dispatch.lookup import look_up
from autosched.dispatch.provenance import Kind, NoSchedule
from autosched.reporting.roofline import roofline
from autosched.samplers.first_choices.model_choice import default_choice
from autosched.worth.evidence import Evidence, drawn, recorded_searches, spread_out
from autosched.worth.libraries import LibraryTime, library_times, ratios
from measurements.store.store import Store
from measurements.trials.measurement import Provenance
from measurements.trials.shipped import SHIPPED, ShippedRecordings
from search_spaces.arrays import FloatArray
from search_spaces.hardware.devices import Device
from search_spaces.operators.problem import Problem

DRAWS = 2000
INTERVAL = (10.0, 90.0)  # bounds of an interval, as percentiles of the random draws
_SEED = 0


class Today(StrEnum):
    """Kind of kernel that currently runs."""

    TIMED = "timed"
    TUNED = "tuned"
    NOT_TUNED = "not tuned"
    LIBRARY = "library"


class CannotEstimate(ValueError):
    """The time of a problem cannot be estimated. The message is one line with the reason."""


@dataclass(frozen=True)
class Headroom:
    """Estimated headroom of one problem.

    Attributes:
        problem: The problem.
        today: The kernel that currently runs.
        seconds: Current seconds of one launch (median of the estimate).
        measured: True if ``seconds`` were measured.
        draws: Random draws of the headroom, 1 - best / today; shape (DRAWS,), each in [0, 1).
    """

    problem: Problem
    today: Today
    seconds: float
    measured: bool
    draws: FloatArray

    @property
    def expected(self) -> float:
        """The median headroom."""
        return float(np.median(self.draws))

    @property
    def interval(self) -> tuple[float, float]:
        """Percentiles INTERVAL of the headroom."""
        low, high = np.percentile(self.draws, INTERVAL)
        return float(low), float(high)


class Estimator:
    """Estimates headroom on one device.

    Args:
        chip: The GPU.
        store: Database of tuned problems; None to use only autosched's recordings.
        library: True if the program now calls the vendor's library, False if it calls the kernels that autosched
            selects.
        searches: Recorded searches. Default: the installed searches.
        comparisons: Measured ratios to libraries. Default: the installed ratios.
        shipped: Recordings that calls use for problems that are not in the database. Default: those installed with
            autosched.
    """

    def __init__(
        self,
        chip: Device,
        store: Store | None = None,
        *,
        library: bool = False,
        searches: Sequence[Evidence] | None = None,
        comparisons: Sequence[LibraryTime] | None = None,
        shipped: ShippedRecordings = SHIPPED,
    ) -> None:
        self._chip = chip
        self._store = store
        self._library = library
        self._shipped = shipped
        self._searches = tuple(recorded_searches(chip.name) if searches is None else searches)
        self._comparisons = tuple(library_times(chip.name) if comparisons is None else comparisons)

    def estimate(self, problem: Problem, seconds: float | None = None) -> Headroom:
        """Return the headroom of ``problem``.

        Args:
            problem: The problem.
            seconds: Measured seconds of one launch of the current kernel; None if unknown.

        Raises:
            CannotEstimate: The problem was not measured, and no time model supports it.
        """
        generator = np.random.default_rng(_SEED)
        tuned = self._tuned(problem)
        if seconds is None and tuned is not None and not self._library:
            return self._of_tuned(problem, *tuned, generator)
        if tuned is not None:
            best: FloatArray = np.full(DRAWS, tuned[0])
        else:
            predicted = self._predicted(problem)
            corrections = drawn(problem, self._searches, lambda e: e.correction, DRAWS, generator)
            best = predicted * spread_out(corrections, generator)
        if seconds is not None:
            return self._headroom(problem, Today.TIMED, np.full(DRAWS, seconds), best)
        if self._library:
            ratio = ratios(problem, self._comparisons, DRAWS, generator)
            return self._headroom(problem, Today.LIBRARY, best / ratio, best)
        regret = drawn(problem, self._searches, lambda e: e.regret, DRAWS, generator)
        return self._headroom(problem, Today.NOT_TUNED, best * regret, best)

    def _tuned(self, problem: Problem) -> tuple[float, int] | None:
        """Return the measured seconds of the best trial, and the number of measured schedules; None without a trial.

        If the vendor library's trial is the best, its time is used, because calls then run the library.
        """
        try:
            answer = look_up(self._store, problem, self._chip, shipped=self._shipped)
        except NoSchedule:
            return None
        origin = answer.provenance.origin
        if origin is None or answer.provenance.differences or origin.time != Provenance.MEASURED.value:
            return None
        if answer.provenance.kind not in (Kind.EXACT, Kind.LIBRARY):
            return None
        of_store = self._store is not None and origin.database == self._store.name
        trials = (
            sum(s.trials for s in self._store.problems(problem.operator) if s.problem_key == problem.key())
            if of_store and self._store is not None
            else max((len(e.seconds) for e in self._searches if e.problem_key == problem.key()), default=1)
        )
        return origin.seconds, max(trials, 1)

    def _of_tuned(self, problem: Problem, seconds: float, trials: int, generator: np.random.Generator) -> Headroom:
        other_searches = [e for e in self._searches if e.problem_key != problem.key()] or self._searches
        remaining = drawn(
            problem, other_searches, lambda e: e.best_of(min(trials, len(e.seconds) // 2)), DRAWS, generator
        )
        return self._headroom(problem, Today.TUNED, np.full(DRAWS, seconds), seconds / remaining)

    def _predicted(self, problem: Problem) -> float:
        try:
            choice = default_choice(problem, self._chip)
        except ValueError as error:
            raise CannotEstimate(str(error)) from error
        if choice is None:
            raise CannotEstimate(f"no time model supports {problem.operator}: give its measured seconds in the log")
        if not self._searches:
            raise CannotEstimate("no recorded search shows the accuracy of the time model")
        return choice.seconds

    def _headroom(self, problem: Problem, today: Today, now: FloatArray, best: FloatArray) -> Headroom:
        roof = roofline(problem, self._chip).share(1.0)  # lower bound of the time in seconds, by the roofline
        headroom = np.clip(1.0 - np.maximum(best, np.minimum(roof, now)) / now, 0.0, None)
        measured = today in (Today.TIMED, Today.TUNED)
        return Headroom(problem, today, float(np.median(now)), measured, np.asarray(headroom, dtype=np.float64))
