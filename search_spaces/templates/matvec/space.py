"""Parameters, attributes and rules of the space of matvec schedules.

A schedule is a ``LoweringConfig`` over (m, n, k) and a few further parameters. The kernel is
``autosched/kernels/matvec.cuh``; its ``static_assert``s carry the names of the rules here.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from search_spaces.arrays import IntArray
from search_spaces.hardware.devices import Device, register_limit
from search_spaces.hardware.fragments import WARP
from search_spaces.hardware.intrinsics import intrinsic
from search_spaces.hardware.tensor_intrinsic import TensorIntrinsic
from search_spaces.layouts.lowering_config import Basis, LoweringConfig
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.matvec import Matvec
from search_spaces.spaces.columns import TextColumn, ceil_div
from search_spaces.spaces.parameters import Parameter, categorical, ordinal
from search_spaces.spaces.rules import Attribute, Rule
from search_spaces.spaces.space import Space
from search_spaces.templates.common.cache_hints import load_hint
from search_spaces.templates.common.device_choices import offered
from search_spaces.templates.common.launch_rules import device_rules
from search_spaces.templates.common.tiling import Tiling
from search_spaces.templates.matvec.problem import as_matvec

# Architectures on which the first proposed schedules spilled if they had more registers than FULL_REGISTERS allows
# (NVRTC 13.5, 2026-11-24).
SPILLING = (75, 120, 121)
FULL_REGISTERS = 0.8  # largest fraction of a thread's registers with which ptxas does not spill on these architectures
REGISTER_OVERHEAD = 18  # registers for addresses and counters; compiled kernels have about this number or more
BODY_LIMIT = 2048  # limit of FMAs in the unrolled loop body, so that the body fits in the instruction cache

FMA = "fma"
# Distribution of mma.sync's operand A in a warp: 8 lanes with 2 rows each, and 4 lanes with 4 elements of k each.
MMA_LANES_N, MMA_ROWS, MMA_LANES_K, MMA_ELEMENTS = 8, 2, 4, 4


def space(problem: Matvec | Matmul, device: Device) -> Space:
    """Return all schedules of ``problem`` on ``device``."""
    return _space(as_matvec(problem), device)


_NEEDS = {("x_operand_source", "shared"): "cp_async"}


@lru_cache(maxsize=64)
def _space(problem: Matvec, device: Device) -> Space:
    return Space(
        "matvec",
        offered(parameters(problem), device, _NEEDS),
        attributes(problem),
        validity_constraints(problem, device),
        pruning_rules(problem, device),
        stratified_by="intrinsic",
    )


def parameters(problem: Matvec) -> tuple[Parameter, ...]:
    """Return the parameters with all their values, before rules exclude combinations."""
    lanes = (1, 2, 4, 8, 16, 32)
    subgroups = (1, 2, 4, 8, 16, 32)
    return (
        ordinal("tile_m", tuple(range(1, 17)), "rows of x, and of out, that a workgroup computes"),
        ordinal("tile_n", (1, 2, 4, 8, 16, 32, 64, 128, 256), "rows of w that a workgroup reads"),
        ordinal("vector_w", (1, 2, 4, 8, 16), "contiguous elements along k that a thread loads at a time"),
        ordinal("lanes_n", lanes, "lanes along n"),
        ordinal("lanes_k", lanes, "lanes along k"),
        ordinal("subgroups_n", subgroups, "subgroups along n"),
        ordinal("subgroups_k", subgroups, "subgroups along k"),
        ordinal("tile_k", tuple(2**i for i in range(15)), "elements along k in one step of the loop"),
        categorical(
            "expand_dims", ("no", "yes"), "whether a thread adds up the elements of its vector inside the loop"
        ),
        categorical("intrinsic", (FMA, mma_row(problem).name), "instruction that multiplies the vectors of w and x"),
        ordinal("unroll", (1, 2, 4, 8), "number of steps of the loop whose loads are in flight at the same time"),
        ordinal("split_k", (1, 2, 3, 4, 6, 8, 16, 32), "workgroups that share the k range of one tile"),
        categorical(
            "x_operand_source",
            ("global", "shared"),
            "memory from which the loop reads x: global (through L1) or shared",
        ),
        load_hint("cache_hint_w", "w"),
        ordinal("min_blocks", (1, 2, 3, 4, 6, 8), "blocks per SM for which the compiler limits registers"),
    )


def widest_access(problem: Matvec) -> int:
    """Return the number of elements of the widest load (16 bytes)."""
    return 16 // problem.input_dtype.bytes


def aligned_elements(problem: Matvec) -> int:
    """Return the alignment in elements of all rows of x and w: a power of two, at most 16 bytes."""
    return min(widest_access(problem), problem.k & -problem.k)


def row_classes(problem: Matvec) -> int:
    """Return the number of rows of w (a power of two) after which their alignment repeats.

    Rows with equal alignment form a class. A block computes only rows of one class, so that one shift of x is
    sufficient.
    """
    return min(widest_access(problem) // aligned_elements(problem), 1 << (problem.n - 1).bit_length())


def most_shift(problem: Matvec) -> int:
    """Return the largest number of elements by which the first aligned load of a row may begin before the row."""
    return widest_access(problem) - aligned_elements(problem)


def mma_row(problem: Matvec) -> TensorIntrinsic:
    """Return the mma.sync that multiplies 16 rows of w and 8 rows of x in the layouts that they have in memory."""
    return intrinsic(f"mma_m16n8k16_{problem.x}")


def tiling(problem: Matvec) -> Tiling:
    """Return the tiling of the rows of each class.

    Along k, the tiling of a row begins at the last aligned address that is not after the row's first element.
    """
    classes = row_classes(problem)
    extents = (problem.m, -(-problem.n // classes), problem.k + most_shift(problem))
    return Tiling(extents, ("tile_m", "tile_n", "tile_k"), matrices=classes)


def lowering(
    tile_m: int = 1,
    tile_n: int = 1,
    vector_w: int = 1,
    lanes_n: int = 1,
    lanes_k: int = 1,
    subgroups_n: int = 1,
    subgroups_k: int = 1,
    tile_k: int = 1,
) -> LoweringConfig:
    """Return the lowering config over (m, n, k) that these parameters describe.

    Args:
        tile_m: Rows of x per block.
        tile_n: Rows of w per block.
        vector_w: Elements along k of a thread's vector.
        lanes_n: Lanes of a warp along n.
        lanes_k: Lanes of a warp along k.
        subgroups_n: Warps of a block along n.
        subgroups_k: Warps of a block along k, which compute parts of the same sums.
        tile_k: Elements along k per step of the loop.

    Raises:
        ValueError: The parameters do not fit together (see LoweringConfig).
    """
    return LoweringConfig(
        workgroup=(tile_m, tile_n, 0),
        thread=(0, 0, vector_w),
        lane_basis=Basis.identity((1, lanes_n, lanes_k)),
        subgroup_basis=Basis.identity((1, subgroups_n, subgroups_k)),
        partial_reduction=(0, 0, tile_k),
    )


def attributes(problem: Matvec) -> tuple[Attribute, ...]:
    """Return the attributes, for use in rules, code generation and cost models."""
    element_bytes, columns = problem.input_dtype.bytes, mma_row(problem).n

    def line_bytes(split_elements: IntArray, vector_w: IntArray, intrinsic: TextColumn) -> IntArray:
        # With mma.sync, the lanes of a fragment read several rows at a time, 128 bytes in total. Rows are padded so
        # that the elements read from consecutive rows are in consecutive groups of banks, without overlap.
        thread_bytes, row_bytes = vector_w * element_bytes, split_elements * element_bytes
        pad = np.where(thread_bytes > 16, 16, 4 * thread_bytes)
        return np.where(intrinsic == FMA, row_bytes, ceil_div(row_bytes, 128) * 128 + pad)

    def slab_bytes(
        tile_m: IntArray,
        x_operand_source: TextColumn,
        split_elements: IntArray,
        vector_w: IntArray,
        intrinsic: TextColumn,
    ) -> IntArray:
        rows_bytes = tile_m * line_bytes(split_elements, vector_w, intrinsic)
        return ceil_div(rows_bytes, 16) * 16 * (x_operand_source == "shared")

    def sums_bytes(tile_m: IntArray, tile_n: IntArray, subgroups_k: IntArray, split_k: IntArray) -> IntArray:
        several = (subgroups_k > 1) | (split_k > 1)
        return tile_m * tile_n * subgroups_k * 4 * several

    def rows_x(tile_m: IntArray, intrinsic: TextColumn) -> IntArray:
        return np.where(intrinsic == FMA, tile_m, ceil_div(tile_m, columns))

    def accumulators(tile_m: IntArray, vectors: IntArray, carried: IntArray, intrinsic: TextColumn) -> IntArray:
        # The lanes of a fragment along k divide the columns among themselves: each lane has the sums of some columns.
        each = np.where(intrinsic == FMA, vectors * carried, columns * vectors // MMA_LANES_K)
        return rows_x(tile_m, intrinsic) * each

    def multiplies(tile_m: IntArray, vectors: IntArray, vector_w: IntArray, intrinsic: TextColumn) -> IntArray:
        elements = vectors * vector_w
        each = np.where(intrinsic == FMA, elements, elements // (MMA_ROWS * MMA_ELEMENTS))
        return rows_x(tile_m, intrinsic) * each

    return (
        *tiling(problem).attributes(),
        Attribute(
            "threads",
            lambda subgroups_n, subgroups_k: subgroups_n * subgroups_k * WARP,
            "threads of a block",
        ),
        Attribute(
            "access",
            lambda vector_w: vector_w.clip(max=widest_access(problem)),
            "elements of a load: a thread's vector, or 16 bytes of a longer vector",
        ),
        Attribute(
            "rows_n",
            lambda tile_n, subgroups_n, lanes_n: tile_n // (subgroups_n * lanes_n),
            "rows of w per thread",
        ),
        Attribute(
            "batches_k",
            lambda tile_k, subgroups_k, lanes_k, vector_w: tile_k // (subgroups_k * lanes_k * vector_w),
            "vectors of one row that a thread loads per step",
        ),
        Attribute(
            "rows_x", rows_x, "rows of x that a thread reads: all rows of the block, or one row of each fragment"
        ),
        Attribute("vectors", lambda rows_n, batches_k: rows_n * batches_k, "vectors of w in a step"),
        Attribute(
            "carried",
            lambda vector_w, expand_dims: np.where(expand_dims == "yes", 1, vector_w),
            "accumulators of one vector: one per element, or one for all elements",
        ),
        Attribute(
            "accumulators",
            accumulators,
            "f32 accumulators of a thread (LoweringConfig.accumulators_per_thread, shared by the lanes of a fragment)",
        ),
        Attribute("multiplies", multiplies, "number of FMAs (or mma.syncs) of a thread in a step"),
        Attribute(
            "split_elements",
            lambda tile_k, tiles_of_split: tile_k * tiles_of_split,
            "elements of k that one workgroup processes",
        ),
        Attribute("line_bytes", line_bytes, "distance between rows of x in shared memory"),
        Attribute("slab_bytes", slab_bytes, "shared bytes of x"),
        Attribute(
            "sums_bytes",
            sums_bytes,
            "shared-memory bytes of the sums of a tile: each subgroup along k has its own sums; 0 if subgroups need "
            "not exchange sums",
        ),
        Attribute(
            "shared_bytes",
            lambda tile_m, x_operand_source, split_elements, vector_w, intrinsic, tile_n, subgroups_k, split_k: (
                slab_bytes(tile_m, x_operand_source, split_elements, vector_w, intrinsic)
                + sums_bytes(tile_m, tile_n, subgroups_k, split_k)
            ),
            "dynamic shared memory of a block, in bytes",
        ),
        Attribute(
            "registers",
            lambda accumulators, vectors, vector_w, unroll: (
                accumulators + ceil_div(unroll * vectors * vector_w * element_bytes, 4) + REGISTER_OVERHEAD
            ),
            "estimated registers of a thread, for sums, vectors in flight and addresses",
        ),
    )


def validity_constraints(problem: Matvec, device: Device) -> tuple[Rule, ...]:
    """Return the rules that are necessary for the kernel to compile, launch and compute ``problem``."""
    return (
        *_distribution_rules(),
        *_fragment_rules(problem, device),
        tiling(problem).split_rule(),
        *tiling(problem).grid_rules(parameters(problem)),
        *device_rules(device),
    )


def pruning_rules(problem: Matvec, device: Device) -> tuple[Rule, ...]:
    """Return the rules that exclude a schedule if a simpler or smaller schedule is at least as fast."""
    spills = (_spill_rule(device),) if device.architecture.sm in SPILLING else ()
    return (*_size_rules(problem), *_loop_rules(), *spills)


def _spill_rule(device: Device) -> Rule:
    return Rule(
        "spilled_registers",
        lambda registers, threads, min_blocks: (
            registers <= FULL_REGISTERS * register_limit(device, threads, min_blocks)
        ),
        "about {registers} registers per thread are too many for {threads} threads with {min_blocks} blocks per SM: "
        "ptxas would spill",
    )


@lru_cache(maxsize=2**14)
def _why_not_distributed(**chosen: int) -> str | None:
    """Return the reason why a dimension of a tile cannot be distributed over subgroups, lanes and vectors, or None."""
    try:
        lowering(**chosen)
    except ValueError as error:
        return str(error)
    return None


def _distribution_rules() -> tuple[Rule, ...]:
    def distribution_rule(dimension: str, *sizes: str) -> Rule:
        return Rule.refusing(
            f"distribution_{dimension}", _why_not_distributed, names=dict(zip(sizes, sizes, strict=True))
        )

    return (
        Rule(
            "lanes",
            lambda lanes_n, lanes_k: lanes_n * lanes_k == WARP,
            "lanes are {lanes_n} x {lanes_k} along n and k, but a warp has 32 lanes",
        ),
        distribution_rule("n", "tile_n", "subgroups_n", "lanes_n"),
        distribution_rule("k", "tile_k", "subgroups_k", "lanes_k", "vector_w"),
    )


def _fragment_rules(problem: Matvec, device: Device) -> tuple[Rule, ...]:
    row = mma_row(problem)
    return (
        Rule.refusing(
            "intrinsic_sm",
            lambda intrinsic: None if intrinsic == FMA else row.why_not(device),
            "the device has the instruction",
        ),
        Rule(
            "fragment_n",
            lambda intrinsic, tile_n, subgroups_n, lanes_n: (
                (intrinsic == FMA) | ((lanes_n == MMA_LANES_N) & (tile_n % (subgroups_n * row.m) == 0))
            ),
            f"a fragment of {{intrinsic}} has {row.m} rows of w in {MMA_LANES_N} lanes: lanes_n = "
            f"{{lanes_n}} must be {MMA_LANES_N}, and tile_n = {{tile_n}} a multiple of "
            f"{{subgroups_n}} subgroups * {row.m}",
        ),
        Rule(
            "fragment_k",
            lambda intrinsic, lanes_k, vector_w, expand_dims: (
                (intrinsic == FMA)
                | ((lanes_k == MMA_LANES_K) & (vector_w % MMA_ELEMENTS == 0) & (expand_dims == "yes"))
            ),
            f"a fragment of {{intrinsic}} has {MMA_ELEMENTS} elements of k in each of {MMA_LANES_K} lanes and adds "
            f"them up: lanes_k = {{lanes_k}} must be {MMA_LANES_K}, vector_w = {{vector_w}} a multiple of "
            f"{MMA_ELEMENTS}, and expand_dims = {{expand_dims}} must be yes",
        ),
    )


def _size_rules(problem: Matvec) -> tuple[Rule, ...]:
    """Return the rules that exclude tiles that are larger than the problem needs.

    The smallest possible tile is always allowed.
    """
    m, n, k = problem.m, tiling(problem).extents[1], problem.k
    width = mma_row(problem).n

    def padded(intrinsic: str, tile_m: int) -> str | None:
        # Total columns of all fragments: with tiles of tile_m rows, and with a single tile for all rows of x.
        columns, needed = (-(-m // rows) * -(-rows // width) * width for rows in (tile_m, m))
        if intrinsic == FMA or columns <= needed:
            return None
        return f"tiles of tile_m = {tile_m} make {columns} columns of fragments, but m = {m} needs only {needed}"

    return (
        Rule(
            "tile_m",
            lambda tile_m: (tile_m == 1) | (ceil_div(m, tile_m) < ceil_div(m, np.maximum(tile_m - 1, 1))),
            f"tile_m is {{tile_m}}, but with a smaller tile_m the same number of tiles covers m = {m}",
        ),
        Rule.refusing("fragments_m", padded),
        Rule(
            "tile_n",
            lambda tile_n, subgroups_n, lanes_n: (tile_n < 2 * n) | (tile_n <= subgroups_n * lanes_n),
            f"tile_n is {{tile_n}}, but a tile of half this size already covers n = {n}",
        ),
        Rule(
            "subgroups_n",
            lambda subgroups_n, lanes_n: (subgroups_n == 1) | (subgroups_n * lanes_n < 2 * n),
            f"half of the {{subgroups_n}} subgroups along n compute nothing, because w has only n = {n} rows",
        ),
        Rule(
            "tile_k",
            lambda tile_k, subgroups_k, lanes_k, vector_w: (
                (tile_k < 2 * k) | (tile_k <= subgroups_k * lanes_k * vector_w)
            ),
            f"tile_k is {{tile_k}}, but half of this already covers k = {k}",
        ),
        Rule(
            "subgroups_k",
            lambda subgroups_k, lanes_k, vector_w: (subgroups_k == 1) | (subgroups_k * lanes_k * vector_w < 2 * k),
            f"half of the {{subgroups_k}} subgroups along k compute nothing, because k is only {k}",
        ),
        Rule(
            "vector_w",
            lambda vector_w: (vector_w < 2 * k) | (vector_w == 1),
            f"vector_w is {{vector_w}}, but half of this already covers k = {k}",
        ),
    )


def _loop_rules() -> tuple[Rule, ...]:
    return (
        Rule(
            "expand_dims",
            lambda vector_w, expand_dims: (vector_w > 1) | (expand_dims != "yes"),
            "vector_w is {vector_w}: a vector of one element cannot be expanded",
        ),
        Rule(
            "unroll",
            lambda unroll, tiles_of_split: (unroll <= tiles_of_split) | (unroll == 1),
            "unroll is {unroll}, but the loop has {tiles_of_split} steps",
        ),
        Rule(
            "code_size",
            lambda multiplies, unroll: multiplies * unroll <= BODY_LIMIT,
            f"{{multiplies}} FMAs per step, unrolled {{unroll}} times, make a loop body of over {BODY_LIMIT} FMAs",
        ),
    )
