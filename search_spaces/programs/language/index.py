"""Where a window begins, and how far a loop goes: whole numbers that are the same for all threads of a block.

An index is made of constants, the block's coordinates, the counters of loops, numbers that the block loads, and sizes
and arguments that a launch says. All other problem sizes are constants.
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
MOST_SIZE = 2**31 - 1  # of a dynamic size
FIRST_OUTSIDE = 2**30  # the number of the first line outside of an array whose lines a launch says
Interval = tuple[int, int]


@dataclass(frozen=True)
class Index:
    """``number``: the constant, the axis of the grid, the number of the loop or of the loaded scalar, or the factor or
    divisor of ``args``. Those of a scalar are its least, largest and usual value, and its position in its array. A
    dynamic size has its number among the program's sizes, and as ``args`` its value here and what divides it always; an
    argument its number among the program's scalars, and its value here, its least and its largest value.

    Python's ``+ - * // %`` and ``minimum`` work on indices and whole numbers; products and quotients need a whole
    number on the right. Raises TypeError for others.
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
        if right.kind == "minimum" and self in right.args:  # x - min(x, y) is never negative
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

    def at(self, block: Sequence[int], loops: Mapping[int, int]) -> int:
        """Return its value in a block, in one iteration of each loop around it.

        Args:
            block: Coordinates of the block.
            loops: Iterations of loops, and values of the scalars that were loaded, by number. A scalar that is not in
                it has its usual value.
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

    def interval(self, blocks: Sequence[int], turns: Mapping[int, int]) -> Interval:
        """Return the least and the largest value, for a grid of ``blocks`` and loops of so many turns at most."""
        if self.kind == "constant":
            return self.number, self.number
        if self.kind == "block":
            return 0, blocks[self.number] - 1
        if self.kind == "loop":
            return 0, max(turns.get(self.number, 1) - 1, 0)
        if self.kind == "scalar":
            return self.args[0].number, self.args[1].number
        if self.kind == "size":
            return 1, MOST_SIZE
        if self.kind == "argument":
            return self.args[1].number, self.args[2].number
        inner = [a.interval(blocks, turns) for a in self.args]
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
        """A number that divides it in every block and turn; 0 for zero itself."""
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
        """The loops whose turn it depends on."""
        own = frozenset((self.number,)) if self.kind == "loop" else frozenset()
        return own.union(*(a.loops for a in self.args))

    @property
    def axes(self) -> frozenset[int]:
        """The axes of the grid whose coordinate it depends on."""
        own = frozenset((self.number,)) if self.kind == "block" else frozenset()
        return own.union(*(a.axes for a in self.args))

    @property
    def scalars(self) -> frozenset[int]:
        """The loaded scalars that it depends on, also by way of where they lie in their arrays."""
        own = frozenset((self.number,)) if self.kind == "scalar" else frozenset()
        return own.union(*(a.scalars for a in self.args))

    @property
    def arguments(self) -> frozenset[int]:
        """The arguments passed by value that it depends on."""
        own = frozenset((self.number,)) if self.kind == "argument" else frozenset()
        return own.union(*(a.arguments for a in self.args))

    @property
    def code(self) -> str:
        """The value in CUDA C++: ``block_0``, ``turn_3`` and ``scalar_5`` are the block's coordinate, the turn of loop
        3 and the value of scalar 5, ``argument_0`` the value of the first argument within its range.
        """
        if self.kind == "constant":
            return str(self.number)
        if self.kind in ("block", "loop"):
            return f"{'block' if self.kind == 'block' else 'turn'}_{self.number}"
        if self.kind in ("scalar", "size", "argument"):
            return f"{self.kind}_{self.number}"
        inner = [a.code for a in self.args]
        signs = {"multiply": "*", "floordiv": "/", "mod": "%"}
        if self.kind in signs:  # never of negative numbers: the builder refuses a window that begins before its array
            return f"({inner[0]} {signs[self.kind]} {self.number})"
        return f"({inner[0]} + {inner[1]})" if self.kind == "add" else f"tile::{self.kind}({', '.join(inner)})"

    def __str__(self) -> str:
        return self.code.replace("tile::", "")


def constant(number: int) -> Index:
    return Index("constant", number)


ZERO = constant(0)


def as_index(value: Index | int) -> Index:
    """Raise TypeError for what is neither an index nor a whole number."""
    return value if isinstance(value, Index) else constant(_whole(value))


def minimum(a: Index | int, b: Index | int) -> Index:
    return _bound("minimum", as_index(a), as_index(b))


def maximum(a: Index | int, b: Index | int) -> Index:
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
    """Return whether the operators of a tile take the index as their operand."""
    return not isinstance(value, Index | int | float | str | tuple | list)


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"an index needs a whole number, not {value!r}")
    return value


def _positive(value: int) -> int:
    if _whole(value) < 1:
        raise TypeError(f"an index is divided by a positive number, not {value}")
    return value
