"""Atomic combinations of elements in any order, with bounds on their rounding errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from search_spaces.arrays import FloatArray, IntArray
from search_spaces.hardware.dtypes import F32, SMALLEST, DType
from search_spaces.operators.problem import sum_growth
from search_spaces.programs.language.bounded import Bounded
from search_spaces.programs.language.functions import ATOMICS, REDUCTIONS, U

T = TypeVar("T")


@dataclass(frozen=True)
class Added:
    """Statistics of the atomic additions to each element of an array, independent of the order of the additions.

    Attributes:
        sizes: Sum of the magnitudes of the initial element and of all added values.
        counts: Number of additions.
    """

    sizes: FloatArray
    counts: FloatArray

    @classmethod
    def of(cls, values: FloatArray) -> Added:
        """Return the initial statistics, before any addition, of an array that contains ``values``."""
        return cls(np.zeros_like(values), np.zeros_like(values))

    def bound(self, type_: DType) -> FloatArray:
        """Return bounds on the error of the sums, where each addition rounds to ``type_``."""
        most = int(self.counts.max(initial=0))
        if type_ == F32:
            growth = np.array([sum_growth(n) * U if n else 0.0 for n in range(most + 1)])
        else:
            growth = (1.0 + type_.unit_roundoff) ** np.arange(most + 1) - 1.0
        bounds: FloatArray = growth[self.counts.astype(np.int64)] * self.sizes
        if not type_.is_float:
            return bounds
        bounds = bounds if type_ == F32 else bounds + self.counts * SMALLEST[type_.name]
        with np.errstate(over="ignore"):
            # the largest possible partial sum; infinite if it overflows
            reached = type_.load(type_.store(self.sizes + bounds))
        return np.where(np.isfinite(reached) | ~np.isfinite(self.sizes), bounds, np.inf)


def ordered(items: Sequence[T], order: int) -> list[T]:
    """Return the items reordered. Order 0 is ascending, 1 descending; any other number seeds a random order."""
    if order < 2:
        return list(items[:: -1 if order else 1])
    return [items[i] for i in np.random.default_rng(order).permutation(len(items))]


def rounds(positions: IntArray, order: int) -> Iterator[IntArray]:
    """Split ``positions`` into rounds without duplicate positions; yield each round as indices into ``positions``."""
    order_of_elements = np.array(ordered(range(positions.size), order), dtype=np.int64)
    by_position = order_of_elements[np.argsort(positions[order_of_elements], kind="stable")]
    first = np.searchsorted(positions[by_position], positions[by_position])
    round_of_element = np.arange(positions.size) - first
    for number in range(int(round_of_element.max(initial=-1)) + 1):
        yield by_position[round_of_element == number]


def before(type_: DType, parts: list[FloatArray]) -> Bounded:
    """Return copies of the elements and of their error bounds, as they are before an atomic.

    ``parts`` is a result of ``combined``.
    """
    part, bound, sizes, counts = parts
    return part.copy(), bound + Added(sizes, counts).bound(type_)


def combined(
    kind: str, type_: DType, parts: list[FloatArray], added_values: FloatArray, error: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Combine elements with values. Return the new elements, their bounds, and the totals ``sizes`` and ``counts``."""
    part, bound, sizes, counts = parts
    if not ATOMICS[kind].reduction:  # for the kind "assign", the value replaces the element
        return added_values, error, sizes, counts
    reduction = REDUCTIONS[ATOMICS[kind].reduction]
    both = np.stack([part, added_values])
    if not type_.is_float:
        whole = np.asarray(reduction.on_numpy(both.astype(np.int64), axis=0)).astype(np.int64)
        return whole.astype(np.int32).astype(np.float64), bound, sizes, counts
    result = np.asarray(reduction.on_numpy(both, axis=0), dtype=np.float64)
    if kind == "addf":
        return result, bound + error, sizes + np.abs(added_values) + np.abs(part) * (counts == 0), counts + 1
    if kind == "mulf":
        product = np.abs(result)
        most = (np.abs(part) + bound) * (np.abs(added_values) + error)
        return result, most - product + type_.unit_roundoff * most + SMALLEST[type_.name], sizes, counts
    return result, np.maximum(bound, error), sizes, counts
