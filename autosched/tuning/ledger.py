"""Trials of one problem on one device during tuning, with their kernels and the best trial."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol, Self, runtime_checkable

from autosched.tuning.objectives import Objectives, dominates
from autosched.tuning.trial_table import Row
from autosched.user_kernels import KernelFileError
from autosched.verify.verdict import FAILURE_STATUSES
from autosched.version import VERSION
from measurements.runners.base import Candidate
from measurements.trials.facts import ProblemFacts
from measurements.trials.measurement import Measurement, Provenance, Status
from measurements.trials.trial import Budget, Trial, canonical_json
from measurements.trials.vendor_library import is_library
from search_spaces.hardware.devices import Device
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.operators.problem import Problem
from search_spaces.search_task import SearchTask
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.sum_order import OrderRule

Generate = Callable[[Problem, Schedule, Device], GeneratedKernel]


class VerifyOutcome(Protocol):
    """Outcome of a verification by emulation.

    The kernel is wrong only if the status is in FAILURE_STATUSES.
    """

    @property
    def ok(self) -> bool:
        """True if the emulation found no error."""

    @property
    def status(self) -> str:
        """Status of the emulation."""

    @property
    def reason(self) -> str:
        """Reason of a failure."""

    @property
    def worst(self) -> float | None:
        """Largest ratio of an error to the tolerance; None if unknown."""


@runtime_checkable
class Storable(Protocol):
    """Verification outcome with a JSON form for the database."""

    def stored(self) -> dict[str, Any]:
        """Return the JSON form that is stored in trials."""


Verifier = Callable[[Schedule], VerifyOutcome]


class Trials(Protocol):
    """Methods of a database that the tuner calls; ``measurements.store.store.Store`` documents them."""

    @property
    def name(self) -> str:
        """Name of the store, for messages."""

    def append(self, trial: Trial) -> Trial:
        """Append a trial, and return it with its id."""

    def set_verification(self, trial: Trial, verification: str) -> None:
        """Replace the stored verification of a trial."""

    def trials(
        self, problem: Problem, device: str, provenance: Provenance, *, policy: str | None = None
    ) -> Sequence[Trial]:
        """Return the trials of a problem, device and provenance."""

    def best(self, problem: Problem, device: str, provenance: Provenance, policy: str | None = None) -> Trial | None:
        """Return the best trial; None if there is none."""


@dataclass(frozen=True)
class RunIdentity:
    """Properties shared by all trials of a run.

    Attributes:
        problem: Problem to compute.
        device: GPU to tune for.
        provenance: Kind of the times: measured, estimated or replayed.
        policy: Timing policy; trials with another policy are ignored. None: all policies.
        seed: Random seed.
        versions: Version of each kernel template, by name.
        space_versions: Version of each template's space, by name.
        order: Rule on the order of sums; None if every order is allowed.
    """

    problem: Problem
    device: Device
    provenance: Provenance
    policy: str | None
    seed: int
    versions: Mapping[str, str]
    space_versions: Mapping[str, str]
    order: OrderRule | None = None

    @classmethod
    def of(
        cls, task: SearchTask, provenance: Provenance, policy: str | None, seed: int, order: OrderRule | None = None
    ) -> Self:
        """Return the identity of the search that ``task`` describes."""
        return cls(task.problem, task.device, provenance, policy, seed, task.versions, task.space_versions, order)


class TrialLedger:
    """Record of a run's trials. Every trial is stored in the database before it is used.

    Args:
        run: Properties shared by all trials.
        store: Database of the trials.
        generate: Function that generates the kernel of a schedule; raises ValueError if this is not possible.
        proposer: Function that returns the name of the sampler or adviser that proposed a schedule.
        objectives: Objectives of the search.

    Attributes:
        stored: After ``open``, the trials of this problem, device, provenance and policy.
        known: Earlier measurements, by the digest of the measured kernel.
        verifications: Verification reports of this run by schedule, as canonical JSON.
        verified: Schedules that were emulated in this run.
        fingerprint: Fingerprint of the runner; None until the runner has started.
        best: Best trial so far.
        budget: Limits of the run.
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
        self.verifications: dict[Schedule, str] = {}
        self.verified: set[Schedule] = set()
        self.stored: list[Trial] = []
        self.best: Trial | None = None
        self.budget: Budget | None = None

    @property
    def name(self) -> str:
        """Name of the store."""
        return self._store.name

    def open(self, budget: Budget, earlier: Sequence[Trial] | None = None) -> list[Trial]:
        """Begin a run.

        Args:
            budget: Limits of the run.
            earlier: Trials of the store, if already read. Default: read the store.

        Returns:
            The earlier trials.
        """
        self.budget = budget
        if earlier is None:
            earlier = self._store.trials(self.problem, self.device.name, self.provenance, policy=self.run.policy)
        self.stored = list(earlier)
        self.read_best()
        return list(earlier)

    def read_best(self) -> None:
        """Read the best trial from the store, or compute it for objectives other than the time."""
        if self.objectives.is_time:
            self.best = self._store.best(self.problem, self.device.name, self.provenance, self.run.policy)
            return
        points = [(costs, trial) for trial in self._newest if (costs := self._costs(trial)) is not None]
        self.best = min(points, key=lambda point: point[0], default=(None, None))[1]

    @property
    def _newest(self) -> Iterable[Trial]:
        """Newest trial of each schedule. Trials of the vendor's library are excluded."""
        return {r.schedule: r for r in self.stored if not is_library(r.schedule)}.values()

    def _costs(self, trial: Trial) -> tuple[float, ...] | None:
        return self.objectives.costs(self.problem, trial.schedule, trial.measurement)

    def front(self) -> list[Row]:
        """Return the rows of the trials on the Pareto front."""
        return self.objectives.front(self.problem, self._newest)

    def candidate(self, schedule: Schedule) -> Candidate:
        """Return a schedule with its kernel as a candidate. Raises ValueError if no kernel can be generated."""
        return Candidate(
            self.problem.under(schedule.values), schedule, self._generate(self.problem, schedule, self.device)
        )

    def is_of_this_code(self, trial: Trial) -> bool:
        """Return True if the kernel template and the space have not changed since the trial was stored."""
        template = trial.schedule.template
        versions = self.run.space_versions.get(template), self.run.versions.get(template, "")
        return (trial.space_version, trial.template_version) == versions

    def append(self, trial: Trial) -> Trial:
        """Append a trial and return it with its id."""
        stored = self._store.append(trial)
        self.stored.append(stored)
        return stored

    def make_trial(
        self, schedule: Schedule, digest: str | None, measurement: Measurement, rank: int | None = None
    ) -> Trial:
        """Return a new trial of this run without storing it.

        Args:
            schedule: Schedule of the trial.
            digest: Digest of the kernel; None if no kernel could be generated.
            measurement: Result of the trial.
            rank: Rank in the paired timing of the finalists, 1 for the winner; None for a screening trial.

        Returns:
            The trial, with the run's problem, device, versions, seed and budget, and the current time (UTC).
        """
        timing = measurement.timing
        return Trial(
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
            verification=self.verifications.get(schedule),
            facts=ProblemFacts.of(self.problem, schedule.values, None if timing is None else timing.median),
        )

    def mark_wrong(self, trial: Trial, failure: Measurement) -> Trial:
        """Append a failed trial with the kernel of an earlier trial, so that the earlier trial is no longer the best.

        Args:
            trial: Earlier trial.
            failure: Measurement with the failure.

        Returns:
            The new trial with its id.
        """
        stored = self.append(self.make_trial(trial.schedule, trial.kernel_digest, failure))
        if trial.kernel_digest is not None:
            self.known[trial.kernel_digest] = failure
        self.read_best()
        return stored

    def keep_verification(self, trial: Trial, verification: str) -> None:
        """Store the verification report (canonical JSON) with the best trial."""
        self._store.set_verification(trial, verification)
        self.best = dataclasses.replace(trial, verification=verification)

    def is_complete(self, trial: Trial) -> bool:
        """Return True if the trial has a value for every objective, or has failed.

        A trial without power measurement has no values for objectives such as joules.
        """
        return not trial.ok or self.objectives.is_time or self._costs(trial) is not None

    def is_better(self, schedule: Schedule, measurement: Measurement) -> bool:
        """Return True if a measurement is better than the best trial in the first objective in which the two differ."""
        if measurement.timing is None:
            return False
        if self.objectives.is_time:
            best = None if self.best is None else self.best.seconds
            return best is None or measurement.timing.median < best
        costs = self.objectives.costs(self.problem, schedule, measurement)
        known = None if self.best is None else self._costs(self.best)
        return costs is not None and (known is None or costs < known)

    def is_new_on_front(self, schedule: Schedule, measurement: Measurement) -> bool:
        """Return True if no earlier trial is at least as good in all objectives."""
        if len(self.objectives.names) == 1:
            return self.is_better(schedule, measurement)
        costs = self.objectives.costs(self.problem, schedule, measurement)
        points = [point for trial in self._newest if (point := self._costs(trial)) is not None]
        return costs is not None and not any(dominates(point, costs) or point == costs for point in points)

    def judged(self, schedule: Schedule, measurement: Measurement, verifier: Verifier) -> Measurement:
        """Verify a schedule.

        Args:
            schedule: Schedule to verify.
            measurement: Measurement of the schedule.
            verifier: Function that verifies a schedule of the run's problem.

        Returns:
            The measurement with the error of the outputs added, or with the time replaced by the failure.

        Raises:
            KernelFileError: The reference of a user's kernel fails.
        """
        try:
            outcome = verifier(schedule)
        except KernelFileError:  # re-raise, because no schedule can be verified if the user's reference fails
            raise
        except ValueError as error:  # the trial is from earlier code, and its schedule is no longer valid
            status, reason, worst = Status.UNVERIFIED, str(error), None
        else:
            self.verified.add(schedule)
            if isinstance(outcome, Storable):
                self.verifications[schedule] = canonical_json(outcome.stored())
            if outcome.ok:
                return dataclasses.replace(measurement, error=outcome.worst)
            status = Status.WRONG_RESULT if outcome.status in FAILURE_STATUSES else Status.UNVERIFIED
            reason, worst = f"{outcome.status}: {outcome.reason}", outcome.worst
        return dataclasses.replace(measurement, status=status, reason=f"emulated: {reason}", timing=None, error=worst)
