"""Interface of a search space: the space of one kernel template, or a union of several spaces."""

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
    """Part of a space: the legal schedules of ``template`` that have certain ``values``.

    ``values`` are values of the parameters that stratify the template's space; if empty, the stratum is the whole
    space. ``ranks`` are the ranks of the stratum's schedules in the template's space. A sample that is large enough
    contains at least one schedule of each stratum; further schedules are distributed in proportion to ``share``.
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
        """Return the number of schedules. Unlike ``len(ranks)``, it does not overflow beyond 2^63."""
        return self.ranks.stop - self.ranks.start


class Member(Protocol):
    """Interface of the space of one template, as a member of a search space."""

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Parameters in the order of a schedule's items."""

    @property
    def fingerprint(self) -> str:
        """Version of the template's space, which is stored with trials."""


class SearchSpace(Protocol):
    """Interface of the legal schedules that a search may propose.

    Implementations must satisfy:

    - Methods that return schedules return legal schedules of the space. The order of a sample depends only on the space
    and the seed, and is the same on every machine and in every process.
    - Moves (neighbours, mutation, crossover) require schedules of the space. Their only source of randomness is the
    generator that is passed.
    """

    @property
    def members(self) -> Mapping[str, Member]:
        """Space of each template, by its name."""

    @property
    def strata(self) -> tuple[Stratum, ...]:
        """Disjoint, non-empty strata whose union is the space."""

    @property
    def fingerprint(self) -> str:
        """Version of the space: sha256, hexadecimal."""

    def count(self) -> int:
        """Return the exact number of legal schedules."""

    def sample(self, n: int, seed: int, replace: bool = False) -> list[Schedule]:
        """Return random schedules.

        For one seed, a longer sample begins with the schedules of a shorter sample.

        Args:
            n: Number of schedules; fewer are returned if the space is smaller.
            seed: Random seed, non-negative.
            replace: If True, schedules may repeat.

        Returns:
            The schedules. They are all different unless ``replace`` is True.

        Raises:
            EmptySpace: No schedule is legal.
            ValueError: ``n`` or ``seed`` is negative.
        """

    def __contains__(self, schedule: object) -> bool:
        """Return True for a legal schedule of the space."""

    def explain(self, schedule: Schedule) -> list[Violation]:
        """Return the rules that a schedule violates. Raises ValueError for another template or an unknown value."""

    def neighbours(self, schedule: Schedule, limit: int | None = None) -> list[Schedule]:
        """Return at most ``limit`` other schedules that differ little from ``schedule``."""

    def siblings(self, schedule: Schedule) -> list[Schedule]:
        """Return the other schedules that differ only in launch parameters and therefore share a compiled module."""

    def mutate(self, schedules: Sequence[Schedule], rng: np.random.Generator, rate: float = 0.15) -> list[Schedule]:
        """Return one mutant of each schedule; the schedule itself if no legal mutant is found.

        Raises ValueError for a rate outside (0, 1].
        """

    def crossover(self, a: Sequence[Schedule], b: Sequence[Schedule], rng: np.random.Generator) -> list[Schedule]:
        """Return one child of each pair, or a schedule near the first parent. Raises ValueError for unequal lengths."""

    @property
    def encoded_names(self) -> tuple[str, ...]:
        """Names of the columns of ``encode``, all different."""

    def encode(self, schedules: Sequence[Schedule]) -> npt.NDArray[np.float32]:
        """Encode schedules for a learned model, as float32 [n, len(encoded_names)]; NaN for missing values."""
