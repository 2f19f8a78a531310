"""An array that a kernel reads or writes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from search_spaces.hardware.dtypes import DType

Role = Literal["input", "output", "inout", "workspace"]


@dataclass(frozen=True)
class Operand:
    """One array argument of a kernel, dense, ``shape`` in memory order (C order).

    An ``inout`` array is both: it holds its input before a launch that is checked, and is compared after it.
    ``workspace`` arrays belong to the kernel; with ``zeroed`` they must be zero before the first launch, and every
    launch leaves them zero again.
    """

    name: str
    role: Role
    dtype: DType
    shape: tuple[int, ...]
    zeroed: bool = False

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.size * self.dtype.bytes
