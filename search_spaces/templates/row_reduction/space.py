"""Parameters, attributes and rules of the space of row-reduction schedules.

The kernel is ``autosched/kernels/row_reduction.cuh``; its ``static_assert``s carry the names of the rules here. The
first seven parameters are the fields of a LoweringConfig (``lowering_config`` in lowering.py). Its axes are the
parallel axis, with one result per position, and the reduced axis.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from search_spaces.arrays import IntArray
from search_spaces.hardware.devices import Device
from search_spaces.operators.row_reduction import RowProblem
from search_spaces.spaces.columns import ceil_div
from search_spaces.spaces.each import each
from search_spaces.spaces.parameters import Parameter, categorical, ordinal
from search_spaces.spaces.rules import Attribute, Rule
from search_spaces.spaces.space import Space
from search_spaces.templates.common.cache_hints import load_hint, no_hint_rule, store_hint
from search_spaces.templates.common.device_choices import offered
from search_spaces.templates.common.launch_rules import device_rules, grid_rule

REGISTER_OVERHEAD = 20  # registers for addresses and counters; compiled kernels have at least this number
BODY_LIMIT = 256  # limit of elements per thread and step, so that the loop body fits in the instruction cache
REGISTER_BODY_LIMIT = 512  # limit of elements per thread if rows stay in registers, as the loop is then fully unrolled
STEP_LIMIT = 1024  # largest number of steps of the loop over a row; ``_loop_rules`` allows more for very long rows
FULL_WAVES = 2  # with this number of blocks per SM or more, splitting rows adds no parallelism
SPLIT_FLAG_BYTES = 16  # bytes for the flag of a split row, or for the mbarriers of a cluster's two passes
CLUSTER_LIMIT = 8  # largest number of blocks per cluster that every GPU with clusters supports
CLUSTER_THREADS = (
    # Largest number of threads per cluster; the emulator supports no more. If each thread reads 16 bytes, this number
    # of threads reads a row of 64 KiB in one step.
    4096
)
CLUSTER_PART_BYTES = 8192  # smallest number of bytes of a row that a block of a cluster should read
STAGING_ALIGNMENT = 128

_NEEDS = {("row_staging", "shared"): "cp_async", ("finish", "cluster"): "clusters"}


@lru_cache(maxsize=64)
def space(problem: RowProblem, device: Device) -> Space:
    """Return all schedules of ``problem`` on ``device``."""
    return Space(
        "row_reduction",
        offered(parameters(problem), device, _NEEDS),
        attributes(problem),
        validity_constraints(problem, device),
        pruning_rules(problem, device),
        stratified_by="row_staging",  # strata ensure that the few schedules that keep a row on the chip are sampled
    )


def parameters(problem: RowProblem) -> tuple[Parameter, ...]:
    """Return the parameters with all their values, before rules exclude combinations."""
    element_bytes = problem.input_dtype.bytes
    vectors = tuple(v for v in (1, 2, 4, 8) if v * element_bytes <= 16)
    peels = ("no", "yes") if problem.reduces_contiguous and problem.length % vectors[-1] else ("no",)
    finishes = ("last_block", "second_launch", "cluster") if problem.normalizes else ("last_block",)
    stagings = ("registers", "shared", "reload") if problem.normalizes else ("reload",)
    return (
        ordinal("lanes_k", (1, 2, 4, 8, 16, 32), "lanes of a subgroup along the reduced axis"),
        ordinal("subgroups_k", (1, 2, 4, 8, 16, 32), "subgroups along the reduced axis"),
        ordinal("subgroups_m", (1, 2, 4, 8, 16, 32), "subgroups along the parallel axis"),
        ordinal("batch", (1, 2, 4, 8), "rows, or vectors of columns, that a thread reduces at a time"),
        ordinal("vector_x", vectors, "elements of contiguous memory that a thread loads at a time"),
        categorical(
            "peel",
            peels,
            "whether rows of odd lengths are read as aligned vectors, except for their ends, which are read element "
            "by element",
        ),
        ordinal("unroll", (1, 2, 4, 8), "number of loads of a thread along the reduced axis in one step"),
        ordinal("split_k", (1, 2, 4, 8, 16, 32, 64, 128), "blocks that share a row"),
        categorical(
            "finish",
            finishes,
            "which blocks finish a row that several blocks share: only the last one, or all blocks (in a second "
            "launch or as a cluster)",
        ),
        categorical("row_staging", stagings, "memory in which a row is kept between two passes over the row"),
        categorical("passes", problem.passes, "number of passes over a row before it is written"),
        load_hint("cache_hint_x", "x"),
        store_hint("cache_hint_out", "out", offered=problem.normalizes),
        ordinal("min_blocks", (1, 2, 3, 4, 6, 8), "blocks per SM for which the compiler limits registers"),
    )


def positions_before(vector_x: npt.ArrayLike, peeled: npt.ArrayLike) -> IntArray:
    """Return the largest distance in positions from an aligned address to a peeled row's start; 0 without peeling."""
    return np.where(peeled, np.asarray(vector_x) - 1, 0)


def chunk_length(span: npt.ArrayLike, contiguous: bool, split_k: npt.ArrayLike) -> IntArray:
    """Return the number of positions per block if ``split_k`` blocks reduce ``span`` positions.

    The last block may have fewer positions. If rows are ``contiguous``, each block's part begins at a multiple of 8
    positions, the length of the longest vectors.
    """
    unit = 8 if contiguous else 1
    return np.minimum(ceil_div(ceil_div(span, split_k), unit) * unit, span)


def attributes(problem: RowProblem) -> tuple[Attribute, ...]:
    """Return the attributes, for use in rules, code generation and cost models."""
    element_bytes, contiguous = problem.input_dtype.bytes, problem.reduces_contiguous
    words = each(lambda passes: sum(problem.state_words(passes)))  # number of 4-byte words of a state
    return (
        Attribute("threads", lambda subgroups_k, subgroups_m: subgroups_k * subgroups_m * 32, "threads of a block"),
        Attribute(
            "parallel_tile",
            lambda lanes_k, subgroups_m, batch, vector_x: (
                32 // lanes_k * subgroups_m * batch * (1 if contiguous else vector_x)
            ),
            "rows (or columns) that a block reduces",
        ),
        Attribute(
            "step",
            lambda lanes_k, subgroups_k, unroll, vector_x: (
                lanes_k * subgroups_k * unroll * (vector_x if contiguous else 1)
            ),
            "elements of a row in one step of the loop",
        ),
        Attribute(
            "span",
            lambda vector_x, peel: problem.length + positions_before(vector_x, peel == "yes"),
            "positions of a row: its elements, and for a peeled row also the positions before them",
        ),
        Attribute(
            "chunk",
            lambda span, split_k: chunk_length(span, contiguous, split_k),
            "positions of a row that one block reduces",
        ),
        Attribute("steps", lambda chunk, step: ceil_div(chunk, step), "steps of the loop"),
        Attribute("vectors", lambda steps, unroll, batch: steps * unroll * batch, "vectors that a thread reads"),
        Attribute(
            "states",
            lambda batch, vector_x: batch * (1 if contiguous else vector_x),
            "rows (or columns) that a thread reduces; each has its own state (accumulators)",
        ),
        Attribute(
            "combine_bytes",
            lambda subgroups_k, parallel_tile, passes: (
                (subgroups_k > 1) * words(passes) * subgroups_k * parallel_tile * 4
            ),
            "shared memory through which subgroups combine their states",
        ),
        Attribute(
            "combine_at",
            lambda split_k: np.where(split_k > 1, SPLIT_FLAG_BYTES, 0),
            "offset of the subgroups' states in shared memory, after the flag or the mbarriers of split rows",
        ),
        Attribute(
            "cluster_at",
            lambda combine_at, combine_bytes: combine_at + combine_bytes,
            "offset of the states of a cluster's blocks in shared memory",
        ),
        Attribute(
            "cluster_bytes",
            lambda finish, split_k, parallel_tile, passes: (
                (finish == "cluster") * words(passes) * split_k * parallel_tile * 4
            ),
            "shared memory that receives the states of the blocks of a cluster",
        ),
        Attribute(
            "staging_at",
            lambda cluster_at, cluster_bytes: (
                ceil_div(cluster_at + cluster_bytes, STAGING_ALIGNMENT) * STAGING_ALIGNMENT
            ),
            "offset of staged rows in shared memory",
        ),
        Attribute(
            "staging_bytes",
            lambda vectors, threads, vector_x, row_staging: (
                (row_staging == "shared") * vectors * threads * vector_x * element_bytes
            ),
            "shared memory of staged rows",
        ),
        Attribute(
            "shared_bytes",
            lambda staging_at, staging_bytes: staging_at + staging_bytes,
            "dynamic shared memory of a block, in bytes",
        ),
        Attribute(
            "registers",
            lambda states, vectors, unroll, batch, vector_x, row_staging, passes: (
                REGISTER_OVERHEAD
                + states * words(passes)
                + 2 * batch
                # Vectors in registers at the same time: all vectors of a row, or the vectors of one step.
                + np.where(row_staging == "registers", vectors, unroll * batch) * ceil_div(vector_x * element_bytes, 4)
            ),
            "lower bound on the registers of a thread: states, addresses of rows, and vectors",
        ),
        Attribute(
            "tiles",
            lambda parallel_tile: ceil_div(problem.parallel_extent, parallel_tile),
            "number of tiles for one outer index, before rows are split",
        ),
        Attribute("blocks", lambda tiles, split_k: tiles * problem.outer * split_k, "blocks of the launch"),
    )


def validity_constraints(problem: RowProblem, device: Device) -> tuple[Rule, ...]:
    """Return the rules that are necessary for the kernel to compile, launch and compute ``problem``."""
    return (*_memory_rules(problem), *_split_rules(problem), *device_rules(device))


def pruning_rules(problem: RowProblem, device: Device) -> tuple[Rule, ...]:
    """Return the rules that exclude a schedule if a simpler or smaller schedule is at least as fast."""
    return (
        *_size_rules(problem),
        *_loop_rules(problem),
        no_hint_rule("cache_hint_x", "row_staging", "shared"),
        *_split_gain_rules(problem, device),
    )


def _memory_rules(problem: RowProblem) -> tuple[Rule, ...]:
    extent, element_bytes = problem.contiguous, problem.input_dtype.bytes
    aligned = min(extent & -extent, 16 // element_bytes)
    return (
        Rule(
            "vector_alignment",
            lambda vector_x, peel: (extent % vector_x == 0) | (peel == "yes"),
            f"vector_x is {{vector_x}}, but lines of contiguous memory have {extent} elements: only vectors of up to "
            f"{aligned} elements are aligned" + (", unless rows are peeled" if problem.reduces_contiguous else ""),
        ),
        Rule(
            "staging_width",
            lambda row_staging, vector_x: (row_staging != "shared") | (vector_x * element_bytes >= 4),
            lambda vector_x: (
                f"rows staged in shared memory are copied by cp.async, 4, 8 or 16 bytes at a time, but vector = "
                f"{vector_x} is {vector_x * element_bytes} bytes"
            ),
        ),
    )


def _split_rules(problem: RowProblem) -> tuple[Rule, ...]:
    return (
        Rule(
            "split_filled",
            lambda split_k, chunk: (split_k - 1) * chunk < problem.length,
            f"split_k is {{split_k}}, but {problem.length} elements in parts of {{chunk}} leave a block empty",
        ),
        Rule(
            "finish",
            lambda split_k, finish: (split_k > 1) | (finish == "last_block"),
            "split_k is {split_k}, so a second launch has nothing to do",
        ),
        Rule(
            "cluster_size",
            lambda split_k, finish: (split_k <= CLUSTER_LIMIT) | (finish != "cluster"),
            f"split_k is {{split_k}}, but a cluster has at most {CLUSTER_LIMIT} blocks",
        ),
        Rule(
            "split_staging",
            lambda split_k, row_staging, passes, finish: (
                (split_k == 1) | (finish == "cluster") | ((row_staging == "reload") & (passes == "one"))
            ),
            "split_k is {split_k} with row_staging {row_staging} and {passes} passes, but the last block of a split "
            "row has read only a part of the row: use row_staging = reload and passes = one, or finish = cluster",
        ),
        grid_rule(),
    )


def _size_rules(problem: RowProblem) -> tuple[Rule, ...]:
    contiguous = problem.reduces_contiguous
    return (
        Rule(
            "step_size",
            lambda step, chunk, lanes_k, subgroups_k, unroll: (
                (step < 2 * chunk) | ((lanes_k == 1) & (subgroups_k == 1) & (unroll == 1))
            ),
            "a step processes {step} elements, but half as many are enough: a block reduces {chunk} elements of a row",
        ),
        Rule(
            "tile_size",
            # Lanes of a warp that do not share a row read different rows, so a tile has at least these rows. A tile
            # that is large only for this reason is allowed.
            lambda parallel_tile, subgroups_m, batch, vector_x: (
                (parallel_tile < 2 * problem.parallel_extent)
                | ((subgroups_m == 1) & (batch == 1) & (contiguous | (vector_x == 1)))
            ),
            f"a block takes {{parallel_tile}} {'rows' if contiguous else 'columns'}, but half as many already cover "
            f"{problem.parallel_extent}",
        ),
    )


def _loop_rules(problem: RowProblem) -> tuple[Rule, ...]:
    longest = max(STEP_LIMIT, problem.length // 2**13)
    return (
        Rule(
            "peel",
            lambda vector_x, peel: (problem.contiguous % vector_x != 0) | (peel != "yes"),
            f"vectors of {{vector_x}} are aligned in rows of {problem.length}, so peeling has no effect",
        ),
        Rule(
            "loop_steps",
            lambda steps: steps <= longest,
            "{steps} steps for a row are too many: let more lanes, subgroups or blocks share the row",
        ),
        Rule(
            "staging_unroll",
            lambda row_staging, unroll: (row_staging != "registers") | (unroll == 1),
            "unroll is {unroll}, but rows staged in registers are loaded all at once anyway",
        ),
        Rule(
            "code_size",
            lambda row_staging, vectors, unroll, batch, vector_x: np.where(
                row_staging == "registers",
                vectors * vector_x <= REGISTER_BODY_LIMIT,
                unroll * batch * vector_x <= BODY_LIMIT,
            ),
            lambda vectors, vector_x, unroll, batch: (
                f"the loop body is too long: a thread has {vectors} vectors of {vector_x} elements in registers (at "
                f"most {REGISTER_BODY_LIMIT} elements), or {unroll * batch} vectors per step (at most {BODY_LIMIT} "
                "elements)"
            ),
        ),
    )


def _split_gain_rules(problem: RowProblem, device: Device) -> tuple[Rule, ...]:
    element_bytes = problem.input_dtype.bytes
    return (
        Rule(
            "split_gain",
            lambda blocks, split_k, finish: (
                (split_k == 1) | (finish == "cluster") | (blocks // split_k < FULL_WAVES * device.sm_count)
            ),
            lambda blocks, split_k: (
                f"{split_k} blocks share a row, but {blocks // split_k} blocks without splitting already fill the "
                f"{device.sm_count} SMs of {device.name}"
            ),
        ),
        Rule(
            "cluster_staging",
            lambda finish, row_staging: (finish != "cluster") | (row_staging != "reload"),
            "the blocks of a cluster can keep their parts of a row on the chip: set row_staging to registers or shared",
        ),
        Rule(
            "cluster_threads",
            lambda finish, split_k, threads: (finish != "cluster") | (split_k * threads <= CLUSTER_THREADS),
            lambda split_k, threads: (
                f"{split_k} blocks of {threads} threads share a row: {CLUSTER_THREADS} threads are enough to read it"
            ),
        ),
        Rule(
            "cluster_part",
            lambda finish, chunk: (finish != "cluster") | (chunk * element_bytes >= CLUSTER_PART_BYTES),
            f"a block of a cluster reads {{chunk}} elements of a row, less than {CLUSTER_PART_BYTES} bytes: fewer "
            "blocks can keep the row on the chip, too",
        ),
    )
