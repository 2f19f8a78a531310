"""Store tunings as trials in a database: the time of each configuration, and the choice from each list of them.

Trials are only appended. If a configuration or a choice has several trials, the first one counts. Processes that tune
the same kernel concurrently therefore agree, even without waiting for each other.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from math import inf

from autosched.triton.persistence.identity import Identity
from autosched.triton.tuning.problem import TritonProblem
from autosched.version import VERSION
from measurements.store.store import Store
from measurements.trials.measurement import Measurement, Status, Timing
from measurements.trials.trial import Trial, canonical_json
from search_spaces.spaces.schedule import Schedule

_NAME = "triton.autotune"  # sampler name recorded in the trials
# median, lower and upper quantile: the default quantiles of Triton's benchmark
Milliseconds = tuple[float, float, float]


class Answers:
    """The stored answers of one database. Thread-safe, and usable in forked processes."""

    def __init__(self, database: str) -> None:
        self._database = database
        self._store: Store | None = None
        self._process = os.getpid()
        self._guard = threading.Lock()

    def open(self) -> Store:
        """Return the store of this process. Raises StoreError if the database cannot be used."""
        # open a new connection after a fork, because connections must not be shared between processes
        if self._process != os.getpid():
            self._store, self._process, self._guard = None, os.getpid(), threading.Lock()
        with self._guard:
            if self._store is None:
                self._store = Store.open(self._database)
            return self._store

    def close(self) -> None:
        """Close the database, unless a parent process opened it."""
        if self._store is not None and self._process == os.getpid():
            self._store.close()
        self._store = None

    def choice(self, identity: Identity) -> Schedule | None:
        """Return the stored choice from this list of configurations, or None. Raises StoreError."""
        return next((trial.schedule for trial in self._trials(identity, identity.chosen)), None)

    def times(self, identity: Identity) -> dict[Schedule, Milliseconds]:
        """Return the stored times of configurations, including configurations of other lists. Raises StoreError."""
        times: dict[Schedule, Milliseconds] = {}
        for trial in self._trials(identity, identity.timed):
            times.setdefault(trial.schedule, _milliseconds(trial.measurement))
        return times

    def keep(self, identity: Identity, schedule: Schedule, milliseconds: Sequence[float]) -> None:
        """Store the time of a configuration, or infinity if it cannot be launched. Raises StoreError."""
        self._add(identity, identity.timed, schedule, milliseconds)

    def choose(self, identity: Identity, candidates: Sequence[Schedule], otherwise: Schedule) -> Schedule:
        """Store the choice of a tuning, unless another process has already stored one.

        Args:
            identity: The tuning.
            candidates: The configurations that were timed, which excludes pruned configurations.
            otherwise: Configuration to choose if nothing was timed.

        Returns:
            The choice of the first process, which every process must use.

        Raises:
            StoreError: The database cannot be read or written.
        """
        choice = self.choice(identity)
        if choice is None:
            times = self.times(identity)
            timed = [schedule for schedule in candidates if schedule in times]
            fastest = min(timed, key=lambda schedule: times[schedule][0], default=otherwise)
            self._add(identity, identity.chosen, fastest, times.get(fastest, ()))
            choice = self.choice(identity)
        return otherwise if choice is None else choice

    def _trials(self, identity: Identity, problem: TritonProblem) -> Iterator[Trial]:
        for trial in self.open().trials(problem, identity.device, identity.provenance):
            if (trial.template_version, trial.toolchain) == (identity.source, identity.toolchain):
                yield trial

    def _add(
        self, identity: Identity, problem: TritonProblem, schedule: Schedule, milliseconds: Sequence[float]
    ) -> None:
        store = self.open()
        trial = Trial(
            problem_key=problem.key(),
            schedule=schedule,
            device=identity.device,
            fingerprint=canonical_json({"device": identity.device, "toolchain": identity.toolchain, "by": _NAME}),
            template_version=identity.source,
            space_version="",
            kernel_digest=None,
            measurement=_measurement(milliseconds, identity),
            toolchain=identity.toolchain,
            driver="",
            autosched_version=VERSION,
            created=datetime.now(UTC),
            sampler=_NAME,
            seed=0,
        )
        store.extend([trial], unless_since=store.newest())  # allow only one writer at a time, so that ids are ascending


def _measurement(milliseconds: Sequence[float], identity: Identity) -> Measurement:
    if not milliseconds:
        return Measurement(Status.UNRANKED, identity.provenance, "not timed: this was the only configuration")
    if milliseconds[0] == inf:
        return Measurement(Status.OUT_OF_RESOURCES, identity.provenance, "Triton's autotuner could not launch it")
    low, median, high = sorted(1e-3 * each for each in milliseconds[:3])
    return Measurement(Status.OK, identity.provenance, timing=Timing(median, low, high, 0))


def _milliseconds(measurement: Measurement) -> Milliseconds:
    timing = measurement.timing
    return (inf, inf, inf) if timing is None else (1e3 * timing.median, 1e3 * timing.p25, 1e3 * timing.p75)
