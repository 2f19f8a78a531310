"""The contract of a sampler, and the bookkeeping that samplers share."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

from measurements.trials.measurement import Measurement
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.search_space import SearchSpace

_FIRST_DRAW = 256


def differences(a: Schedule, b: Schedule) -> int:
    """Return in how many parameters two schedules of a space differ: in all of them for different templates."""
    if a.template != b.template:
        return max(len(a.items), len(b.items))
    return sum(x != y for x, y in zip(a.items, b.items, strict=True))


def spread_out(ranked: Sequence[Schedule], n: int, distance: int) -> list[Schedule]:
    """Select schedules that differ from each other.

    Args:
        ranked: Schedules, the best first.
        n: Number of schedules to select.
        distance: Number of parameters in which they differ where possible.

    Returns:
        The first ``n`` that differ so from those before them, then the first of the others.
    """
    chosen: list[Schedule] = []
    others: list[Schedule] = []
    for schedule in ranked:
        if len(chosen) == n:
            break
        near = any(differences(schedule, c) < distance for c in chosen)
        (others if near else chosen).append(schedule)
    return [*chosen, *others][:n]


class Sampler(ABC):
    """Proposes schedules of one space and learns from their results.

    The contract, which ``autosched.testing.SamplerContract`` checks:

    - ``ask(n)`` returns at most n schedules, all legal and all different. None was proposed or reported before. It
      returns fewer than n only when no others remain, so an empty list means that the space is exhausted.
    - ``tell`` reports one result: of a proposed schedule, in any order and at any later time, or of one never proposed.
      The latter restores earlier trials: a new sampler to which the same results are reported proposes none of them
      again and has learned as much. A second result of one schedule is a repeated measurement.
    - A failure is reported, too. It never counts as a time.
    - The same space, seed and calls give the same proposals, on any machine with the same versions. There is no other
      state: no clock, no global generator, no hash order.

    Attributes:
        name: Name on the command line.
        has_controls: True if schedules with compiler controls are proposed and reported. They are in no space.
    """

    name: str
    has_controls: bool = False

    @abstractmethod
    def ask(self, n: int) -> list[Schedule]:
        """Propose the next trials.

        Args:
            n: Number of schedules, 0 or more.

        Returns:
            At most ``n`` schedules to try next.

        Raises:
            ValueError: ``n`` is negative.
        """

    @abstractmethod
    def tell(self, schedule: Schedule, measurement: Measurement) -> None:
        """Report a result.

        Args:
            schedule: Schedule that was tried.
            measurement: Its time, or its failure.
        """

    def consider(self, schedules: Sequence[Schedule]) -> None:  # noqa: B027 - most samplers need no candidates
        """Offer schedules of the space, the most promising first, which may be proposed earlier than others.

        Call it before the first proposal.
        """

    def prepare(self) -> None:  # noqa: B027 - most samplers have nothing to prepare
        """Compute what proposals need and no result changes, while trials are in flight. Proposals stay the same."""

    @property
    def expected_gain(self) -> float:
        """Expected relative improvement of the last proposal over the best time; infinite if unknown."""
        return math.inf

    @property
    def num_guessed(self) -> int:
        """Number of schedules whose times were estimated in order to propose the best of them."""
        return 0

    @property
    def batch(self) -> int:
        """Number of proposals that together cost about as much as one."""
        return 1

    def proposer(self, schedule: Schedule) -> str:
        """Return the name that trials keep as the source of ``schedule``: the sampler's or the adviser's."""
        return self.name


class UnvisitedPool:
    """The legal schedules that were neither proposed nor reported, in one random order.

    Args:
        space: Legal schedules.
        seed: Random seed.
    """

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
        """Number of schedules that were proposed or reported."""
        return len(self._seen)

    def remove(self, schedule: Schedule) -> None:
        """Mark a schedule as seen."""
        self._seen.add(schedule.key())

    def draw(self, n: int) -> list[Schedule]:
        """Return the next schedules and mark them as seen.

        Args:
            n: Number of schedules; fewer are returned if no more remain.

        Raises:
            ValueError: ``n`` is negative.
        """
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
