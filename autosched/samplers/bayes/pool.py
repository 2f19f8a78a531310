"""The schedules among which an acquisition looks for the next trial: a whole small space, or a living part of a large
one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from cost_models.covariance import Columns, Grid
from search_spaces.arrays import BoolArray, IntArray
from search_spaces.spaces.schedule import Schedule


class Pool:
    """The ``schedules`` of a ``whole`` space; else random ones, whose worst make way for others.

    ``places`` are their coordinates, float32 [d, n], and ``grid`` those of a whole space; ``seen`` says which need not
    be proposed any more.
    """

    def __init__(self, schedules: list[Schedule], whole: bool, places: Callable[[Sequence[Schedule]], Columns]) -> None:
        self._places = places
        self.whole = whole
        self.schedules = schedules
        self.places = places(schedules)
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

    def put(self, positions: IntArray, schedules: Sequence[Schedule]) -> Columns:
        """Replace what is at ``positions`` by ``schedules`` that the pool does not have; their coordinates [d, k]."""
        for position, schedule in zip(positions.tolist(), schedules, strict=True):
            del self._position[self.schedules[position]]
            self.schedules[position] = schedule
            self._position[schedule] = position
        self.seen[positions] = False
        places = self._places(schedules)
        self.places[:, positions] = places
        return places
