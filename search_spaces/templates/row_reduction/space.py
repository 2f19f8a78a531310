"""The decisions of a row reduction's schedule, what follows from them, and the rules a schedule must satisfy.

The kernel is ``autosched/kernels/row_reduction.cuh``; its ``static_assert``s carry the names of the rules here. The
first seven parameters are the fields of a LoweringConfig (``lowering_config`` in lowering.py) over the parallel axis,
which has one reduction for each of its elements, and the reduced axis.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from search_spaces.arrays import BoolArray, IntArray
from search_spaces.hardware.devices import Device
from search_spaces.operators.row_reduction import RowProblem
from search_spaces.spaces.columns import Columns, ceil_div
from search_spaces.spaces.parameters import Parameter, categorical, ordinal
from search_spaces.spaces.rules import Attribute, Rule, integer
from search_spaces.spaces.space import Space
from search_spaces.templates.common.cache_hints import load_hint, no_hint_rule, store_hint
from search_spaces.templates.common.launch_rules import device_rules, grid_rule

REGISTER_OVERHEAD = 20  # registers for addresses and counters, the fewest seen in compiled kernels
BODY_LIMIT = 256  # elements that one step of the loop handles for a thread; more overflow the instruction cache
REGISTER_BODY_LIMIT = 512  # elements of a thread where its rows stay in registers and the loop is unrolled whole
STEP_LIMIT = 1024  # steps of the loop over a row, where more threads are available
FULL_WAVES = 2  # blocks per SM from which splitting rows gains nothing
SPLIT_FLAG_BYTES = 16
STAGING_ALIGNMENT = 128


@lru_cache(maxsize=64)
def space(problem: RowProblem, device: Device) -> Space:
    """All schedules of ``problem`` on ``device``."""
    return Space(
        "row_reduction",
        parameters(problem),
        attributes(problem),
        validity_constraints(problem, device),
        pruning_rules(problem, device),
    )


def parameters(problem: RowProblem) -> tuple[Parameter, ...]:
    """The domains, before any rule applies."""
    element_bytes = problem.input_dtype.bytes
    vectors = tuple(v for v in (1, 2, 4, 8) if v * element_bytes <= 16)
    peels = ("no", "yes") if problem.reduces_contiguous and problem.length % vectors[-1] else ("no",)
    finishes = ("last_block", "second_launch") if problem.normalizes else ("last_block",)
    stagings = ("registers", "shared", "reload") if problem.normalizes else ("reload",)
    return (
        ordinal("lanes", (1, 2, 4, 8, 16, 32), "lanes of a subgroup along the reduced axis (lane_basis)"),
        ordinal("subgroups", (1, 2, 4, 8, 16, 32), "subgroups along the reduced axis (subgroup_basis)"),
        ordinal("parallel_subgroups", (1, 2, 4, 8, 16, 32), "subgroups along the parallel axis (subgroup_basis)"),
        ordinal("batch", (1, 2, 4, 8), "rows of a thread, or vectors of columns (workgroup)"),
        ordinal("vector", vectors, "elements of contiguous memory that a thread loads at a time (thread)"),
        categorical("peel", peels, "whether rows of odd lengths are walked in aligned vectors, their ends by element"),
        ordinal("unroll", (1, 2, 4, 8), "loads of a thread along the reduced axis in one step (partial_reduction)"),
        ordinal("split", (1, 2, 4, 8, 16, 32, 64, 128), "blocks that share a row"),
        categorical(
            "finish", finishes, "who finishes a split row: its last block, or all its blocks in a second launch"
        ),
        categorical("row_staging", stagings, "where a row is between two passes over it"),
        categorical("passes", problem.passes, "passes over a row before it is written"),
        load_hint("x_cache", "x"),
        store_hint("out_cache", "out", offered=problem.normalizes),
        ordinal("min_blocks", (1, 2, 3, 4, 6, 8), "blocks per SM that registers are limited for"),
    )


def _peeled(c: Columns) -> BoolArray:
    peeled: BoolArray = c.map("peel", lambda peel: peel == "yes", np.bool_)
    return peeled


def _staged_in(place: str, c: Columns) -> BoolArray:
    staged: BoolArray = c.map("row_staging", lambda staging: staging == place, np.bool_)
    return staged


def places_before(vector: npt.ArrayLike, peeled: npt.ArrayLike) -> IntArray:
    """Places of a row before its elements: where rows are peeled, as many as one may begin behind an aligned vector."""
    return np.where(peeled, np.asarray(vector) - 1, 0)


def chunk_length(span: npt.ArrayLike, contiguous: bool, split: npt.ArrayLike) -> IntArray:
    """Places of a row of ``span`` that each of ``split`` blocks reduces, the last one perhaps fewer. In ``contiguous``
    memory every part begins where all vectors that divide the row are aligned."""
    unit = 8 if contiguous else 1
    return np.minimum(ceil_div(ceil_div(span, split), unit) * unit, span)


# Attributes -----------------------------------------------------------------------------------------------------------


def attributes(problem: RowProblem) -> tuple[Attribute, ...]:
    """Derived columns, shared by rules, code generation and cost models."""
    element_bytes = problem.input_dtype.bytes

    def reduced_vector(c: Columns) -> IntArray | int:
        return c["vector"] if problem.reduces_contiguous else 1

    def parallel_vector(c: Columns) -> IntArray | int:
        return 1 if problem.reduces_contiguous else c["vector"]

    def words(c: Columns) -> IntArray:
        total: IntArray = c.map("passes", lambda passes: sum(problem.state_words(passes)))
        return total

    def vector_words(c: Columns) -> IntArray:
        return ceil_div(c["vector"] * element_bytes, 4)

    def held(c: Columns) -> IntArray:
        """Vectors in registers at a time: all of them, or those of one step."""
        return np.where(_staged_in("registers", c), c["vectors"], c["unroll"] * c["batch"])

    return (
        Attribute(
            "threads",
            ("subgroups", "parallel_subgroups"),
            lambda c: c["subgroups"] * c["parallel_subgroups"] * 32,
            "threads of a block",
        ),
        Attribute(
            "parallel_tile",
            ("lanes", "parallel_subgroups", "batch", "vector"),
            lambda c: 32 // c["lanes"] * c["parallel_subgroups"] * c["batch"] * parallel_vector(c),
            "rows, or columns, of a block (workgroup)",
        ),
        Attribute(
            "step",
            ("lanes", "subgroups", "unroll", "vector"),
            lambda c: c["lanes"] * c["subgroups"] * c["unroll"] * reduced_vector(c),
            "elements of a row in one step of the loop (partial_reduction)",
        ),
        Attribute(
            "span",
            ("vector", "peel"),
            lambda c: problem.length + places_before(c["vector"], _peeled(c)),
            "places of a row: its elements, and those before a peeled one",
        ),
        Attribute(
            "chunk",
            ("span", "split"),
            lambda c: chunk_length(c["span"], problem.reduces_contiguous, c["split"]),
            "places of a row that one block reduces",
        ),
        Attribute("steps", ("chunk", "step"), lambda c: ceil_div(c["chunk"], c["step"]), "steps of the loop"),
        Attribute(
            "vectors",
            ("steps", "unroll", "batch"),
            lambda c: c["steps"] * c["unroll"] * c["batch"],
            "vectors that a thread reads",
        ),
        Attribute(
            "states",
            ("batch", "vector"),
            lambda c: c["batch"] * parallel_vector(c),
            "rows, or columns, of a thread, each with a state (accumulators)",
        ),
        Attribute(
            "combine_bytes",
            ("subgroups", "parallel_tile", "passes"),
            lambda c: (c["subgroups"] > 1) * words(c) * c["subgroups"] * c["parallel_tile"] * 4,
            "shared memory through which subgroups combine their states",
        ),
        Attribute(
            "combine_at",
            ("split",),
            lambda c: np.where(c["split"] > 1, SPLIT_FLAG_BYTES, 0),
            "where the states of the subgroups begin in shared memory: behind the flag of a split",
        ),
        Attribute(
            "staging_at",
            ("combine_at", "combine_bytes"),
            lambda c: ceil_div(c["combine_at"] + c["combine_bytes"], STAGING_ALIGNMENT) * STAGING_ALIGNMENT,
            "where staged rows begin in shared memory",
        ),
        Attribute(
            "staging_bytes",
            ("vectors", "threads", "vector", "row_staging"),
            lambda c: _staged_in("shared", c) * c["vectors"] * c["threads"] * c["vector"] * element_bytes,
            "shared memory of staged rows",
        ),
        Attribute(
            "shared_bytes",
            ("staging_at", "staging_bytes"),
            lambda c: c["staging_at"] + c["staging_bytes"],
            "dynamic shared memory of a block",
        ),
        Attribute(
            "registers",
            ("states", "vectors", "unroll", "batch", "vector", "row_staging", "passes"),
            lambda c: REGISTER_OVERHEAD
            + c["states"] * words(c)
            + 2 * c["batch"]
            + held(c) * vector_words(c),
            "registers of a thread, a lower estimate: states, addresses of rows, vectors",
        ),
        Attribute(
            "tiles",
            ("parallel_tile",),
            lambda c: ceil_div(problem.parallel_extent, c["parallel_tile"]),
            "tiles of one outer index, before rows are split",
        ),
        Attribute(
            "blocks",
            ("tiles", "split"),
            lambda c: c["tiles"] * problem.outer * c["split"],
            "blocks of the launch",
        ),
    )  # fmt: skip


# Rules ----------------------------------------------------------------------------------------------------------------


def validity_constraints(problem: RowProblem, device: Device) -> tuple[Rule, ...]:
    """Rules without which the kernel does not compile, launch or compute ``problem``."""
    return (*_memory_rules(problem), *_split_rules(problem), *device_rules(device))


def pruning_rules(problem: RowProblem, device: Device) -> tuple[Rule, ...]:
    """Rules that leave out schedules which a simpler or smaller one equals or beats."""
    return (*_size_rules(problem), *_loop_rules(problem), no_hint_rule("x_cache", "row_staging", "shared"),
            _split_gain_rule(problem, device))  # fmt: skip


def _memory_rules(problem: RowProblem) -> tuple[Rule, ...]:
    extent, element_bytes = problem.contiguous, problem.input_dtype.bytes
    aligned = min(extent & -extent, 16 // element_bytes)
    return (
        Rule(
            "vector_alignment",
            ("vector", "peel"),
            lambda c: (extent % c["vector"] == 0) | _peeled(c),
            lambda v: (
                f"vector is {v['vector']}, but lines of contiguous memory have {extent} elements: vectors of at most "
                f"{aligned} are aligned" + (", unless rows are peeled" if problem.reduces_contiguous else "")
            ),
        ),
        Rule(
            "staging_width",
            ("row_staging", "vector"),
            lambda c: ~_staged_in("shared", c) | (c["vector"] * element_bytes >= 4),
            lambda v: (
                f"rows staged in shared memory are copied by cp.async, 4, 8 or 16 bytes at a time, but vector = "
                f"{v['vector']} is {integer(v, 'vector') * element_bytes} bytes"
            ),
        ),
    )


def _split_rules(problem: RowProblem) -> tuple[Rule, ...]:
    return (
        Rule(
            "split_filled",
            ("split", "chunk"),
            lambda c: (c["split"] - 1) * c["chunk"] < problem.length,
            lambda v: (
                f"split is {v['split']}, but {problem.length} elements in parts of {v['chunk']} leave a block without "
                "any"
            ),
        ),
        Rule(
            "finish",
            ("split", "finish"),
            lambda c: (c["split"] > 1) | c.map("finish", lambda finish: finish == "last_block", np.bool_),
            lambda v: f"split is {v['split']}, which leaves nothing to finish in a second launch",
        ),
        Rule(
            "split_staging",
            ("split", "row_staging", "passes"),
            lambda c: (
                (c["split"] == 1)
                | (_staged_in("reload", c) & c.map("passes", lambda passes: passes == "one", np.bool_))
            ),
            lambda v: (
                f"split is {v['split']} with row_staging {v['row_staging']} and {v['passes']} passes, but the last "
                "block of a split row has seen a part of it: use row_staging reload and one pass"
            ),
        ),
        grid_rule(("blocks",), lambda c: c["blocks"]),
    )


def _size_rules(problem: RowProblem) -> tuple[Rule, ...]:
    def step_useful(c: Columns) -> BoolArray:
        smallest: BoolArray = (c["lanes"] == 1) & (c["subgroups"] == 1) & (c["unroll"] == 1)
        useful: BoolArray = c["step"] < 2 * c["chunk"]
        return useful | smallest

    def tile_useful(c: Columns) -> BoolArray:
        # Lanes that do not share a row must hold rows of their own; any other way to a larger tile is a choice.
        useful: BoolArray = c["parallel_tile"] < 2 * problem.parallel_extent
        smallest: BoolArray = (c["parallel_subgroups"] == 1) & (c["batch"] == 1)
        return useful | (smallest & (True if problem.reduces_contiguous else c["vector"] == 1))

    return (
        Rule(
            "step_size",
            ("step", "chunk", "lanes", "subgroups", "unroll"),
            step_useful,
            lambda v: f"a step takes {v['step']} elements, but half as many already cover a part of {v['chunk']}",
        ),
        Rule(
            "tile_size",
            ("parallel_tile", "parallel_subgroups", "batch", "vector"),
            tile_useful,
            lambda v: (
                f"a block takes {v['parallel_tile']} {'rows' if problem.reduces_contiguous else 'columns'}, but half "
                f"as many already cover {problem.parallel_extent}"
            ),
        ),
    )


def _loop_rules(problem: RowProblem) -> tuple[Rule, ...]:
    longest = max(STEP_LIMIT, problem.length // 2**13)

    def body(c: Columns) -> BoolArray:
        return np.where(
            _staged_in("registers", c),
            c["vectors"] * c["vector"] <= REGISTER_BODY_LIMIT,
            c["unroll"] * c["batch"] * c["vector"] <= BODY_LIMIT,
        )

    return (
        Rule(
            "peel",
            ("vector", "peel"),
            lambda c: (problem.contiguous % c["vector"] != 0) | ~_peeled(c),
            lambda v: f"vectors of {v['vector']} are aligned in rows of {problem.length}: there is nothing to peel",
        ),
        Rule(
            "loop_steps",
            ("steps",),
            lambda c: c["steps"] <= longest,
            lambda v: f"{v['steps']} steps for a row are too many: let more lanes, subgroups or blocks share it",
        ),
        Rule(
            "staging_unroll",
            ("row_staging", "unroll"),
            lambda c: ~_staged_in("registers", c) | (c["unroll"] == 1),
            lambda v: f"unroll is {v['unroll']}, but rows staged in registers are loaded all at once anyway",
        ),
        Rule(
            "code_size",
            ("row_staging", "vectors", "unroll", "batch", "vector"),
            body,
            lambda v: (
                f"a thread's {v['vectors']} vectors of {v['vector']} elements in registers ({REGISTER_BODY_LIMIT} at "
                f"most) or {integer(v, 'unroll') * integer(v, 'batch')} a step ({BODY_LIMIT} at most) make too long a "
                "loop body"
            ),
        ),
    )


def _split_gain_rule(problem: RowProblem, device: Device) -> Rule:
    return Rule(
        "split_gain",
        ("blocks", "split"),
        lambda c: (c["split"] == 1) | (c["blocks"] // c["split"] < FULL_WAVES * device.sm_count),
        lambda v: (
            f"rows are split {v['split']} times, but without that {integer(v, 'blocks') // integer(v, 'split')} blocks "
            f"already fill the {device.sm_count} SMs of {device.name}"
        ),
    )
