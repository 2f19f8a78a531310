"""What is known of one problem on one device while it is tuned: all trials, the kernels they were of, and the best."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol, runtime_checkable

from autosched.tuning.objectives import Objectives, dominates
from autosched.tuning.trial_table import Row
from autosched.user_kernels import KernelFileError
from autosched.verify.verdict import FAILURE_STATUSES
from autosched.version import VERSION
from measurements.records.facts import ProblemFacts
from measurements.records.measurement import Measurement, Provenance, Status
from measurements.records.record import Budget, Record, canonical_json
from measurements.records.vendor_library import is_library
from measurements.runners.base import Candidate
from search_spaces.hardware.devices import Device
from search_spaces.operators.problem import Problem
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.kernel import Kernel

Generate = Callable[[Problem, Schedule, Device], Kernel]


class VerifyOutcome(Protocol):
    """What an emulation found. ``worst`` is the largest error over its tolerance, None where there is none.

    Only a status of FAILURE_STATUSES says that the kernel is wrong.
    """

    @property
    def ok(self) -> bool: ...
    @property
    def status(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def worst(self) -> float | None: ...


@runtime_checkable
class Storable(Protocol):
    """An outcome that records keep."""

    def stored(self) -> dict[str, Any]: ...


Verifier = Callable[[Problem, Schedule], VerifyOutcome]


class Trials(Protocol):
    """What the tuner asks of a store; ``measurements.store.store.Store`` says what each means."""

    @property
    def name(self) -> str: ...
    def append(self, record: Record) -> Record: ...
    def set_proof(self, record: Record, proof: str) -> None: ...
    def trials(
        self, problem: Problem, device: str, provenance: Provenance, *, policy: str | None = None
    ) -> Sequence[Record]: ...
    def best(
        self, problem: Problem, device: str, provenance: Provenance, policy: str | None = None
    ) -> Record | None: ...


@dataclass(frozen=True)
class RunIdentity:
    """What all records of a run say.

    Attributes:
        problem: What is computed.
        device: What it is tuned for.
        provenance: What makes the times: measured, estimated or replayed.
        policy: How times are taken; records of another one are no part of this run. None: of any.
        seed: Of all that is drawn.
        versions: Of the kernel templates, by name.
        space_versions: Of their spaces, by name.
    """

    problem: Problem
    device: Device
    provenance: Provenance
    policy: str | None
    seed: int
    versions: Mapping[str, str]
    space_versions: Mapping[str, str]


class TrialLedger:
    """Keep the trials of a run: every record goes to the store before anything is made of it.

    Args:
        run: What all records say.
        store: Where they go.
        generate: Makes kernels, and raises ValueError for a schedule that it cannot serve.
        proposer: Says who proposed a schedule, as a rule the sampler of this run.
        objectives: What best means.

    After ``open``, ``stored`` are the records of this problem, device, provenance and policy, ``known`` what was
    measured of a kernel, by its digest, ``proofs`` those of this run as canonical JSON, ``verified`` the schedules that
    were emulated in this run, and ``fingerprint`` that of the runner, once it has started.
    """

    def __init__(
        self,
        run: RunIdentity,
        store: Trials,
        *,
        generate: Generate,
        proposer: Callable[[Schedule], str],
        objectives: Objectives,
    ) -> None:
        self.run = run
        self.problem = run.problem
        self.device = run.device
        self.provenance = run.provenance
        self.objectives = objectives
        self._store = store
        self._generate = generate
        self._proposer = proposer
        self.fingerprint: dict[str, str] = {}
        self.known: dict[str, Measurement] = {}
        self.proofs: dict[Schedule, str] = {}
        self.verified: set[Schedule] = set()
        self.stored: list[Record] = []
        self.best: Record | None = None
        self.budget: Budget | None = None

    @property
    def name(self) -> str:
        """That of the store."""
        return self._store.name

    def open(self, budget: Budget, earlier: Sequence[Record] | None = None) -> list[Record]:
        """Begin a run of ``budget`` after the ``earlier`` trials that the store holds, which are read where not given;
        those trials."""
        self.budget = budget
        if earlier is None:
            earlier = self._store.trials(self.problem, self.device.name, self.provenance, policy=self.run.policy)
        self.stored = list(earlier)
        self.read_best()
        return list(earlier)

    def read_best(self) -> None:
        """Make the best what the store says it is; with other objectives than the time, the newest trial that is best
        by them."""
        if self.objectives.is_time:
            self.best = self._store.best(self.problem, self.device.name, self.provenance, self.run.policy)
            return
        points = [(costs, record) for record in self._newest if (costs := self._costs(record)) is not None]
        self.best = min(points, key=lambda point: point[0], default=(None, None))[1]

    @property
    def _newest(self) -> Iterable[Record]:
        """The last word on each schedule of ours."""
        return {r.schedule: r for r in self.stored if not is_library(r.schedule)}.values()

    def _costs(self, record: Record) -> tuple[float, ...] | None:
        return self.objectives.costs(self.problem, record.schedule, record.measurement)

    def front(self) -> list[Row]:
        """Return the rows of the trials that no other one beats in all objectives."""
        return self.objectives.front(self.problem, self._newest)

    def candidate(self, schedule: Schedule) -> Candidate:
        """Raise ValueError where there is no kernel for the schedule."""
        return Candidate(
            self.problem.under(schedule.values), schedule, self._generate(self.problem, schedule, self.device)
        )

    def is_of_this_code(self, record: Record) -> bool:
        """Whether the template and the space of a record are those of today."""
        template = record.schedule.template
        versions = self.run.space_versions.get(template), self.run.versions.get(template, "")
        return (record.space_version, record.template_version) == versions

    def append(self, record: Record) -> Record:
        """Store a record; what the store made of it."""
        stored = self._store.append(record)
        self.stored.append(stored)
        return stored

    def record(
        self, schedule: Schedule, digest: str | None, measurement: Measurement, rank: int | None = None
    ) -> Record:
        """Return a record of this run, not stored yet.

        Args:
            schedule: What was tried.
            digest: Of its kernel; None where none could be generated.
            measurement: What came of it.
            rank: Its place among the finalists, 1 for the winner; None for a trial.

        Returns:
            The record, with the run's problem, device, provenance of versions, seed and budget, made now (UTC).
        """
        timing = measurement.timing
        return Record(
            problem_key=self.problem.key(),
            schedule=schedule,
            device=self.device.name,
            fingerprint=canonical_json(self.fingerprint),
            template_version=self.run.versions.get(schedule.template, ""),
            space_version=self.run.space_versions.get(schedule.template, ""),
            kernel_digest=digest,
            measurement=measurement,
            toolchain=self.fingerprint.get("toolchain", ""),
            driver=self.fingerprint.get("driver", ""),
            autosched_version=VERSION,
            created=datetime.now(UTC),
            sampler=self._proposer(schedule),
            seed=self.run.seed,
            rank=rank,
            budget=self.budget,
            proof=self.proofs.get(schedule),
            facts=ProblemFacts.of(self.problem, schedule.values, None if timing is None else timing.median),
        )

    def mark_wrong(self, record: Record, found: Measurement) -> Record:
        """Store what was found of an earlier record, like a trial, so that it is not called best any more; that one."""
        stored = self.append(self.record(record.schedule, record.kernel_digest, found))
        if record.kernel_digest is not None:
            self.known[record.kernel_digest] = found
        self.read_best()
        return stored

    def prove(self, record: Record, proof: str) -> None:
        """Give the best a proof (canonical JSON)."""
        self._store.set_proof(record, proof)
        self.best = dataclasses.replace(record, proof=proof)

    def is_complete(self, record: Record) -> bool:
        """Whether a record has all objectives, or failed: one from before its power was measured has not."""
        return not record.ok or self.objectives.is_time or self._costs(record) is not None

    def is_better(self, schedule: Schedule, measurement: Measurement) -> bool:
        """Whether a measurement is better than the best: in time, or in the first of the objectives that differs."""
        if measurement.timing is None:
            return False
        if self.objectives.is_time:
            best = None if self.best is None else self.best.seconds
            return best is None or measurement.timing.median < best
        costs = self.objectives.costs(self.problem, schedule, measurement)
        known = None if self.best is None else self._costs(self.best)
        return costs is not None and (known is None or costs < known)

    def is_new_on_front(self, schedule: Schedule, measurement: Measurement) -> bool:
        """Whether no earlier trial beats a measurement in all objectives: it will be called one of the best."""
        if len(self.objectives.names) == 1:
            return self.is_better(schedule, measurement)
        costs = self.objectives.costs(self.problem, schedule, measurement)
        points = [point for record in self._newest if (point := self._costs(record)) is not None]
        return costs is not None and not any(dominates(point, costs) or point == costs for point in points)

    def judged(self, schedule: Schedule, measurement: Measurement, verifier: Verifier) -> Measurement:
        """Return the measurement with what the verifier says of the schedule: its error, or its failure instead of a
        time.

        Raises KernelFileError where the reference of a user's kernel fails.
        """
        try:
            outcome = verifier(self.problem, schedule)
        except KernelFileError:  # no schedule can be judged: the user's reference fails
            raise
        except ValueError as error:  # a record of earlier code, whose schedule is no longer valid
            status, reason, worst = Status.UNPROVEN, str(error), None
        else:
            self.verified.add(schedule)
            if isinstance(outcome, Storable):
                self.proofs[schedule] = canonical_json(outcome.stored())
            if outcome.ok:
                return dataclasses.replace(measurement, error=outcome.worst)
            status = Status.WRONG_RESULT if outcome.status in FAILURE_STATUSES else Status.UNPROVEN
            reason, worst = f"{outcome.status}: {outcome.reason}", outcome.worst
        return dataclasses.replace(measurement, status=status, reason=f"emulated: {reason}", timing=None, error=worst)
