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
    """One dense array argument of a kernel, with ``shape`` in memory order (C order).

    Attributes:
        role: An ``inout`` array holds its input before a verified launch and is compared after it. ``workspace`` arrays
            belong to the kernel.
        zeroed: True if a workspace must be zero before the first launch; every launch leaves it zero again.
        columns: For an input with a gap between lines, the elements of each line of ``shape[-1]`` that belong to it;
            the kernel reads no others.
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
    """Return the number of elements from one row of an array to the next.

    Args:
        name: Name of the array, for the error.
        shape: Extents of the array.
        strides: Strides of the array; those of extents of 1 are ignored.
        unit: Stride of neighbouring elements: their bytes, or 1.

    Raises:
        ValueError: If elements of a row are not adjacent, or matrices do not follow each other.
    """
    columns = shape[-1]
    stride = columns if shape[-2] == 1 else strides[-2] // unit
    wanted = [unit, stride * unit]
    for extent in shape[-2:0:-1]:
        wanted.append(wanted[-1] * extent)
    fits = all(n == 1 or s == w for n, s, w in zip(reversed(shape), reversed(strides), wanted, strict=False))
    if not fits or stride < columns:
        raise ValueError(
            f"{name} must have dense rows, and matrices without gaps between them: only its row stride may differ"
        )
    return stride
