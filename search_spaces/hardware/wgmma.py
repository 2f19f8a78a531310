"""Intrinsics of wgmma, Hopper's matrix multiplication, which reads operands from shared memory.

A warpgroup of four warps multiplies 64 x k by k x n elements (PTX ISA, "wgmma.mma_async"). Each type has a list of
possible ``n``. The intrinsic for a type and an ``n`` is created on demand. Operands are stored in *boxes*. A box
consists of lines of 16 to 128 bytes, is written by one TMA copy, and has the swizzle of its line width.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from search_spaces.hardware.dtypes import MULTIPLIED_DTYPES
from search_spaces.hardware.fragments import WARP, Fragment
from search_spaces.hardware.requirements import Access, OperandSide, Refusal
from search_spaces.hardware.tensor_intrinsic import STORED, TensorIntrinsic
from search_spaces.layouts.nested_layout import NestedLayout
from search_spaces.layouts.shared_layout import Axis, SharedLayout, hardware_swizzle

ARCH = "sm_90a"
WARPGROUP = 4 * WARP
ROWS = 64  # number of rows of operand a per instruction
K_BYTES = 32  # bytes along k per instruction: 8 elements of 4 bytes, 16 elements of 2 bytes, or 32 elements of 1 byte
TRANSPOSED_BYTES = 2  # bytes per element of the types whose lines may be along m or n instead of k
CORE_LINES = 8  # number of 16-byte lines of a core matrix; hardware reads one core matrix at a time
NO_SWIZZLE_BYTES = 16  # bytes per line of a core matrix

Swizzle = Literal[0, 32, 64, 128]
SWIZZLES: tuple[Swizzle, ...] = (0, 32, 64, 128)

_ALL_N = tuple(range(8, 257, 8))
N_OF: dict[str, tuple[int, ...]] = {
    **{kind: _ALL_N for kind in ("f16", "bf16", "tf32", "e4m3", "e5m2")},
    "i8": (8, 16, 24, *range(32, 257, 16)),
}
ALONG_K_HEADER = "autosched/ptx/wgmma/along_k.cuh"  # header for types whose lines must be along k
IN_F16_HEADER = "autosched/ptx/wgmma/in_f16.cuh"


@dataclass(frozen=True)
class SwizzledBoxes:
    """wgmma descriptors, which require that a box of an operand's tile has the following layout.

    A line is a row or column of a box that is contiguous in shared memory. Lines have 16 bytes, or 32, 64 or 128 bytes
    with the hardware swizzle of that width. The number of lines is a multiple of ``CORE_LINES``. A box starts at a
    multiple of ``alignment`` bytes. Lines are along k (K-major), or for 16-bit types along m or n (MN-major). Source:
    PTX ISA, "Canonical layouts".
    """

    def check(
        self, operand: OperandSide, layout: SharedLayout, element_bytes: int, fragment: tuple[int, int]
    ) -> Access | Refusal:
        """Return the access by descriptors, or the reason why the layout is not a box's layout."""
        along_k: Axis = "cols" if operand == "a" else "rows"
        subject = f"layout {layout.text} of a {layout.shape[0]}x{layout.shape[1]} box of {operand.upper()}"
        if layout.line_axis != along_k and element_bytes != TRANSPOSED_BYTES:
            other = "M" if operand == "a" else "N"
            return Refusal(
                f"wgmma needs a K-major layout for elements of {element_bytes} bytes, but {subject} is {other}-major"
            )
        line_bytes = layout.line * element_bytes
        swizzle = next((s for s in SWIZZLES if (s or NO_SWIZZLE_BYTES) == line_bytes), None)
        if swizzle is None:
            return Refusal(
                f"wgmma reads lines of 16, 32, 64 or 128 bytes, but {subject} has lines of {line_bytes} bytes"
            )
        if layout.lines % CORE_LINES:
            return Refusal(f"wgmma reads {CORE_LINES} lines at a time, but {subject} has {layout.lines}")
        canonical = box_layout(layout.shape, layout.transposed, swizzle, element_bytes)
        wrong = np.argwhere(layout.offsets() != canonical.offsets())
        if wrong.size:
            row, col = (int(i) for i in wrong[0])
            return Refusal(
                f"wgmma reads lines of {line_bytes} bytes as {canonical.text}, with element ({row}, {col}) at byte "
                f"{canonical(row, col) * element_bytes}, but {subject} puts it at byte "
                f"{layout(row, col) * element_bytes}"
            )
        return Access("boxes", layout.line_axis, NO_SWIZZLE_BYTES // element_bytes)


@lru_cache(maxsize=1024)
def box_layout(shape: tuple[int, int], transposed: bool, swizzle: Swizzle, element_bytes: int) -> SharedLayout:
    """Return the layout that TMA gives a box of ``shape``.

    Args:
        shape: (rows, columns) in elements. A line is as wide as the swizzle, or has 16 bytes without a swizzle.
        transposed: True if a line is a column of the box.
        swizzle: Width of the swizzle in bytes; 0 for no swizzle.
        element_bytes: Bytes per element.
    """
    steps = () if swizzle == 0 else (hardware_swizzle(swizzle, element_bytes),)
    return SharedLayout(shape, transposed, steps)


def line_bytes(swizzle: int) -> int:
    """Return the number of bytes of a line of a box."""
    return swizzle or NO_SWIZZLE_BYTES


def alignment(swizzle: int) -> int:
    """Return the alignment of a box in bytes, which is the period of its swizzle (PTX ISA, "Matrix descriptor")."""
    return CORE_LINES * line_bytes(swizzle)


@lru_cache(maxsize=256)
def wgmma_row(kind: str, n: int, *, f16_sums: bool = False) -> TensorIntrinsic:
    """Return the wgmma intrinsic for ``n`` and operands of type ``kind``, such as ``wgmma_m64n128k16_bf16``.

    ``kind`` is a key of N_OF. The intrinsic accumulates in f32, or in i32 for i8. With ``f16_sums``, it accumulates in
    f16, with two sums per register (PTX ISA, "Register fragments for wgmma.mma_async.m64nNk16").

    Raises:
        ValueError: There is no instruction for the type or n.
    """
    if kind not in N_OF:
        raise ValueError(f"wgmma multiplies {', '.join(N_OF)}, not {kind!r}")
    if n not in N_OF[kind]:
        steps = "8, 24, and 16 to 256 in steps of 16" if kind == "i8" else "8 to 256 in steps of 8"
        raise ValueError(f"wgmma of {kind} needs n in {steps}, not {n}")
    element_bytes = MULTIPLIED_DTYPES[STORED.get(kind, kind)].bytes
    k = K_BYTES // element_bytes
    # PTX ISA, "Register fragments for wgmma.mma_async.m64nNk16": the columns are in groups of eight, and a lane has
    # elements of two rows that are 8 apart.
    accumulators = NestedLayout((4, 1), (1, n // 8), (2, 1), (8, 4), (1, 2), (1, 0), (4, 1))
    return TensorIntrinsic(
        unit="wgmma",
        type_a=kind,
        type_b=kind,
        a=Fragment((ROWS, k), 0),
        b=Fragment((k, n), 0),
        c=Fragment((ROWS, n), n // 4 if f16_sums else n // 2, accumulators, lanes=WARPGROUP),
        load=SwizzledBoxes(),
        needs="wgmma",
        instructions=1,
        results=n // 4 if f16_sums else n // 2,
        cpp=f"autosched::ptx::Wgmma<{{a}}, {n}{', true' if f16_sums else ''}>",
        header=IN_F16_HEADER if f16_sums else "" if element_bytes == TRANSPOSED_BYTES else ALONG_K_HEADER,
        f16_sums=f16_sums,
    )
