"""Named efforts of a search: number of trials, smallest worthwhile gain, and time of the verification."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Effort:
    """Values of options that the user does not give.

    Attributes:
        trials: Number of trials.
        min_gain: Expected gain below which a search ends, as a fraction of the best time.
        verification_seconds: Time limit of the winner's full verification without a GPU, in seconds.
        model_first: If True, the first trial is the time model's choice.
    """

    trials: int
    min_gain: float
    verification_seconds: float
    model_first: bool = False


# model: no search, takes seconds. quick: ends when less than 2% gain is expected. full: may take an hour.
EFFORTS = {
    "model": Effort(1, 0.0, 0.0, model_first=True),
    "quick": Effort(24, 0.02, 15.0, model_first=True),
    "full": Effort(512, 0.002, 600.0),
}


def effort(name: str) -> Effort:
    """Return an effort by its name. Raises ValueError for an unknown one."""
    if name not in EFFORTS:
        raise ValueError(f"effort must be {', '.join(EFFORTS)}, got {name!r}")
    return EFFORTS[name]
