"""Named schedules and problems of tcgen05_matmul in which faults are planted, and the class of a planted fault."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from header_edits import edited
from kernels import generate

from measurements.emulator import FindingKind
from search_spaces.hardware.devices import device
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.schedule import Schedule

K = FindingKind
WRONG = "wrong_result"
B200 = device("b200")
KERNEL = "autosched/kernels/tcgen05_matmul.cuh"
INTRINSIC = "autosched/intrinsics/tcgen05.cuh"

SMALL = Schedule(
    "tcgen05_matmul",
    tuple({
        "tile_m": 128, "tile_n": 64, "tile_k": 64, "swizzle_a": 128, "swizzle_b": 128, "stages": 2, "sum_buffers": 1,
        "split_k": 1, "raster": "row", "store_buffers": 0, "tiles_per_block": 1, "stream_k": 0,
        "tile_scheduler": "static", "l2_promotion": 128, "l2_evict_last": "none",
    }.items()),
)  # fmt: skip

MXF8 = {"a": "mxf8", "scale_order": "tiled", "k": 416, "n": 256, "batch": 2}

STREAMED = {"m": 128 * 9, "n": 64, "k": 192}
LAUNCHED = {"m": 768, "k": 128}

# For each case: (changes to the small schedule, changes to the problem).
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": ({}, {}),
    "edges": ({}, {"m": 200, "n": 120, "k": 104}),
    "bias": ({}, {"epilogue": "bias+relu"}),
    "batch": ({}, {"batch": 2, "m": 128, "n": 64}),
    "lines of b along n": ({}, {"order_b": "row"}),
    "several tiles": ({"sum_buffers": 2, "tiles_per_block": 4}, {"m": 512, "k": 128}),
    "boxes": ({"store_buffers": 1, "tile_n": 128}, {"n": 256}),
    "a pair": ({"tile_m": 256}, {"m": 512}),
    "mxf8": ({"tile_n": 128, "tile_k": 128}, MXF8),
    "mxf4": ({"tile_n": 128, "tile_k": 128}, MXF8 | {"a": "mxf4", "k": 704}),
    "nvf4": ({"tile_n": 128, "tile_k": 128}, MXF8 | {"a": "nvf4", "k": 704}),
    "mxf8 of a pair": ({"tile_m": 256, "tile_n": 256, "tile_k": 128}, MXF8 | {"m": 512, "n": 256}),
    "splits": ({"split_k": 3}, {"k": 640}),
    "stream-K": ({"stream_k": 1, "tiles_per_block": 2, "sum_buffers": 2}, STREAMED),
    "scales of blocks": (
        {"tile_k": 128, "sum_buffers": 2},
        {"a": "e4m3", "scale": "block", "k": 400, "m": 200, "n": 240},
    ),
    "launch control": ({"tile_scheduler": "launch_control", "sum_buffers": 2, "tiles_per_block": 4}, LAUNCHED),
    "launch control of pairs": (
        {"tile_m": 256, "tile_scheduler": "launch_control", "sum_buffers": 2, "tiles_per_block": 4},
        LAUNCHED | {"m": 1536},
    ),
    "several tiles of a pair": ({"tile_m": 256, "sum_buffers": 2, "tiles_per_block": 4}, {"m": 1024, "k": 128}),
}


@dataclass(frozen=True)
class Planted:
    """A fault: ``old`` is replaced by ``new`` in the kernel of a case. ``finding``: expected kind, or WRONG."""

    name: str
    case: str
    finding: str
    old: str
    new: str
    header: str = KERNEL

    def problem(self) -> Matmul:
        fields = {"m": 256, "n": 128, "k": 320, "a": "bf16", "order_b": "col"} | CASES[self.case][1]
        return Matmul(**fields)

    def schedule(self) -> Schedule:
        return SMALL.replace(**CASES[self.case][0])

    def right_kernel(self) -> GeneratedKernel:
        return generate(self.problem(), self.schedule(), B200)

    def kernel(self) -> GeneratedKernel:
        right = self.right_kernel()
        return dataclasses.replace(right, headers=edited(right.headers, self.header, self.old, self.new))
