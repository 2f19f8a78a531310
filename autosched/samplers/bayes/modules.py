"""Compiled modules of a search: which schedules share a module, and which modules have a fast schedule."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from search_spaces.arrays import BoolArray, IntArray
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.search_space import SearchSpace


class CompiledModules:
    """Numbering of compiled modules, with the best time of each module.

    Schedules that differ only in launch parameters (``Parameter.at_launch``) share a module. If one of these schedules
    has a time, the module has been compiled, and the other schedules need no compilation.

    Args:
        space: Space of the schedules.
        near: A module is fast if its best time is at most this multiple of the best time so far.
    """

    def __init__(self, space: SearchSpace, near: float) -> None:
        self._space, self._near = space, near
        self._coded = {
            name: [i for i, p in enumerate(member.parameters) if not p.at_launch]
            for name, member in space.members.items()
        }
        self._numbers: dict[tuple[object, ...], int] = {}
        self._best: dict[int, tuple[float, Schedule]] = {}
        self._least = math.inf
        self._swept: set[int] = set()  # numbers of the modules that earlier calls of ``siblings`` used

    def number(self, schedule: Schedule) -> int:
        """Return the id of the compiled module that contains a schedule."""
        items = schedule.items
        key = (schedule.template, *(items[i][1] for i in self._coded[schedule.template]))
        return self._numbers.setdefault(key, len(self._numbers))

    def note(self, schedule: Schedule, seconds: float) -> None:
        """Record the median time of a schedule."""
        module = self.number(schedule)
        self._least = min(self._least, seconds)
        if module not in self._best or seconds < self._best[module][0]:
            self._best[module] = seconds, schedule

    def _fast(self) -> list[int]:
        """Return the ids of the fast modules, the fastest first."""
        bound = self._near * self._least
        return [module for _, module in sorted((s, m) for m, (s, _) in self._best.items() if s <= bound)]

    def are_fast(self, modules: IntArray) -> BoolArray:
        """Return a mask of ``modules``: True for each id of a fast module."""
        fast = np.zeros(len(self._numbers), dtype=np.bool_)
        fast[self._fast()] = True
        mask: BoolArray = fast[modules]
        return mask

    def siblings(self, n: int) -> Sequence[Schedule]:
        """Return the other schedules of the n fastest modules that no earlier call used.

        The fastest schedule of each module is omitted.
        """
        schedules: list[Schedule] = []
        for module in [module for module in self._fast() if module not in self._swept][:n]:
            self._swept.add(module)
            schedules += self._space.siblings(self._best[module][1])
        return schedules
