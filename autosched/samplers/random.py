"""Random sampling without replacement, as a baseline for other samplers."""

from __future__ import annotations

from autosched.samplers.base import Sampler, UnvisitedPool
from measurements.trials.measurement import Measurement
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.search_space import SearchSpace


class RandomSampler(Sampler):
    """Proposes a random sample: uniform for a single space, stratified for a union of spaces. Ignores results.

    Args:
        space: Schedules to propose.
        seed: Random seed.
    """

    name = "random"

    def __init__(self, space: SearchSpace, seed: int) -> None:
        self._unseen = UnvisitedPool(space, seed)

    def ask(self, n: int) -> list[Schedule]:
        """Return the next schedules of the random order."""
        return self._unseen.draw(n)

    def tell(self, schedule: Schedule, measurement: Measurement) -> None:
        """Mark the schedule as seen. The result is ignored."""
        self._unseen.remove(schedule)
