"""Main loop of ``tune``: propose, generate, measure, store and report trials until the limit is reached.

Several trials are in flight (``in_flight``). When a trial completes, its result is reported to the sampler, which
proposes the next trial. Compilers and GPUs work on the remaining trials meanwhile. With a GPU, results are processed in
the order of completion. Other backends process results in the order of proposals, so that a seed gives the same result
on every machine.

Each result is stored before the next step, so an interruption loses at most the trials in flight. A search with the
same store resumes: all earlier trials of the same problem, device, provenance and space are reported to the sampler
first.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import KW_ONLY, dataclass, field

from autosched.samplers import Sampler
from autosched.tuning.common_failure import common_failure
from autosched.tuning.in_flight import InFlightLimit
from autosched.tuning.ledger import Generate, RunIdentity, TrialLedger, Trials
from autosched.tuning.objectives import Objectives
from autosched.tuning.plan import SearchPlan
from autosched.tuning.result import Observer, Progress, Start, TuneResult
from autosched.tuning.winner import finalists, paired_timing, winner_verification
from autosched.tuning.winner.finalists import Complexity, Default
from autosched.tuning.winner.winner_verification import Verifiers
from measurements.emulator import HostFailure
from measurements.runners.base import Candidate, Comparing, Runner, RunnerStopped, Stream
from measurements.runners.streams import InOrder, stream_of
from measurements.trials.measurement import Measurement, Status
from measurements.trials.trial import Budget, Trial, canonical_json
from measurements.trials.vendor_library import is_library
from search_spaces.spaces.counting.limits import TooTightlyTied
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.compiler_controls import has_controls

UNPROMISING = 8  # a search ends after this many consecutive proposals, each with an expected gain below min_gain
# the schedules of a space are counted only if more trials than this are requested, because counting takes time
_UNCOUNTED = 100_000


@dataclass(frozen=True)
class TunerParts:
    """Parts of a search.

    Attributes:
        run: Properties shared by all trials.
        runner: Runner that times candidates.
        store: Database of the trials.
        sampler: Sampler that proposes schedules. It must use the same ``objectives``.
        generate: Function that generates the kernel of a schedule; raises ValueError if this is not possible.
        verifiers: Verifiers for each new best trial and for the winner. Default: no verification.
        complexity: Function that returns the complexity of a schedule, which decides between equally fast finalists.
        default: Function that returns the schedule used for untuned problems. Every paired timing includes this
            schedule.
        lines: Messages about the run.
        observer: Observer to which every trial is reported.
        in_flight: Limits the trials in flight.
        objectives: Objectives of the search. Default: the time.
        count: Function that counts the schedules of the space. Default: the number is unknown.
    """

    run: RunIdentity
    runner: Runner
    store: Trials
    sampler: Sampler
    _: KW_ONLY
    generate: Generate
    verifiers: Verifiers = field(default_factory=Verifiers)
    complexity: Complexity = lambda schedule: 0.0
    default: Default = lambda: None
    lines: Sequence[str] = ()
    observer: Observer | None = None
    in_flight: InFlightLimit = field(default_factory=InFlightLimit)
    objectives: Objectives = field(default_factory=Objectives)
    count: Callable[[], int] | None = None


class Tuner:
    """Search loop. The caller must close the runner and the other parts."""

    def __init__(self, parts: TunerParts) -> None:
        self._parts = parts
        self._runner, self._sampler = parts.runner, parts.sampler
        self._observer, self._in_flight_limit = parts.observer, parts.in_flight
        self._ledger = TrialLedger(
            parts.run,
            parts.store,
            generate=parts.generate,
            proposer=parts.sampler.proposer,
            objectives=parts.objectives,
        )
        self._plan = SearchPlan()
        self._num_proposed = self._num_reported = 0
        # trials in flight, in the order of proposal
        self._pending: dict[Schedule, Measurement | None] = {}
        self._in_flight: dict[
            str, list[Schedule]
        ] = {}  # schedules by digest of their kernel, for kernels that are being measured
        self._order: list[str] = []  # digests of submitted kernels, in order
        self._num_unpromising = 0  # number of consecutive proposals with an expected gain below min_gain
        self._trials: list[Trial] = []
        self._failures: Counter[str] = Counter()
        self._any_worked = False  # True if any trial of this or an earlier run worked
        self._common_failure = ""
        self._num_expected = 0  # number of planned trials to display, at most the size of the space
        self._started = 0.0

    def run(self, plan: SearchPlan, earlier: Sequence[Trial] | None = None) -> TuneResult:
        """Try schedules, run the paired timing of the fastest if the backend supports it, and verify the best.

        Args:
            plan: Limits of the run.
            earlier: Stored trials of this problem, device and provenance. Default: read the store.

        Returns:
            The result, even if Ctrl-C or the backend ended the search. All completed trials are stored. A search ends
            early if the first configurations fail for the same reason (``common_failure``).

        Raises:
            StoreError: The database rejects a trial.
        """
        ledger = self._ledger
        self._started, self._plan, self._num_unpromising = time.monotonic(), plan, 0
        self._trials, self._failures, self._common_failure = [], Counter(), ""
        earlier = ledger.open(Budget(plan.trials, plan.seconds if math.isfinite(plan.seconds) else None), earlier)
        # repeated measurements and measurements of the library do not count as trials
        self._any_worked = any(trial.ok for trial in earlier)
        tried = len({trial.schedule for trial in earlier if not is_library(trial.schedule)})
        trials = f"{tried} {'trial' if tried == 1 else 'trials'}"
        existing = f"{trials} of this problem on {ledger.device.name} ({ledger.provenance})"
        self._num_expected = self._at_most(plan.trials, tried)
        lines = (
            *self._parts.lines,
            f"{ledger.name} has {existing}; up to {self._num_expected:,} more will be tried",
        )
        if self._observer is not None:
            start = Start(
                ledger.problem, ledger.device, ledger.provenance, lines, self._num_expected, tried, ledger.best
            )
            self._observer.started(start)
        exhausted = interrupted = out_of_time = False
        stopped = verification = ""
        remeasured: paired_timing.Remeasurement | None = None
        entrants: tuple[Candidate, ...] = ()
        try:
            ledger.fingerprint = self._runner.fingerprint()
            self._restore(earlier)
            exhausted = self._search()
            out_of_time = len(self._trials) < plan.trials and self._is_late
            if isinstance(self._runner, Comparing) and ledger.objectives.is_time:
                entrants = finalists.entrants(ledger, self._parts.default)
                if entrants:
                    remeasured = finalists.remeasure(
                        ledger, self._runner, entrants, self._parts.complexity, plan.final_seconds
                    )
            if self._parts.verifiers.winner is not None and plan.verification_seconds > 0:
                verification = winner_verification.verify_best(
                    ledger, self._parts.verifiers.winner, plan.verification_seconds
                )
        except KeyboardInterrupt:
            interrupted = True
        except RunnerStopped as error:
            stopped = str(error)
        except HostFailure as error:
            stopped = f"a new best schedule cannot be verified: {error}; or use --no-verify"
        return TuneResult(
            problem=ledger.problem,
            device=ledger.device,
            provenance=ledger.provenance,
            best=ledger.best,
            trials=tuple(self._trials),
            earlier=tried,
            lines=lines,
            seconds=time.monotonic() - self._started,
            exhausted=exhausted,
            satisfied=self._num_unpromising >= UNPROMISING,
            out_of_time=out_of_time,
            interrupted=interrupted,
            stopped=stopped,
            common_failure=self._common_failure,
            remeasured=remeasured,
            entrants=tuple(candidate.schedule for candidate in entrants) if remeasured is not None else (),
            verification=verification,
            sampler=self._sampler.name,
            num_guessed=self._sampler.num_guessed,
            num_verified=len(ledger.verified),
            objectives=ledger.objectives,
            front=tuple(ledger.front()) if len(ledger.objectives.names) > 1 else (),
        )

    def _restore(self, earlier: Sequence[Trial]) -> None:
        """Report stored results to the sampler, and reuse stored measurements of unchanged kernels.

        Times of wrong kernels are not reported, because the sampler would then propose similar schedules. Unverified
        trials are not reported either, so that their schedules may be tried again.
        """
        ledger = self._ledger
        fingerprint = canonical_json(ledger.fingerprint)
        for trial in earlier:
            if trial.status is Status.UNVERIFIED:  # the kernel must be measured and verified again
                ledger.known.pop(trial.kernel_digest or "", None)
            elif trial.kernel_digest is not None and trial.fingerprint == fingerprint and ledger.is_complete(trial):
                ledger.known[trial.kernel_digest] = trial.measurement
        wrong_bests = self._wrong_bests()
        newest = {trial.schedule: trial.status for trial in earlier}
        wrong = {(r.schedule, r.kernel_digest) for r in earlier if r.status is Status.WRONG_RESULT}
        counts = [
            trial
            for trial in earlier
            if trial.schedule not in wrong_bests
            and newest[trial.schedule] is not Status.UNVERIFIED
            and not (trial.ok and (trial.schedule, trial.kernel_digest) in wrong)
        ]
        for trial in [*counts, *wrong_bests.values()]:
            if has_controls(trial.schedule) and not self._sampler.has_controls:
                continue
            if ledger.is_of_this_code(trial):  # an unreported schedule may be proposed again
                self._sampler.tell(trial.schedule, trial.measurement)
                self._num_reported += 1

    def _wrong_bests(self) -> dict[Schedule, Trial]:
        """Verify the stored best trial again; if it fails, verify the next best, and so on. Return failed trials."""
        ledger, failures = self._ledger, dict[Schedule, Trial]()
        verifier = self._parts.verifiers.new_best
        while verifier is not None and ledger.best is not None and ledger.best.measurement.error is None:
            best = ledger.best
            judged = ledger.judged(best.schedule, best.measurement, verifier)
            if judged.ok:
                break
            failures[best.schedule] = ledger.mark_wrong(best, judged)
        return failures

    @property
    def _is_late(self) -> bool:
        return time.monotonic() - self._started >= self._plan.seconds

    def _search(self) -> bool:
        """Try schedules until a limit of the plan is reached. Return True if the sampler has no further proposals."""
        self._pending, self._in_flight, self._order = {}, {}, []
        self._num_proposed, exhausted = 0, False
        with closing(stream_of(self._runner)) as opened:
            stream = InOrder(opened) if self._in_flight_limit.in_order else opened
            while True:
                reported = self._report()
                exhausted = exhausted and not (
                    reported and self._sampler.has_controls
                )  # with more results, the sampler may propose new compiler controls
                late = self._num_proposed > 0 and self._is_late
                available, least = self._room()
                ended = exhausted or late or self._num_unpromising >= UNPROMISING or bool(self._common_failure)
                if available >= least and not ended:
                    schedules = self._propose(available)
                    exhausted = not schedules
                    self._submit(schedules, stream)
                    self._sampler.prepare()
                elif self._in_flight and not reported:
                    self._collect(stream)
                    while stream.ready():
                        self._collect(stream)
                elif not reported:
                    return exhausted

    def _room(self) -> tuple[int, int]:
        """Return how many schedules may be proposed now, and the minimum below which the sampler is not called."""
        available, least = self._in_flight_limit.free_slots(self._num_reported, len(self._pending), self._sampler.batch)
        remaining = self._plan.trials - self._num_proposed
        return min(available, remaining), max(min(least, remaining), 1)

    def _propose(self, n: int) -> list[Schedule]:
        began = time.monotonic()
        schedules = self._sampler.ask(n)
        self._num_proposed += len(schedules)
        if schedules:
            self._in_flight_limit.note("propose", [(time.monotonic() - began) / len(schedules)] * len(schedules))
        small = self._sampler.expected_gain < self._plan.min_gain
        self._num_unpromising = self._num_unpromising + len(schedules) if small else 0
        return schedules

    def _report(self) -> bool:
        """Report completed trials to the sampler. Return True if at least one was reported."""
        done = [(schedule, measurement) for schedule, measurement in self._pending.items() if measurement is not None]
        for schedule, measurement in done:
            del self._pending[schedule]
            self._sampler.tell(schedule, measurement)
        self._num_reported += len(done)
        return bool(done)

    def _submit(self, schedules: Sequence[Schedule], stream: Stream) -> None:
        """Start the measurements of proposed schedules.

        A kernel is measured only once, even if several schedules generate it.
        """
        for schedule in schedules:
            self._pending[schedule] = None
            try:
                candidate = self._ledger.candidate(schedule)
            except ValueError as error:
                reason = f"no kernel could be generated: {error}"
                self._complete(schedule, None, Measurement(Status.COMPILE_ERROR, self._runner.provenance, reason))
                continue
            digest = candidate.kernel.digest
            known = self._ledger.known.get(digest)
            if known is not None:
                self._complete(schedule, digest, known)
            elif digest in self._in_flight:
                self._in_flight[digest].append(schedule)
            else:
                self._in_flight[digest] = [schedule]
                self._order.append(digest)
                stream.add([candidate])

    def _collect(self, stream: Stream) -> None:
        """Wait for the next measured kernel, verify it if it may be the best, and store the trial.

        Raises:
            RunnerStopped: The runner was closed.
        """
        result = next(stream, None)
        if result is None:
            raise RunnerStopped("the runner was closed")
        position, measured = result
        if measured.timing is not None:
            self._in_flight_limit.note("measure", [stream.seconds])
        if measured.compile_seconds is not None:
            self._in_flight_limit.note("compile", [measured.compile_seconds])
        digest = self._order[position]
        schedules = self._in_flight.pop(digest)
        verifier = self._parts.verifiers.new_best
        if verifier is not None and self._needs_verification(schedules[0], measured):
            measured = self._ledger.judged(schedules[0], measured, verifier)
        self._ledger.known[digest] = measured
        for schedule in schedules:
            self._complete(schedule, digest, measured)

    def _needs_verification(self, schedule: Schedule, measured: Measurement) -> bool:
        return measured.status is Status.UNRANKED or self._ledger.is_new_on_front(schedule, measured)

    def _at_most(self, trials: int, tried: int) -> int:
        """Return the maximum number of trials. Count the schedules of the space only if many trials are requested."""
        if trials <= _UNCOUNTED or self._parts.count is None:
            return trials
        try:
            return min(trials, max(0, self._parts.count() - tried))
        except TooTightlyTied:
            return trials

    def _complete(self, schedule: Schedule, digest: str | None, measurement: Measurement) -> None:
        ledger = self._ledger
        self._pending[schedule] = measurement
        trial = ledger.append(ledger.make_trial(schedule, digest, measurement))
        self._trials.append(trial)
        if ledger.is_better(schedule, measurement):
            ledger.best = trial
        self._any_worked = self._any_worked or trial.ok
        if not self._any_worked and not self._common_failure:
            self._common_failure = common_failure(self._trials)
        if self._observer is not None:
            if not trial.ok:
                self._failures[trial.status.value] += 1
            done, seconds = len(self._trials), time.monotonic() - self._started
            progress = Progress(trial, ledger.best, done, self._num_expected, dict(self._failures), seconds)
            self._observer.trial(progress)
