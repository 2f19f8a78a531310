"""Recorded searches on GPUs. Each shows how much slower the time model's choice is than the best schedule."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np

from autosched.samplers.first_choices.model_choice import predicted_seconds
from measurements.trials import recording
from measurements.trials.problem_key import fields_of
from measurements.trials.recording import RECORDED, SUFFIX, Recording, RecordingError
from measurements.trials.vendor_library import is_library
from search_spaces.arrays import FloatArray
from search_spaces.catalogue import templates_for
from search_spaces.hardware.devices import Device, UnknownDevice, device
from search_spaces.operators.problem import Problem

LEAST_SCHEDULES = 3  # recorded searches with fewer schedules are not used
_OTHER_FIELD = 2.0  # distance of two problems that differ in type, order or epilogue; a doubled size has distance 1
_OTHER_OPERATOR = 12.0  # distance of problems of different operators


@dataclass(frozen=True)
class Evidence:
    """One recorded search.

    Attributes:
        problem_key: The problem that was searched.
        seconds: Measured seconds of each schedule, in the order of their first trials.
        predicted: Seconds that the time model predicts for these schedules.
        sustained: Seconds of the fastest schedule in the final timing of the search, which is under sustained load;
            None if there was no final timing.
    """

    problem_key: str
    seconds: tuple[float, ...]
    predicted: tuple[float, ...]
    sustained: float | None = None

    @cached_property
    def fields(self) -> Mapping[str, Any]:
        """The problem as JSON."""
        return fields_of(self.problem_key)

    @property
    def best(self) -> float:
        """Seconds of the fastest schedule."""
        return min(self.seconds)

    @property
    def first_choice(self) -> float:
        """Measured seconds of the schedule that the time model ranks first."""
        return self.seconds[int(np.argmin(self.predicted))]

    @property
    def regret(self) -> float:
        """Measured time of the model's first choice, divided by the time of the best schedule; at least 1."""
        return self.first_choice / self.best

    @property
    def correction(self) -> float:
        """Best measured time (under sustained load if that is known), divided by the smallest predicted time."""
        return (self.sustained or self.best) / min(self.predicted)

    def best_of(self, trials: int) -> float:
        """Return the expected best time of ``trials`` random schedules, divided by the best time of all schedules."""
        times = np.sort(np.array(self.seconds))
        total = len(times)
        if trials >= total:
            return 1.0
        trials = max(trials, 1)
        # The i-th fastest schedule is the best in a sample with probability C(total - i - 1, trials - 1) / C(total,
        # trials).
        chances = [math.comb(total - i - 1, trials - 1) / math.comb(total, trials) for i in range(total)]
        return float(np.dot(chances, times)) / self.best


@cache
def recorded_searches(device_name: str) -> tuple[Evidence, ...]:
    """Return the installed recordings of searches on this device, or on all devices if this device has none."""
    devices = recording.installed()
    names = [device_name] if device_name in devices else sorted(devices)
    searches = []
    for name in names:
        for path in sorted((RECORDED / name).glob(f"*{SUFFIX}")):
            try:
                searches += [e for r in recording.read(path) if (e := of_recording(r, device(name))) is not None]
            except (RecordingError, UnknownDevice, OSError):
                continue
    return tuple(searches)


def of_recording(recorded: Recording, chip: Device) -> Evidence | None:
    """Convert a recording to evidence; None if too few schedules have both a recorded and a predicted time."""
    times: dict[Any, list[float]] = {}
    for trial in recorded.trials:
        if trial.ok and trial.seconds is not None and not is_library(trial.schedule):
            times.setdefault(trial.schedule, []).append(trial.seconds)
    try:
        problem = recorded.problem
        schedules = list(times)
        predicted = predicted_seconds(templates_for(problem, chip), problem, schedules, chip)
    except ValueError:
        return None
    pairs = [
        (statistics.median(times[schedule]), guess)
        for schedule, guess in zip(schedules, predicted, strict=True)
        if math.isfinite(guess)
    ]
    if len(pairs) < LEAST_SCHEDULES:
        return None
    seconds, guesses = (tuple(column) for column in zip(*pairs, strict=True))
    finals = (t.seconds for t in recorded.trials if t.ok and t.rank is not None and not is_library(t.schedule))
    sustained = min((final for final in finals if final is not None), default=None)
    return Evidence(recorded.problem_key, seconds, guesses, sustained)


def weights(problem: Problem, fields: Sequence[Mapping[str, Any]]) -> FloatArray:
    """Return a weight for each recorded problem by its similarity to ``problem``; the sum of the weights is 1.

    A weight decreases with every factor of two between sizes, and with every difference in another field.
    """
    own_fields = problem.to_json()
    distances = np.array([_distance(own_fields, other) for other in fields])
    raw = 1.0 / (1.0 + distances) ** 2
    return np.asarray(raw / raw.sum(), dtype=np.float64)


def _distance(fields: Mapping[str, Any], recorded: Mapping[str, Any]) -> float:
    if fields["operator"] != recorded["operator"]:
        return _OTHER_OPERATOR
    total = 0.0
    for name in fields.keys() | recorded.keys():
        value, recorded_value = fields.get(name), recorded.get(name)
        if value == recorded_value:
            continue
        sizes = type(value) is int and type(recorded_value) is int and min(value, recorded_value) > 0
        total += abs(math.log2(value / recorded_value)) if sizes else _OTHER_FIELD  # type: ignore[operator]
    return total


def drawn(
    problem: Problem,
    evidence: Sequence[Evidence],
    value: Callable[[Evidence], float],
    number: int,
    generator: np.random.Generator,
) -> FloatArray:
    """Draw ``number`` recorded searches at random, and return ``value`` of each.

    Searches of problems that are similar to ``problem`` are drawn more often.
    """
    picked = generator.choice(len(evidence), size=number, p=weights(problem, [e.fields for e in evidence]))
    return np.array([value(e) for e in evidence], dtype=np.float64)[picked]


def spread_out(draws: FloatArray, generator: np.random.Generator) -> FloatArray:
    """Multiply each of the positive ``draws`` by a log-normal factor with the same standard deviation as the draws.

    The result is a kernel density estimate. The wider distribution allows for problems that differ from all recorded
    problems.
    """
    deviation = float(np.std(np.log(draws)))
    return np.asarray(draws * np.exp(generator.normal(0.0, deviation, len(draws))), dtype=np.float64)
