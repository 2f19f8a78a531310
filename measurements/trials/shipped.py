"""Recordings that are installed with autosched. They are used if the user's database has no trial of a problem.

A recording is only used for the GPU on which it was measured. ``--backend replay`` uses the same files. Each file is
read once per process, at the first look-up.
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
    """Recordings below ``folder``; by default, the recordings that are installed with autosched. Thread-safe."""

    name = "the recordings that come with autosched"

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self._folder = folder
        self._best: dict[tuple[str, str], Trial | None] = {}
        self._problems: dict[tuple[str, str], tuple[tuple[str, ...], tuple[str, ...]]] = {}

    @cached_property
    def _devices(self) -> frozenset[str]:
        return frozenset(recording.installed(self._folder))

    def best(self, problem: Problem, device: str) -> Trial | None:
        """Return the fastest recorded trial of exactly this problem and device, or None.

        Raises:
            RecordingError: The file is damaged.
            OSError: The file cannot be read.
        """
        key = problem.key(), device
        if key not in self._best:
            if device not in self._devices:
                return None
            records = recording.find(problem.key(), device, self._folder)
            self._best[key] = None if records is None else fastest(records)
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
    """Return the best ranked trial of the final comparison; without a comparison, the trial with the lowest median.

    Returns None if no trial is ok. If the vendor's library won the comparison, the recording has no rank 1, and the
    trial with rank 2 is returned. Trials of the library, and schedules that ever had a wrong result, are skipped.
    """
    wrong = {trial.schedule for trial in recorded.trials if trial.status is Status.WRONG_RESULT}
    usable = [
        trial
        for trial in recorded.trials
        if trial.ok and not is_library(trial.schedule) and trial.schedule not in wrong
    ]
    compared = [trial for trial in usable if trial.rank is not None]
    if compared:
        # reversed, so that the newest comparison wins a tie of ranks
        return min(reversed(compared), key=lambda trial: trial.rank or 0)
    return min(usable, key=lambda trial: trial.seconds or 0.0, default=None)


SHIPPED = ShippedRecordings()
