"""Evaluate a warp's instruction on registers. The intrinsic defines which elements a register holds."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from search_spaces.hardware.tensor_intrinsic import Sums, TensorIntrinsic

Registers = npt.NDArray[np.generic]  # (lanes, values per lane)


def execute(row: TensorIntrinsic, a: Registers, b: Registers, c: Registers) -> Sums:
    """Return the registers of the result, computed by the intrinsic's ``reference``.

    Raises:
        ValueError: The intrinsic is wmma, whose fragments are opaque.
    """
    d = row.reference(row.a.collect(a), row.b.collect(b), row.c.collect(c))
    return d[row.c.positions]
