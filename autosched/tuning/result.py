"""Reports of a ``tune`` run: before the first trial, after each trial, and at the end."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from autosched.tuning import trial_table
from autosched.tuning.objectives import Objectives
from autosched.tuning.winner.paired_timing import Remeasurement
from measurements.files.atomic_write import publish
from measurements.files.text import without_password
from measurements.tables.kernel_tuner import to_t4
from measurements.trials.measurement import Provenance
from measurements.trials.trial import Trial
from search_spaces.hardware.devices import Device
from search_spaces.operators.problem import Problem
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.compiler_controls import shown_values


@dataclass(frozen=True)
class Start:
    """State of a search before its first trial.

    Attributes:
        problem: Problem to search.
        device: GPU to search for.
        provenance: Provenance of the times: measured, estimated or replayed.
        lines: Messages on the chosen backend and on the contents of the database.
        trials: Number of planned trials.
        earlier: Number of trials of this problem, device and provenance in the database.
        best: Best of the earlier trials, or None.
    """

    problem: Problem
    device: Device
    provenance: Provenance
    lines: tuple[str, ...]
    trials: int
    earlier: int
    best: Trial | None


@dataclass(frozen=True)
class Progress:
    """State of a run after a trial.

    Attributes:
        trial: The stored trial.
        best: Best trial so far, including trials of earlier runs.
        done: Number of completed trials of this run.
        trials: Number of planned trials of the run.
        failures: Numbers of failed trials of this run, by status.
        seconds: Time since the start of the run, in seconds.
    """

    trial: Trial
    best: Trial | None
    done: int
    trials: int
    failures: Mapping[str, int]
    seconds: float

    @property
    def rate(self) -> float:
        """Trials per second."""
        return self.done / max(self.seconds, 1e-9)

    @property
    def seconds_left(self) -> float:
        """Expected time until all trials are completed, in seconds."""
        return (self.trials - self.done) / self.rate


@runtime_checkable
class Observer(Protocol):
    """Interface to receive the progress of a search. The methods are called in the tuning thread."""

    def started(self, start: Start) -> None:
        """Receive the state before the first trial."""

    def trial(self, progress: Progress) -> None:
        """Receive the state after a trial."""


@dataclass(frozen=True, repr=False)
class TuneResult:
    """Result of a search.

    Attributes:
        problem: Problem that was searched.
        device: GPU to which the times apply.
        provenance: Provenance of the times: measured, estimated or replayed.
        best: Best trial in the database by the first objective; None if no trial has worked yet.
        trials: Trials of this run.
        earlier: Number of trials that the database had before the run.
        lines: Messages about the run.
        seconds: Total duration including set-up and verification, in seconds.
        exhausted: True if every schedule of the space was tried.
        satisfied: True if the search ended because the expected gain was below ``min_gain``.
        out_of_time: True if the time limit ended the search before all planned trials.
        interrupted: True if Ctrl-C ended the search.
        stopped: Reason why measurements or verifications had to stop early; "" if they did not.
        common_failure: If the search ended because all first configurations failed, the common reason; "" otherwise.
        remeasured: Result of the paired timing of the fastest schedules; None if there was no paired timing.
        entrants: Candidates of the paired timing.
        worth: Accuracy of the warm start's predictions, in one line; "" without a warm start.
        verification: Outcome of the full verification of the best, in one line; "" if there was none.
        database: Path or URL of the database.
        sampler: Name of the sampler.
        num_guessed: Number of schedules whose times the sampler estimated in order to choose its proposals.
        num_verified: Number of schedules that were emulated.
        objectives: Objectives of the search.
        front: With several objectives, the rows of the database's trials that no other trial dominates.
    """

    problem: Problem
    device: Device
    provenance: Provenance
    best: Trial | None
    trials: tuple[Trial, ...]
    earlier: int
    lines: tuple[str, ...]
    seconds: float
    exhausted: bool = False
    satisfied: bool = False
    out_of_time: bool = False
    interrupted: bool = False
    stopped: str = ""
    common_failure: str = ""
    remeasured: Remeasurement | None = None
    entrants: tuple[Schedule, ...] = ()
    worth: str = ""
    verification: str = ""
    database: str = ""
    sampler: str = ""
    num_guessed: int = 0
    num_verified: int = 0
    objectives: Objectives = field(default_factory=Objectives)
    front: tuple[dict[str, Any], ...] = ()

    @property
    def ok(self) -> int:
        """Number of trials of this run with a time."""
        return sum(r.ok for r in self.trials)

    @property
    def tied(self) -> int:
        """Number of other trials of this run with the same estimated time as the best."""
        best = self.best
        if best is None or best.measurement.timing is None or self.provenance is not Provenance.ESTIMATED:
            return 0
        median = best.measurement.timing.median
        timings = [r.measurement.timing for r in self.trials if r.id != best.id]
        return sum(timing is not None and timing.median == median for timing in timings)

    @property
    def failures(self) -> dict[str, int]:
        """Numbers of failed trials of this run, by status."""
        return dict(Counter(r.status.value for r in self.trials if not r.ok))

    def rows(self) -> list[dict[str, Any]]:
        """Return one dict per trial of this run, with parameters, time, resources and metrics.

        ``pandas.DataFrame(result.rows())`` converts the dicts to a table.
        """
        return trial_table.rows(self.problem, self.trials)

    def __repr__(self) -> str:
        """Return the problem, the device, the best trial and the number of trials, in one line."""
        best = "nothing has worked yet" if self.best is None else str(self.best)
        trials = f"{len(self.trials)} trials, {self.ok} with a time"
        return f"<TuneResult of {self.problem.key()} on {self.device.name}: {best}; {trials}>"

    def _repr_html_(self) -> str:
        """Return the notebook view: the best trial, the provenance of its time, and the number of trials."""
        best = self.best
        sizes = {name: value for name, value in self.problem.to_json().items() if name != "operator"}
        facts = [("problem", f"{self.problem.operator}: {_listed(sizes)}"), ("device", self.device.name)]
        if best is None or best.seconds is None:
            facts.append(("best", "nothing has worked yet"))
        else:
            facts.append(("best", f"{best.seconds * 1e6:.4g} us ({best.provenance.value.upper()})"))
            facts.append(("schedule", f"{best.schedule.template}: {_listed(shown_values(best.schedule))}"))
        failed = _listed(self.failures)
        facts.append(("trials", f"{len(self.trials)}, {self.ok} with a time{f'; {failed}' if failed else ''}"))
        facts += [
            (name, text) for name, text in (("verification", self.verification), ("stopped", self.stopped)) if text
        ]
        facts.append(("database", without_password(self.database)))
        rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in facts)
        return f"<table>{rows}</table>"

    def to_csv(self, path: str | Path) -> None:
        """Write ``rows`` as CSV. Raises OSError."""
        trial_table.write_csv(path, self.rows())

    def to_t4(self, path: str | Path) -> None:
        """Write the trials of this run as T4, the format of auto-tuners, with registers and metrics. Raises OSError."""
        rows = [(dict(r.schedule.values), r.measurement, r.created.isoformat()) for r in self.trials]
        metrics = [
            {} if r.seconds is None else trial_table.metrics(self.problem, r.schedule, r.seconds) for r in self.trials
        ]
        estimated = {"provenance": "estimated"} if self.provenance is Provenance.ESTIMATED else {}
        metadata = {"kernel": self.problem.operator, "device": self.device.name, **estimated}
        names = ["time" if name == "seconds" else name for name in self.objectives.names]
        document = to_t4(rows, metadata, metrics=metrics, objectives=names)
        publish(Path(path), (json.dumps(document, indent=1) + "\n").encode())

    def best_by(self, objective: str, direction: trial_table.Direction = "min") -> dict[str, Any] | None:
        """Return the row that is best by a metric or another column. Raises ValueError for an unknown column."""
        return trial_table.best_by(self.rows(), objective, direction)

    def pareto(self, **objectives: trial_table.Direction) -> list[dict[str, Any]]:
        """Return the rows that no other row dominates: ``pareto(seconds="min", registers="min")``.

        Raises ValueError for an unknown column.
        """
        return trial_table.pareto(self.rows(), objectives)

    @property
    def why_none(self) -> str:
        """The most common reason of failure, with its number of trials, if no trial of this run worked; else ""."""
        if not self.trials or self.ok:
            return ""
        reason, times = Counter(r.measurement.reason or r.status.value for r in self.trials).most_common(1)[0]
        return f"{reason} ({times} of {len(self.trials)})" if len(self.trials) > 1 else reason


class Interrupted(KeyboardInterrupt):
    """Ctrl-C ended a search. Completed trials are stored, and ``result`` contains them."""

    def __init__(self, result: TuneResult) -> None:
        super().__init__("the search was stopped; its trials so far are stored")
        self.result = result


class CommonFailure(ValueError):
    """All first configurations of a search failed for the same reason. The message has the reason and the remedy.

    ``result`` contains the trials, which are also stored.
    """

    def __init__(self, result: TuneResult) -> None:
        super().__init__(result.common_failure)
        self.result = result


def completed(result: TuneResult) -> TuneResult:
    """Return ``result`` if the search ran to its end; otherwise raise an exception that contains it.

    Raises:
        Interrupted: Ctrl-C stopped the search. A KeyboardInterrupt.
        CommonFailure: All first configurations failed for the same reason. A ValueError.
    """
    if result.interrupted:
        raise Interrupted(result)
    if result.common_failure:
        raise CommonFailure(result)
    return result


@dataclass
class SoFar:
    """Observer that collects the results of a run, in case Ctrl-C interrupts code outside of the tuner.

    ``then`` is another observer, to which all reports are forwarded.
    """

    then: Observer | None = None
    start: Start | None = None
    now: Progress | None = None
    trials: list[Trial] = field(default_factory=list)

    def started(self, start: Start) -> None:
        """Record the start, and forward it to the next observer."""
        self.start = start
        if self.then is not None:
            self.then.started(start)

    def trial(self, progress: Progress) -> None:
        """Record the progress, and forward it to the next observer."""
        self.now = progress
        self.trials.append(progress.trial)
        if self.then is not None:
            self.then.trial(progress)

    def interrupted(self, by: KeyboardInterrupt) -> TuneResult:
        """Return the exception ``Interrupted`` with the results so far. Raises ``by`` if the run has not started."""
        if isinstance(by, Interrupted):
            return by.result
        if self.start is None:
            raise by
        return TuneResult(
            problem=self.start.problem,
            device=self.start.device,
            provenance=self.start.provenance,
            best=self.start.best if self.now is None else self.now.best,
            trials=tuple(self.trials),
            earlier=self.start.earlier,
            lines=self.start.lines,
            seconds=0.0 if self.now is None else self.now.seconds,
            interrupted=True,
        )


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())
