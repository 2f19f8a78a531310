"""Instructions of a schedule's products: fragments of a warp, or wgmma and tcgen05, which read boxes in shared memory.

A warpgroup holds wgmma accumulators, and operand a in registers, as its four warps would hold them with
``mma.m16n8k16``, each for 16 of 64 rows. So wgmma needs no distributions of its own. tcgen05 keeps accumulators in
tensor memory, of which each of four warps reads a quarter of the lanes: 32 of 128 rows or 16 of 64. Loads of 16 lanes
by 256 bits bring them to registers as with ``mma.m16n8k16`` (PTX ISA 9.7.16.2.3). The layout of wmma fragments is
unspecified: its accumulators go through shared memory, from where each lane reads its elements of ``mma.m16n8k16``.
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

WGMMA = "wgmma_m64k16"  # prefix of the names; n is that of the tile
TCGEN05 = "tcgen05_m"
TCGEN05_ROWS = (128, 64)  # rows per instruction
TENSOR_COLUMNS = 512  # columns of tensor memory; a block allocates a power of two
LEAST_TENSOR_COLUMNS = 32
WGMMA_TYPES = ("f16", "bf16")
FRAGMENT_K = {"f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32, "i8": 32}  # 32 bytes along k
WARPS = WARPGROUP // 32
WARPGROUP_ROWS = 64  # rows per instruction of wgmma
SUBGROUPS = (1, 2, 4, 8)  # subgroups along an axis of a product's tile
MOST_COLUMNS = 256  # largest n of an instruction
BOX_ALIGNMENT = 1024  # bytes after which the pattern of the widest swizzle repeats


# Two mma.m16n8k16 fragments of c, side by side.
_READ_16X16 = Fragment((16, 16), 8, NestedLayout((1, 1), (1, 1), (2, 2), (8, 4), (1, 2), (0, 0), (4, 1)))


def wgmma_name(element: DType) -> str:
    """Return the value of ``intrinsic`` for wgmma."""
    return f"{WGMMA}_{element.name}"


def tcgen05_names(multiplied: str) -> tuple[str, ...]:
    """Return the values of ``intrinsic`` for tcgen05 of a multiplied type: f32 is multiplied as tf32."""
    return tuple(f"{TCGEN05}{rows}k{FRAGMENT_K[multiplied]}_{multiplied}" for rows in TCGEN05_ROWS)


def is_boxed(name: str) -> bool:
    """Return True if the instruction itself reads operands from shared memory as boxes."""
    return name.startswith(WGMMA) or in_tensor_memory(name)


def in_tensor_memory(name: str) -> bool:
    """Return True if accumulators are in tensor memory."""
    return name.startswith(TCGEN05)


def rows_of(name: str) -> int:
    """Return the rows per instruction, which four warps share equally."""
    return next((rows for rows in TCGEN05_ROWS if name.startswith(f"{TCGEN05}{rows}k")), WARPGROUP_ROWS)


def columns_step(name: str) -> int:
    """Return the granularity of n for an instruction that accumulates in tensor memory.

    For i8, n = 8 and n = 24 would be possible, too (PTX ISA 9.7.16.2.1).
    """
    return 8 if rows_of(name) == 64 and not name.endswith("_i8") else 16


def allocated_columns(columns: int) -> int:
    """Return the columns of tensor memory that a block must allocate for ``columns``."""
    return max(LEAST_TENSOR_COLUMNS, 1 << (columns - 1).bit_length())


def is_wmma(name: str) -> bool:
    """Return True if accumulators can only be read through shared memory (wmma)."""
    return unit(intrinsics.intrinsic(name).unit).opaque if not is_boxed(name) else False


@cache
def fragments(name: str) -> TensorIntrinsic:
    """Return an intrinsic that describes the register fragments of the instruction ``name``.

    For instructions that read boxes it is the equivalent mma.sync. Results of wmma are described as they are after the
    exchange through shared memory.
    """
    if is_boxed(name):
        multiplied = name.rpartition("_")[2]
        name = f"mma_m16n8k{FRAGMENT_K[multiplied]}_{multiplied}"
    row = intrinsics.intrinsic(name)
    return dataclasses.replace(row, c=_READ_16X16) if is_wmma(name) else row


def rows_of_intrinsics(element: DType, tf32: bool = False, device: Device | None = None) -> tuple[str, ...]:
    """Return the instructions that multiply the type and accumulate in f32, or in i32 for i8.

    These are mma.sync, wmma, FMA for f32, and wgmma or tcgen05 if ``device`` has it.
    """
    intrinsics_ = intrinsics.intrinsics_for(element.name, tf32=tf32, acc="f32", device=device)
    units = ("mma", "wmma", "fma") if element.name == "f32" else ("mma", "wmma")
    names = tuple(row.name for kind in units for row in intrinsics_ if row.unit == kind and not row.unit_scales)
    return names + boxed_names(element, tf32, device)


def scaled_rows(blocks: BlockFormat, device: Device) -> tuple[str, ...]:
    """Return the instructions that multiply blocks with scales.

    They apply the scales themselves. For mxf8, on devices without them, plain e4m3 is multiplied and the sum of each
    block is scaled.
    """
    row = next(r for r in intrinsics.intrinsics_for(blocks.name, False) if r.unit == "mma")
    if row.why_not(device) is None or blocks.name != UNIT_SCALED_AS:
        return (row.name,)
    names = rows_of_intrinsics(blocks.element, device=device)
    return tuple(name for name in names if not is_boxed(name) and intrinsics.intrinsic(name).unit == "mma")


def boxed_names(element: DType | None, tf32: bool, device: Device | None) -> tuple[str, ...]:
    """Return the instructions on ``device`` that read boxes: wgmma or tcgen05."""
    if element is None or device is None:
        return ()
    if device.has("wgmma"):
        return (wgmma_name(element),) if element.name in WGMMA_TYPES else ()
    multiplied = "tf32" if element.name == "f32" and tf32 else element.name
    if multiplied not in FRAGMENT_K or tcgen05_row(multiplied, 128, 128).why_not(device) is not None:
        return ()
    return tcgen05_names(multiplied)
