"""The tuner loop: ask a sampler, generate, measure, record, tell; until the trials are done.

Every trial is in the database before the next step is taken, so stopping at any moment keeps everything, and tuning
into the same database goes on from there: the sampler is told all earlier trials of the same problem, device,
provenance and space before it is asked for new ones.
"""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Protocol

from autosched import backends, codegen
from autosched.search import Sampler, check
from autosched.search import sampler as make_sampler
from autosched.search.guide import AnalyticGuide
from autosched.verify import verify_one
from measurements.emulator import HostCompilerMissing, host_compiler
from measurements.kernel import Kernel
from measurements.measurement import Measurement, Provenance, Status
from measurements.record import Record, canonical_json
from measurements.runners.base import Candidate, Runner, RunnerStopped
from measurements.store import Store
from search_spaces.devices import Device
from search_spaces.family import family
from search_spaces.problem import Problem
from search_spaces.schedule import Schedule

BATCH = 16  # schedules asked at a time: enough to keep compilers busy, few enough to learn in between

Generate = Callable[[Problem, Schedule, Device], Kernel]


class VerifyOutcome(Protocol):
    """What an emulation found. ``worst`` is the largest error over its tolerance, None where there is none."""

    @property
    def ok(self) -> bool: ...
    @property
    def status(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def worst(self) -> float | None: ...


Verifier = Callable[[Problem, Schedule], VerifyOutcome]


@dataclass(frozen=True)
class Start:
    """What is known before the first trial. ``lines`` are for people: the backend and why, and what was there before.

    ``earlier`` trials of this problem, device and provenance were in the database; ``best`` is the best of them.
    """

    problem: Problem
    device: Device
    provenance: Provenance
    lines: tuple[str, ...]
    trials: int
    earlier: int
    best: Record | None


@dataclass(frozen=True)
class Progress:
    """After a trial: its record, the best so far (earlier ones included), and the run as a whole. ``seconds`` since the
    first trial was asked for; ``failures`` maps a status to how many trials of this run ended in it."""

    record: Record
    best: Record | None
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
        return (self.trials - self.done) / self.rate


class Observer(Protocol):
    """Is told what happens, in the thread that tunes."""

    def started(self, start: Start) -> None: ...
    def trial(self, progress: Progress) -> None: ...


@dataclass(frozen=True)
class TuneResult:
    """``trials`` are the records of this run, ``best`` is the best of the database, both of one provenance; ``best`` is
    None where nothing has worked yet. ``earlier`` trials were there before. ``exhausted``: the space has no schedule
    left. ``interrupted``: by Ctrl-C. ``stopped`` says why the backend could not go on, "" if it could.
    """

    problem: Problem
    device: Device
    provenance: Provenance
    best: Record | None
    trials: tuple[Record, ...]
    earlier: int
    lines: tuple[str, ...]
    seconds: float
    exhausted: bool = False
    interrupted: bool = False
    stopped: str = ""

    @property
    def ok(self) -> int:
        """How many trials of this run have a time."""
        return sum(r.ok for r in self.trials)

    @property
    def failures(self) -> dict[str, int]:
        """How many trials of this run ended in each failure."""
        return dict(Counter(r.status.value for r in self.trials if not r.ok))


def tune(
    problem: Problem,
    *,
    trials: int,
    database: str | Path,
    device: str | Device | None = None,
    backend: str = "auto",
    sampler: str = "evolution",
    seed: int = 0,
    workers: int | None = None,
    verify: bool = True,
    progress: Observer | None = None,
) -> TuneResult:
    """Try ``trials`` further schedules of ``problem`` and keep every result in ``database`` (a path or SQLAlchemy URL).

    ``device`` names the GPU to tune for; by default it is the one of this machine, or h200 where there is none.
    ``workers`` is the number of compilers, by default one per core. ``verify`` emulates each new best before it is
    called best, on backends that do not run kernels. Ctrl-C ends the run with everything kept.
    Raises ValueError (StoreError for the database), before anything is written, for input that cannot be used.
    """
    if isinstance(trials, bool) or not isinstance(trials, int) or trials < 1:
        raise ValueError(f"trials must be a whole number of at least 1, not {trials!r}")
    check(sampler, seed)
    with backends.choose(backend, device, workers=workers) as chosen:
        space = family(problem.family).space(problem, chosen.device)
        space.sample(1, seed)  # raises EmptySpace, a ValueError that names the rules
        verifier, note = _verifier(chosen) if verify else (None, "")
        with Store.open(database) as store:
            tuner = Tuner(
                problem,
                chosen.device,
                chosen.runner,
                store,
                make_sampler(sampler, space, seed=seed, guide=AnalyticGuide(problem, chosen.device)),
                seed=seed,
                space_version=space.fingerprint,
                verifier=verifier,
                lines=tuple(line for line in (chosen.line, note) if line),
                observer=progress,
            )
            return tuner.run(trials)


class Tuner:
    """The loop itself, over parts that are handed in. It closes none of them.

    ``generate`` makes kernels and raises ValueError for a schedule that it cannot serve. ``verifier`` judges each new
    best before it becomes that; None where the runner compares results itself, or nobody does.
    """

    def __init__(
        self,
        problem: Problem,
        device: Device,
        runner: Runner,
        store: Store,
        sampler: Sampler,
        *,
        seed: int,
        space_version: str,
        generate: Generate = codegen.generate,
        verifier: Verifier | None = None,
        lines: Sequence[str] = (),
        observer: Observer | None = None,
        batch: int = BATCH,
    ) -> None:
        self._problem = problem
        self._device = device
        self._runner = runner
        self._store = store
        self._sampler = sampler
        self._seed = seed
        self._space_version = space_version
        self._generate = generate
        self._verifier = verifier
        self._lines = tuple(lines)
        self._observer = observer
        self._batch = batch
        self._fingerprint: dict[str, str] = {}
        self._known: dict[str, Measurement] = {}  # by the digest of the kernel
        self._records: list[Record] = []
        self._failures: Counter[str] = Counter()
        self._best: Record | None = None
        self._wanted = 0
        self._started = 0.0

    def run(self, trials: int) -> TuneResult:
        """Try ``trials`` more schedules. Raises StoreError where the database refuses a record."""
        self._started, self._wanted = time.monotonic(), trials
        self._records, self._failures = [], Counter()
        provenance = self._runner.provenance
        earlier = self._store.trials(self._problem, self._device.name, provenance)
        self._best = self._store.best(self._problem, self._device.name, provenance)
        there = f"{len(earlier)} {_plural(len(earlier), 'trial')} of this problem on {self._device.name} ({provenance})"
        lines = (*self._lines, f"{self._store.name} holds {there}; {trials} more to go")
        if self._observer is not None:
            start = Start(self._problem, self._device, provenance, lines, trials, len(earlier), self._best)
            self._observer.started(start)
        exhausted = interrupted = False
        stopped = ""
        try:
            self._fingerprint = self._runner.fingerprint()
            self._restore(earlier)
            exhausted = self._search()
        except KeyboardInterrupt:
            interrupted = True
        except RunnerStopped as error:
            stopped = str(error)
        return TuneResult(
            problem=self._problem,
            device=self._device,
            provenance=provenance,
            best=self._best,
            trials=tuple(self._records),
            earlier=len(earlier),
            lines=lines,
            seconds=time.monotonic() - self._started,
            exhausted=exhausted,
            interrupted=interrupted,
            stopped=stopped,
        )

    def _restore(self, earlier: Sequence[Record]) -> None:
        """Tell the sampler what is known, and reuse what the same tools found out about the same kernels."""
        fingerprint = canonical_json(self._fingerprint)
        for record in earlier:
            if record.space_version == self._space_version:
                self._sampler.tell(record.schedule, record.measurement)
            if record.kernel_digest is not None and record.fingerprint == fingerprint:
                self._known[record.kernel_digest] = record.measurement
        while self._verifier is not None and self._best is not None and self._best.measurement.error is None:
            found = self._judged(self._best.schedule, self._best.measurement)
            if found.ok:
                break
            # stored like a trial, though none of this run: from now on the database does not call it best either
            digest = self._best.kernel_digest
            self._store.append(self._record(self._best.schedule, digest, found))
            if digest is not None:
                self._known[digest] = found
            self._best = self._store.best(self._problem, self._device.name, self._runner.provenance)

    def _search(self) -> bool:
        """Until the trials are done: False; or the sampler has no more to propose: True."""
        while len(self._records) < self._wanted:
            schedules = self._sampler.ask(min(self._batch, self._wanted - len(self._records)))
            if not schedules:
                return True
            self._try(schedules)
        return False

    def _try(self, schedules: Sequence[Schedule]) -> None:
        same: dict[str, list[Candidate]] = {}  # schedules that give the same kernel are measured once
        for schedule in schedules:
            try:
                kernel = self._generate(self._problem, schedule, self._device)
            except ValueError as error:
                reason = f"no kernel could be generated: {error}"
                self._finish(schedule, None, Measurement(Status.COMPILE_ERROR, self._runner.provenance, reason))
                continue
            known = self._known.get(kernel.digest)
            if known is not None:
                self._finish(schedule, kernel.digest, known)
            else:
                same.setdefault(kernel.digest, []).append(Candidate(self._problem, schedule, kernel))
        digests = list(same)
        for position, measured in self._runner.measure([same[digest][0] for digest in digests]):
            digest = digests[position]
            first, *others = same[digest]
            measurement = self._judged(first.schedule, measured) if self._is_better(measured) else measured
            self._known[digest] = measurement
            for candidate in (first, *others):
                self._finish(candidate.schedule, digest, measurement)

    def _finish(self, schedule: Schedule, digest: str | None, measurement: Measurement) -> None:
        record = self._store.append(self._record(schedule, digest, measurement))
        self._records.append(record)
        if self._is_better(measurement):
            self._best = record
        self._sampler.tell(schedule, measurement)
        if self._observer is not None:
            if not record.ok:
                self._failures[record.status.value] += 1
            done, seconds = len(self._records), time.monotonic() - self._started
            progress = Progress(record, self._best, done, self._wanted, dict(self._failures), seconds)
            self._observer.trial(progress)

    def _record(self, schedule: Schedule, digest: str | None, measurement: Measurement) -> Record:
        return Record(
            problem_key=self._problem.key(),
            schedule=schedule,
            device=self._device.name,
            fingerprint=canonical_json(self._fingerprint),
            space_version=self._space_version,
            kernel_digest=digest,
            measurement=measurement,
            toolchain=self._fingerprint.get("toolchain", ""),
            driver=self._fingerprint.get("driver", ""),
            autosched_version=version("autosched"),
            created=datetime.now(UTC),
            sampler=self._sampler.name,
            seed=self._seed,
        )

    def _is_better(self, measurement: Measurement) -> bool:
        if measurement.timing is None:
            return False
        best = None if self._best is None else self._best.seconds
        return best is None or measurement.timing.median < best

    def _judged(self, schedule: Schedule, measurement: Measurement) -> Measurement:
        """The measurement with what the verifier says of the schedule: its error, or its failure instead of a time."""
        if self._verifier is None:
            return measurement
        try:
            outcome = self._verifier(self._problem, schedule)
        except ValueError as error:  # a record of earlier code, whose schedule breaks a law of today
            reason, worst = str(error), None
        else:
            if outcome.ok:
                return dataclasses.replace(measurement, error=outcome.worst)
            reason, worst = f"{outcome.status}: {outcome.reason}", outcome.worst
        wrong = Status.WRONG_RESULT
        return dataclasses.replace(measurement, status=wrong, reason=f"emulated: {reason}", timing=None, error=worst)


def _verifier(chosen: backends.Backend) -> tuple[Verifier | None, str]:
    """Who judges new bests, and a line for people where nobody can."""
    if chosen.runner.provenance is Provenance.MEASURED:
        return None, ""  # it ran, and its results were compared
    try:
        host_compiler()
    except HostCompilerMissing as error:
        return None, f"new bests are not proven: {error}"
    return lambda problem, schedule: verify_one(problem, schedule, chosen.device), ""


def _plural(n: int, noun: str) -> str:
    return noun if n == 1 else f"{noun}s"
