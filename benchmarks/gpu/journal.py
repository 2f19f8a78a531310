"""Store trials as lines of a file, as a minimal database for the tuner on machines without SQLAlchemy."""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Sequence
from pathlib import Path

from measurements.trials.measurement import Provenance, Status
from measurements.trials.trial import Trial
from search_spaces.operators.problem import Problem


def read(path: Path) -> tuple[Trial, ...]:
    """Return the trials of a journal file. Reading stops at a line that was truncated by a kill or a full disk."""
    trials = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            trials.append(Trial.from_json(json.loads(line)))
        except ValueError:
            break
    return tuple(trials)


class Journal:
    """An append-only file of trials; each line is flushed before ``append`` returns."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self.appended: list[Trial] = []
        self._file = path.open("a", encoding="utf-8")

    def append(self, trial: Trial) -> Trial:
        numbered = dataclasses.replace(trial, id=len(self.appended) + 1)
        self._file.write(json.dumps(numbered.to_json(), separators=(",", ":")) + "\n")
        self._file.flush()
        self.appended.append(numbered)
        return numbered

    def trials(
        self, problem: Problem, device: str, provenance: Provenance, *, policy: str | None = None
    ) -> Sequence[Trial]:
        entry = (problem.key(), device, provenance)
        same = [r for r in self.appended if (r.problem_key, r.device, r.provenance) == entry]
        return [r for r in same if policy in (None, r.policy)]

    def best(self, problem: Problem, device: str, provenance: Provenance, policy: str | None = None) -> Trial | None:
        """Return the winner of the last comparison of finalists, or else the trial with the lowest median time."""
        trials = self.trials(problem, device, provenance, policy=policy)
        wrong = {r.kernel_digest for r in trials if r.status is Status.WRONG_RESULT}
        ok = [r for r in trials if r.ok and r.kernel_digest not in wrong]
        winners = [r for r in ok if r.rank == 1]
        if winners:
            return winners[-1]
        times: dict[str, list[float]] = {}
        for trial in ok:
            times.setdefault(trial.schedule.key(), []).append(trial.seconds or 0.0)
        return min(ok, key=lambda r: statistics.median(times[r.schedule.key()]), default=None)

    def close(self) -> None:
        self._file.close()
