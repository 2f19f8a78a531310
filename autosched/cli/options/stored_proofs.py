"""What ``verify --db`` does with the proofs that a database keeps: says which hold, and renews the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from autosched.verify import stored
from autosched.verify.verdict import Verdict
from measurements.store.errors import StoreError
from measurements.trials.trial import Trial, canonical_json

if TYPE_CHECKING:
    from measurements.store.store import Store


@dataclass(frozen=True)
class StoredProof:
    """``before`` says why the stored proof says nothing of the kernel as it is today, "" where it does. ``now``: it
    "holds", was "deepened" (a full proof in place of a quick one), "renewed", or "stored" where there was none; or it
    was "not stored", for the reason ``why``."""

    before: str
    now: Literal["holds", "deepened", "renewed", "stored", "not stored"]
    why: str = ""


def keep_proof(store: Store, record: Trial, made: Verdict) -> StoredProof:
    """Compare the proof of ``record`` with ``made``, a new one of its schedule, and keep that where it says more."""
    if made.kernel is None:
        return StoredProof("", "not stored", "its kernel could not be generated")
    before = stored.stale_reason(record.proof, made.kernel)
    if not made.ok:
        return StoredProof(before, "not stored", "it fails")
    if made.kernel.digest != record.kernel_digest:
        return StoredProof(before, "not stored", "its kernel has changed since it was timed: tune the problem again")
    deeper = made.depth == stored.FULL and made.whole and not stored.is_full(record.proof)
    if not before and not deeper:
        return StoredProof("", "holds")
    try:
        store.set_proof(record, canonical_json(made.stored()))
    except StoreError as error:
        return StoredProof(before, "not stored", str(error))
    if not before:
        return StoredProof("", "deepened")
    return StoredProof(before, "stored" if record.proof is None else "renewed")


def proof_lines(found: Sequence[StoredProof]) -> list[str]:
    """Return what was stored, for people: how many of each kind, each with its reason once."""
    kinds = Counter((p.now, p.why or p.before) for p in found)
    return [f"stored proofs: {n} {now}" + (f" ({reason})" if reason else "") for (now, reason), n in kinds.items()]
