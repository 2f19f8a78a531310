"""Distributions of tiles over threads: which register of which thread holds an element.

The row and the column of an element are mixed-radix numbers. Each digit of these numbers is a digit of the warp number,
the lane number or the register number. Two distributions are compared by enumerating the element in each register.
Distributions can express NestedLayout, wg_map with its rounds, mma fragments and the bases of an IREE lowering config.
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
WIDEST = 16  # bytes of the widest memory access of a thread


@dataclass(frozen=True)
class Digit:
    """One digit of a coordinate: ``id // stride % size``, where ``id`` is the index of the warp, lane or register."""

    size: int
    unit: Unit
    stride: int


@dataclass(frozen=True)
class Distribution:
    """Digits of the row and of the column, slowest first.

    If no coordinate uses a digit of the warp or lane number, warps or lanes that differ only in this digit hold the
    same elements.
    """

    digits: tuple[tuple[Digit, ...], tuple[Digit, ...]]

    @cached_property
    def _hash(self) -> int:
        return hash(self.digits)

    def __hash__(self) -> int:  # cached, because distributions are hashed for every lookup in the counts of a schedule
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
        """Yield the digits of a dimension, each with its weight: the coordinate is the sum of digits times weights."""
        weight = self.shape[dimension]
        for digit in self.digits[dimension]:
            weight //= digit.size
            yield digit, weight

    def part(self, dimension: int, unit: Unit, ids: IntArray) -> IntArray:
        """Return the offset along ``dimension`` that each warp, lane or register number in ``ids`` contributes."""
        total: IntArray = np.zeros_like(ids)
        for digit, weight in self.weighted(dimension):
            if digit.unit == unit:
                total += ids // digit.stride % digit.size * weight
        return total

    def of_registers(self, dimension: int) -> tuple[int, ...]:
        """Return, for each register, the offset of its coordinate from the coordinate of the thread's register 0."""
        return tuple(self.part(dimension, "register", np.arange(self.registers)).tolist())

    def of_threads(self, dimension: int, warps: int) -> IntArray:
        """Return, for each thread, the coordinate along ``dimension`` of the element in register 0."""
        threads = np.arange(warps * WARP)
        return self.part(dimension, "warp", threads // WARP) + self.part(dimension, "lane", threads % WARP)

    def elements(self, warps: int) -> IntArray:
        """Return the row-major index of the element in each register, as an array (threads, registers)."""
        return _elements(self, warps)

    def code(self, dimension: int, warps: int) -> str:
        """Return a CUDA C++ expression of ``warp`` and ``lane``: the coordinate of a thread's register 0."""
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
        """Return the result of ``drop`` or ``group``, cached. Raises ValueError like ``group``."""
        return _folded(self, dimension, size)

    def _fold(self, dimension: int, size: int) -> Distribution:
        return self.drop(dimension) if size == self.shape[dimension] else self.group(dimension, size)

    def drop(self, dimension: int) -> Distribution:
        """Return the distribution of a reduction's result, which has extent 1 along ``dimension``."""
        digits = tuple(() if d == dimension else of for d, of in enumerate(self.digits))
        return Distribution((digits[0], digits[1])).packed()

    def group(self, dimension: int, size: int) -> Distribution:
        """Return the distribution of one value per ``size`` consecutive elements along ``dimension``.

        Raises:
            ValueError: If the boundaries of groups fall inside a digit that cannot be split.
        """
        remaining: list[Digit] = []
        below = size  # factor of ``size`` that is still to be divided out of the next digits, fastest digit first
        for digit in reversed(self.digits[dimension]):
            if below == 1:
                remaining.append(digit)
                continue
            divisor = math.gcd(below, digit.size)
            if divisor < digit.size and divisor < below:
                raise ValueError(f"{self} cannot be divided evenly into groups of {size} elements")
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
            ValueError: If the boundary between rows and columns would fall inside a digit that cannot be split.
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
        """Return (stride, size) of each warp or lane digit.

        ``only``: The dimension whose digits are returned; None for both dimensions.
        """
        chosen = [self.digits[only]] if only is not None else self.digits
        return sorted((d.stride, d.size) for of in chosen for d in of if d.unit == unit and d.size > 1)

    def copies(self, unit: Unit, limit: int) -> int:
        """Return how many warps (or lanes) hold the same element."""
        return limit // math.prod(size for _, size in self.used(unit, limit))

    def leader(self, warps: int) -> str:
        """Return a CUDA C++ condition that selects one of the threads that hold the same elements.

        The condition is empty if no two threads hold the same elements.
        """
        tests = []
        for unit, limit in (("warp", warps), ("lane", WARP)):
            digits = self.used(unit, limit)  # type: ignore[arg-type]
            if math.prod(size for _, size in digits) == limit:
                continue
            own = " + ".join(f"{unit} / {stride} % {size} * {stride}" for stride, size in digits) or "0"
            tests.append(f"{unit} == {own}")
        return " && ".join(tests)

    def run(self, dimension: int) -> int:
        """Return how many consecutive elements along ``dimension`` lie in consecutive registers."""
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
    """Split digits into slow digits, with weights of at least ``below``, and fast digits, with smaller weights.

    Raises:
        ValueError: If ``below`` falls inside a digit that cannot be split.
    """
    slow, fast = list[Digit](), list[Digit]()
    for digit in reversed(digits):
        divisor = math.gcd(below, digit.size)
        if divisor < digit.size and divisor < below:
            raise ValueError(f"{of} cannot be divided evenly into parts of {below} elements")
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
    """Return the distribution that has one value per ``size`` elements, and the new number of each old register."""
    folded = of.folded(dimension, size)
    mine = [list(of.of_registers(d)) for d in (0, 1)]
    mine[dimension] = [offset // size for offset in mine[dimension]]
    if size == of.shape[dimension]:
        mine[dimension] = [0] * of.registers
    register_of = {pair: r for r, pair in enumerate(zip(*(folded.of_registers(d) for d in (0, 1)), strict=True))}
    return folded, tuple(register_of[pair] for pair in zip(*mine, strict=True))
