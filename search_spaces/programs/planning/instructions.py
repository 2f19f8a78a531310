"""Instructions that can compute products: some use register fragments; wgmma and tcgen05 read boxes.

wgmma, tcgen05 and wmma need no additional distributions, because results have the register layout of ``mma.m16n8k16``:

- wgmma: The accumulators, and operand a in registers, have this layout. Each of the four warps of a warpgroup holds 16
  of 64 rows.
- tcgen05: The accumulators are in tensor memory. Each of four warps reads a quarter of the lanes: 32 of 128 rows, or 16
  of 64 rows. Loads of 16 lanes by 256 bits have this layout, too (PTX ISA 9.7.16.2.3).
- wmma: The layout of fragments is unspecified. The accumulators are therefore stored to shared memory, and loaded in
  the layout of ``mma.m16n8k16``.
"""

from __future__ import annotations

import dataclasses
from functools import cache

from search_spaces.hardware import intrinsics
from search_spaces.hardware.block_scaling import UNIT_SCALED_AS, BlockFormat
from search_spaces.hardware.devices import Device
from search_spaces.hardware.dtypes import DType
from search_spaces.hardware.fragments import Fragment
from search_spaces.hardware.tcgen05 import tcgen05_row
from search_spaces.hardware.tensor_intrinsic import TensorIntrinsic
from search_spaces.hardware.units import unit
from search_spaces.hardware.wgmma import WARPGROUP
from search_spaces.layouts.nested_layout import NestedLayout

WGMMA = "wgmma_m64k16"  # prefix of names of wgmma instructions, whose n is the number of columns of the tile
TCGEN05 = "tcgen05_m"
TCGEN05_ROWS = (128, 64)  # numbers of rows of tcgen05 instructions
TENSOR_COLUMNS = 512  # columns of tensor memory per SM; a block allocates a power of two
LEAST_TENSOR_COLUMNS = 32
WGMMA_TYPES = ("f16", "bf16")
# depth of an instruction (32 bytes of k), by type
FRAGMENT_K = {"f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32, "i8": 32}
WARPS = WARPGROUP // 32
WARPGROUP_ROWS = 64  # rows per instruction of wgmma
SUBGROUPS = (1, 2, 4, 8)  # candidate numbers of subgroups along a dimension of a product
MOST_COLUMNS = 256  # largest n of wgmma and tcgen05
BOX_ALIGNMENT = 1024  # alignment of boxes in bytes: the period of the widest swizzle


# Layout of wmma accumulators after conversion: two mma.m16n8k16 fragments of c, side by side.
_READ_16X16 = Fragment((16, 16), 8, NestedLayout((1, 1), (1, 1), (2, 2), (8, 4), (1, 2), (0, 0), (4, 1)))


def wgmma_name(element: DType) -> str:
    """Return the value of the parameter ``intrinsic`` that selects wgmma for an element type."""
    return f"{WGMMA}_{element.name}"


def tcgen05_names(multiplied: str) -> tuple[str, ...]:
    """Return the values of the parameter ``intrinsic`` that select tcgen05 for a type of operands."""
    return tuple(f"{TCGEN05}{rows}k{FRAGMENT_K[multiplied]}_{multiplied}" for rows in TCGEN05_ROWS)


def is_boxed(name: str) -> bool:
    """Return True if the instruction reads its operands from boxes in shared memory (wgmma, tcgen05)."""
    return name.startswith(WGMMA) or in_tensor_memory(name)


def in_tensor_memory(name: str) -> bool:
    """Return True if the instruction accumulates in tensor memory (tcgen05)."""
    return name.startswith(TCGEN05)


def rows_of(name: str) -> int:
    """Return the number of rows that a wgmma or tcgen05 instruction divides equally among four warps."""
    return next((rows for rows in TCGEN05_ROWS if name.startswith(f"{TCGEN05}{rows}k")), WARPGROUP_ROWS)


def columns_step(name: str) -> int:
    """Return the step of n for an instruction that accumulates in tensor memory: n must be a multiple of it.

    The instruction for i8 also supports n = 8 and n = 24, which are not used (PTX ISA 9.7.16.2.1).
    """
    return 8 if rows_of(name) == 64 and not name.endswith("_i8") else 16


def allocated_columns(columns: int) -> int:
    """Return the number of tensor-memory columns that a block must allocate to use ``columns``."""
    return max(LEAST_TENSOR_COLUMNS, 1 << (columns - 1).bit_length())


def is_wmma(name: str) -> bool:
    """Return True if accumulators can only be read through shared memory (wmma)."""
    return unit(intrinsics.intrinsic(name).unit).opaque if not is_boxed(name) else False


@cache
def fragments(name: str) -> TensorIntrinsic:
    """Return an intrinsic that describes the register fragments of the instruction ``name``.

    For instructions that read boxes, the returned intrinsic is the mma.sync with the same layout. For wmma, the result
    has the layout after the conversion through shared memory.
    """
    if is_boxed(name):
        multiplied = name.rpartition("_")[2]
        name = f"mma_m16n8k{FRAGMENT_K[multiplied]}_{multiplied}"
    row = intrinsics.intrinsic(name)
    return dataclasses.replace(row, c=_READ_16X16) if is_wmma(name) else row


def rows_of_intrinsics(element: DType, tf32: bool = False, device: Device | None = None) -> tuple[str, ...]:
    """Return the names of the instructions that multiply ``element`` and accumulate in f32 (for i8: in i32).

    The candidates are mma.sync, wmma, FMA (f32 only), and wgmma or tcgen05 if ``device`` has them.
    """
    intrinsics_ = intrinsics.intrinsics_for(element.name, tf32=tf32, acc="f32", device=device)
    units = ("mma", "wmma", "fma") if element.name == "f32" else ("mma", "wmma")
    names = tuple(row.name for kind in units for row in intrinsics_ if row.unit == kind and not row.unit_scales)
    return names + boxed_names(element, tf32, device)


def scaled_rows(blocks: BlockFormat, device: Device) -> tuple[str, ...]:
    """Return the names of the instructions for block-scaled products.

    These instructions apply the scales. On devices without them, mxf8 uses instructions for e4m3, and the kernel scales
    the sum of each block.
    """
    row = next(r for r in intrinsics.intrinsics_for(blocks.name, False) if r.unit == "mma")
    if row.why_not(device) is None or blocks.name != UNIT_SCALED_AS:
        return (row.name,)
    names = rows_of_intrinsics(blocks.element, device=device)
    return tuple(name for name in names if not is_boxed(name) and intrinsics.intrinsic(name).unit == "mma")


def boxed_names(element: DType | None, tf32: bool, device: Device | None) -> tuple[str, ...]:
    """Return the names of the instructions on ``device`` that read boxes: wgmma or tcgen05."""
    if element is None or device is None:
        return ()
    if device.has("wgmma"):
        return (wgmma_name(element),) if element.name in WGMMA_TYPES else ()
    multiplied = "tf32" if element.name == "f32" and tf32 else element.name
    if multiplied not in FRAGMENT_K or tcgen05_row(multiplied, 128, 128).why_not(device) is not None:
        return ()
    return tcgen05_names(multiplied)
