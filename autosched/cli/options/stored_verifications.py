"""For ``verify --db``: compare new verifications with the stored ones, and replace outdated verifications."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from autosched.verify import stored
from autosched.verify.verdict import Verdict
from measurements.store.errors import StoreError
from measurements.trials.trial import Trial, canonical_json

if TYPE_CHECKING:
    from measurements.store.store import Store


@dataclass(frozen=True)
class StoredVerification:
    """State of a stored verification before and after a new one.

    Attributes:
        before: Why the stored verification does not apply to the current kernel; "" if it applies.
        now: "holds" (the stored verification is kept), "deepened" (a full verification replaced a quick one), "renewed"
            (the new verification replaced one that no longer applied), "stored" (there was none before), or "not
            stored".
        why: Reason for "not stored".
    """

    before: str
    now: Literal["holds", "deepened", "renewed", "stored", "not stored"]
    why: str = ""


def keep_verification(store: Store, trial: Trial, verdict: Verdict) -> StoredVerification:
    """Store a new verification of a trial's schedule if the stored one is outdated, or covers less than the new one.

    Args:
        store: Database of the trial.
        trial: Trial with its stored verification, if any.
        verdict: New verification of the same schedule.

    Returns:
        The state of the stored verification before and after this call.
    """
    if verdict.kernel is None:
        return StoredVerification("", "not stored", "the schedule's kernel could not be generated")
    before = stored.stale_reason(trial.verification, verdict.kernel)
    kernel = verdict.kernel
    required = stored.order(trial.verification)
    # the trial requires an order of sums, which the new verification did not check
    if required is not None and verdict.order is None:
        if before and stored.is_batch_invariant(trial.verification):
            return StoredVerification(
                before, "not stored", "the stored schedule is batch-invariant: give --batch-invariant"
            )
        verdict = replace(verdict, order=required, batch_invariant=stored.is_batch_invariant(trial.verification))
    if not verdict.ok:
        return StoredVerification(before, "not stored", "the schedule fails")
    if kernel.digest != trial.kernel_digest:
        return StoredVerification(
            before, "not stored", "the schedule's kernel has changed since it was timed: tune the problem again"
        )
    deeper = verdict.depth == stored.FULL and verdict.whole and not stored.is_full(trial.verification)
    invariant = verdict.batch_invariant and not stored.is_batch_invariant(trial.verification)
    if not before and not deeper and not invariant:
        return StoredVerification("", "holds")
    try:
        store.set_verification(trial, canonical_json(verdict.stored()))
    except StoreError as error:
        return StoredVerification(before, "not stored", str(error))
    if not before:
        return StoredVerification("", "deepened")
    return StoredVerification(before, "stored" if trial.verification is None else "renewed")


def verification_lines(verifications: Sequence[StoredVerification]) -> list[str]:
    """Return lines of text: the number of verifications in each state, with the reason for the state."""
    kinds = Counter((p.now, p.why or p.before) for p in verifications)
    return [
        f"stored verifications: {n} {now}" + (f" ({reason})" if reason else "") for (now, reason), n in kinds.items()
    ]
