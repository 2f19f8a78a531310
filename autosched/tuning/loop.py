"""The loop of ``tune``: ask a sampler, generate, measure, record, tell; until the trials are done.

Several trials are in flight (``in_flight``). When one completes, its result is reported to the sampler, which proposes
the next, while compilers and GPUs work on the others. On a GPU results are taken as they come; elsewhere in the order
of proposals, so that the same seed finds the same on every machine.

Each result is in the store before the next step, so stopping at any moment loses at most the trials in flight. Tuning
into the same store goes on from there: the sampler is first told all earlier trials of the same problem, device,
provenance and space.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import KW_ONLY, dataclass, field

from autosched.samplers import Sampler
from autosched.tuning.common_failure import common_failure
from autosched.tuning.in_flight import InFlightLimit
from autosched.tuning.ledger import Generate, RunIdentity, TrialLedger, Trials, Verifier
from autosched.tuning.objectives import Objectives
from autosched.tuning.result import Observer, Progress, Start, TuneResult
from autosched.tuning.winner import finalists, paired_timing, winner_proof
from autosched.tuning.winner.finalists import Complexity, Default
from autosched.tuning.winner.winner_proof import FullVerifier
from measurements.emulator import HostFailure
from measurements.records.measurement import Measurement, Status
from measurements.records.record import Budget, Record, canonical_json
from measurements.records.vendor_library import is_library
from measurements.runners.base import Candidate, Comparing, Runner, RunnerStopped, Stream
from measurements.runners.streams import InOrder, stream_of
from search_spaces.hardware.devices import Device
from search_spaces.operators.problem import Problem
from search_spaces.spaces.counting.limits import TooTightlyTied
from search_spaces.spaces.schedule import Schedule

UNPROMISING = 8  # proposals in a row that promise too little end a search
_UNCOUNTED = 100_000  # trials that nobody counts a space for


@dataclass(frozen=True)
class TunerParts:
    """What a search is made of. ``sampler`` must be one that is told of the same ``objectives``."""

    problem: Problem
    device: Device
    runner: Runner
    store: Trials
    sampler: Sampler
    _: KW_ONLY
    seed: int
    space_versions: Mapping[str, str]  # of the templates' spaces, by name
    generate: Generate  # makes kernels; raises ValueError for a schedule that it cannot serve
    versions: Mapping[str, str] = field(default_factory=dict)  # of the kernel templates, by name
    verifier: Verifier | None = None  # of each new best; None: the runner compares results itself, or nobody does
    complexity: Complexity = lambda schedule: 0.0  # decides between finalists that are as fast as each other
    default: Default = lambda: None  # used where nothing is tuned: it takes part in every re-measurement
    lines: Sequence[str] = ()  # for people, about the run
    observer: Observer | None = None
    policy: str | None = None  # how times are taken, a text of Policy; None: of any
    in_flight: InFlightLimit = field(default_factory=InFlightLimit)  # how many schedules are out at a time
    objectives: Objectives = field(default_factory=Objectives)  # what best means, by default the time
    schedules: Callable[[], int] | None = None  # counts those of the space; None where nobody can


class Tuner:
    """The loop itself, over parts that are handed in. It closes none of them."""

    def __init__(self, parts: TunerParts) -> None:
        self._book = TrialLedger(
            RunIdentity(
                parts.problem,
                parts.device,
                parts.runner.provenance,
                parts.policy,
                parts.seed,
                parts.versions,
                parts.space_versions,
            ),
            parts.store,
            generate=parts.generate,
            proposer=parts.sampler.proposer,
            objectives=parts.objectives,
        )
        self._runner = parts.runner
        self._sampler = parts.sampler
        self._verifier = parts.verifier
        self._complexity = parts.complexity
        self._default = parts.default
        self._lines = tuple(parts.lines)
        self._observer = parts.observer
        self._in_flight = parts.in_flight
        self._schedules = parts.schedules
        self._asked = self._told = 0
        self._out: dict[Schedule, Measurement | None] = {}  # asked for, not told; in that order
        self._under_way: dict[str, list[Schedule]] = {}  # the schedules that give a kernel, by its digest
        self._streamed: list[str] = []  # the digests of kernels, in the order in which they went out
        self._min_gain = 0.0
        self._unpromising = 0  # proposals in a row that promise less
        self._records: list[Record] = []
        self._failures: Counter[str] = Counter()
        self._hopeful = False  # whether anything has worked, here or earlier
        self._common_failure = ""
        self._wanted = self._expected = 0  # trials: asked for, and shown, which are no more than the space has
        self._started = 0.0

    def run(
        self,
        trials: int,
        seconds: float = math.inf,
        final_seconds: float = paired_timing.SECONDS,
        *,
        earlier: Sequence[Record] | None = None,
        min_gain: float = 0.0,
        full: FullVerifier | None = None,
        proof_seconds: float = winner_proof.PROOF_SECONDS,
    ) -> TuneResult:
        """Try ``trials`` more schedules, then re-measure the fastest where the backend can, and prove the best.

        Args:
            trials: How many more; those that the store holds do not count.
            seconds: No trial is asked for after so many; infinite for no limit.
            final_seconds: No round of re-measuring is added after so many.
            earlier: The trials that the store holds of this problem, device and provenance; None to read them.
            min_gain: The search ends before, once UNPROMISING proposals in a row are expected to shorten the best time
                by less than this part of it, as far as the sampler knows.
            full: Proves the best at the end; if that fails, the next one. None leaves it out.
            proof_seconds: Of all proofs at the end together.

        Returns:
            What was found, also after Ctrl-C and where the backend stopped: everything until then is kept. A search
            ends early where its first configurations fail for one reason (``common_failure``).

        Raises:
            StoreError: The database refuses a record.
        """
        book = self._book
        self._started, self._wanted = time.monotonic(), trials
        self._min_gain, self._unpromising = min_gain, 0
        self._records, self._failures, self._common_failure = [], Counter(), ""
        earlier = book.open(Budget(trials, seconds if math.isfinite(seconds) else None), earlier)
        # neither re-measuring nor the library is a trial
        self._hopeful = any(record.ok for record in earlier)
        tried = len({record.schedule for record in earlier if not is_library(record.schedule)})
        there = (
            f"{tried} {'trial' if tried == 1 else 'trials'} of this problem on {book.device.name} ({book.provenance})"
        )
        self._expected = self._at_most(trials, tried)
        lines = (*self._lines, f"{book.name} holds {there}; {self._expected:,} more to go")
        if self._observer is not None:
            start = Start(book.problem, book.device, book.provenance, lines, self._expected, tried, book.best)
            self._observer.started(start)
        exhausted = interrupted = late = False
        stopped = proof = ""
        remeasured: paired_timing.Remeasurement | None = None
        entrants: tuple[Candidate, ...] = ()
        try:
            book.fingerprint = self._runner.fingerprint()
            self._restore(earlier)
            exhausted = self._search(seconds)
            late = len(self._records) < trials and time.monotonic() - self._started >= seconds
            if isinstance(self._runner, Comparing) and book.objectives.is_time:
                entrants = finalists.entrants(book, self._default)
                if entrants:
                    remeasured = finalists.remeasure(book, self._runner, entrants, self._complexity, final_seconds)
            if full is not None:
                proof = winner_proof.prove_best(book, full, proof_seconds)
        except KeyboardInterrupt:
            interrupted = True
        except RunnerStopped as error:
            stopped = str(error)
        except HostFailure as error:
            stopped = f"a new best cannot be proven: {error}; or give --no-verify"
        return TuneResult(
            problem=book.problem,
            device=book.device,
            provenance=book.provenance,
            best=book.best,
            trials=tuple(self._records),
            earlier=tried,
            lines=lines,
            seconds=time.monotonic() - self._started,
            exhausted=exhausted,
            satisfied=self._unpromising >= UNPROMISING,
            out_of_time=late,
            interrupted=interrupted,
            stopped=stopped,
            common_failure=self._common_failure,
            remeasured=remeasured,
            entrants=tuple(candidate.schedule for candidate in entrants) if remeasured is not None else (),
            proof=proof,
            sampler=self._sampler.name,
            num_guessed=self._sampler.num_guessed,
            num_verified=len(book.verified),
            objectives=book.objectives,
            front=tuple(book.front()) if len(book.objectives.names) > 1 else (),
        )

    def _restore(self, earlier: Sequence[Record]) -> None:
        """Tell the sampler what is known, and reuse what the same tools found out about the same kernels.

        The time of a kernel that computes something wrong is not told: a sampler would look for more like it. What is
        unproven is not told at all, so that it may be tried again.
        """
        book = self._book
        fingerprint = canonical_json(book.fingerprint)
        for record in earlier:
            if record.status is Status.UNPROVEN:  # its kernel must be tried again, too
                book.known.pop(record.kernel_digest or "", None)
            elif record.kernel_digest is not None and record.fingerprint == fingerprint and book.is_complete(record):
                book.known[record.kernel_digest] = record.measurement
        wrong_bests = self._wrong_bests()
        newest = {record.schedule: record.status for record in earlier}
        wrong = {(r.schedule, r.kernel_digest) for r in earlier if r.status is Status.WRONG_RESULT}
        counts = [
            record
            for record in earlier
            if record.schedule not in wrong_bests
            and newest[record.schedule] is not Status.UNPROVEN
            and not (record.ok and (record.schedule, record.kernel_digest) in wrong)
        ]
        for record in [*counts, *wrong_bests.values()]:
            if book.is_of_this_code(record):  # else it is tried again
                self._sampler.tell(record.schedule, record.measurement)
                self._told += 1

    def _wrong_bests(self) -> dict[Schedule, Record]:
        """Judge the best of earlier runs, and the next one where it fails; what was found of those that fail."""
        book, found = self._book, dict[Schedule, Record]()
        while self._verifier is not None and book.best is not None and book.best.measurement.error is None:
            best = book.best
            judged = book.judged(best.schedule, best.measurement, self._verifier)
            if judged.ok:
                break
            found[best.schedule] = book.mark_wrong(best, judged)
        return found

    def _search(self, seconds: float) -> bool:
        """Until the trials are done or the time is up: False; or the sampler has no more to propose: True."""
        self._out, self._under_way, self._streamed = {}, {}, []
        self._asked, exhausted = 0, False
        with closing(stream_of(self._runner)) as opened:
            stream = InOrder(opened) if self._in_flight.in_order else opened
            while True:
                told = self._tell()
                late = self._asked > 0 and time.monotonic() - self._started >= seconds
                room, least = self._room()
                ended = exhausted or late or self._unpromising >= UNPROMISING or bool(self._common_failure)
                if room >= least and not ended:
                    schedules = self._ask(room)
                    exhausted = not schedules
                    self._try(schedules, stream)
                elif self._under_way and not told:
                    self._take(stream)
                    while stream.ready():
                        self._take(stream)
                elif not told:
                    return exhausted

    def _room(self) -> tuple[int, int]:
        """How many schedules there is room for, and for how many it is worth while to ask."""
        size, left = self._in_flight.size(self._told), self._wanted - self._asked
        least = min(self._sampler.batch, math.ceil(size / 2))
        return min(size - len(self._out), left), max(min(least, left), 1)

    def _ask(self, n: int) -> list[Schedule]:
        began = time.monotonic()
        schedules = self._sampler.ask(n)
        self._asked += len(schedules)
        if schedules:
            self._in_flight.note("propose", [(time.monotonic() - began) / len(schedules)] * len(schedules))
        small = self._sampler.expected_gain < self._min_gain
        self._unpromising = self._unpromising + len(schedules) if small else 0
        return schedules

    def _tell(self) -> bool:
        """Tell the sampler what came of its proposals, as far as it is known. Whether there was any."""
        known = [(schedule, measurement) for schedule, measurement in self._out.items() if measurement is not None]
        for schedule, measurement in known:
            del self._out[schedule]
            self._sampler.tell(schedule, measurement)
        self._told += len(known)
        return bool(known)

    def _try(self, schedules: Sequence[Schedule], stream: Stream) -> None:
        """Start measuring. A kernel that is known, or under way for another schedule, is not measured again."""
        for schedule in schedules:
            self._out[schedule] = None
            try:
                candidate = self._book.candidate(schedule)
            except ValueError as error:
                reason = f"no kernel could be generated: {error}"
                self._finish(schedule, None, Measurement(Status.COMPILE_ERROR, self._runner.provenance, reason))
                continue
            digest = candidate.kernel.digest
            known = self._book.known.get(digest)
            if known is not None:
                self._finish(schedule, digest, known)
            elif digest in self._under_way:
                self._under_way[digest].append(schedule)
            else:
                self._under_way[digest] = [schedule]
                self._streamed.append(digest)
                stream.add([candidate])

    def _take(self, stream: Stream) -> None:
        """Wait for the next kernel that is measured, judge it and store what came of it. Raises RunnerStopped."""
        result = next(stream, None)
        if result is None:
            raise RunnerStopped("the runner was closed")
        position, measured = result
        if measured.timing is not None:
            self._in_flight.note("measure", [stream.seconds])
        if measured.compile_seconds is not None:
            self._in_flight.note("compile", [measured.compile_seconds])
        digest = self._streamed[position]
        schedules = self._under_way.pop(digest)
        if self._verifier is not None and self._must_prove(schedules[0], measured):
            measured = self._book.judged(schedules[0], measured, self._verifier)
        self._book.known[digest] = measured
        for schedule in schedules:
            self._finish(schedule, digest, measured)

    def _must_prove(self, schedule: Schedule, measured: Measurement) -> bool:
        return measured.status is Status.UNRANKED or self._book.is_new_on_front(schedule, measured)

    def _at_most(self, trials: int, tried: int) -> int:
        """Return how many trials there may be, where so many are asked for that the space is worth counting."""
        if trials <= _UNCOUNTED or self._schedules is None:
            return trials
        try:
            return min(trials, max(0, self._schedules() - tried))
        except TooTightlyTied:
            return trials

    def _finish(self, schedule: Schedule, digest: str | None, measurement: Measurement) -> None:
        book = self._book
        self._out[schedule] = measurement
        record = book.append(book.record(schedule, digest, measurement))
        self._records.append(record)
        if book.is_better(schedule, measurement):
            book.best = record
        self._hopeful = self._hopeful or record.ok
        if not self._hopeful and not self._common_failure:
            self._common_failure = common_failure(self._records)
        if self._observer is not None:
            if not record.ok:
                self._failures[record.status.value] += 1
            done, seconds = len(self._records), time.monotonic() - self._started
            progress = Progress(record, book.best, done, self._expected, dict(self._failures), seconds)
            self._observer.trial(progress)
