"""Limits of a search, and the name of its sampler."""

from __future__ import annotations

import math
from dataclasses import dataclass

from autosched.samplers import DEFAULT
from autosched.tuning.winner import paired_timing

TRIALS = 64  # default number of trials; a search takes some minutes on a GPU
VERIFICATION_SECONDS = 60.0  # default time limit of the winner's full verification, in seconds


@dataclass(frozen=True, kw_only=True)
class SearchPlan:
    """Limits of a run, derived from the options, the effort and the backend.

    Attributes:
        trials: Number of further trials.
        sampler: Name of the sampler.
        seconds: Time in seconds after which no trials are proposed; infinite for no limit.
        min_gain: The search ends after UNPROMISING (8) consecutive proposals, each of which is expected to shorten the
            best time by less than this fraction.
        verification_seconds: Time limit of the full verification at the end, in seconds; 0 skips it.
        final_seconds: Time after which no round of paired timing is added, in seconds.
        model_first: If True, the first trial is the schedule that the time model chooses.
        search_model: If True, the time model ranks the schedules first, and only the schedules that it ranks best are
            tried.
    """

    trials: int = TRIALS
    sampler: str = DEFAULT
    seconds: float = math.inf
    min_gain: float = 0.0
    verification_seconds: float = VERIFICATION_SECONDS
    final_seconds: float = paired_timing.SECONDS
    model_first: bool = False
    search_model: bool = False
