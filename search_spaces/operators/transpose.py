"""Operators that move elements without changing them, such as the transpose ``out[b, j, i] = x[b, i, j]``."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from search_spaces.arrays import Array, FloatArray
from search_spaces.hardware.dtypes import U8, U16, U32, DType
from search_spaces.launches.operand import Operand
from search_spaces.operators.part import Indices
from search_spaces.operators.problem import Problem, ProblemPart, option

ELEMENT_BYTES = {"u8": 1, "u16": 2, "u32": 4, "u64": 8, "u128": 16}
_WORDS = {"u8": U8, "u16": U16, "u32": U32, "u64": U32, "u128": U32}


@dataclass(frozen=True)
class ArrayMove(Problem):
    """Base class of operators that move ``batch`` dense, row-major matrices of ``rows`` x ``columns`` elements.

    ``dtype`` determines only the size of an element: "u8" to "u128" are elements of 1, 2, 4, 8 and 16 bytes of any
    type. For example, f32 is moved as u32, and complex128 as u128. The operands store elements of 8 and 16 bytes as 2
    and 4 adjacent u32 words along an additional last axis. Results are compared in float64, which represents u32 words
    exactly, but not wider integers. Raises ValueError if a size is below 1, an array has 2^40 or more elements, or
    ``dtype`` is unknown.
    """

    rows: int = option("rows of x")
    columns: int = option("columns of x")
    batch: int = option("number of matrices", 1)
    dtype: str = option("size of an element", "u32", choices=tuple(ELEMENT_BYTES))

    def __post_init__(self) -> None:
        self._take_extents("rows", "columns", "batch")
        if self.rows * self.columns * self.batch >= 2**40:
            raise ValueError("the array is too large: keep it under 2^40 elements")
        self._take_types("dtype")
        if self.dtype not in ELEMENT_BYTES:
            raise ValueError(f"unknown type {self.dtype!r}: use one of {', '.join(ELEMENT_BYTES)}")

    @property
    def element_bytes(self) -> int:
        """Number of bytes of an element."""
        return ELEMENT_BYTES[self.dtype]

    @property
    def word(self) -> DType:
        """Type of the operands: the element itself, or u32 if an element consists of 2 or 4 words."""
        return _WORDS[self.dtype]

    @property
    def elements(self) -> int:
        """Number of elements of all matrices."""
        return self.batch * self.rows * self.columns

    @property
    def flops(self) -> float:
        """Always 0, because elements are only moved."""
        return 0.0

    @property
    @abstractmethod
    def out_shape(self) -> tuple[int, int, int]:
        """Shape of out: (matrices, rows, columns)."""

    def operands(self) -> tuple[Operand, ...]:
        """Return x and out, with axes (matrices, rows, columns), and words if an element consists of several words."""
        words = self.element_bytes // self.word.bytes
        tail = () if words == 1 else (words,)
        return (
            Operand("x", "input", self.word, (self.batch, self.rows, self.columns, *tail)),
            Operand("out", "output", self.word, (*self.out_shape, *tail)),
        )

    @abstractmethod
    def source_of(self, elements: Indices) -> Indices:
        """Return the indices in x of the elements that become ``elements`` of out. Indices are in memory order."""

    def parts(self, positions: Indices) -> Iterator[ProblemPart]:
        """Yield one smaller problem: a single row that consists of the words of ``out`` at ``positions``."""
        words = self.element_bytes // self.word.bytes
        source = (
            self.source_of(positions) if words == 1 else self.source_of(positions // words) * words + positions % words
        )
        row = replace(self, rows=1, columns=positions.size, batch=1, dtype=self.word.name)
        x, out = row.operands()
        yield ProblemPart(row, {"x": source.reshape(x.shape)}, {"out": positions.reshape(out.shape)})

    def tolerance(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        """Return zeros, because results must be exact."""
        return {"out": np.zeros_like(inputs["x"], dtype=np.float64, shape=self.operands()[1].shape)}

    def random_inputs(self, seed: int) -> dict[str, Array]:
        """Return random bits, but never all ones.

        Outputs are filled with ones before a launch to expose missing writes.
        """
        x = self.operands()[0]
        most = 2**x.dtype.bits - 1
        return {"x": np.random.default_rng(seed).integers(0, most, x.shape, dtype=np.dtype(x.dtype.storage))}


@dataclass(frozen=True)
class Transpose(ArrayMove):
    """``out[b, j, i] = x[b, i, j]``: x is ``rows`` x ``columns``, out ``columns`` x ``rows``.

    A transpose also converts between row-major and column-major storage (``order`` of a wg_map's tile).
    """

    operator: ClassVar[str] = "transpose"
    summary: ClassVar[str] = "out = x with rows and columns swapped, batched, elements of 1 to 16 bytes"

    @property
    def out_shape(self) -> tuple[int, int, int]:
        """Shape of x with rows and columns exchanged."""
        return self.batch, self.columns, self.rows

    def source_of(self, elements: Indices) -> Indices:
        """Return the indices of the transposed elements."""
        matrix, inside = np.divmod(elements, self.rows * self.columns)
        column, row = np.divmod(inside, self.rows)
        return np.asarray(matrix * (self.rows * self.columns) + row * self.columns + column, dtype=np.int64)

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        """Return x with its last two axes exchanged."""
        return {"out": self.word.load(inputs["x"].swapaxes(1, 2))}
