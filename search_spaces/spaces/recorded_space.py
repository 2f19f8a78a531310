"""A space that is a list of schedules, for searches that can try only recorded schedules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from search_spaces.arrays import BoolArray, IntArray
from search_spaces.spaces import neighbourhood
from search_spaces.spaces.columns import Columns
from search_spaces.spaces.parameters import Value
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.search_space import Stratum
from search_spaces.spaces.space import EmptySpace, Space
from search_spaces.spaces.union_space import UnionSpace

_NEAR = 8  # number of nearest schedules in the list, one of which is chosen as a mutant or child


class RecordedSpace(Space):
    """Space of the distinct legal schedules in ``listed``, with the parameters, rules and fingerprint of ``space``.

    All moves result in schedules of the list. A mutant is one of the schedules nearest to its parent. A child is one of
    the schedules nearest to a mixture of its parents. Neighbours are all other schedules in the order of distance. The
    distance of two schedules is the number of parameters that differ. Schedules that are not legal in ``space`` are
    skipped. Raises EmptySpace, a ValueError, if no schedule remains.
    """

    def __init__(self, space: Space, listed: Sequence[Schedule]) -> None:
        super().__init__(
            space.name,
            space.parameters,
            space.attributes,
            space.rules,
            stratified_by=space.stratified_by,
            covering=space.covering,
        )
        codes = self._matrix([s for s in dict.fromkeys(listed) if _has(space, s)])
        self._rows: IntArray = codes[space.allowed(self._from_codes(codes))] if len(codes) else codes
        if space.stratifying:  # sorted by stratum, so that each stratum has consecutive ranks
            self._rows = self._rows[np.lexsort(self._rows[:, self._columns_of_strata].T[::-1])]
        self._keys = {row.tobytes() for row in self._values(self._from_codes(self._rows))}
        if not len(self._rows):
            raise EmptySpace(f"none of the {len(listed)} listed schedules of {space.name} is legal", ())

    def __repr__(self) -> str:
        return f"RecordedSpace({self.name}: {len(self._rows)} schedules)"

    def count(self) -> int:
        """Return the number of recorded schedules."""
        return len(self._rows)

    @cached_property
    def strata(self) -> tuple[Stratum, ...]:
        """Strata: schedules of the recording with equal values of the parameters ``stratifying``."""
        if not self.stratifying:
            return super().strata
        columns = self._columns_of_strata
        codes, firsts = np.unique(self._rows[:, columns], axis=0, return_index=True)
        domains = [self.parameters[column].values for column in columns]
        values = [tuple(v[code] for v, code in zip(domains, row, strict=True)) for row in codes.tolist()]
        ends = [*firsts[1:].tolist(), len(self._rows)]
        return self._with_shares(
            [
                Stratum(self.name, combination, range(first, end))
                for combination, first, end in zip(values, firsts.tolist(), ends, strict=True)
            ]
        )

    @property
    def _columns_of_strata(self) -> list[int]:
        names = [p.name for p in self.parameters]
        return [names.index(name) for name in self.stratifying]

    def sample(self, n: int, seed: int, replace: bool = False) -> list[Schedule]:
        """Return random recorded schedules. Raises ValueError for a negative number."""
        if n < 0:
            raise ValueError(f"cannot draw {n} schedules: use 0 or more")
        rng, total = np.random.default_rng(seed), len(self._rows)
        return self._at(rng.integers(total, size=n) if replace else rng.permutation(total)[:n])

    def unrank(self, ranks: Sequence[int] | npt.NDArray[Any]) -> Columns:
        """Return the recorded schedules at these ranks. Raises ValueError for a rank out of range."""
        wanted = np.asarray(ranks, dtype=np.int64)
        if len(wanted) and (wanted.min() < 0 or wanted.max() >= len(self._rows)):
            raise ValueError(f"a rank is out of range: use 0 to {len(self._rows) - 1}")
        return self._from_codes(self._rows[wanted])

    def allowed(self, columns: Columns) -> BoolArray:
        """Return a mask of the rows that are recorded."""
        return np.array([row.tobytes() in self._keys for row in self._values(columns)], dtype=np.bool_)

    def neighbours(self, schedule: Schedule | Mapping[str, Value], limit: int | None = None) -> list[Schedule]:
        """Return all other recorded schedules, those with the fewest different parameters first."""
        order = self._by_distance(self._codes_of(schedule))
        return self._at(order if limit is None else order[:limit])

    def mutate(self, schedules: Sequence[Schedule], rng: np.random.Generator, rate: float = 0.15) -> list[Schedule]:
        """Return one recorded schedule near each of ``schedules``."""
        neighbourhood.check_rate(rate)
        return self._moved(self._matrix(schedules), schedules, rng)

    def crossover(self, a: Sequence[Schedule], b: Sequence[Schedule], rng: np.random.Generator) -> list[Schedule]:
        """Return, for each pair of parents in ``a`` and ``b``, one recorded schedule near a random mixture of both."""
        neighbourhood.check_pairs(a, b)
        first, second = self._matrix(a), self._matrix(b)
        return self._moved(np.where(rng.random(first.shape) < 0.5, first, second), a, rng)

    def _moved(self, targets: IntArray, parents: Sequence[Schedule], rng: np.random.Generator) -> list[Schedule]:
        """Return, for each target, one of the nearest recorded schedules at random.

        The target itself is excluded. If no other schedule is recorded, return the parent.
        """
        near = [self._by_distance(target)[:_NEAR] for target in targets]
        return [
            self._at(order[[int(rng.integers(len(order)))]])[0] if len(order) else parent
            for order, parent in zip(near, parents, strict=True)
        ]

    def _by_distance(self, target: IntArray) -> IntArray:
        """Return the indices of the recorded schedules other than ``target``, nearest first."""
        distance = (self._rows != target).sum(axis=1)
        order: IntArray = np.argsort(distance, kind="stable").astype(np.int64)
        other_rows: IntArray = order[distance[order] > 0]
        return other_rows

    def _codes_of(self, schedule: Schedule | Mapping[str, Value]) -> IntArray:
        return np.array(self._codes(schedule), dtype=np.int64)

    def _values(self, columns: Columns) -> IntArray:
        """Return a row per configuration, [n, parameters]. Rows are equal if and only if configurations are equal."""
        return np.stack([columns[p.name] for p in self.parameters], axis=1)

    def _at(self, positions: IntArray) -> list[Schedule]:
        return self.schedules(self._from_codes(self._rows[positions]))


def recorded_union(union: UnionSpace, listed: Sequence[Schedule]) -> UnionSpace:
    """Return the space of legal schedules in ``listed``, of any template. Raises EmptySpace if none is legal."""
    spaces, refused = [], []
    for name, member in union.members.items():
        own = [schedule for schedule in listed if schedule.template == name]
        try:
            spaces.append(RecordedSpace(member, own))
        except EmptySpace as error:
            refused.append(error)
    if not spaces:
        raise refused[0]
    return UnionSpace(spaces)


def _has(space: Space, schedule: Schedule) -> bool:
    try:
        space.columns([schedule])
    except ValueError:
        return False
    return True
