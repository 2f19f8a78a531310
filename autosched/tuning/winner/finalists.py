"""Final paired timing of a search on a GPU: selection of the finalists, and storage of the results."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Sequence

from autosched.samplers.first_choices.portfolio import structure
from autosched.tuning.ledger import TrialLedger
from autosched.tuning.winner import paired_timing
from measurements.runners.base import Candidate, Comparing, Entrant
from measurements.trials.measurement import Measurement, Status, Timing
from measurements.trials.trial import Control, Trial, canonical_json
from measurements.trials.vendor_library import LIBRARY_SCHEDULE, is_library
from search_spaces.spaces.schedule import Schedule

Complexity = Callable[[Schedule], float]
Default = Callable[[], Schedule | None]


def entrants(ledger: TrialLedger, default: Default) -> tuple[Candidate, ...]:
    """Return the finalists: the best, the winner of the last paired timing, the default, and further fast schedules."""
    if ledger.best is None or ledger.best.seconds is None:
        return ()
    fingerprint = canonical_json(ledger.fingerprint)
    trials = [r for r in ledger.stored if not is_library(r.schedule)]
    newest = {r.schedule: r for r in trials if r.fingerprint == fingerprint}
    timed = {schedule: r.measurement.timing for schedule, r in newest.items() if r.measurement.timing is not None}
    if not timed:
        return ()
    schedules = list(timed)

    def module_of(position: int) -> object:
        try:
            return ledger.candidate(schedules[position]).kernel.code_digest
        except ValueError:
            return position

    selected = paired_timing.select_entrants(list(timed.values()), module_of, lambda i: structure(schedules[i]))
    fastest = [schedules[i] for i in selected]
    candidates: dict[str, Candidate] = {}
    winners = [r.schedule for r in trials if r.rank is not None][-1:]  # trials of the last paired timing have a rank
    defaults = [schedule for schedule in [default()] if schedule is not None]
    best = [] if is_library(ledger.best.schedule) else [ledger.best.schedule]
    for schedule in dict.fromkeys([*best, *winners, *defaults, *fastest]):
        if len(candidates) == paired_timing.MOST_ENTRANTS:
            break
        try:
            candidate = ledger.candidate(schedule)
        except ValueError:
            continue
        if any(c.problem.key() != candidate.problem.key() for c in candidates.values()):
            continue  # kernels with arrays of other types cannot be timed together with the best kernel
        screened = schedule in newest and newest[schedule].kernel_digest == candidate.kernel.digest
        if screened or schedule in defaults:  # the default need not have been screened
            candidates.setdefault(candidate.kernel.digest, candidate)
    return tuple(candidates.values())


def _simplest_first(ledger: TrialLedger, entrants: Sequence[Candidate], complexity: Complexity) -> list[int]:
    """Rank the entrants by simplicity, without equal ranks, so that ties are always resolved in the same way.

    The simpler of two schedules has fewer non-default values. If the numbers are equal, the schedule with fewer
    registers is simpler, then the one with less shared memory. If these numbers are also equal, the schedules are
    compared as text.
    """

    def simplicity(candidate: Candidate) -> tuple[float, int, int, str]:
        known = ledger.known.get(candidate.kernel.digest)
        used = None if known is None else known.resources
        registers = 0 if used is None else used.registers
        shared = 0 if used is None else used.static_shared_bytes + used.dynamic_shared_bytes
        return complexity(candidate.schedule), registers, shared, candidate.schedule.key()

    order = sorted(range(len(entrants)), key=lambda i: simplicity(entrants[i]))
    return [order.index(i) for i in range(len(entrants))]


def _incumbent(ledger: TrialLedger, entrants: Sequence[Candidate]) -> int | None:
    """Return the index in ``entrants`` of the winner of the last paired timing; None if it is not an entrant."""
    ranked = [r for r in ledger.stored if r.rank is not None and not is_library(r.schedule)]
    schedules = [candidate.schedule for candidate in entrants]
    return schedules.index(ranked[-1].schedule) if ranked and ranked[-1].schedule in schedules else None


def remeasure(
    ledger: TrialLedger, runner: Comparing, entrants: Sequence[Candidate], complexity: Complexity, seconds: float
) -> paired_timing.Remeasurement:
    """Time the finalists alternately, and store the results. The winner is stored last, so it is the newest trial.

    The library's result is stored with its rank, too, because later checks compare the winner with the library.

    Args:
        ledger: Ledger of the run; the results are appended to it.
        runner: Runner that can time several kernels alternately.
        entrants: Finalists of one problem, at least one.
        complexity: Complexity of a schedule, which decides between finalists that are equally fast.
        seconds: Time in seconds after which no round is added.

    Returns:
        The ranking, with the failed finalists and the library's times.

    Raises:
        StoreError: The database rejects a trial.
        RunnerStopped: The GPU can no longer be used.
    """
    ranks = [float(standing) for standing in _simplest_first(ledger, entrants, complexity)]
    incumbent = _incumbent(ledger, entrants)
    remeasured = paired_timing.remeasure(runner, entrants, ranks, seconds=seconds, incumbent=incumbent)
    ranked: list[paired_timing.Ranked | None] = list(remeasured.standings)
    vendor, vendor_seconds = remeasured.vendor, remeasured.vendor_seconds
    if vendor is not None and vendor_seconds:
        vendor_median = statistics.median(vendor_seconds)
        faster = sum(statistics.median(standing.seconds) < vendor_median for standing in remeasured.standings[1:])
        # exclude the library, because its order of sums is unknown
        first = remeasured.library_won and ledger.run.order is None
        ranked.insert(0 if first else 1 + faster, None)
    rows: list[tuple[paired_timing.Ranked | None, int | None]] = [(standing, None) for standing in remeasured.failed]
    rows += reversed([(standing, rank) for rank, standing in enumerate(ranked, 1)])
    for standing, rank in rows:
        if standing is None:
            if vendor is not None:
                ledger.append(_library_trial(ledger, vendor, vendor_seconds, rank))
            continue
        candidate, entrant = entrants[standing.position], standing.entrant
        known = ledger.known.get(candidate.kernel.digest)
        measurement = Measurement(
            entrant.status,
            ledger.provenance,
            f"re-measured: {entrant.reason}" if rank is None else "",
            timing=Timing.of(standing.seconds) if rank is not None else None,
            error=entrant.error,
            resources=None if known is None else known.resources,
            clock_mhz=entrant.clock_mhz,
            code=None if known is None else known.code,
        )
        trial = ledger.make_trial(candidate.schedule, candidate.kernel.digest, measurement, rank)
        ledger.append(trial if rank != 1 else dataclasses.replace(trial, control=_control(remeasured)))
    ledger.read_best()
    return remeasured


def _control(remeasured: paired_timing.Remeasurement) -> Control | None:
    """Return the control, with its current times. Later checks time this kernel together with the winner."""
    if remeasured.vendor is not None and remeasured.vendor_seconds:
        return Control("library", Timing.of(remeasured.vendor_seconds), remeasured.vendor.version)
    return Control("copy", Timing.of(remeasured.copy_seconds)) if remeasured.copy_seconds else None


def _library_trial(ledger: TrialLedger, vendor: Entrant, seconds: Sequence[float], rank: int | None) -> Trial:
    measurement = Measurement(
        Status.OK,
        ledger.provenance,
        timing=Timing.of(seconds),
        error=vendor.error,
        clock_mhz=vendor.clock_mhz,
    )
    trial = ledger.make_trial(LIBRARY_SCHEDULE, None, measurement, rank)
    return dataclasses.replace(trial, toolchain=vendor.version)
