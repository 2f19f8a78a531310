"""Symbolic whole numbers for positions of windows and bounds of loops, with one value for all threads of a block.

An index is an expression of constants, the block's coordinates, loop counters, scalars that the block loads, and
dynamic sizes and arguments that each launch passes. Problem sizes that are not dynamic are constants.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Literal

Kind = Literal[
    "constant", "block", "loop", "scalar", "size", "argument",
    "add", "multiply", "floordiv", "mod", "minimum", "maximum",
]  # fmt: skip
MOST_SIZE = 2**31 - 1  # largest value of a dynamic size
FIRST_OUTSIDE = 2**30  # line number that is after the end of every array with a dynamic number of lines
Interval = tuple[int, int]


@dataclass(frozen=True)
class Index:
    """An expression of whole numbers.

    Python's ``+ - * // %`` and ``minimum`` accept indices and whole numbers. The right operand of ``* // %`` must be a
    whole number. Other operands raise TypeError.

    Attributes:
        number: The meaning depends on ``kind``: the value of a constant, the grid axis of a block coordinate, or the
            factor or divisor of an operation. For a loop, loaded scalar, dynamic size or argument: its identifying
            number.
        args: Operands. For a loaded scalar: its smallest, largest and usual value, and its position in its array. For a
            dynamic size: its value in this problem, and a number that divides it in every launch. For an argument: its
            value in this problem, and its smallest and largest value.
    """

    kind: Kind
    number: int = 0
    args: tuple[Index, ...] = ()

    def __add__(self, other: Index | int) -> Index:
        if _is_tile(other):
            return NotImplemented
        right = as_index(other)
        if self.kind == right.kind == "constant":
            return constant(self.number + right.number)
        if right == ZERO:
            return self
        if self == ZERO:
            return right
        return Index("add", 0, (self, right))

    def __radd__(self, other: int) -> Index:
        return as_index(other) + self

    def __sub__(self, other: Index | int) -> Index:
        if _is_tile(other):
            return NotImplemented
        right = as_index(other)
        # x - min(x, y) is max(x - y, 0), whose lower bound of 0 is known
        if right.kind == "minimum" and self in right.args:
            rest = right.args[1] if right.args[0] == self else right.args[0]
            return maximum(self - rest, 0)
        return self + right * -1

    def __rsub__(self, other: int) -> Index:
        return as_index(other) - self

    def __mul__(self, factor: int) -> Index:
        if _is_tile(factor):
            return NotImplemented
        if self.kind == "constant":
            return constant(self.number * _whole(factor))
        if factor in (0, 1):
            return self if factor else ZERO
        if self.kind == "multiply":
            return self.args[0] * (self.number * _whole(factor))
        return Index("multiply", _whole(factor), (self,))

    __rmul__ = __mul__

    def __floordiv__(self, divisor: int) -> Index:
        if self.kind == "constant":
            return constant(self.number // _positive(divisor))
        if self.kind == "multiply" and self.number % _positive(divisor) == 0:
            return self.args[0] * (self.number // divisor)
        return self if divisor == 1 else Index("floordiv", _positive(divisor), (self,))

    def __mod__(self, divisor: int) -> Index:
        if self.kind == "constant":
            return constant(self.number % _positive(divisor))
        return Index("mod", _positive(divisor), (self,))

    def __lt__(self, other: object) -> bool:
        if _is_tile(other):
            return NotImplemented
        raise TypeError(
            f"{self!r} is only known at run time: use `with p.when(index, number)`, or p.where with p.rows or p.columns"
        )

    __le__ = __gt__ = __ge__ = __lt__

    def at(self, block: Sequence[int], loops: Mapping[int, int]) -> int:
        """Return the value in one block and in one iteration of each enclosing loop.

        Args:
            block: Coordinates of the block.
            loops: Iteration of each loop and value of each loaded scalar, by id. A missing scalar has its usual value.
        """
        if self.kind == "constant":
            return self.number
        if self.kind == "block":
            return block[self.number]
        if self.kind == "loop":
            return loops[self.number]
        if self.kind in ("size", "argument"):
            return self.args[0].number
        if self.kind == "scalar":
            return loops[self.number] if self.number in loops else self.args[2].at(block, loops)
        return _combined(self.kind, self.number, [a.at(block, loops) for a in self.args])

    def interval(self, blocks: Sequence[int], iterations: Mapping[int, int]) -> Interval:
        """Return the smallest and largest value for a grid of ``blocks`` and loops of at most ``iterations``."""
        if self.kind == "constant":
            return self.number, self.number
        if self.kind == "block":
            return 0, blocks[self.number] - 1
        if self.kind == "loop":
            return 0, max(iterations.get(self.number, 1) - 1, 0)
        if self.kind == "scalar":
            return self.args[0].number, self.args[1].number
        if self.kind == "size":
            return 1, MOST_SIZE
        if self.kind == "argument":
            return self.args[1].number, self.args[2].number
        inner = [a.interval(blocks, iterations) for a in self.args]
        if self.kind == "mod":
            low, high = inner[0]
            return (
                (low, high)
                if low >= 0 and high < self.number
                else (0, self.number - gcd(self.args[0].divisor, self.number))
            )
        ends = [_combined(self.kind, self.number, [i[e] for i in inner]) for e in (0, 1)]
        return min(ends), max(ends)

    @property
    def divisor(self) -> int:
        """A number that divides the index in every block and iteration; 0 if the index is always 0."""
        if self.kind == "constant":
            return abs(self.number)
        if self.kind in ("block", "loop", "scalar", "argument"):
            return 1
        if self.kind == "size":
            return self.args[1].number
        inner = [a.divisor for a in self.args]
        if self.kind == "multiply":
            return inner[0] * abs(self.number)
        if self.kind == "mod":
            return gcd(inner[0], self.number)
        if self.kind == "floordiv":
            return inner[0] // self.number if inner[0] % self.number == 0 else 1
        return gcd(*inner)

    @property
    def loops(self) -> frozenset[int]:
        """Ids of the loops whose counters the index depends on."""
        own = frozenset((self.number,)) if self.kind == "loop" else frozenset()
        return own.union(*(a.loops for a in self.args))

    @property
    def axes(self) -> frozenset[int]:
        """Grid axes whose block coordinates the index depends on."""
        own = frozenset((self.number,)) if self.kind == "block" else frozenset()
        return own.union(*(a.axes for a in self.args))

    @property
    def scalars(self) -> frozenset[int]:
        """Ids of the loaded scalars on which the index depends, directly or through the positions of other scalars."""
        own = frozenset((self.number,)) if self.kind == "scalar" else frozenset()
        return own.union(*(a.scalars for a in self.args))

    @property
    def arguments(self) -> frozenset[int]:
        """Positions of the by-value arguments that the index depends on."""
        own = frozenset((self.number,)) if self.kind == "argument" else frozenset()
        return own.union(*(a.arguments for a in self.args))

    @property
    def code(self) -> str:
        """The index as CUDA C++.

        The code uses these variables: ``block_0`` is the block's coordinate along axis 0, ``turn_3`` the iteration of
        loop 3, ``scalar_5`` the value of scalar 5, and ``argument_0`` the first argument, clamped to its range.
        """
        if self.kind == "constant":
            return str(self.number)
        if self.kind in ("block", "loop"):
            return f"{'block' if self.kind == 'block' else 'turn'}_{self.number}"
        if self.kind in ("scalar", "size", "argument"):
            return f"{self.kind}_{self.number}"
        inner = [a.code for a in self.args]
        signs = {"multiply": "*", "floordiv": "/", "mod": "%"}
        if self.kind in signs:  # operands are never negative, so C++ / and % agree with Python
            return f"({inner[0]} {signs[self.kind]} {self.number})"
        return f"({inner[0]} + {inner[1]})" if self.kind == "add" else f"tile::{self.kind}({', '.join(inner)})"

    def __str__(self) -> str:
        return self.code.replace("tile::", "")

    def __repr__(self) -> str:
        """Return a short text, as error messages contain the reprs of arguments."""
        return f"the index {self}"


def constant(number: int) -> Index:
    """Return the index with a constant value."""
    return Index("constant", number)


ZERO = constant(0)


def as_index(value: Index | int) -> Index:
    """Convert a whole number to an index, and return an index as it is. Raises TypeError for other values."""
    return value if isinstance(value, Index) else constant(_whole(value))


def minimum(a: Index | int, b: Index | int) -> Index:
    """Return the smaller of two indices."""
    return _bound("minimum", as_index(a), as_index(b))


def maximum(a: Index | int, b: Index | int) -> Index:
    """Return the larger of two indices."""
    return _bound("maximum", as_index(a), as_index(b))


def _bound(kind: Literal["minimum", "maximum"], a: Index, b: Index) -> Index:
    if a.kind == b.kind == "constant":
        return constant(_combined(kind, 0, [a.number, b.number]))
    return a if a == b else Index(kind, 0, (a, b))


def _combined(kind: Kind, number: int, args: Sequence[int]) -> int:
    match kind:
        case "add":
            return args[0] + args[1]
        case "multiply":
            return args[0] * number
        case "floordiv":
            return args[0] // number
        case "mod":
            return args[0] % number
        case "minimum":
            return min(args)
    return max(args)


def _is_tile(value: object) -> bool:
    """Return True if the other operand is a tile; Python then tries the tile's operator, which accepts an index."""
    return not isinstance(value, Index | int | float | str | tuple | list)


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"invalid operand of an index, {value!r}: use a whole number")
    return value


def _positive(value: int) -> int:
    if _whole(value) < 1:
        raise TypeError(f"invalid divisor of an index, {value}: use a positive number")
    return value
