"""Backend without a GPU: return recorded measurements of candidates."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from measurements.runners.base import Candidate
from measurements.trials.measurement import Measurement, Provenance, Status
from measurements.trials.recording import Recording
from measurements.trials.runner_info import stated_of
from measurements.trials.trial import Trial
from search_spaces.spaces.schedule import Schedule


class ReplayRunner:
    """Runner that returns, for each candidate, the newest recorded trial of its problem and schedule.

    A schedule that is not in ``recording`` gets the status UNRECORDED. To avoid such trials, search a ``RecordedSpace``
    of ``schedules``. Nothing is compiled or timed. ``why`` is the reason why nothing is measured, for ``describe``.
    """

    name = "replay"
    provenance = Provenance.REPLAYED

    def __init__(self, recording: Recording, *, why: str = "") -> None:
        self._recording = recording
        self._why = why
        self._closed = False
        self._newest: dict[str, Trial] = {r.schedule.key(): r for r in recording.trials}

    @property
    def schedules(self) -> tuple[Schedule, ...]:
        """Recorded schedules without duplicates, in the order of their first trials."""
        return tuple(trial.schedule for trial in self._newest.values())

    def describe(self) -> str:
        """Describe the recording in one line: its device, date, version and number of schedules."""
        recording, newest = self._recording, self._recording.trials[-1]
        because = f": {self._why}" if self._why else ""
        return (
            f"backend replay{because}; times are REPLAYED from measurements "
            f"on {newest.runner_info.name or recording.device} of {newest.created:%Y-%m-%d} "
            f"with autosched {recording.autosched_version}; "
            f"only the {len(self._newest)} recorded schedules are tried"
        )

    def fingerprint(self) -> dict[str, str]:
        """Return the identity of the recording, with its date and version."""
        recorded = f"{self._recording.trials[-1].created.isoformat()} by autosched {self._recording.autosched_version}"
        return {**stated_of(self._recording.fingerprint), "recorded": recorded}

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[tuple[int, Measurement]]:
        """Yield the recorded measurement of each candidate, in the order of the candidates."""
        if self._closed:
            raise RuntimeError("the runner is closed")
        for position, candidate in enumerate(candidates):
            if self._closed:
                return
            yield position, self._measurement(candidate)

    def close(self) -> None:
        """Mark the runner as closed. There are no processes to end."""
        self._closed = True

    def _measurement(self, candidate: Candidate) -> Measurement:
        trial = self._newest.get(candidate.schedule.key())
        if trial is None or candidate.problem.key() != self._recording.problem_key:
            return _UNRECORDED
        return dataclasses.replace(trial.measurement, provenance=self.provenance)


class TableReplayRunner:
    """Runner that looks up the measurement of a schedule in a third-party table. ``origin`` describes the table.

    A schedule that is not in the table gets the status UNRECORDED.
    """

    name = "replay"
    provenance = Provenance.REPLAYED

    def __init__(self, measurements: Mapping[Schedule, Measurement], origin: str, digest: str) -> None:
        self._measurements = dict(measurements)
        self._origin = origin
        self._digest = digest
        self._closed = False

    @property
    def schedules(self) -> tuple[Schedule, ...]:
        """All schedules of the table."""
        return tuple(self._measurements)

    def describe(self) -> str:
        """Describe the table in one line: its origin and number of schedules."""
        return (
            f"backend replay; times are REPLAYED from {self._origin}; "
            f"only the {len(self._measurements)} recorded schedules are tried"
        )

    def fingerprint(self) -> dict[str, str]:
        """Return the origin and the digest of the table."""
        return {"recorded": self._origin, "recording": self._digest}

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[tuple[int, Measurement]]:
        """Yield the recorded measurement of each candidate, in the order of the candidates."""
        if self._closed:
            raise RuntimeError("the runner is closed")
        for position, candidate in enumerate(candidates):
            if self._closed:
                return
            yield position, self._measurements.get(candidate.schedule, _UNRECORDED)

    def close(self) -> None:
        """Mark the runner as closed. There are no processes to end."""
        self._closed = True


_UNRECORDED = Measurement(Status.UNRECORDED, Provenance.REPLAYED, "the recording does not contain this schedule")
