"""The contract of samplers, and functions that they share."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

from measurements.trials.measurement import Measurement
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.search_space import SearchSpace

_FIRST_DRAW = 256


def differences(a: Schedule, b: Schedule) -> int:
    """Count the parameters in which two schedules of a space differ; for different templates all parameters count."""
    if a.template != b.template:
        return max(len(a.items), len(b.items))
    return sum(x != y for x, y in zip(a.items, b.items, strict=True))


def spread_out(ranked: Sequence[Schedule], n: int, distance: int) -> list[Schedule]:
    """Select schedules that differ from each other.

    Args:
        ranked: Schedules, the best first.
        n: Number of schedules to select.
        distance: Minimum number of parameters in which selected schedules differ, if possible.

    Returns:
        ``n`` schedules. In the order of ``ranked``, a schedule is selected if it differs enough from all schedules that
        were selected before. If fewer than ``n`` schedules are selected in this way, the best remaining schedules are
        added.
    """
    chosen: list[Schedule] = []
    similar: list[Schedule] = []
    for schedule in ranked:
        if len(chosen) == n:
            break
        near = any(differences(schedule, c) < distance for c in chosen)
        (similar if near else chosen).append(schedule)
    return [*chosen, *similar][:n]


class Sampler(ABC):
    """Proposes schedules of one space and learns from their results.

    The contract, which ``autosched.testing.SamplerContract`` checks:

    - ``ask(n)`` returns at most n schedules. They are legal, all different, and were not proposed or reported before.
    Fewer than n schedules are returned only if no other schedules remain, so an empty list means that the space is
    exhausted.
    - ``tell`` reports one result. Results may come in any order, and may be of schedules that were never proposed. This
    allows resuming a search: a new sampler to which the same results are reported does not propose these schedules
    again, and has learned as much as the old sampler. A second result of a schedule is a repeated measurement.
    - Failures are reported, too. A failure never counts as a time.
    - The same space, seed and calls give the same proposals on every machine with the same software versions. Proposals
    must not depend on a clock, a global random generator, or the order of hashes.

    Attributes:
        name: Name on the command line.
        has_controls: True if the sampler also proposes schedules with compiler controls, which are not part of the
            space.
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
            measurement: Time or failure of the schedule.
        """

    def consider(self, schedules: Sequence[Schedule]) -> None:  # noqa: B027 - most samplers need no candidates
        """Suggest schedules of the space, the most promising first. The sampler may give them priority.

        Must be called before the first proposal.
        """

    def prepare(self) -> None:  # noqa: B027 - most samplers have nothing to prepare
        """While trials are in flight, do work that does not depend on their results. This does not change proposals."""

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
        """Number of proposals that cost the sampler about as much as a single one."""
        return 1

    def proposer(self, schedule: Schedule) -> str:
        """Return the name of the sampler or adviser that proposed ``schedule``, which is stored in trials."""
        return self.name


class UnvisitedPool:
    """Legal schedules that were neither proposed nor reported yet, in random order.

    Args:
        space: Space of legal schedules.
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
        """Extend the random order. With the same seed, a longer sample of the space begins with the shorter sample."""
        before = len(self._order)
        self._order = self._space.sample(max(_FIRST_DRAW, 2 * before), self._seed)
        return len(self._order) > before
