"""The recordings that come with autosched, as what calls fall back to where the user's database has no trial.

Each was measured on one GPU and serves that GPU only. The files are those that ``--backend replay`` reads; nothing is
read before the first look-up, and each file once in a process.
"""

from __future__ import annotations

import os
from functools import cached_property

from measurements.trials import recording
from measurements.trials.measurement import Status
from measurements.trials.recording import Recording
from measurements.trials.trial import Trial
from measurements.trials.vendor_library import is_library
from search_spaces.operators.problem import Problem


class ShippedRecordings:
    """The recordings below ``folder``, by default the installed ones. Any number of threads may ask."""

    name = "the recordings that come with autosched"

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self._folder = folder
        self._best: dict[tuple[str, str], Trial | None] = {}
        self._problems: dict[tuple[str, str], tuple[tuple[str, ...], tuple[str, ...]]] = {}

    @cached_property
    def _devices(self) -> frozenset[str]:
        return frozenset(recording.installed(self._folder))

    def best(self, problem: Problem, device: str) -> Trial | None:
        """Return the fastest recorded trial of exactly this problem and device; None where there is none.

        Raises:
            RecordingError: The file is damaged.
            OSError: The file cannot be read.
        """
        key = problem.key(), device
        if key not in self._best:
            if device not in self._devices:
                return None
            found = recording.find(problem, device, self._folder)
            self._best[key] = None if found is None else fastest(found)
        return self._best[key]

    def problems(self, operator: str, device: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the keys of an operator's problems recorded on a device, and one line for each unreadable file."""
        key = operator, device
        if key not in self._problems:
            if device not in self._devices:
                return (), ()
            self._problems[key] = recording.recorded_problems(operator, device, self._folder)
        return self._problems[key]


def fastest(recorded: Recording) -> Trial | None:
    """Return the best placed trial of the final comparison, else the one of the lowest median; None if none is ok.

    Where the vendor's library won the comparison, rank 1 is missing from the recording, and rank 2 is returned. A
    schedule that once gave a wrong result is left out, and so is the library itself.
    """
    wrong = {trial.schedule for trial in recorded.trials if trial.status is Status.WRONG_RESULT}
    usable = [
        trial
        for trial in recorded.trials
        if trial.ok and not is_library(trial.schedule) and trial.schedule not in wrong
    ]
    compared = [trial for trial in usable if trial.rank is not None]
    if compared:
        return min(reversed(compared), key=lambda trial: trial.rank or 0)  # the newest comparison at a tie
    return min(usable, key=lambda trial: trial.seconds or 0.0, default=None)


SHIPPED = ShippedRecordings()
