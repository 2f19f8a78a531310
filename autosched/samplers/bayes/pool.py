"""Candidates of the acquisition function: all schedules of a small space, or a changing sample of a large space."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from cost_models.covariance import Columns, Grid
from search_spaces.arrays import BoolArray, FloatArray, IntArray
from search_spaces.spaces.schedule import Schedule


class Pool:
    """Candidates of the acquisition function: a whole space, or a sample whose worst schedules are replaced.

    Args:
        schedules: Schedules of the pool.
        whole: True if ``schedules`` is the whole space.
        coordinates_of: Function that computes the coordinates of schedules, float32 [d, n].

    Attributes:
        coordinates: Coordinates of the schedules, float32 [d, n].
        grid: The same coordinates as a ``Grid`` if the pool is the whole space; else None.
        seen: True for each schedule that was proposed or reported, [n].
        modules: Id of each schedule's compiled module, [n].
    """

    def __init__(
        self,
        schedules: list[Schedule],
        whole: bool,
        coordinates_of: Callable[[Sequence[Schedule]], Columns],
        module_of: Callable[[Schedule], int],
    ) -> None:
        self._coordinates_of, self._module_of = coordinates_of, module_of
        self.whole = whole
        self.schedules = schedules
        self.coordinates = coordinates_of(schedules)
        self.grid = Grid(self.coordinates) if self.whole else None
        self.seen: BoolArray = np.zeros(len(self.schedules), dtype=np.bool_)
        self.modules: IntArray = np.array([module_of(s) for s in schedules], dtype=np.int64)
        self._position = {schedule: i for i, schedule in enumerate(self.schedules)}

    def see(self, schedules: Iterable[Schedule]) -> None:
        """Mark schedules as seen. Schedules outside the pool are ignored."""
        for schedule in schedules:
            position = self._position.get(schedule)
            if position is not None:
                self.seen[position] = True

    def missing(self, schedules: Iterable[Schedule]) -> list[Schedule]:
        """Return the given schedules that are not in the pool, without repetitions."""
        return [s for s in dict.fromkeys(schedules) if s not in self._position]

    def promising(self, worth: FloatArray, compiled: BoolArray, most: int) -> IntArray:
        """Return the positions of the schedules from which a batch is chosen.

        Args:
            worth: Acquisition value of each schedule.
            compiled: True for each schedule whose module is compiled.
            most: Return this many schedules with the largest acquisition values. In addition, return the best
                ``most // 2`` schedules with compiled modules.
        """
        order = np.argsort(-worth, kind="stable")
        positions: IntArray = np.union1d(order[:most], order[compiled[order]][: most // 2]).astype(np.int64)
        return positions

    def put(self, positions: IntArray, schedules: Sequence[Schedule]) -> Columns:
        """Replace the schedules at ``positions`` by new schedules, and return the new coordinates, [d, k]."""
        for position, schedule in zip(positions.tolist(), schedules, strict=True):
            del self._position[self.schedules[position]]
            self.schedules[position] = schedule
            self._position[schedule] = position
        self.seen[positions] = False
        self.modules[positions] = [self._module_of(schedule) for schedule in schedules]
        coordinates = self._coordinates_of(schedules)
        self.coordinates[:, positions] = coordinates
        return coordinates
