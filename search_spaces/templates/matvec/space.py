"""The decisions of a matvec schedule, what follows from them, and the rules a schedule must satisfy.

A schedule is a ``LoweringConfig`` over (m, n, k) and a few decisions beyond it. The kernel is
``autosched/kernels/matvec.cuh``; its ``static_assert``s carry the names of the rules here.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from search_spaces.arrays import BoolArray, IntArray
from search_spaces.hardware.devices import Device
from search_spaces.hardware.fragments import WARP
from search_spaces.hardware.intrinsics import TensorIntrinsic, intrinsic
from search_spaces.layouts.lowering_config import Basis, LoweringConfig
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.matvec import Matvec
from search_spaces.spaces.columns import Columns, ceil_div
from search_spaces.spaces.parameters import Parameter, categorical, ordinal
from search_spaces.spaces.rules import Attribute, Rule, integer
from search_spaces.spaces.space import Space
from search_spaces.templates.common.cache_hints import load_hint
from search_spaces.templates.common.launch_rules import device_rules
from search_spaces.templates.common.tiling import Tiling
from search_spaces.templates.matvec.problem import as_matvec

REGISTER_OVERHEAD = 18  # registers for addresses and counters, about the fewest in compiled kernels
BODY_LIMIT = 2048  # FMAs of the unrolled loop body; more overflow the instruction cache

FMA = "fma"
# How mma.sync deals its operand A to a warp: 8 lanes with 2 rows each, and 4 with 4 elements of k each.
MMA_LANES_N, MMA_ROWS, MMA_LANES_K, MMA_ELEMENTS = 8, 2, 4, 4


def space(problem: Matvec | Matmul, device: Device) -> Space:
    """All schedules of ``problem`` on ``device``."""
    return _space(as_matvec(problem), device)


@lru_cache(maxsize=64)
def _space(problem: Matvec, device: Device) -> Space:
    return Space(
        "matvec",
        parameters(problem),
        attributes(problem),
        validity_constraints(problem, device),
        pruning_rules(problem),
    )


def parameters(problem: Matvec) -> tuple[Parameter, ...]:
    """The domains, before any rule applies."""
    lanes = (1, 2, 4, 8, 16, 32)
    subgroups = (1, 2, 4, 8, 16, 32)
    return (
        ordinal("workgroup_m", tuple(range(1, 17)), "rows of x, and of out, that a workgroup computes"),
        ordinal("workgroup_n", (1, 2, 4, 8, 16, 32, 64, 128, 256), "rows of w that a workgroup reads"),
        ordinal("thread", (1, 2, 4, 8, 16), "contiguous elements along k that a thread takes at a time"),
        ordinal("lane_basis_n", lanes, "lanes along n"),
        ordinal("lane_basis_k", lanes, "lanes along k"),
        ordinal("subgroup_basis_n", subgroups, "subgroups along n"),
        ordinal("subgroup_basis_k", subgroups, "subgroups along k"),
        ordinal("partial_reduction", tuple(2**i for i in range(15)), "elements of k of one step of the loop"),
        categorical("expand_dims", ("no", "yes"), "whether a thread's vector is added up inside the loop"),
        categorical("intrinsic", (FMA, mma_row(problem).name), "what multiplies the vectors of w and x"),
        ordinal("k_unroll", (1, 2, 4, 8), "steps of the loop whose loads are in flight together"),
        ordinal("split_k", (1, 2, 3, 4, 6, 8, 16, 32), "workgroups that share the k of one tile"),
        categorical("x_source", ("global", "shared"), "where the loop reads x: global memory through L1, or shared"),
        load_hint("w_cache", "w"),
        ordinal("min_blocks", (1, 2, 3, 4, 6, 8), "blocks per SM that registers are limited for"),
    )


def aligned_elements(problem: Matvec) -> int:
    """Elements of the widest load that every row of x and w allows: a power of two up to 16 bytes that divides k."""
    return min(16 // problem.input_dtype.bytes, problem.k & -problem.k)


def mma_row(problem: Matvec) -> TensorIntrinsic:
    """The mma.sync that multiplies 16 rows of w and 8 of x, as they lie in memory."""
    return intrinsic(f"mma_m16n8k16_{problem.x}")


def tiling(problem: Matvec) -> Tiling:
    return Tiling((problem.m, problem.n, problem.k), ("workgroup_m", "workgroup_n", "partial_reduction"))


def lowering(
    workgroup_m: int = 1,
    workgroup_n: int = 1,
    thread: int = 1,
    lane_basis_n: int = 1,
    lane_basis_k: int = 1,
    subgroup_basis_n: int = 1,
    subgroup_basis_k: int = 1,
    partial_reduction: int = 1,
) -> LoweringConfig:
    """The config over (m, n, k) that these parameters describe. Raises ValueError as LoweringConfig does."""
    return LoweringConfig(
        workgroup=(workgroup_m, workgroup_n, 0),
        thread=(0, 0, thread),
        lane_basis=Basis.identity((1, lane_basis_n, lane_basis_k)),
        subgroup_basis=Basis.identity((1, subgroup_basis_n, subgroup_basis_k)),
        partial_reduction=(0, 0, partial_reduction),
    )


def _by_mma(c: Columns) -> BoolArray:
    by_mma: BoolArray = c.map("intrinsic", lambda name: name != FMA, np.bool_)
    return by_mma


def _expanded(c: Columns) -> BoolArray:
    expanded: BoolArray = c.map("expand_dims", lambda e: e == "yes", np.bool_)
    return expanded


# Attributes -----------------------------------------------------------------------------------------------------------


def attributes(problem: Matvec) -> tuple[Attribute, ...]:
    """Derived columns, shared by rules, code generation and cost models."""
    element_bytes, columns = problem.input_dtype.bytes, mma_row(problem).n

    def line_bytes(c: Columns) -> IntArray:
        # The lanes of a fragment read several rows at a time, 128 bytes together: with mma.sync each row begins behind
        # the banks that lanes read of the row before.
        thread_bytes, row_bytes = c["thread"] * element_bytes, c["split_elements"] * element_bytes
        pad = np.where(thread_bytes > 16, 16, 4 * thread_bytes)
        return np.where(_by_mma(c), ceil_div(row_bytes, 128) * 128 + pad, row_bytes)

    def slab_bytes(c: Columns) -> IntArray:
        in_shared: IntArray = c.map("x_source", lambda source: source == "shared")
        return ceil_div(c["workgroup_m"] * line_bytes(c), 16) * 16 * in_shared

    def sums_bytes(c: Columns) -> IntArray:
        several = (c["subgroup_basis_k"] > 1) | (c["split_k"] > 1)
        return c["workgroup_m"] * c["workgroup_n"] * c["subgroup_basis_k"] * 4 * several

    def rows_x(c: Columns) -> IntArray:
        return np.where(_by_mma(c), ceil_div(c["workgroup_m"], columns), c["workgroup_m"])

    def accumulators(c: Columns) -> IntArray:
        # The lanes of a fragment along k share its sums: each has some columns.
        each = np.where(_by_mma(c), columns * c["vectors"] // MMA_LANES_K, c["vectors"] * c["carried"])
        return rows_x(c) * each

    def multiplies(c: Columns) -> IntArray:
        elements = c["vectors"] * c["thread"]
        return rows_x(c) * np.where(_by_mma(c), elements // (MMA_ROWS * MMA_ELEMENTS), elements)

    line_needs = ("split_elements", "thread", "intrinsic")
    slab_needs = ("workgroup_m", "x_source", *line_needs)
    sums_needs = ("workgroup_m", "workgroup_n", "subgroup_basis_k", "split_k")
    return (
        *tiling(problem).attributes(),
        Attribute(
            "threads",
            ("subgroup_basis_n", "subgroup_basis_k"),
            lambda c: c["subgroup_basis_n"] * c["subgroup_basis_k"] * WARP,
            "threads of a block",
        ),
        Attribute(
            "access",
            ("thread",),
            lambda c: c["thread"].clip(max=aligned_elements(problem)),
            "elements of a load: a thread's vector, or as much of it as k keeps aligned",
        ),
        Attribute(
            "rows_n",
            ("workgroup_n", "subgroup_basis_n", "lane_basis_n"),
            lambda c: c["workgroup_n"] // (c["subgroup_basis_n"] * c["lane_basis_n"]),
            "rows of w of one thread",
        ),
        Attribute(
            "batches_k",
            ("partial_reduction", "subgroup_basis_k", "lane_basis_k", "thread"),
            lambda c: c["partial_reduction"] // (c["subgroup_basis_k"] * c["lane_basis_k"] * c["thread"]),
            "vectors of one row that a thread takes in a step",
        ),
        Attribute(
            "rows_x",
            ("workgroup_m", "intrinsic"),
            rows_x,
            "rows of x that a thread reads: all of the block, or one of each fragment",
        ),
        Attribute("vectors", ("rows_n", "batches_k"), lambda c: c["rows_n"] * c["batches_k"], "vectors of w in a step"),
        Attribute(
            "carried",
            ("thread", "expand_dims"),
            lambda c: np.where(_expanded(c), 1, c["thread"]),
            "accumulators of one vector: each element's own, or one for all",
        ),
        Attribute(
            "accumulators",
            ("workgroup_m", "vectors", "carried", "intrinsic"),
            accumulators,
            "f32 accumulators of a thread (LoweringConfig.accumulators_per_thread, shared by the lanes of a fragment)",
        ),
        Attribute(
            "multiplies",
            ("workgroup_m", "vectors", "thread", "intrinsic"),
            multiplies,
            "FMAs, or mma.syncs, of a thread in a step",
        ),
        Attribute(
            "split_elements",
            ("partial_reduction", "tiles_of_split"),
            lambda c: c["partial_reduction"] * c["tiles_of_split"],
            "elements of k that one workgroup walks",
        ),
        Attribute("line_bytes", line_needs, line_bytes, "from one row of x to the next in shared memory"),
        Attribute("slab_bytes", slab_needs, slab_bytes, "shared bytes of x"),
        Attribute(
            "sums_bytes",
            sums_needs,
            sums_bytes,
            "shared bytes of the sums of a tile, one for each subgroup along k; 0 where they need no exchange",
        ),
        Attribute(
            "shared_bytes",
            tuple(dict.fromkeys((*slab_needs, *sums_needs))),
            lambda c: slab_bytes(c) + sums_bytes(c),
            "dynamic shared memory of a block",
        ),
        Attribute(
            "registers",
            ("accumulators", "vectors", "thread", "k_unroll"),
            lambda c: (
                c["accumulators"]
                + ceil_div(c["k_unroll"] * c["vectors"] * c["thread"] * element_bytes, 4)
                + REGISTER_OVERHEAD
            ),
            "registers of a thread, estimated: sums, vectors in flight, addresses",
        ),
    )


# Rules ----------------------------------------------------------------------------------------------------------------


def validity_constraints(problem: Matvec, device: Device) -> tuple[Rule, ...]:
    """Rules without which the kernel does not compile, launch or compute ``problem``."""
    return (
        *_distribution_rules(),
        *_fragment_rules(problem, device),
        tiling(problem).split_rule(),
        *tiling(problem).grid_rules(parameters(problem)),
        *device_rules(device),
    )


def pruning_rules(problem: Matvec) -> tuple[Rule, ...]:
    """Rules that leave out schedules which a simpler or smaller one equals or beats."""
    return (*_size_rules(problem), *_loop_rules())


@lru_cache(maxsize=2**14)
def _why_not_distributed(**chosen: int) -> str | None:
    """Why a workgroup's tile cannot be dealt out to subgroups, lanes and vectors along one dimension."""
    try:
        lowering(**chosen)
    except ValueError as error:
        return str(error)
    return None


def _distribution_rules() -> tuple[Rule, ...]:
    def distribution_rule(dimension: str, *needs: str) -> Rule:
        def why_not(*sizes: int) -> str | None:
            return _why_not_distributed(**dict(zip(needs, sizes, strict=True)))

        return Rule(
            f"distribution_{dimension}",
            needs,
            lambda c: c.map(needs, lambda *sizes: why_not(*sizes) is None, np.bool_),
            lambda v: why_not(*(integer(v, name) for name in needs)) or "",
        )

    return (
        Rule(
            "lane_basis",
            ("lane_basis_n", "lane_basis_k"),
            lambda c: c["lane_basis_n"] * c["lane_basis_k"] == WARP,
            lambda v: f"lane_basis is {v['lane_basis_n']} x {v['lane_basis_k']} along n and k, but a warp has 32 lanes",
        ),
        distribution_rule("n", "workgroup_n", "subgroup_basis_n", "lane_basis_n"),
        distribution_rule("k", "partial_reduction", "subgroup_basis_k", "lane_basis_k", "thread"),
    )


def _fragment_rules(problem: Matvec, device: Device) -> tuple[Rule, ...]:
    row = mma_row(problem)
    return (
        Rule(
            "intrinsic_sm",
            ("intrinsic",),
            lambda c: ~_by_mma(c) | (row.why_not(device) is None),
            lambda v: row.why_not(device) or "",
            "the device has the instruction",
        ),
        Rule(
            "fragment_n",
            ("intrinsic", "workgroup_n", "subgroup_basis_n", "lane_basis_n"),
            lambda c: (
                ~_by_mma(c)
                | ((c["lane_basis_n"] == MMA_LANES_N) & (c["workgroup_n"] % (c["subgroup_basis_n"] * row.m) == 0))
            ),
            lambda v: (
                f"a fragment of {v['intrinsic']} has {row.m} rows of w in {MMA_LANES_N} lanes: lane_basis_n = "
                f"{v['lane_basis_n']} must be that, and workgroup_n = {v['workgroup_n']} a multiple of "
                f"{v['subgroup_basis_n']} subgroups * {row.m}"
            ),
        ),
        Rule(
            "fragment_k",
            ("intrinsic", "lane_basis_k", "thread", "expand_dims"),
            lambda c: (
                ~_by_mma(c) | ((c["lane_basis_k"] == MMA_LANES_K) & (c["thread"] % MMA_ELEMENTS == 0) & _expanded(c))
            ),
            lambda v: (
                f"a fragment of {v['intrinsic']} has {MMA_ELEMENTS} elements of k in each of {MMA_LANES_K} lanes and "
                f"adds them up: lane_basis_k = {v['lane_basis_k']} must be {MMA_LANES_K}, thread = {v['thread']} a "
                f"multiple of {MMA_ELEMENTS}, and expand_dims = {v['expand_dims']} yes"
            ),
        ),
    )


def _size_rules(problem: Matvec) -> tuple[Rule, ...]:
    """No tile is larger than one that covers the problem, or than the smallest that the distribution allows."""
    m, n, k = problem.m, problem.n, problem.k
    columns = mma_row(problem).n

    def padded_rows(tile: npt.ArrayLike) -> IntArray:
        """Rows of x that fragments multiply where a workgroup has ``tile`` of them."""
        padded: IntArray = ceil_div(m, tile) * ceil_div(tile, columns) * columns
        return padded

    return (
        Rule(
            "workgroup_m",
            ("workgroup_m",),
            lambda c: (
                (c["workgroup_m"] == 1)
                | (ceil_div(m, c["workgroup_m"]) < ceil_div(m, np.maximum(c["workgroup_m"] - 1, 1)))
            ),
            lambda v: f"workgroup_m is {v['workgroup_m']}, but fewer rows make as few tiles of m = {m}",
        ),
        Rule(
            "fragments_m",
            ("intrinsic", "workgroup_m"),
            lambda c: ~_by_mma(c) | (padded_rows(c["workgroup_m"]) <= padded_rows(m)),
            lambda v: (
                f"tiles of workgroup_m = {v['workgroup_m']} make {int(padded_rows(integer(v, 'workgroup_m')))} columns "
                f"of fragments, but m = {m} needs only {int(padded_rows(m))}"
            ),
        ),
        Rule(
            "workgroup_n",
            ("workgroup_n", "subgroup_basis_n", "lane_basis_n"),
            lambda c: (c["workgroup_n"] < 2 * n) | (c["workgroup_n"] <= c["subgroup_basis_n"] * c["lane_basis_n"]),
            lambda v: f"workgroup_n is {v['workgroup_n']}, but a tile of half of that already covers n = {n}",
        ),
        Rule(
            "subgroups_n",
            ("subgroup_basis_n", "lane_basis_n"),
            lambda c: (c["subgroup_basis_n"] == 1) | (c["subgroup_basis_n"] * c["lane_basis_n"] < 2 * n),
            lambda v: f"half of the {v['subgroup_basis_n']} subgroups along n have no row of n = {n}",
        ),
        Rule(
            "partial_reduction",
            ("partial_reduction", "subgroup_basis_k", "lane_basis_k", "thread"),
            lambda c: (
                (c["partial_reduction"] < 2 * k)
                | (c["partial_reduction"] <= c["subgroup_basis_k"] * c["lane_basis_k"] * c["thread"])
            ),
            lambda v: f"partial_reduction is {v['partial_reduction']}, but half of that already covers k = {k}",
        ),
        Rule(
            "subgroups_k",
            ("subgroup_basis_k", "lane_basis_k", "thread"),
            lambda c: (c["subgroup_basis_k"] == 1) | (c["subgroup_basis_k"] * c["lane_basis_k"] * c["thread"] < 2 * k),
            lambda v: f"half of the {v['subgroup_basis_k']} subgroups along k have no element of k = {k}",
        ),
        Rule(
            "thread",
            ("thread",),
            lambda c: (c["thread"] < 2 * k) | (c["thread"] == 1),
            lambda v: f"thread is {v['thread']}, but half of that already covers k = {k}",
        ),
    )


def _loop_rules() -> tuple[Rule, ...]:
    return (
        Rule(
            "expand_dims",
            ("thread", "expand_dims"),
            lambda c: (c["thread"] > 1) | ~_expanded(c),
            lambda v: f"thread is {v['thread']}: a vector of one element has nothing to expand",
        ),
        Rule(
            "k_unroll",
            ("k_unroll", "tiles_of_split"),
            lambda c: (c["k_unroll"] <= c["tiles_of_split"]) | (c["k_unroll"] == 1),
            lambda v: f"k_unroll is {v['k_unroll']}, but the loop has {v['tiles_of_split']} steps",
        ),
        Rule(
            "code_size",
            ("multiplies", "k_unroll"),
            lambda c: c["multiplies"] * c["k_unroll"] <= BODY_LIMIT,
            lambda v: (
                f"{v['multiplies']} FMAs a step and k unrolled {v['k_unroll']} times make a loop body of over "
                f"{BODY_LIMIT}"
            ),
        ),
    )
