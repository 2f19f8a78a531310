"""How much a search may cost, in one word: what it means in trials, in gain that is still worth it, and in proof."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Effort:
    """``min_gain`` is that of ``tune``; ``proof_seconds`` what the full proof of the winner may take without a GPU.
    With ``model_first`` the time model's own choice is the first trial."""

    trials: int
    min_gain: float
    proof_seconds: float
    model_first: bool = False


# model: seconds, nothing is searched. quick: as long as a proposal promises 2%. full: an hour is no matter.
EFFORTS = {
    "model": Effort(1, 0.0, 0.0, model_first=True),
    "quick": Effort(24, 0.02, 15.0, model_first=True),
    "full": Effort(512, 0.002, 600.0),
}


def effort(name: str) -> Effort:
    """Raise ValueError for an unknown name."""
    if name not in EFFORTS:
        raise ValueError(f"effort must be {', '.join(EFFORTS)}, not {name!r}")
    return EFFORTS[name]


def settings(name: str | None, trials: int | None, **others: Any) -> tuple[int | None, dict[str, Any]]:
    """Trials and other settings of an effort; what is given itself goes before it."""
    if name is None:
        return trials, others
    its = effort(name)
    values = {"min_gain": its.min_gain, "proof_seconds": its.proof_seconds}
    return its.trials if trials is None else trials, {k: values[k] if v is None else v for k, v in others.items()}
