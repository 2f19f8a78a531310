"""The tuner loop: ask a sampler, generate, measure, record, tell; until the trials are done.

Every trial is in the database before the next step is taken, so stopping at any moment keeps everything, and tuning
into the same database goes on from there: the sampler is told all earlier trials of the same problem, device,
provenance and space before it is asked for new ones.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol, runtime_checkable

from autosched import backends, proofs, remeasurement, warm_start
from autosched.default_choice import default_choice
from autosched.pace import Pace
from autosched.search import DEFAULT, Foresighted, Sampler, check
from autosched.search import sampler as make_sampler
from autosched.verify import CONDEMNING, Verification, verify_one
from autosched.version import VERSION
from measurements.emulator import HostCompilerMissing, HostFailure, check_host
from measurements.library_choice import LIBRARY_SCHEDULE, is_library
from measurements.measurement import Measurement, Provenance, Status, Timing
from measurements.record import Budget, Record, canonical_json
from measurements.runners.base import Candidate, Comparing, Entrant, Preparing, Runner, RunnerStopped
from search_spaces.hardware.devices import Device
from search_spaces.operators.problem import Problem, whole_number
from search_spaces.spaces.recorded_space import recorded_union
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.search_space import SearchSpace
from search_spaces.templates.kernel import Kernel
from search_spaces.templates.template import KernelTemplate

UNPROMISING = 8  # proposals in a row that promise too little end a search
PROOF_SECONDS = 60.0  # that the full proof of the winner may take, where no GPU runs it

Generate = Callable[[Problem, Schedule, Device], Kernel]


class VerifyOutcome(Protocol):
    """What an emulation found. ``worst`` is the largest error over its tolerance, None where there is none.

    Only a status of CONDEMNING says that the kernel is wrong.
    """

    @property
    def ok(self) -> bool: ...
    @property
    def status(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def worst(self) -> float | None: ...


Verifier = Callable[[Problem, Schedule], VerifyOutcome]
FullVerifier = Callable[[Schedule, float], VerifyOutcome]  # within so many seconds
Complexity = Callable[[Schedule], float]
Default = Callable[[], Schedule | None]
_Proposal = tuple[Schedule, Candidate | Measurement]  # the latter where no kernel could be generated


class Trials(Protocol):
    """What the tuner asks of a store; ``measurements.store.Store`` says what each means."""

    @property
    def name(self) -> str: ...
    def append(self, record: Record) -> Record: ...
    def set_proof(self, record: Record, proof: str) -> None: ...
    def trials(self, problem: Problem, device: str, provenance: Provenance) -> Sequence[Record]: ...
    def best(self, problem: Problem, device: str, provenance: Provenance) -> Record | None: ...


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


@runtime_checkable
class Observer(Protocol):
    """Is told what happens, in the thread that tunes."""

    def started(self, start: Start) -> None: ...
    def trial(self, progress: Progress) -> None: ...


@dataclass(frozen=True)
class TuneResult:
    """``trials`` are the records of this run, ``best`` is the best of the database, both of one provenance; ``best`` is
    None where nothing has worked yet. ``earlier`` trials were there before. ``exhausted``: the space has no schedule
    left. ``satisfied``: no gain of ``min_gain`` is expected.
    ``interrupted``: by Ctrl-C. ``stopped`` says why measuring or proving could not go on, "" if they could.
    ``remeasured`` is how the fastest did in turns, where the backend can do that; its candidates are ``entrants``.
    ``worth`` says what a warm start was worth, "" where there was none. ``proof`` is what the full proof of the best
    found, in one line, "" where there was none.
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
    satisfied: bool = False
    interrupted: bool = False
    stopped: str = ""
    remeasured: remeasurement.Remeasurement | None = None
    entrants: tuple[Schedule, ...] = ()
    worth: str = ""
    proof: str = ""

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
    sampler: str = DEFAULT,
    seed: int = 0,
    workers: int | None = None,
    verify: bool = True,
    warm_cache: bool = False,
    gpus: backends.Gpus | None = None,
    progress: Observer | None = None,
    templates: Iterable[str | KernelTemplate] | None = None,
    model: str | Path | None = None,
    min_gain: float = 0.0,
    proof_seconds: float | None = None,
) -> TuneResult:
    """Try ``trials`` further schedules of ``problem`` and keep every result in ``database`` (a path or SQLAlchemy URL).

    ``device`` names the GPU to tune for; by default it is the one of this machine, or h200 where there is none.
    ``workers`` is the number of compilers, by default one per core. ``verify`` emulates each new best before it is
    called best, on backends that do not run kernels, and the best at the end with a full proof (``verify_one``) that
    may take ``proof_seconds``, by default PROOF_SECONDS; 0 leaves it out. On a GPU the fastest are timed in turns at
    the end, which decides. ``warm_cache`` times with operands in the L2 instead of from memory. ``gpus`` measure, by
    default GPU 0 alone: numbers as CUDA counts them, or "all", all of one kind. Ctrl-C ends the run with everything
    kept.
    ``templates`` are the kernel templates to search, by name or themselves; by default every one that can compute it.
    The search starts from what the trained ``model`` (a file of ``autosched train``) knows, by default from the times
    of other problems in the database; where times are estimated, the model estimates them.
    ``min_gain`` ends the search once UNPROMISING proposals in a row promise to shorten the best time by a smaller part.
    Raises ValueError (StoreError for the database), before anything is written, for input that cannot be used.
    """
    Problem.check(problem)
    trials = whole_number("trials", trials, 1)
    if isinstance(min_gain, bool) or not isinstance(min_gain, (int, float)) or not 0 <= min_gain < 1:
        raise ValueError(f"min_gain is a part of the best time, from 0 to less than 1, not {min_gain!r}")
    proof_seconds = PROOF_SECONDS if proof_seconds is None else proof_seconds
    if isinstance(proof_seconds, bool) or not isinstance(proof_seconds, (int, float)) or not proof_seconds >= 0:
        raise ValueError(f"proof_seconds are seconds, 0 or more, not {proof_seconds!r}")
    check(sampler, seed)
    if progress is not None and (isinstance(progress, type) or not isinstance(progress, Observer)):
        raise ValueError(f"progress must be an object with methods started and trial, or None, not {progress!r}")
    from measurements.store import Store, StoreError  # with sqlalchemy, which the loop itself does without

    trained = None if model is None else warm_start.loaded(model)
    with backends.choose(
        backend,
        device,
        problem=problem,
        workers=workers,
        warm_cache=warm_cache,
        gpus=gpus,
        templates=templates,
        model=trained,
    ) as chosen:
        _refuse_too_large(problem, chosen.device)
        space = chosen.templates.space(problem, chosen.device)
        if chosen.schedules is not None:
            space = recorded_union(space, chosen.schedules)
        space.sample(1, seed)  # raises EmptySpace, a ValueError that names the rules
        searched = (chosen.templates, problem, chosen.device, space)
        start = None if trained is None else warm_start.from_model(trained, str(model), *searched)
        verifier, note = _verifier(chosen) if verify else (None, "")
        if chosen.pool is not None:
            chosen.pool.cache.check()  # before the database is made, so that a refusal leaves nothing behind
        with Store.open(database) as store:
            if store.in_memory:
                raise StoreError(f"{database} is a database in memory, which keeps nothing: give the path of a file")
            if chosen.pool is not None:
                chosen.pool.cache.prepare()
            earlier = store.trials(problem, chosen.device.name, chosen.runner.provenance)
            _refuse_other_cache(store.name, earlier, warm_cache)
            _refuse_other_schedules(store.name, earlier, space)
            _refuse_other_model(store.name, earlier, chosen.runner)
            if start is None:
                start = warm_start.from_other_problems(store, chosen.runner.provenance, *searched)
            lines = (chosen.headline, chosen.line, note, _unranked(chosen), *start.lines)
            tuner = Tuner(
                problem,
                chosen.device,
                chosen.runner,
                store,
                make_sampler(sampler, space, seed=seed, prior=start.prior),
                seed=seed,
                generate=chosen.templates.kernel,
                versions={t.name: t.version for t in chosen.templates},
                space_versions={name: member.fingerprint for name, member in space.members.items()},
                verifier=verifier,
                complexity=simplicity(space),
                default=lambda: _default_schedule(problem, chosen),
                lines=tuple(line for line in lines if line),
                observer=progress,
                pace=_pace(chosen, workers),
            )
            full = _full_verifier(problem, chosen) if verifier is not None and proof_seconds > 0 else None
            result = tuner.run(trials, earlier=earlier, min_gain=min_gain, full=full, proof_seconds=proof_seconds)
            return dataclasses.replace(result, worth=start.worth(result.trials))


class Tuner:
    """The loop itself, over parts that are handed in. It closes none of them.

    ``generate`` makes kernels and raises ValueError for a schedule that it cannot serve; ``versions`` and
    ``space_versions`` are those of the kernel templates and of their spaces, by name. ``verifier`` judges each new
    best before it becomes that; None where the runner compares results itself, or nobody does. ``complexity`` decides
    between entrants that are as fast as each other. ``default`` is what is used where nothing is tuned: it takes part
    in every re-measurement.
    ``pace`` says how many schedules are out at a time.
    """

    def __init__(
        self,
        problem: Problem,
        device: Device,
        runner: Runner,
        store: Trials,
        sampler: Sampler,
        *,
        seed: int,
        space_versions: Mapping[str, str],
        generate: Generate,
        versions: Mapping[str, str] | None = None,
        verifier: Verifier | None = None,
        complexity: Complexity = lambda schedule: 0.0,
        default: Default = lambda: None,
        lines: Sequence[str] = (),
        observer: Observer | None = None,
        pace: Pace | None = None,
    ) -> None:
        self._problem = problem
        self._device = device
        self._runner = runner
        self._store = store
        self._sampler = sampler
        self._seed = seed
        self._space_versions = dict(space_versions)
        self._generate = generate
        self._versions = dict(versions or {})
        self._verifier = verifier
        self._proofs: dict[Schedule, str] = {}  # canonical JSON
        self._complexity = complexity
        self._default = default
        self._lines = tuple(lines)
        self._observer = observer
        self._pace = Pace() if pace is None else pace
        self._told = 0
        self._min_gain = 0.0
        self._unpromising = 0  # proposals in a row that promise less
        self._fingerprint: dict[str, str] = {}
        self._known: dict[str, Measurement] = {}  # by the digest of the kernel
        self._stored: list[Record] = []  # all of this problem, device and provenance
        self._records: list[Record] = []
        self._failures: Counter[str] = Counter()
        self._best: Record | None = None
        self._budget: Budget | None = None
        self._wanted = 0
        self._started = 0.0

    def run(
        self,
        trials: int,
        seconds: float = math.inf,
        final_seconds: float = remeasurement.SECONDS,
        *,
        earlier: Sequence[Record] | None = None,
        min_gain: float = 0.0,
        full: FullVerifier | None = None,
        proof_seconds: float = PROOF_SECONDS,
    ) -> TuneResult:
        """Try ``trials`` more schedules, asking for none after ``seconds``, then re-measure the fastest where
        the backend can, adding no rounds after ``final_seconds``.

        The search ends before, once UNPROMISING proposals in a row are expected to shorten the best time by a part of
        less than ``min_gain``, as far as the sampler knows. ``full`` proves the best at the end; if that fails, the
        next one, for ``proof_seconds`` in all.

        ``earlier`` are the trials that the store holds of this problem, device and provenance; read where not given.

        Raises StoreError where the database refuses a record.
        """
        self._started, self._wanted = time.monotonic(), trials
        self._min_gain, self._unpromising = min_gain, 0
        self._budget = Budget(trials, seconds if math.isfinite(seconds) else None)
        self._records, self._failures = [], Counter()
        provenance = self._runner.provenance
        if earlier is None:
            earlier = self._store.trials(self._problem, self._device.name, provenance)
        self._stored = list(earlier)
        self._best = self._store.best(self._problem, self._device.name, provenance)
        # neither re-measuring nor the library is a trial
        tried = len({record.schedule for record in earlier if not is_library(record.schedule)})
        there = f"{tried} {_plural(tried, 'trial')} of this problem on {self._device.name} ({provenance})"
        lines = (*self._lines, f"{self._store.name} holds {there}; {trials} more to go")
        if self._observer is not None:
            start = Start(self._problem, self._device, provenance, lines, trials, tried, self._best)
            self._observer.started(start)
        exhausted = interrupted = False
        stopped = proof = ""
        remeasured: remeasurement.Remeasurement | None = None
        entrants: tuple[Candidate, ...] = ()
        try:
            self._fingerprint = self._runner.fingerprint()
            self._restore(earlier)
            exhausted = self._search(seconds)
            if isinstance(self._runner, Comparing):
                entrants = self._entrants()
                remeasured = self._remeasure(self._runner, entrants, final_seconds) if entrants else None
            if full is not None:
                proof = self._proven(full, proof_seconds)
        except KeyboardInterrupt:
            interrupted = True
        except RunnerStopped as error:
            stopped = str(error)
        except HostFailure as error:
            stopped = f"a new best cannot be proven: {error}; or give --no-verify"
        return TuneResult(
            problem=self._problem,
            device=self._device,
            provenance=provenance,
            best=self._best,
            trials=tuple(self._records),
            earlier=tried,
            lines=lines,
            seconds=time.monotonic() - self._started,
            exhausted=exhausted,
            satisfied=self._unpromising >= UNPROMISING,
            interrupted=interrupted,
            stopped=stopped,
            remeasured=remeasured,
            entrants=tuple(candidate.schedule for candidate in entrants) if remeasured is not None else (),
            proof=proof,
        )

    def _restore(self, earlier: Sequence[Record]) -> None:
        """Tell the sampler what is known, and reuse what the same tools found out about the same kernels."""
        fingerprint = canonical_json(self._fingerprint)
        for record in earlier:
            if record.status is Status.UNPROVEN:  # it may be tried again, and its kernel must be
                self._known.pop(record.kernel_digest or "", None)
                continue
            template = record.schedule.template
            versions = self._space_versions.get(template), self._versions.get(template, "")
            if (record.space_version, record.template_version) == versions:  # else it is tried again
                self._sampler.tell(record.schedule, record.measurement)
                self._told += 1
            if record.kernel_digest is not None and record.fingerprint == fingerprint:
                self._known[record.kernel_digest] = record.measurement
        while self._verifier is not None and self._best is not None and self._best.measurement.error is None:
            found = self._judged(self._best.schedule, self._best.measurement)
            if found.ok:
                break
            # stored like a trial, though none of this run: from now on the database does not call it best either
            digest = self._best.kernel_digest
            self._append(self._record(self._best.schedule, digest, found))
            if digest is not None:
                self._known[digest] = found
            self._best = self._store.best(self._problem, self._device.name, self._runner.provenance)

    def _proven(self, full: FullVerifier, seconds: float) -> str:
        """Prove the best in full, in place of it the next one if that fails, and say in one line what came of it."""
        until, failed = time.monotonic() + seconds, 0
        while self._best is not None and not is_library(self._best.schedule):
            best = self._best
            if self._has_full_proof(best):
                return "the best was proven in full before"
            left = until - time.monotonic()
            if failed and left <= 0:
                return (
                    f"{failed} {_plural(failed, 'best')} failed the full proof; there was no time for that of the next"
                )

            def within(_: Problem, schedule: Schedule, left: float = left) -> VerifyOutcome:
                return full(schedule, left)

            found = self._judged(best.schedule, best.measurement, within)
            proof = self._proofs.get(best.schedule)
            if found.ok:
                if proof is None or best.kernel_digest is None:
                    return ""
                self._store.set_proof(best, proof)
                self._best = dataclasses.replace(best, proof=proof)
                said = proofs.summary(proof)
                return f"{said}; {failed} faster {_plural(failed, 'one')} failed" if failed else said
            if found.status is Status.UNPROVEN:  # it passed the quick proof, and stays best
                return f"no verdict: {found.reason}"
            failed += 1
            self._append(self._record(best.schedule, best.kernel_digest, found))
            if best.kernel_digest is not None:
                self._known[best.kernel_digest] = found
            self._best = self._store.best(self._problem, self._device.name, self._runner.provenance)
        return ""

    def _has_full_proof(self, record: Record) -> bool:
        if not proofs.is_full(record.proof):
            return False
        try:
            kernel = self._generate(self._problem, record.schedule, self._device)
        except ValueError:  # a record of earlier code
            return False
        return proofs.doubt(record.proof, kernel) == ""

    def _search(self, seconds: float) -> bool:
        """Until the trials are done or the time is up: False; or the sampler has no more to propose: True."""
        asked = 0

        def proposals() -> list[_Proposal]:
            nonlocal asked
            began = time.monotonic()
            schedules = self._sampler.ask(min(self._pace.size(self._told), self._wanted - asked))
            if schedules:
                self._pace.note("propose", [(time.monotonic() - began) / len(schedules)] * len(schedules))
            asked += len(schedules)
            if isinstance(self._sampler, Foresighted):
                small = self._sampler.expected_gain < self._min_gain
                self._unpromising = self._unpromising + len(schedules) if small else 0
            made = [self._proposal(schedule) for schedule in schedules]
            if isinstance(self._runner, Preparing):
                new = [c for _, c in made if isinstance(c, Candidate) and c.kernel.digest not in self._known]
                self._runner.prepare(new)
            return made

        # Once enough is known (see Pace), the next batch is proposed and compiled while one is measured. The sampler is
        # told of a whole batch at a time, in the order of proposals: in which order results came in decides nothing.
        with ThreadPoolExecutor(1, thread_name_prefix="propose") as proposing:
            batch = proposals()
            while batch:
                more = asked < self._wanted and time.monotonic() - self._started < seconds
                more = more and self._unpromising < UNPROMISING
                ahead = more and self._pace.overlaps(len(batch), self._told)
                coming = proposing.submit(proposals) if ahead else None
                told = self._try(batch)
                batch = coming.result() if coming is not None else []
                for schedule, measurement in told:
                    self._sampler.tell(schedule, measurement)
                self._told += len(told)
                if time.monotonic() - self._started >= seconds or self._unpromising >= UNPROMISING:
                    return False
                more = more and self._unpromising < UNPROMISING
                if more and not ahead:
                    batch = proposals()
        return asked < self._wanted

    def _entrants(self) -> tuple[Candidate, ...]:
        """The best, the winner of the last re-measurement, the default, and the fastest others, each kernel once."""
        if self._best is None or self._best.seconds is None:
            return ()
        fingerprint = canonical_json(self._fingerprint)
        trials = [r for r in self._stored if not is_library(r.schedule)]  # it takes part anyway
        newest = {r.schedule: r for r in trials if r.fingerprint == fingerprint}
        timed = {schedule: r.measurement.timing for schedule, r in newest.items() if r.measurement.timing is not None}
        if not timed:
            return ()
        schedules = list(timed)
        fastest = [schedules[i] for i in remeasurement.let_in(list(timed.values()))]
        found: dict[str, Candidate] = {}
        winners = [r.schedule for r in trials if r.rank is not None][-1:]  # the last word of the last re-measurement
        default = [schedule for schedule in [self._default()] if schedule is not None]
        best = [] if is_library(self._best.schedule) else [self._best.schedule]
        for schedule in dict.fromkeys([*best, *winners, *default, *fastest]):
            if len(found) == remeasurement.MOST_ENTRANTS:
                break
            try:
                kernel = self._generate(self._problem, schedule, self._device)
            except ValueError:
                continue
            screened = schedule in newest and newest[schedule].kernel_digest == kernel.digest
            if screened or schedule in default:
                found.setdefault(kernel.digest, Candidate(self._problem, schedule, kernel))
        return tuple(found.values())

    def _simplest_first(self, entrants: Sequence[Candidate]) -> list[int]:
        """The place of each entrant from the simplest to the least simple, no two alike: of two runs that tie the same
        schedules, both must choose the same one. Simpler is what departs from fewer defaults, then what takes fewer
        registers, then less shared memory; the text of the schedule decides the rest."""

        def simplicity(candidate: Candidate) -> tuple[float, int, int, str]:
            known = self._known.get(candidate.kernel.digest)
            used = None if known is None else known.resources
            registers = 0 if used is None else used.registers
            shared = 0 if used is None else used.static_shared_bytes + used.dynamic_shared_bytes
            return self._complexity(candidate.schedule), registers, shared, candidate.schedule.key()

        order = sorted(range(len(entrants)), key=lambda i: simplicity(entrants[i]))
        return [order.index(i) for i in range(len(entrants))]

    def _incumbent(self, entrants: Sequence[Candidate]) -> int | None:
        """The position of the one of ours that won the last re-measurement, if it is among ``entrants``."""
        ranked = [r for r in self._stored if r.rank is not None and not is_library(r.schedule)]
        schedules = [candidate.schedule for candidate in entrants]
        return schedules.index(ranked[-1].schedule) if ranked and ranked[-1].schedule in schedules else None

    def _remeasure(
        self, runner: Comparing, entrants: Sequence[Candidate], seconds: float
    ) -> remeasurement.Remeasurement:
        """Time the entrants in turns and store what came of it: losers first, so that the winner is the last word.

        The library has a row too, at its place: a later check asks whether the winner has moved against it."""
        complexity = [float(place) for place in self._simplest_first(entrants)]
        incumbent = self._incumbent(entrants)
        remeasured = remeasurement.remeasure(runner, entrants, complexity, seconds=seconds, incumbent=incumbent)
        provenance = self._runner.provenance
        ranked: list[remeasurement.Standing | None] = list(remeasured.standings)
        vendor, seconds_of_it = remeasured.vendor, remeasured.vendor_seconds
        if vendor is not None and seconds_of_it:
            time_of_it = statistics.median(seconds_of_it)
            faster = sum(statistics.median(place.seconds) < time_of_it for place in remeasured.standings[1:])
            ranked.insert(0 if remeasured.library_won else 1 + faster, None)
        rows: list[tuple[remeasurement.Standing | None, int | None]] = [(place, None) for place in remeasured.failed]
        rows += reversed([(place, rank) for rank, place in enumerate(ranked, 1)])
        for place, rank in rows:
            if place is None:
                if vendor is not None:
                    self._append(self._library_record(vendor, seconds_of_it, rank))
                continue
            candidate, entrant = entrants[place.position], place.entrant
            known = self._known.get(candidate.kernel.digest)
            measurement = Measurement(
                entrant.status,
                provenance,
                f"re-measured: {entrant.reason}" if rank is None else "",
                timing=Timing.of(place.seconds) if rank is not None else None,
                error=entrant.error,
                resources=None if known is None else known.resources,
                clock_mhz=entrant.clock_mhz,
                code=None if known is None else known.code,
            )
            self._append(self._record(candidate.schedule, candidate.kernel.digest, measurement, rank))
        self._best = self._store.best(self._problem, self._device.name, provenance)
        return remeasured

    def _library_record(self, vendor: Entrant, seconds: Sequence[float], rank: int | None) -> Record:
        measurement = Measurement(
            Status.OK,
            self._runner.provenance,
            timing=Timing.of(seconds),
            error=vendor.error,
            clock_mhz=vendor.clock_mhz,
        )
        record = self._record(LIBRARY_SCHEDULE, None, measurement, rank)
        return dataclasses.replace(record, toolchain=vendor.version)

    def _proposal(self, schedule: Schedule) -> _Proposal:
        try:
            kernel = self._generate(self._problem, schedule, self._device)
        except ValueError as error:
            reason = f"no kernel could be generated: {error}"
            return schedule, Measurement(Status.COMPILE_ERROR, self._runner.provenance, reason)
        return schedule, Candidate(self._problem, schedule, kernel)

    def _try(self, proposals: Sequence[_Proposal]) -> list[tuple[Schedule, Measurement]]:
        """Measure and store each proposal, as they are done; what came of them, in their order."""
        results: dict[Schedule, Measurement] = {}
        same: dict[str, list[Candidate]] = {}  # schedules that give the same kernel are measured once
        for schedule, candidate in proposals:
            if isinstance(candidate, Measurement):
                self._finish(schedule, None, candidate)
                results[schedule] = candidate
                continue
            kernel = candidate.kernel
            known = self._known.get(kernel.digest)
            if known is not None:
                self._finish(schedule, kernel.digest, known)
                results[schedule] = known
            else:
                same.setdefault(kernel.digest, []).append(candidate)
        digests = list(same)
        before = time.monotonic()
        for position, measured in self._runner.measure([same[digest][0] for digest in digests]):
            self._pace.note("measure", [time.monotonic() - before])
            if measured.compile_seconds is not None:
                self._pace.note("compile", [measured.compile_seconds])
            digest = digests[position]
            first, *others = same[digest]
            judged = self._is_better(measured) or measured.status is Status.UNRANKED
            measurement = self._judged(first.schedule, measured) if judged else measured
            self._known[digest] = measurement
            for candidate in (first, *others):
                self._finish(candidate.schedule, digest, measurement)
                results[candidate.schedule] = measurement
            before = time.monotonic()
        return [(schedule, results[schedule]) for schedule, _ in proposals if schedule in results]

    def _finish(self, schedule: Schedule, digest: str | None, measurement: Measurement) -> None:
        record = self._append(self._record(schedule, digest, measurement))
        self._records.append(record)
        if self._is_better(measurement):
            self._best = record
        if self._observer is not None:
            if not record.ok:
                self._failures[record.status.value] += 1
            done, seconds = len(self._records), time.monotonic() - self._started
            progress = Progress(record, self._best, done, self._wanted, dict(self._failures), seconds)
            self._observer.trial(progress)

    def _append(self, record: Record) -> Record:
        stored = self._store.append(record)
        self._stored.append(stored)
        return stored

    def _record(
        self, schedule: Schedule, digest: str | None, measurement: Measurement, rank: int | None = None
    ) -> Record:
        return Record(
            problem_key=self._problem.key(),
            schedule=schedule,
            device=self._device.name,
            fingerprint=canonical_json(self._fingerprint),
            template_version=self._versions.get(schedule.template, ""),
            space_version=self._space_versions.get(schedule.template, ""),
            kernel_digest=digest,
            measurement=measurement,
            toolchain=self._fingerprint.get("toolchain", ""),
            driver=self._fingerprint.get("driver", ""),
            autosched_version=VERSION,
            created=datetime.now(UTC),
            sampler=self._sampler.name,
            seed=self._seed,
            rank=rank,
            budget=self._budget,
            proof=self._proofs.get(schedule),
        )

    def _is_better(self, measurement: Measurement) -> bool:
        if measurement.timing is None:
            return False
        best = None if self._best is None else self._best.seconds
        return best is None or measurement.timing.median < best

    def _judged(self, schedule: Schedule, measurement: Measurement, verifier: Verifier | None = None) -> Measurement:
        """The measurement with what the verifier, by default that of new bests, says of the schedule: its error, or its
        failure instead of a time."""
        verifier = self._verifier if verifier is None else verifier
        if verifier is None:
            return measurement
        try:
            outcome = verifier(self._problem, schedule)
        except ValueError as error:  # a record of earlier code, whose schedule is no longer valid
            status, reason, worst = Status.UNPROVEN, str(error), None
        else:
            if isinstance(outcome, Verification):
                self._proofs[schedule] = canonical_json(outcome.proof())
            if outcome.ok:
                return dataclasses.replace(measurement, error=outcome.worst)
            status = Status.WRONG_RESULT if outcome.status in CONDEMNING else Status.UNPROVEN
            reason, worst = f"{outcome.status}: {outcome.reason}", outcome.worst
        return dataclasses.replace(measurement, status=status, reason=f"emulated: {reason}", timing=None, error=worst)


def _verifier(chosen: backends.Backend) -> tuple[Verifier | None, str]:
    """Who judges new bests, and a line for people where there is no compiler for it.

    Raises ValueError where there is one and the proof cannot be had all the same.
    """
    if chosen.runner.provenance is not Provenance.ESTIMATED:
        return None, ""  # it runs, or ran when it was recorded, and its results are compared
    try:
        check_host()
    except HostCompilerMissing as error:
        return None, f"new bests are not proven: {error}"
    except HostFailure as error:
        raise ValueError(f"new bests cannot be proven here: {error}; or give --no-verify") from error
    return lambda problem, schedule: verify_one(chosen.templates.of(schedule), problem, schedule, chosen.device), ""


def _full_verifier(problem: Problem, chosen: backends.Backend) -> FullVerifier:
    def verify(schedule: Schedule, seconds: float) -> Verification:
        template = chosen.templates.of(schedule)
        return verify_one(template, problem, schedule, chosen.device, depth="full", budget=seconds)

    return verify


def _default_schedule(problem: Problem, chosen: backends.Backend) -> Schedule | None:
    choice = default_choice(problem, chosen.device, chosen.templates)
    return None if choice is None else choice.schedule


def _pace(chosen: backends.Backend, workers: int | None) -> Pace:
    """On a GPU, what costs ask for. Elsewhere there is no hurry, and the same seed tries the same on every machine."""
    if chosen.runner.provenance is not Provenance.MEASURED:
        return Pace()
    return Pace(gpus=chosen.gpus, compilers=workers or os.cpu_count() or 1)


def _unranked(chosen: backends.Backend) -> str:
    """A line for people about templates whose schedules cannot be ranked here."""
    silent = [t.name for t in chosen.templates if t.counts is None]
    if chosen.runner.provenance is not Provenance.ESTIMATED or not silent:
        return ""
    return (
        f"the cost of {', '.join(silent)} is not stated ([cost] of a kernel file): the emulator counts its memory "
        "requests, arithmetic is not counted, and a schedule that it cannot run is not ranked"
    )


def simplicity(space: SearchSpace) -> Complexity:
    """How many parameters of a schedule are not at their defaults."""
    defaults = {(t, p.name): p.default for t, member in space.members.items() for p in member.parameters}
    return lambda schedule: sum(value != defaults.get((schedule.template, name)) for name, value in schedule.items)


def _refuse_too_large(problem: Problem, device: Device) -> None:
    """Raises ValueError where the arrays of a problem do not fit into the memory of the device."""
    if problem.min_bytes > device.memory_bytes:
        raise ValueError(
            f"the arrays of this problem take {problem.min_bytes:,} bytes, more than the {device.memory_bytes:,} "
            f"that {device.name} has: tune a smaller problem, or for another --device"
        )


def _refuse_other_cache(name: str, earlier: Sequence[Record], warm: bool) -> None:
    """Times from a warm and from a cold L2 must not be ranked together. Raises ValueError where they would be."""
    other = "cold" if warm else "warm"
    for record in earlier:
        if record.provenance is Provenance.MEASURED and json.loads(record.fingerprint).get("cache") == other:
            wish = "leave --warm-cache out" if warm else "give --warm-cache"
            raise ValueError(f"{name} holds times of this problem from a {other} L2: {wish}, or use another --db")


def _refuse_other_model(name: str, earlier: Sequence[Record], runner: Runner) -> None:
    """Times that a trained model estimates must not be ranked with other estimates. Raises ValueError."""
    if runner.provenance is not Provenance.ESTIMATED:
        return
    mine = runner.fingerprint().get("model", "")
    for record in earlier:
        theirs = str(json.loads(record.fingerprint).get("model", ""))
        if theirs != mine and backends.TRAINED in f"{mine} {theirs}":
            raise ValueError(f"{name} holds times of this problem estimated by {theirs}, not {mine}: use another --db")


def _refuse_other_schedules(name: str, earlier: Sequence[Record], space: SearchSpace) -> None:
    """Raises StoreError for a trial that says it is of ``space`` and is not: no sampler could learn from it."""
    from measurements.store import unreadable

    for record in earlier:
        member = space.members.get(record.schedule.template)
        if member is not None and record.space_version == member.fingerprint:
            try:
                space.explain(record.schedule)
            except ValueError as error:
                raise unreadable(name, record.id, str(error)) from error


def _plural(n: int, noun: str) -> str:
    return noun if n == 1 else f"{noun}s"
