"""An array that a kernel reads or writes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from search_spaces.hardware.dtypes import DType

Role = Literal["input", "output", "inout", "workspace"]


@dataclass(frozen=True)
class Operand:
    """One dense array argument of a kernel, with its ``shape`` in C order.

    Attributes:
        role: An ``inout`` array contains an input before the launch and a result after it. A ``workspace`` array is
            temporary memory of the kernel.
        zeroed: True if a workspace must be zero before the first launch; every launch must leave it zero.
        columns: None if the lines of ``shape[-1]`` elements have no gaps. Otherwise, a kernel reads only this number of
            elements at the start of each line.
    """

    name: str
    role: Role
    dtype: DType
    shape: tuple[int, ...]
    zeroed: bool = False
    columns: int | None = None

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Size in bytes."""
        return self.size * self.dtype.bytes


def stride_of(name: str, shape: Sequence[int], strides: Sequence[int], unit: int) -> int:
    """Return the row stride of an array in elements.

    Args:
        name: Name of the array, for the error message.
        shape: Extents of the array.
        strides: Strides of the array; strides of axes with extent 1 are ignored.
        unit: Stride of adjacent elements: 1, or the bytes of an element if ``strides`` are in bytes.

    Raises:
        ValueError: Elements of a row are not adjacent, or there are gaps between matrices.
    """
    columns = shape[-1]
    stride = columns if shape[-2] == 1 else strides[-2] // unit
    wanted = [unit, stride * unit]
    for extent in shape[-2:0:-1]:
        wanted.append(wanted[-1] * extent)
    fits = all(n == 1 or s == w for n, s, w in zip(reversed(shape), reversed(strides), wanted, strict=False))
    if not fits or stride < columns:
        raise ValueError(
            f"{name}: rows must be contiguous, and matrices must follow each other without gaps; only the row stride "
            "may be larger than in a contiguous array"
        )
    return stride
