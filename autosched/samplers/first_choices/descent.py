"""Steps from random schedules to neighbours that a prior guesses to be faster; nothing is tried."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autosched.samplers.base import Prior, spread_out
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.search_space import SearchSpace

STARTS = 8  # from each of which a descent takes some 150 to 300 guesses
_DISTANCE = 6  # parameters in which they differ where possible: the best of a sample are often much the same
_NEIGHBOURS = 256  # looked at in a step
_STEPS = 32


def descended(space: SearchSpace, prior: Prior, starts: Sequence[Schedule]) -> list[Schedule]:
    """Where steepest descents by the guesses of ``prior`` end that begin at its best STARTS of ``starts`` that are not
    much the same: different schedules, the best guess first. None where it guesses nothing, or only failures."""
    guesses = prior.log_seconds(starts)
    if guesses is None:
        return []
    order = [i for i in np.argsort(guesses, kind="stable").tolist() if np.isfinite(guesses[i])]
    guess_of = {starts[i]: float(guesses[i]) for i in order}
    ends: dict[Schedule, float] = {}
    for start in spread_out(list(guess_of), STARTS, _DISTANCE):
        here, guess = start, guess_of[start]
        for _ in range(_STEPS):
            near = space.neighbours(here, _NEIGHBOURS)
            found = prior.log_seconds(near)
            if found is None or not len(found) or not found.min() < guess:
                break
            here, guess = near[int(found.argmin())], float(found.min())
        ends[here] = guess
    return sorted(ends, key=lambda schedule: ends[schedule])
