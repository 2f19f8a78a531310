"""Parameters and attributes of the space of matmul schedules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from search_spaces.arrays import IntArray
from search_spaces.hardware import intrinsics
from search_spaces.hardware.devices import Device
from search_spaces.hardware.fragments import WARP
from search_spaces.hardware.requirements import OperandSide
from search_spaces.hardware.tensor_intrinsic import TensorIntrinsic
from search_spaces.layouts.shared_layout import sampled_layouts
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.columns import TextColumn, ceil_div
from search_spaces.spaces.each import each
from search_spaces.spaces.parameters import Parameter, categorical, ordinal
from search_spaces.spaces.rules import Attribute
from search_spaces.templates.common.raster import raster
from search_spaces.templates.common.shared_tiles import stage_bytes
from search_spaces.templates.common.tiling import Tiling
from search_spaces.templates.matmul.stream_k import KEPT_BYTES, early_copies, launched_blocks, stream_k

# Elements of padding per row of the epilogue's tile. With this padding, rows of f32 are still multiples of 32 bytes, as
# wmma.store requires, and rows of 16-bit types are multiples of 16 bytes.
EPILOGUE_PAD = 8
MIN_BLOCKS = (1, 2, 3, 4)
COPY_COLUMNS = (1, 2, 4, 8, 16, 32, 64, 128)  # number of adjacent threads that copy along contiguous memory
REGISTER_OVERHEAD = 24  # registers for addresses and counters; compiled kernels have at least this number


def parameters(problem: Matmul, device: Device) -> tuple[Parameter, ...]:
    """Return the parameters with all their values, before rules exclude combinations."""
    element_bytes = problem.input_dtype.bytes
    tiles = (16, 32, 64, 96, 128, 192, 256)
    sg_data = (8, 16, 32, 48, 64, 96, 128)
    layouts = sampled_layouts(element_bytes)
    vectors = tuple(v for v in (1, 2, 4, 8, 16) if v * element_bytes <= 16)
    return (
        ordinal("tile_m", tiles, "rows of the workgroup tile of out"),
        ordinal("tile_n", tiles, "columns of the workgroup tile of out"),
        ordinal(
            "tile_k",
            tuple(d * 32 // element_bytes for d in (1, 2, 4, 8)),
            "extent along k of the tiles in one pipeline stage",
        ),
        categorical(
            "intrinsic",
            tuple(row.name for row in intrinsics.intrinsics_for(problem.a, tf32=True, acc=problem.acc, device=device)),
            "instruction that multiplies fragments",
        ),
        ordinal("subgroups_m", (1, 2, 4, 8), "subgroups along m"),
        ordinal("subgroups_n", (1, 2, 4, 8), "subgroups along n"),
        ordinal("sg_data_m", sg_data, "rows of one subgroup's sub-tile"),
        ordinal("sg_data_n", sg_data, "columns of one subgroup's sub-tile"),
        categorical("layout_a", layouts, "shared-memory layout of the tile_m x tile_k tile of a"),
        categorical("layout_b", layouts, "shared-memory layout of the tile_k x tile_n tile of b"),
        categorical("copy_a", ("cp.async", "ld.global"), "instruction that copies operand a to shared memory"),
        categorical("copy_b", ("cp.async", "ld.global"), "instruction that copies operand b to shared memory"),
        ordinal("vector_a", vectors, "elements of operand a that a thread copies at a time"),
        ordinal("vector_b", vectors, "elements of operand b that a thread copies at a time"),
        ordinal("copy_columns_a", COPY_COLUMNS, "number of copying threads along the contiguous dimension of a"),
        ordinal("copy_columns_b", COPY_COLUMNS, "number of copying threads along the contiguous dimension of b"),
        ordinal("stages", (1, 2, 3, 4, 5), "number of k-tiles that shared memory holds at the same time", deeper=True),
        ordinal("unroll", (1, 2, 4, 8), "steps of the intrinsic along k that are unrolled"),
        ordinal(
            "fragment_buffers",
            (1, 2),
            "number of steps along k whose fragments a warp holds; with 2, the fragments of the next step are loaded "
            "during the current step",
            before=1,
        ),
        categorical(
            "epilogue", ("registers", "shared"), "how accumulators are stored: from registers or through shared memory"
        ),
        ordinal("min_blocks", MIN_BLOCKS, "blocks per SM for which the compiler limits registers"),
        ordinal("split_k", (1, 2, 3, 4, 6, 8, 16), "number of blocks that share the k range of one tile"),
        stream_k(problem),
        raster(at_launch=True),
        categorical(
            "batch_mapping",
            ("outer", "inner") if problem.batch > 1 else ("outer",),
            "whether the batch index changes slowest or fastest with the block index",
        ),
    )


def tiling(problem: Matmul) -> Tiling:
    """Return the tiling of a matmul."""
    return Tiling((problem.m, problem.n, problem.depth), ("tile_m", "tile_n", "tile_k"), problem.batch)


def tile_shape(operand: str, tile_m: int, tile_n: int, tile_k: int) -> tuple[int, int]:
    """Return the shape of an operand's tile: a is (m, k), b is (k, n).

    Args:
        operand: "a" or "b".
        tile_m: Rows of the tile of out.
        tile_n: Columns of the tile of out.
        tile_k: Depth of a k-tile.
    """
    return (tile_m, tile_k) if operand == "a" else (tile_k, tile_n)


def contiguous_extent(problem: Matmul, operand: str) -> int:
    """Return the number of elements in one contiguous line of an operand in global memory."""
    if operand == "a":
        return problem.depth if problem.order_a == "row" else problem.m
    return problem.n if problem.order_b == "row" else problem.depth


def row_major(problem: Matmul, operand: str) -> bool:
    """Return True if an operand is stored by rows."""
    return (problem.order_a if operand == "a" else problem.order_b) == "row"


def operand_names(problem: Matmul, operand: str) -> dict[str, str]:
    """Return a mapping of general names (``layout``, ``rows``, ...) to the parameters of one operand."""
    rows, cols = ("tile_m", "tile_k") if operand == "a" else ("tile_k", "tile_n")
    major, minor = (rows, cols) if row_major(problem, operand) else (cols, rows)
    own = {name: f"{name}_{operand}" for name in ("layout", "copy", "vector")}
    return {**own, "columns": f"copy_columns_{operand}", "rows": rows, "cols": cols, "major": major, "minor": minor}


def axis_names(axis: str) -> dict[str, str]:
    """Return a mapping of general names (``tile``, ``subgroups``, ...) to the parameters of ``axis``, m or n."""
    return {name: f"{name}_{axis}" for name in ("tile", "subgroups", "sg_data")}


def whole_tile(problem: Matmul, row: TensorIntrinsic) -> bool:
    """Return True if the epilogue needs a whole f32 tile of out in shared memory.

    This is the case if a reduction reads the tile, or if the accumulators have the unspecified layout of wmma.
    Otherwise each subgroup stores one row of fragments at a time, in the type of out.
    """
    return problem.reduced_axis is not None or row.c.layout is None


def epilogue_attributes(problem: Matmul) -> tuple[Attribute, ...]:
    """Return the attributes for the shared memory through which results are stored."""

    def epilogue_line(tile_n: int, subgroups_n: int, intrinsic: str) -> int:
        whole = whole_tile(problem, intrinsics.intrinsic(intrinsic))
        return (tile_n if whole else tile_n // subgroups_n) + EPILOGUE_PAD

    def epilogue_bytes(tile_m: int, subgroups_m: int, subgroups_n: int, epilogue_line: int, intrinsic: str) -> int:
        row = intrinsics.intrinsic(intrinsic)
        if whole_tile(problem, row):
            return tile_m * epilogue_line * 4
        return subgroups_m * subgroups_n * row.m * epilogue_line * problem.out_dtype.bytes

    return (
        Attribute(
            "epilogue_line",
            each(epilogue_line),
            "distance in elements between rows of results in shared memory. Shared memory holds either a whole tile in "
            "f32, or one row of fragments per subgroup in the type of out",
        ),
        Attribute(
            "epilogue_bytes",
            each(epilogue_bytes),
            "shared memory through which results are stored: a whole tile, or a row of fragments of each subgroup",
        ),
    )


def fragment_attributes() -> tuple[Attribute, ...]:
    """Return attributes: fragments of out per subgroup, and fragment registers of a and b per step of k."""
    operands: tuple[tuple[OperandSide, str], ...] = (("a", "m"), ("b", "n"))

    def fragments(axis: str) -> Callable[..., Any]:
        extent = each(lambda name: getattr(intrinsics.intrinsic(name), axis))
        return lambda tile, subgroups, intrinsic: tile // (subgroups * extent(intrinsic))

    def fragment_registers(operand: OperandSide, axis: str) -> Callable[..., Any]:
        count, each_one = fragments(axis), each(lambda name: intrinsics.intrinsic(name).fragment(operand).registers)
        return lambda tile, subgroups, intrinsic: count(tile, subgroups, intrinsic) * each_one(intrinsic)

    return (
        *(
            Attribute(
                f"fragments_{axis}",
                fragments(axis),
                f"number of fragments of out along {axis} that a subgroup computes",
                names=axis_names(axis),
            )
            for axis in "mn"
        ),
        *(
            Attribute(
                f"fragment_registers_{operand}",
                fragment_registers(operand, axis),
                f"registers of {operand}'s fragments",
                names=axis_names(axis),
            )
            for operand, axis in operands
        ),
    )


def attributes(problem: Matmul, device: Device) -> tuple[Attribute, ...]:
    """Return the attributes, for use in rules, code generation and cost models."""
    element_bytes = problem.input_dtype.bytes
    names = {operand: operand_names(problem, operand) for operand in "ab"}

    def staging(rows: IntArray, cols: IntArray, threads: IntArray, copy: TextColumn) -> IntArray:
        return (copy == "ld.global") * ceil_div(rows * cols * element_bytes, 4 * threads)

    return (
        *tiling(problem).attributes(),
        launched_blocks(device),
        Attribute("threads", lambda subgroups_m, subgroups_n: subgroups_m * subgroups_n * WARP, "threads of a block"),
        *(
            Attribute(
                f"stage_bytes_{operand}",
                each(lambda layout, rows, cols: stage_bytes(layout, rows, cols, element_bytes)),
                f"shared-memory bytes of the tile of {operand} in one stage",
                names=names[operand],
            )
            for operand in "ab"
        ),
        *(
            Attribute(f"staging_{operand}", staging, f"registers that copy {operand}", names=names[operand])
            for operand in "ab"
        ),
        Attribute(
            "stage_bytes",
            lambda stage_bytes_a, stage_bytes_b: stage_bytes_a + stage_bytes_b,
            "shared-memory bytes of one stage",
        ),
        Attribute(
            "staging",
            lambda staging_a, staging_b: staging_a + staging_b,
            "registers that a thread uses to copy operands",
        ),
        *epilogue_attributes(problem),
        Attribute(
            "shared_bytes",
            lambda stage_bytes, stages, epilogue, epilogue_bytes, stream_k: (
                np.maximum(stage_bytes * stages, epilogue_bytes * (epilogue == "shared")) + KEPT_BYTES * stream_k
            ),
            "dynamic shared memory of a block, in bytes",
        ),
        early_copies(),
        Attribute(
            "accumulators",
            lambda tile_m, tile_n, threads: ceil_div(tile_m * tile_n, problem.sums_of_register * threads),
            "registers of a thread for accumulators; two f16 accumulators share a register",
        ),
        *fragment_attributes(),
        Attribute(
            "registers",
            lambda accumulators, fragment_registers_a, fragment_registers_b, fragment_buffers, staging: (
                accumulators
                + fragment_buffers * (fragment_registers_a + fragment_registers_b)
                + staging
                + REGISTER_OVERHEAD
            ),
            "lower bound of the registers of a thread",
        ),
    )
