"""Proofs by emulation where no GPU runs the kernels: quick ones of new bests, a full one of the winner at the end."""

from __future__ import annotations

import time
from collections.abc import Callable

from autosched.tuning import backends
from autosched.tuning.ledger import TrialLedger, Verifier, VerifyOutcome
from autosched.verify import stored
from autosched.verify.schedules import verify_one
from autosched.verify.verdict import Verdict
from measurements.emulator import HostCompilerMissing, HostFailure, check_ready
from measurements.records.measurement import Provenance, Status
from measurements.records.record import Record
from measurements.records.vendor_library import is_library
from search_spaces.operators.problem import Problem
from search_spaces.spaces.schedule import Schedule

PROOF_SECONDS = 60.0  # that the full proof of the winner may take

FullVerifier = Callable[[Schedule, float], VerifyOutcome]  # within so many seconds


def of_new_bests(chosen: backends.Backend) -> tuple[Verifier | None, str]:
    """Who judges new bests, and a line for people where there is no compiler for it.

    Raises ValueError where there is one and the proof cannot be had all the same.
    """
    if chosen.runner.provenance is not Provenance.ESTIMATED:
        return None, ""  # it runs, or ran when it was recorded, and its results are compared
    try:
        check_ready()
    except HostCompilerMissing as error:
        return None, f"new bests are not proven: {error}"
    except HostFailure as error:
        raise ValueError(f"new bests cannot be proven here: {error}; or give --no-verify") from error
    return lambda problem, schedule: verify_one(chosen.templates.of(schedule), problem, schedule, chosen.device), ""


def of_winner(problem: Problem, chosen: backends.Backend) -> FullVerifier:
    def verify(schedule: Schedule, seconds: float) -> Verdict:
        template = chosen.templates.of(schedule)
        return verify_one(template, problem, schedule, chosen.device, depth="full", budget=seconds)

    return verify


def prove_best(book: TrialLedger, full: FullVerifier, seconds: float) -> str:
    """Prove the best in full, in place of it the next one if that fails, and say in one line what came of it."""
    until, failed = time.monotonic() + seconds, 0
    while book.best is not None and not is_library(book.best.schedule):
        best = book.best
        if _has_full_proof(book, best):
            return "the best was proven in full before"
        left = until - time.monotonic()
        if failed and left <= 0:
            return f"{failed} {_plural(failed, 'best')} failed the full proof; there was no time for that of the next"

        def within(_: Problem, schedule: Schedule, left: float = left) -> VerifyOutcome:
            return full(schedule, left)

        found = book.judged(best.schedule, best.measurement, within)
        proof = book.proofs.get(best.schedule)
        if found.ok:
            if proof is None or best.kernel_digest is None:
                return ""
            book.prove(best, proof)
            said = stored.summary(proof)
            return f"{said}; {failed} faster {_plural(failed, 'one')} failed" if failed else said
        if found.status is Status.UNPROVEN:  # it passed the quick proof, and stays best
            return f"no verdict: {found.reason}"
        failed += 1
        book.mark_wrong(best, found)
    return ""


def _has_full_proof(book: TrialLedger, record: Record) -> bool:
    if not stored.is_full(record.proof):
        return False
    try:
        kernel = book.candidate(record.schedule).kernel
    except ValueError:  # a record of earlier code
        return False
    return stored.stale_reason(record.proof, kernel) == ""


def _plural(n: int, noun: str) -> str:
    return noun if n == 1 else f"{noun}s"
