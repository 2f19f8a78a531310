"""Union of the spaces of several kernel templates, as one space to search.

Every schedule belongs to exactly one template, so the counts of the spaces are added. A uniform sample of the union
would be of little use to a search: one template or tensor intrinsic may have a thousand times as many schedules as
another, faster one. So samples are stratified by the parameter ``stratified_by`` of each space.
"""

from __future__ import annotations

import hashlib
import heapq
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from search_spaces.spaces import neighbourhood
from search_spaces.spaces.ranks import draw_ranks
from search_spaces.spaces.rules import Violation
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.search_space import Stratum
from search_spaces.spaces.space import EmptySpace, Space

# probability that a mutant is a random schedule of another stratum, which keeps every stratum reachable
JUMP = 0.05


class UnionSpace:
    """Space of all schedules of ``spaces``, which are the spaces of different templates.

    Raises:
        ValueError: There are no spaces, or two spaces have the same template.
    """

    def __init__(self, spaces: Iterable[Space]) -> None:
        spaces = tuple(spaces)
        self.members: Mapping[str, Space] = {space.name: space for space in spaces}
        if not spaces:
            raise ValueError("a union needs at least one space")
        if len(self.members) < len(spaces):
            raise ValueError(f"two spaces have the same template: {', '.join(s.name for s in spaces)}")

    def __repr__(self) -> str:
        return f"UnionSpace({', '.join(self.members)})"

    # -- counting and sampling -----------------------------------------------------------------------------------

    @cached_property
    def strata(self) -> tuple[Stratum, ...]:
        """Strata of all spaces of the union."""
        return tuple(stratum for member in self.members.values() for stratum in member.strata)

    def count(self) -> int:
        """Return the total number of schedules of all spaces."""
        return sum(stratum.count for stratum in self.strata)

    def sample(self, n: int, seed: int, replace: bool = False) -> list[Schedule]:
        """Return ``n`` random schedules. A seed gives the same schedules on every machine.

        The sample begins with one schedule of each stratum. Further schedules are drawn from the strata in proportion
        to their shares. Within a stratum, all schedules are equally likely. If all schedules of a stratum have been
        drawn, other strata are drawn instead. Raises EmptySpace if no schedule is legal, and ValueError for a negative
        ``n`` or ``seed``.
        """
        self._refuse_empty()
        order = self._stratum_order(n, seed, replace)
        drawn_of = []
        for i, stratum in enumerate(self.strata):
            own_seed = np.random.SeedSequence([seed, i]).generate_state(1, np.uint64)
            drawn_of.append(iter(draw_ranks(stratum.count, order.count(i), int(own_seed[0]), replace)))
        return self._at([(i, next(drawn_of[i])) for i in order])

    def _stratum_order(self, n: int, seed: int, replace: bool) -> list[int]:
        """Return the index of the stratum for each of ``n`` draws.

        Draws are sorted by a virtual time. For draw j of a stratum, this time is j / share plus the stratum's random
        start.
        """
        draw_ranks(1, min(n, 0), seed)  # draws nothing, but raises ValueError if n or seed is negative
        starts = (np.random.PCG64(seed).random_raw(len(self.strata)) >> np.uint64(11)) * 2.0**-53
        waiting = [(float(start), i) for i, start in enumerate(starts)]
        heapq.heapify(waiting)
        num_taken, order = [0] * len(waiting), list[int]()
        while waiting and len(order) < n:
            _, i = heapq.heappop(waiting)
            order.append(i)
            num_taken[i] += 1
            if replace or num_taken[i] < self.strata[i].count:
                heapq.heappush(waiting, (num_taken[i] / self.strata[i].share + float(starts[i]), i))
        return order

    def _at(self, positions: Sequence[tuple[int, int]]) -> list[Schedule]:
        """Return the schedules at these positions, each (index of the stratum, rank within the stratum)."""

        def one_template(template: str, rows: list[int]) -> list[Schedule]:
            space = self.members[template]
            ranks = [self.strata[i].ranks.start + rank for i, rank in (positions[row] for row in rows)]
            return space.schedules(space.unrank(ranks))

        return self._by_template([self.strata[i].template for i, _ in positions], one_template)

    def _by_template(
        self, templates: Sequence[str], each: Callable[[str, list[int]], list[Schedule]]
    ) -> list[Schedule]:
        """Call ``each`` with every template and its positions in ``templates``. Return one schedule per position."""
        rows: dict[str, list[int]] = {name: [] for name in self.members}
        for row, name in enumerate(templates):
            rows[name].append(row)
        drawn: dict[int, Schedule] = {}
        for name, own in rows.items():
            if own:
                drawn.update(zip(own, each(name, own), strict=True))
        return [drawn[row] for row in range(len(templates))]

    def _refuse_empty(self) -> None:
        if self.strata:
            return
        reasons, rules = list[str](), list[str]()
        for member in self.members.values():
            try:
                member.sample(1, 0)
            except EmptySpace as error:
                reasons.append(str(error))
                rules += error.rules
        raise EmptySpace("; ".join(reasons), tuple(rules))

    # -- one schedule --------------------------------------------------------------------------------------------

    def _member(self, schedule: Schedule) -> Space:
        if schedule.template not in self.members:
            raise ValueError(
                f"this is a schedule of the template {schedule.template}: pass a schedule of {', '.join(self.members)}"
            )
        return self.members[schedule.template]

    def __contains__(self, schedule: object) -> bool:
        return isinstance(schedule, Schedule) and schedule in self.members.get(schedule.template, ())

    def explain(self, schedule: Schedule) -> list[Violation]:
        """Return the rules that the schedule violates in the space of its template."""
        return self._member(schedule).explain(schedule)

    # -- moves ---------------------------------------------------------------------------------------------------

    def neighbours(self, schedule: Schedule, limit: int | None = None) -> list[Schedule]:
        """Return the neighbours in the space of the schedule's template."""
        return self._member(schedule).neighbours(schedule, limit)

    def siblings(self, schedule: Schedule) -> list[Schedule]:
        """Return the siblings in the space of the schedule's template."""
        return self._member(schedule).siblings(schedule)

    def mutate(self, schedules: Sequence[Schedule], rng: np.random.Generator, rate: float = 0.15) -> list[Schedule]:
        """Return one mutant of each schedule.

        The mutant has the same template or, with probability ``JUMP``, is a random schedule of another stratum.
        """
        neighbourhood.check_rate(rate)
        jumps = (rng.random(len(schedules)) < JUMP).tolist()
        mutants = list(schedules)
        for row in range(len(schedules)):
            if jumps[row]:
                mutants[row] = self._elsewhere(schedules[row], rng)
        staying = [row for row, jumped in enumerate(jumps) if not jumped]

        def moved(template: str, rows: list[int]) -> list[Schedule]:
            return self.members[template].mutate([schedules[staying[row]] for row in rows], rng, rate)

        mutated = self._by_template([self._member(schedules[row]).name for row in staying], moved)
        for row, mutant in zip(staying, mutated, strict=True):
            mutants[row] = mutant
        return mutants

    def _elsewhere(self, schedule: Schedule, rng: np.random.Generator) -> Schedule:
        """Return a random schedule of a random other stratum; ``schedule`` if there is no other stratum."""
        member = self._member(schedule)
        values = tuple(schedule[name] for name in member.stratifying)
        other_strata = [i for i, s in enumerate(self.strata) if (s.template, s.values) != (schedule.template, values)]
        if not other_strata:
            return schedule
        stratum = other_strata[int(len(other_strata) * rng.random())]
        (rank,) = draw_ranks(self.strata[stratum].count, 1, int(rng.integers(2**62)))
        return self._at([(stratum, rank)])[0]

    def crossover(self, a: Sequence[Schedule], b: Sequence[Schedule], rng: np.random.Generator) -> list[Schedule]:
        """Return one child of each pair. If a pair's templates differ, its child is a mutant of the parent in ``a``."""
        neighbourhood.check_pairs(a, b)
        pairs = list(zip(a, b, strict=True))
        alike = [(one, other) for one, other in pairs if one.template == other.template]

        def crossed(template: str, rows: list[int]) -> list[Schedule]:
            first, second = zip(*(alike[row] for row in rows), strict=True)
            return self.members[template].crossover(first, second, rng)

        children = iter(self._by_template([self._member(one).name for one, _ in alike], crossed))
        mutants = iter(self.mutate([one for one, other in pairs if one.template != other.template], rng))
        return [next(children if one.template == other.template else mutants) for one, other in pairs]

    # -- for models and databases --------------------------------------------------------------------------------

    @cached_property
    def encoded_names(self) -> tuple[str, ...]:
        """Names of each template's columns, prefixed with the template's name and a dot."""
        return tuple(f"{name}.{column}" for name, member in self.members.items() for column in member.encoded_names)

    def encode(self, schedules: Sequence[Schedule]) -> npt.NDArray[np.float32]:
        """Encode schedules. A schedule has NaN in the columns of other templates."""
        encoded = np.full((len(schedules), len(self.encoded_names)), np.nan, dtype=np.float32)
        first = 0
        for name, member in self.members.items():
            rows = [row for row, schedule in enumerate(schedules) if self._member(schedule).name == name]
            width = len(member.encoded_names)
            encoded[rows, first : first + width] = member.encode([schedules[row] for row in rows])
            first += width
        return encoded

    @cached_property
    def fingerprint(self) -> str:
        """Version of the union: sha256 (hex) of the names and fingerprints of the spaces, in order."""
        content = [[name, member.fingerprint] for name, member in self.members.items()]
        return hashlib.sha256(json.dumps(content, separators=(",", ":")).encode()).hexdigest()
