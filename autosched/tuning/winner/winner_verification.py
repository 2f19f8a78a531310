"""Verification in the emulator, for backends that do not run kernels: quick for each new best, full for the winner."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from autosched.tuning.backends import Backend
from autosched.tuning.ledger import TrialLedger, Verifier, VerifyOutcome
from autosched.verify import stored
from autosched.verify.schedules import verify_one
from autosched.verify.verdict import Verdict
from measurements.emulator import HostCompilerMissing, HostFailure, check_ready
from measurements.trials.measurement import Provenance, Status
from measurements.trials.trial import Trial
from measurements.trials.vendor_library import is_library
from search_spaces.search_task import SearchTask
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.sum_order import OrderRule
from search_spaces.sum_orders.orders import sum_order

FullVerifier = Callable[[Schedule, float], VerifyOutcome]  # the second argument is the time limit in seconds


@dataclass(frozen=True)
class Verifiers:
    """Verification for runners that do not compare kernel results with a reference themselves.

    Attributes:
        new_best: Function that verifies each new best trial; None for no verification.
        winner: Function that verifies the final best trial in full; None for no verification.
        line: Message if nothing can be verified; "" otherwise.
    """

    new_best: Verifier | None = None
    winner: FullVerifier | None = None
    line: str = ""


def verifiers(task: SearchTask, backend: Backend, order: OrderRule | None = None) -> Verifiers:
    """Return the verifiers of a search.

    With an ``order``, the winner is verified even if the kernels run on a GPU. If the rule requires batch invariance,
    the winner's batch invariance is also verified.

    Args:
        task: Task of the search.
        backend: Backend that times candidates.
        order: Rule on the order of sums; None if every order is allowed.

    Returns:
        The verifiers: ``new_best`` for each new best schedule, ``winner`` for the best at the end. Both are None if
        there is no compiler for the emulator. If times were measured on a GPU (now or in a recording), ``new_best`` is
        None, and ``winner`` is None unless there is an ``order``.

    Raises:
        ValueError: The emulator cannot be used although a compiler is installed.
    """
    runs_kernels = backend.runner.provenance is not Provenance.ESTIMATED
    if runs_kernels and order is None:
        return Verifiers()
    try:
        check_ready()
    except HostCompilerMissing as error:
        return Verifiers(line=f"new best schedules are not verified: {error}")
    except HostFailure as error:
        raise ValueError(f"new best schedules cannot be verified here: {error}; or use --no-verify") from error

    def new_best(schedule: Schedule) -> Verdict:
        return verify_one(task.templates.of(schedule), task.problem, schedule, task.device)

    def winner(schedule: Schedule, seconds: float) -> Verdict:
        template = task.templates.of(schedule)
        verdict = verify_one(
            template, task.problem, schedule, task.device, depth="quick" if runs_kernels else "full", budget=seconds,
            batch_invariant=order is not None and order.batch_invariant,
        )  # fmt: skip
        if order is None or not verdict.ok:
            return verdict
        return replace(verdict, order=sum_order(template, task.problem, schedule, task.device))

    return Verifiers(None if runs_kernels else new_best, winner)


def verify_best(ledger: TrialLedger, full: FullVerifier, seconds: float) -> str:
    """Verify the best trial in full. If it fails, continue with the next best.

    Args:
        ledger: Ledger of the run.
        full: Function that verifies one schedule within a time limit.
        seconds: Time limit for all verifications together, in seconds.

    Returns:
        One line on the outcome; "" if there was no verification.
    """
    until, failed = time.monotonic() + seconds, 0
    while ledger.best is not None and not is_library(ledger.best.schedule):
        best = ledger.best
        if _has_full_verification(ledger, best) and _has_order(ledger, best):
            return "the best schedule is already verified in full"
        remaining = until - time.monotonic()
        if failed and remaining <= 0:
            failures = f"{failed} previous {_plural(failed, 'best')} failed the full verification"
            return f"{failures}; the time limit was reached before the next best schedule was verified"

        def within(schedule: Schedule, remaining: float = remaining) -> VerifyOutcome:
            return full(schedule, remaining)

        measurement = ledger.judged(best.schedule, best.measurement, within)
        verification = ledger.verifications.get(best.schedule)
        if measurement.ok:
            if verification is None or best.kernel_digest is None:
                return ""
            ledger.keep_verification(best, verification)
            summary = stored.summary(verification)
            return f"{summary}; {failed} faster {_plural(failed, 'one')} failed" if failed else summary
        if (
            measurement.status is Status.UNVERIFIED
        ):  # inconclusive, so the trial, which passed the quick verification, remains the best
            return f"no verdict: {measurement.reason}"
        failed += 1
        ledger.mark_wrong(best, measurement)
    return ""


def _has_full_verification(ledger: TrialLedger, trial: Trial) -> bool:
    if not stored.is_full(trial.verification):
        return False
    try:
        kernel = ledger.candidate(trial.schedule).kernel
    except ValueError:  # skip a trial from an earlier version of the code
        return False
    return stored.stale_reason(trial.verification, kernel) == ""


def _has_order(ledger: TrialLedger, trial: Trial) -> bool:
    """Return True if the stored verification of a trial also covers the rule on the order of sums."""
    rule = ledger.run.order
    if rule is None:
        return True
    invariant = stored.is_batch_invariant(trial.verification) or not rule.batch_invariant
    return invariant and stored.order(trial.verification) is not None


def _plural(n: int, noun: str) -> str:
    return noun if n == 1 else f"{noun}s"
