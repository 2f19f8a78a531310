"""What ``verify --db`` does with the verifications that a database keeps: says which hold, and renews the others."""

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
    """``before`` says why the stored verification says nothing of the kernel as it is today, "" where it does. ``now``:
    it "holds", was "deepened" (a full verification in place of a quick one), "renewed", or "stored" where there was
    none; or it was "not stored", for the reason ``why``."""

    before: str
    now: Literal["holds", "deepened", "renewed", "stored", "not stored"]
    why: str = ""


def keep_verification(store: Store, trial: Trial, made: Verdict) -> StoredVerification:
    """Compare the verification of ``trial`` with ``made``, a new one of its schedule, and keep that where it says
    more."""
    if made.kernel is None:
        return StoredVerification("", "not stored", "its kernel could not be generated")
    before = stored.stale_reason(trial.verification, made.kernel)
    kernel = made.kernel
    required = stored.order(trial.verification)
    if required is not None and made.order is None:  # what the new verification did not look at
        if before and stored.is_batch_invariant(trial.verification):
            return StoredVerification(before, "not stored", "it is batch-invariant: give --batch-invariant")
        made = replace(made, order=required, batch_invariant=stored.is_batch_invariant(trial.verification))
    if not made.ok:
        return StoredVerification(before, "not stored", "it fails")
    if kernel.digest != trial.kernel_digest:
        return StoredVerification(
            before, "not stored", "its kernel has changed since it was timed: tune the problem again"
        )
    deeper = made.depth == stored.FULL and made.whole and not stored.is_full(trial.verification)
    invariant = made.batch_invariant and not stored.is_batch_invariant(trial.verification)
    if not before and not deeper and not invariant:
        return StoredVerification("", "holds")
    try:
        store.set_verification(trial, canonical_json(made.stored()))
    except StoreError as error:
        return StoredVerification(before, "not stored", str(error))
    if not before:
        return StoredVerification("", "deepened")
    return StoredVerification(before, "stored" if trial.verification is None else "renewed")


def verification_lines(found: Sequence[StoredVerification]) -> list[str]:
    """Return what was stored, for people: how many of each kind, each with its reason once."""
    kinds = Counter((p.now, p.why or p.before) for p in found)
    return [
        f"stored verifications: {n} {now}" + (f" ({reason})" if reason else "") for (now, reason), n in kinds.items()
    ]
