"""The schedules among which an acquisition looks for the next trial: a whole small space, or a living part of a large
one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from autosched.search.coordinates import Coordinates
from cost_models.covariance import Grid, coordinates
from search_spaces.arrays import BoolArray, IntArray
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.search_space import SearchSpace


class Pool:
    """All schedules of a space that has no more than ``whole``; else ``living`` random ones, whose worst make way for
    others.

    ``places`` are their coordinates, float32 [d, n], and ``grid`` those of a whole space; ``seen`` says which need not
    be proposed any more.
    """

    def __init__(self, space: SearchSpace, columns: Coordinates, seed: int, whole: int, living: int) -> None:
        self._columns = columns
        self.whole = space.count() <= whole
        self.schedules = space.sample(whole if self.whole else living, seed)
        self.places = coordinates(columns.of(self.schedules))
        self.grid = Grid(self.places) if self.whole else None
        self.seen: BoolArray = np.zeros(len(self.schedules), dtype=np.bool_)
        self._position = {schedule: i for i, schedule in enumerate(self.schedules)}

    def see(self, schedules: Iterable[Schedule]) -> None:
        """Mark schedules as seen, where the pool has them."""
        for schedule in schedules:
            position = self._position.get(schedule)
            if position is not None:
                self.seen[position] = True

    def missing(self, schedules: Iterable[Schedule]) -> list[Schedule]:
        """Those that the pool does not have, each once."""
        return [s for s in dict.fromkeys(schedules) if s not in self._position]

    def put(self, positions: IntArray, schedules: Sequence[Schedule]) -> npt.NDArray[np.float32]:
        """Replace what is at ``positions`` by ``schedules`` that the pool does not have; their coordinates [d, k]."""
        for position, schedule in zip(positions.tolist(), schedules, strict=True):
            del self._position[self.schedules[position]]
            self.schedules[position] = schedule
            self._position[schedule] = position
        self.seen[positions] = False
        places = coordinates(self._columns.of(schedules))
        self.places[:, positions] = places
        return places
