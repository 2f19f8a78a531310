"""Presets of a search's effort: number of trials, smallest worthwhile gain, and time limit of the verification."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Effort:
    """Preset values, used for options that the user omits.

    Attributes:
        trials: Number of trials.
        min_gain: The search ends if the expected gain is smaller than this fraction of the best time.
        verification_seconds: Time limit of the winner's full verification (only without a GPU), in seconds.
        model_first: If True, the first trial is the time model's choice.
    """

    trials: int
    min_gain: float
    verification_seconds: float
    model_first: bool = False


# "model" does not search and takes seconds. "quick" ends when the expected gain is below 2%. "full" may take an hour.
EFFORTS = {
    "model": Effort(1, 0.0, 0.0, model_first=True),
    "quick": Effort(24, 0.02, 15.0, model_first=True),
    "full": Effort(512, 0.002, 600.0),
}


def effort(name: str) -> Effort:
    """Return the preset of this name. Raises ValueError for an unknown name."""
    if name not in EFFORTS:
        raise ValueError(f"effort must be {', '.join(EFFORTS)}, got {name!r}")
    return EFFORTS[name]
