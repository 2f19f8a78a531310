"""Distributions of tiles over threads: which register of which thread holds an element.

Each coordinate of the tile is a mixed-radix number. Each of its digits is a digit of the warp, lane or register number.
Two distributions are compared by enumerating the elements that they assign to each register. Distributions can express
NestedLayout, wg_map with its rounds, mma fragments and the bases of a lowering config.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np

from search_spaces.arrays import IntArray
from search_spaces.hardware.fragments import WARP

Unit = Literal["warp", "lane", "register"]
WIDEST = 16  # bytes of the widest access of a thread


@dataclass(frozen=True)
class Digit:
    """One digit, ``id // stride % size``, of the number of the warp, the lane or the register."""

    size: int
    unit: Unit
    stride: int


@dataclass(frozen=True)
class Distribution:
    """Digits of both dimensions, slowest first. Warps or lanes whose id has unused digits hold copies."""

    digits: tuple[tuple[Digit, ...], tuple[Digit, ...]]

    @cached_property
    def _hash(self) -> int:
        return hash(self.digits)

    def __hash__(self) -> int:  # computed once: a key of caches that every count reads
        return self._hash

    @cached_property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the tile."""
        rows, columns = (math.prod(d.size for d in of) for of in self.digits)
        return rows, columns

    @cached_property
    def registers(self) -> int:
        """Registers (elements) per thread."""
        return math.prod(d.size for of in self.digits for d in of if d.unit == "register")

    def weighted(self, dimension: int) -> Iterator[tuple[Digit, int]]:
        """Yield the digits of a dimension, each with its weight in the coordinate."""
        weight = self.shape[dimension]
        for digit in self.digits[dimension]:
            weight //= digit.size
            yield digit, weight

    def part(self, dimension: int, unit: Unit, ids: IntArray) -> IntArray:
        """Return the contribution of the warp, lane or register numbers ``ids`` to the coordinate along a dimension."""
        total: IntArray = np.zeros_like(ids)
        for digit, weight in self.weighted(dimension):
            if digit.unit == unit:
                total += ids // digit.stride % digit.size * weight
        return total

    def of_registers(self, dimension: int) -> tuple[int, ...]:
        """Return the offset of each register from the coordinate of its thread."""
        return tuple(self.part(dimension, "register", np.arange(self.registers)).tolist())

    def of_threads(self, dimension: int, warps: int) -> IntArray:
        """Return the coordinate of each thread's register 0."""
        threads = np.arange(warps * WARP)
        return self.part(dimension, "warp", threads // WARP) + self.part(dimension, "lane", threads % WARP)

    def elements(self, warps: int) -> IntArray:
        """Return the row-major index of the element in each register, as an array (threads, registers)."""
        return _elements(self, warps)

    def code(self, dimension: int, warps: int) -> str:
        """Return the coordinate of a thread's register 0 as CUDA C++, in terms of ``warp`` and ``lane``."""
        terms = []
        for digit, weight in self.weighted(dimension):
            if digit.unit == "register" or digit.size == 1:
                continue
            limit = WARP if digit.unit == "lane" else warps
            term: str = digit.unit
            if digit.stride > 1:
                term = f"{term} / {digit.stride}"
            if digit.stride * digit.size < limit:
                term = f"{term} % {digit.size}"
            terms.append(f"{term} * {weight}" if weight > 1 else term)
        return " + ".join(terms) or "0"

    def folded(self, dimension: int, size: int) -> Distribution:
        """Return the distribution of one value per ``size`` along ``dimension``. Raises ValueError like ``group``."""
        return _folded(self, dimension, size)

    def _fold(self, dimension: int, size: int) -> Distribution:
        return self.drop(dimension) if size == self.shape[dimension] else self.group(dimension, size)

    def drop(self, dimension: int) -> Distribution:
        """Return the distribution with extent 1 along ``dimension``, such as that of a reduction's result."""
        digits = tuple(() if d == dimension else of for d, of in enumerate(self.digits))
        return Distribution((digits[0], digits[1])).packed()

    def group(self, dimension: int, size: int) -> Distribution:
        """Return the distribution of one value per ``size`` neighbours, whose coordinate is divided by ``size``."""
        remaining: list[Digit] = []
        below = size  # the remaining divisor, applied to the fastest digits first
        for digit in reversed(self.digits[dimension]):
            if below == 1:
                remaining.append(digit)
                continue
            divisor = math.gcd(below, digit.size)
            if divisor < digit.size and divisor < below:
                raise ValueError(f"groups of {size} cut across the digits of {self}")
            below //= divisor
            if divisor < digit.size:
                remaining.append(Digit(digit.size // divisor, digit.unit, digit.stride * divisor))
        digits = tuple(tuple(reversed(remaining)) if d == dimension else of for d, of in enumerate(self.digits))
        return Distribution((digits[0], digits[1])).packed()

    def expand(self, dimension: int, size: int) -> Distribution:
        """Return the distribution that repeats each element ``size`` times along ``dimension`` in the same thread."""
        more = Digit(size, "register", self.registers)
        digits = tuple((*of, more) if d == dimension else of for d, of in enumerate(self.digits))
        return Distribution((digits[0], digits[1]))

    def reshape(self, rows: int) -> Distribution:
        """Return the distribution of the same elements, in the same registers, reshaped to ``rows`` rows (row-major).

        Raises:
            ValueError: If the new rows do not coincide with digits.
        """
        before = self.shape[0]
        of_rows, of_columns = self.digits
        if rows >= before:
            slow, fast = _cut(of_columns, self.shape[1] * before // rows, self)
            return Distribution(((*of_rows, *slow), fast))
        slow, fast = _cut(of_rows, before // rows, self)
        return Distribution((slow, (*fast, *of_columns)))

    def swap(self) -> Distribution:
        """Return the distribution of the transposed tile, in the same registers."""
        return Distribution((self.digits[1], self.digits[0]))

    def packed(self) -> Distribution:
        """Return the same distribution with registers numbered without gaps, in the same order."""
        strides = sorted((d.stride, d.size) for of in self.digits for d in of if d.unit == "register" and d.size > 1)
        packed, total = {}, 1
        for stride, size in strides:
            packed[stride] = total
            total *= size
        digits = tuple(
            tuple(Digit(d.size, d.unit, packed[d.stride]) if d.unit == "register" else d for d in of if d.size > 1)
            for of in self.digits
        )
        return Distribution((digits[0], digits[1]))

    def used(self, unit: Unit, limit: int, only: int | None = None) -> list[tuple[int, int]]:
        """Return (stride, size) of the digits of warps or lanes, of both dimensions or ``only`` of one."""
        chosen = [self.digits[only]] if only is not None else self.digits
        return sorted((d.stride, d.size) for of in chosen for d in of if d.unit == unit and d.size > 1)

    def copies(self, unit: Unit, limit: int) -> int:
        """Return how many warps (or lanes) hold a copy of the same element."""
        return limit // math.prod(size for _, size in self.used(unit, limit))

    def leader(self, warps: int) -> str:
        """Return a CUDA C++ condition that is true in the first thread with the same elements; "" without copies."""
        tests = []
        for unit, limit in (("warp", warps), ("lane", WARP)):
            digits = self.used(unit, limit)  # type: ignore[arg-type]
            if math.prod(size for _, size in digits) == limit:
                continue
            own = " + ".join(f"{unit} / {stride} % {size} * {stride}" for stride, size in digits) or "0"
            tests.append(f"{unit} == {own}")
        return " && ".join(tests)

    def run(self, dimension: int) -> int:
        """Return how many neighbours along ``dimension`` lie in consecutive registers."""
        length = 1
        for digit in reversed(self.digits[dimension]):
            if digit.unit != "register" or digit.stride != length:
                break
            length *= digit.size
        return length

    def same(self, other: Distribution, warps: int) -> bool:
        """Return True if every register of every thread holds the same element in both distributions."""
        return self == other or (
            self.registers == other.registers and np.array_equal(self.elements(warps), other.elements(warps))
        )

    def __str__(self) -> str:
        def text(of: tuple[Digit, ...]) -> str:
            return " ".join(f"{d.unit}[{d.size}:{d.stride}]" for d in of) or "1"

        return f"({text(self.digits[0])}, {text(self.digits[1])})"


def _cut(digits: tuple[Digit, ...], below: int, of: Distribution) -> tuple[tuple[Digit, ...], tuple[Digit, ...]]:
    """Split the digits at the weight ``below``; return those of this weight or more, and the others.

    Raises:
        ValueError: If a digit spans the cut.
    """
    slow, fast = list[Digit](), list[Digit]()
    for digit in reversed(digits):
        divisor = math.gcd(below, digit.size)
        if divisor < digit.size and divisor < below:
            raise ValueError(f"parts of {below} cut across the digits of {of}")
        below //= divisor
        if divisor > 1:
            fast.insert(0, Digit(divisor, digit.unit, digit.stride))
        if divisor < digit.size:
            slow.insert(0, Digit(digit.size // divisor, digit.unit, digit.stride * divisor))
    return tuple(slow), tuple(fast)


@lru_cache(maxsize=2**14)
def _folded(of: Distribution, dimension: int, size: int) -> Distribution:
    return of._fold(dimension, size)


@lru_cache(maxsize=1024)
def _elements(of: Distribution, warps: int) -> IntArray:
    rows, columns = (of.of_threads(d, warps)[:, None] + np.array(of.of_registers(d))[None, :] for d in (0, 1))
    indices: IntArray = rows * of.shape[1] + columns
    indices.setflags(write=False)
    return indices


@lru_cache(maxsize=4096)
def fold(of: Distribution, dimension: int, size: int) -> tuple[Distribution, tuple[int, ...]]:
    """Return the distribution of one value per ``size`` along ``dimension``, and the new register for each old one."""
    folded = of.folded(dimension, size)
    mine = [list(of.of_registers(d)) for d in (0, 1)]
    mine[dimension] = [offset // size for offset in mine[dimension]]
    if size == of.shape[dimension]:
        mine[dimension] = [0] * of.registers
    register_of = {pair: r for r, pair in enumerate(zip(*(folded.of_registers(d) for d in (0, 1)), strict=True))}
    return folded, tuple(register_of[pair] for pair in zip(*mine, strict=True))
