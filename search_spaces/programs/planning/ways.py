"""What a schedule multiplies with: fragments of a warp, or wgmma, which reads boxes in shared memory.

A warpgroup has its accumulators, and its a in registers, as its four warps would have them by ``mma.m16n8k16``, each
16 of 64 rows. So wgmma is a way to multiply that changes no distribution.
"""

from __future__ import annotations

from search_spaces.hardware import intrinsics
from search_spaces.hardware.devices import Device
from search_spaces.hardware.dtypes import DType
from search_spaces.hardware.intrinsics import TensorIntrinsic
from search_spaces.hardware.wgmma import WARPGROUP

WGMMA = "wgmma_m64k16"  # of any n
TYPES = ("f16", "bf16")
ROWS_OF_WARP = 16  # of the 64 of an instruction
WARPS = WARPGROUP // 32
MOST_COLUMNS = 256  # of an instruction
BOX_ALIGNMENT = 1024  # bytes after which the pattern of the widest swizzle repeats


def wgmma_name(element: DType) -> str:
    """Return the value of ``intrinsic`` that stands for wgmma."""
    return f"{WGMMA}_{element.name}"


def is_boxed(name: str) -> bool:
    """Whether operands lie in shared memory as boxes that the instruction itself reads."""
    return name.startswith(WGMMA)


def fragments(name: str) -> TensorIntrinsic:
    """Who holds what in registers: the row called ``name``, or the one whose fragments wgmma's are."""
    return intrinsics.intrinsic(name.replace(WGMMA, "mma_m16n8k16") if is_boxed(name) else name)


def rows_of_intrinsics(element: DType, tf32: bool = False, device: Device | None = None) -> tuple[str, ...]:
    """Return what multiplies the type and adds up in f32, or in i32: mma.sync, FMA for f32, and wgmma where ``device``
    has it."""
    found = intrinsics.intrinsics_for(element.name, tf32=tf32, acc="f32", device=device)
    units = (("mma", "fma") if tf32 else ("fma",)) if element.name == "f32" else ("mma",)
    names = tuple(
        row.name
        for unit in units
        for row in found
        if row.unit == unit and row.c.layout is not None and not row.unit_scales
    )
    return (*names, wgmma_name(element)) if has_boxes(element, device) else names


def has_boxes(element: DType | None, device: Device | None) -> bool:
    """Whether wgmma is a way on ``device``."""
    return element is not None and element.name in TYPES and device is not None and device.has("wgmma")
