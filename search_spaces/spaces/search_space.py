"""The interface between a search and a space, be that the space of one kernel template or a union of several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from search_spaces.spaces.parameters import Parameter, Value
from search_spaces.spaces.rules import Violation
from search_spaces.spaces.schedule import Schedule


@dataclass(frozen=True)
class Stratum:
    """A part of a space: the legal schedules of ``template`` with certain ``values``.

    ``values`` are those of the parameters that stratify the template's space; without any, the part is the whole.
    ``ranks`` are its ranks in the space of the template. ``share`` is its share of the draws after the first, relative
    to other strata.
    """

    template: str
    values: tuple[Value, ...]
    ranks: range
    share: float = 1.0

    @property
    def value(self) -> Value | None:
        """Value of the first parameter; None where there is none."""
        return self.values[0] if self.values else None

    @property
    def count(self) -> int:
        """Return the number of schedules; ``len(ranks)`` overflows beyond 2^63."""
        return self.ranks.stop - self.ranks.start


class Member(Protocol):
    """The schedules of one template, as a part of a search space."""

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """In the order of a schedule's items."""

    @property
    def fingerprint(self) -> str:
        """The version of the template's space, stored with trials of its schedules."""


class SearchSpace(Protocol):
    """The legal schedules that a search may propose.

    One test class checks the contract:

    - Every method that gives schedules gives legal ones, of the space. The order of a sample depends on the space and
      the seed alone: on any machine, in any process.
    - A move takes schedules of the space, and its only randomness is the generator.
    """

    @property
    def members(self) -> Mapping[str, Member]:
        """The space of each template, by its name."""

    @property
    def strata(self) -> tuple[Stratum, ...]:
        """Parts that share no schedule and together are the space; none is empty."""

    @property
    def fingerprint(self) -> str:
        """The version of the space: sha256, hex."""

    def count(self) -> int:
        """Exact number of legal schedules."""

    def sample(self, n: int, seed: int, replace: bool = False) -> list[Schedule]:
        """``n`` random schedules; without ``replace`` all different, and the whole space where it has no more.

        A longer sample of one seed begins with the shorter one. Raises EmptySpace where nothing is legal, ValueError
        for a negative ``n`` or ``seed``.
        """

    def __contains__(self, schedule: object) -> bool:
        """Return True for a legal schedule of the space."""

    def explain(self, schedule: Schedule) -> list[Violation]:
        """Every rule that a schedule breaks. Raises ValueError for one of another template or another domain."""

    def neighbours(self, schedule: Schedule, limit: int | None = None) -> list[Schedule]:
        """Schedules that differ little from ``schedule``, without it; at most ``limit``."""

    def siblings(self, schedule: Schedule) -> list[Schedule]:
        """The other schedules that differ from ``schedule`` only in what a launch carries: one module serves all."""

    def mutate(self, schedules: Sequence[Schedule], rng: np.random.Generator, rate: float = 0.15) -> list[Schedule]:
        """One mutant of each schedule, or the schedule itself where none is found.

        Raises ValueError for a rate outside (0, 1].
        """

    def crossover(self, a: Sequence[Schedule], b: Sequence[Schedule], rng: np.random.Generator) -> list[Schedule]:
        """One child of each pair, or something near the first parent. Raises ValueError for lists of unequal length."""

    @property
    def encoded_names(self) -> tuple[str, ...]:
        """Names of the columns of ``encode``, each once."""

    def encode(self, schedules: Sequence[Schedule]) -> npt.NDArray[np.float32]:
        """Schedules for a learned model, float32 [n, len(encoded_names)]; NaN where a schedule has no such value."""
