"""The interface between a search and a space, which may be that of one kernel template or a union of several."""

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

    ``values`` are values of the parameters that stratify the template's space; if empty, the stratum is the whole
    space. ``ranks`` are its ranks in the template's space. Each stratum is drawn once; ``share`` is its relative share
    of the further draws.
    """

    template: str
    values: tuple[Value, ...]
    ranks: range
    share: float = 1.0

    @property
    def value(self) -> Value | None:
        """Value of the first parameter; None if the space is not stratified."""
        return self.values[0] if self.values else None

    @property
    def count(self) -> int:
        """Return the number of schedules; ``len(ranks)`` overflows beyond 2^63."""
        return self.ranks.stop - self.ranks.start


class Member(Protocol):
    """The schedules of one template, as a part of a search space."""

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Parameters in the order of a schedule's items."""

    @property
    def fingerprint(self) -> str:
        """Version of the template's space, stored with trials of its schedules."""


class SearchSpace(Protocol):
    """The legal schedules that a search may propose.

    One test class checks the contract:

    - Every method that returns schedules returns legal schedules of the space. The order of a sample depends on the
      space and the seed alone: on any machine, in any process.
    - A move takes schedules of the space, and its only randomness is the generator.
    """

    @property
    def members(self) -> Mapping[str, Member]:
        """Space of each template, by its name."""

    @property
    def strata(self) -> tuple[Stratum, ...]:
        """Disjoint, non-empty parts whose union is the space."""

    @property
    def fingerprint(self) -> str:
        """Version of the space: sha256, hexadecimal."""

    def count(self) -> int:
        """Return the exact number of legal schedules."""

    def sample(self, n: int, seed: int, replace: bool = False) -> list[Schedule]:
        """Return random schedules.

        A longer sample of one seed begins with the shorter one.

        Args:
            n: Number of schedules; fewer are returned if the space is smaller.
            seed: Random seed, non-negative.
            replace: If True, schedules may repeat.

        Returns:
            The schedules, all different without ``replace``.

        Raises:
            EmptySpace: No schedule is legal.
            ValueError: A negative ``n`` or ``seed``.
        """

    def __contains__(self, schedule: object) -> bool:
        """Return True for a legal schedule of the space."""

    def explain(self, schedule: Schedule) -> list[Violation]:
        """Return the rules that a schedule breaks. Raises ValueError for another template or an unknown value."""

    def neighbours(self, schedule: Schedule, limit: int | None = None) -> list[Schedule]:
        """Return other schedules that differ little from ``schedule``, at most ``limit``."""

    def siblings(self, schedule: Schedule) -> list[Schedule]:
        """Return the other schedules that differ only in launch parameters, so that they share one compiled module."""

    def mutate(self, schedules: Sequence[Schedule], rng: np.random.Generator, rate: float = 0.15) -> list[Schedule]:
        """Return one mutant of each schedule, or the schedule itself if none is found.

        Raises ValueError for a rate outside (0, 1].
        """

    def crossover(self, a: Sequence[Schedule], b: Sequence[Schedule], rng: np.random.Generator) -> list[Schedule]:
        """Return one child of each pair, or a schedule near the first parent. Raises ValueError for unequal lengths."""

    @property
    def encoded_names(self) -> tuple[str, ...]:
        """Names of the columns of ``encode``, each once."""

    def encode(self, schedules: Sequence[Schedule]) -> npt.NDArray[np.float32]:
        """Return schedules for a learned model, float32 [n, len(encoded_names)]; NaN for missing values."""
