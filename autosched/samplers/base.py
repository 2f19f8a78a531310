"""What every sampler offers, and the bookkeeping that they share."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

from measurements.records.measurement import Measurement
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.search_space import SearchSpace

_FIRST_DRAW = 256


def differences(a: Schedule, b: Schedule) -> int:
    """In how many parameters two schedules of a space differ: all of them for different templates."""
    if a.template != b.template:
        return max(len(a.items), len(b.items))
    return sum(x != y for x, y in zip(a.items, b.items, strict=True))


def spread_out(ranked: Sequence[Schedule], n: int, distance: int) -> list[Schedule]:
    """Return the first ``n`` that differ from each other in ``distance`` parameters; then the first of the others."""
    chosen: list[Schedule] = []
    others: list[Schedule] = []
    for schedule in ranked:
        if len(chosen) == n:
            break
        near = any(differences(schedule, c) < distance for c in chosen)
        (others if near else chosen).append(schedule)
    return [*chosen, *others][:n]


class Sampler(ABC):
    """Proposes schedules of one space and learns from what came of them. The contract, which one test class checks:

    - ``ask(n)`` gives at most n schedules, all legal and all different. None has been asked or told before. It gives
      fewer than n only when there are no others left, and so an empty list means that the space is exhausted.
    - ``tell`` takes one result: of an asked schedule, in any order and any time later, or of one never asked. The
      latter is how earlier trials are restored: a new sampler that is told everything an old one was told proposes
      none of it again and has learned as much. Telling one schedule again is a repeated measurement.
    - A failure is told too. It never counts as a time, least of all as a good one.
    - The same space, seed and calls give the same proposals, on any machine with the same versions. There is no other
      state: no clock, no global generator, no hash order.
    """

    name: str
    """What the command line calls it."""

    @abstractmethod
    def ask(self, n: int) -> list[Schedule]:
        """At most ``n`` schedules to try next. Raises ValueError for a negative n."""

    @abstractmethod
    def tell(self, schedule: Schedule, measurement: Measurement) -> None:
        """Learn the result of a schedule."""

    @property
    def expected_gain(self) -> float:
        """Expected relative improvement of the last proposal over the best time; infinite if unknown."""
        return math.inf

    @property
    def num_guessed(self) -> int:
        """Number of schedules whose time a model guessed in order to propose the best of them."""
        return 0

    @property
    def batch(self) -> int:
        """How many proposals cost about as much as one."""
        return 1

    def proposer(self, schedule: Schedule) -> str:
        """Return the name that records keep as the source of ``schedule``: this sampler's, or that of whoever advised
        it."""
        return self.name


class UnvisitedPool:
    """The legal schedules that have neither been asked nor told, in one random order."""

    def __init__(self, space: SearchSpace, seed: int) -> None:
        self._space = space
        self._seed = seed
        self._seen: set[str] = set()
        self._order: list[Schedule] = []
        self._next = 0

    def check(self, n: int) -> None:
        """Raise ValueError for a negative count."""
        if n < 0:
            raise ValueError(f"cannot ask for {n} schedules: use 0 or more")

    def __contains__(self, schedule: Schedule) -> bool:
        return schedule.key() not in self._seen

    @property
    def seen(self) -> int:
        """How many schedules have been asked or told."""
        return len(self._seen)

    def remove(self, schedule: Schedule) -> None:
        """Count a schedule as seen."""
        self._seen.add(schedule.key())

    def draw(self, n: int) -> list[Schedule]:
        """Return the next ``n`` schedules and count them as seen; fewer where there are no more. Raises ValueError for
        a negative ``n``."""
        self.check(n)
        drawn: list[Schedule] = []
        while len(drawn) < n:
            if self._next == len(self._order) and not self._extend():
                break
            schedule = self._order[self._next]
            self._next += 1
            if schedule in self:
                self.remove(schedule)
                drawn.append(schedule)
        return drawn

    def _extend(self) -> bool:
        """Make the random order longer. A longer sample of a space begins with the shorter one of the same seed."""
        before = len(self._order)
        self._order = self._space.sample(max(_FIRST_DRAW, 2 * before), self._seed)
        return len(self._order) > before
