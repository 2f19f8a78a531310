"""The operator ``out = x``, for measuring bandwidth, and for conversions in which elements keep their positions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from search_spaces.arrays import Array, FloatArray
from search_spaces.operators.part import Indices
from search_spaces.operators.transpose import ArrayMove


@dataclass(frozen=True)
class Copy(ArrayMove):
    """``out = x``: ``batch`` dense matrices of ``rows`` x ``columns`` elements, which are contiguous in memory."""

    operator: ClassVar[str] = "copy"
    summary: ClassVar[str] = "out = x, batched, elements of 1 to 16 bytes"

    @property
    def out_shape(self) -> tuple[int, int, int]:
        """Shape of x: (matrices, rows, columns)."""
        return self.batch, self.rows, self.columns

    @property
    def bytes(self) -> int:
        """Number of bytes of x."""
        return self.elements * self.element_bytes

    def source_of(self, elements: Indices) -> Indices:
        """Return ``positions`` unchanged, because out has the order of x."""
        return elements

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        """Return x."""
        return {"out": self.word.load(inputs["x"])}
