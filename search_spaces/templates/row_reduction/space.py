"""The decisions of a row reduction's schedule, what follows from them, and the rules a schedule must keep.

The kernel is ``autosched/kernels/row_reduction.cuh``; its ``static_assert``s carry the names of the rules here. The
first seven parameters are the fields of a LoweringConfig (``lowering_config`` in config.py) over the axis that is kept
and the axis that is reduced.
"""

from __future__ import annotations

from collections.abc import Callable
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

REGISTER_OVERHEAD = 20  # registers for addresses and counters, seen at the least in compiled kernels
BODY_LIMIT = 256  # elements that one step of the loop handles for a thread; more overflow the instruction cache
KEPT_BODY_LIMIT = 512  # elements of a thread where its rows are kept in registers and the loop is unrolled whole
STEP_LIMIT = 1024  # steps of the loop over a row, where more threads could be had
FULL_WAVES = 2  # blocks per SM from which on splitting rows gains nothing
SPLIT_FLAG_BYTES = 16
KEEP_ALIGNMENT = 128


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
    """The domains: what may be sampled before any rule is asked."""
    element_bytes = problem.input_dtype.bytes
    vectors = tuple(v for v in (1, 2, 4, 8) if v * element_bytes <= 16)
    peels = ("no", "yes") if problem.along and problem.length % vectors[-1] else ("no",)
    finishes = ("last_block", "second_launch") if problem.normalizes else ("last_block",)
    keeps = ("registers", "shared", "reload") if problem.normalizes else ("reload",)
    return (
        ordinal("lanes", (1, 2, 4, 8, 16, 32), "lanes of a subgroup along the reduced axis (lane_basis)"),
        ordinal("subgroups", (1, 2, 4, 8, 16, 32), "subgroups along the reduced axis (subgroup_basis)"),
        ordinal("kept_subgroups", (1, 2, 4, 8, 16, 32), "subgroups along the kept axis (subgroup_basis)"),
        ordinal("batch", (1, 2, 4, 8), "rows of a thread, or vectors of columns (workgroup)"),
        ordinal("vector", vectors, "elements of contiguous memory that a thread loads at a time (thread)"),
        categorical("peel", peels, "whether rows of odd lengths are walked in aligned vectors, their ends by element"),
        ordinal("unroll", (1, 2, 4, 8), "loads of a thread along the reduced axis in one step (partial_reduction)"),
        ordinal("split", (1, 2, 4, 8, 16, 32, 64, 128), "blocks that share a row"),
        categorical(
            "finish", finishes, "who finishes a split row: its last block, or each its part in a second launch"
        ),
        categorical("keep", keeps, "where a row is between two passes over it"),
        categorical("passes", problem.passes, "passes over a row before it is written"),
        load_hint("x_cache", "x"),
        store_hint("out_cache", "out", offered=problem.normalizes),
        ordinal("min_blocks", (1, 2, 3, 4, 6, 8), "blocks per SM that registers are limited for"),
    )


def row_span(problem: RowProblem, vector: npt.ArrayLike, peeled: npt.ArrayLike) -> IntArray:
    """Places of a row that is walked: its elements, and where rows are peeled as many before it as they may begin
    behind an aligned vector."""
    return problem.length + np.where(peeled, np.asarray(vector) - 1, 0)


def _peeled(c: Columns) -> BoolArray:
    peeled: BoolArray = c.map("peel", lambda peel: peel == "yes", np.bool_)
    return peeled


def chunk_length(length: npt.ArrayLike, along: bool, split: npt.ArrayLike) -> IntArray:
    """Elements of a row that each of ``split`` blocks reduces, the last one perhaps fewer. Along contiguous memory
    every part begins where all vectors that divide the row are aligned."""
    unit = 8 if along else 1
    return np.minimum(ceil_div(ceil_div(length, split), unit) * unit, length)


# Attributes -----------------------------------------------------------------------------------------------------------


def attributes(problem: RowProblem) -> tuple[Attribute, ...]:
    """Derived columns, shared by rules, code generation and cost models."""
    element_bytes = problem.input_dtype.bytes

    def vector_along(reduced: bool) -> Callable[[Columns], IntArray | int]:
        return lambda c: c["vector"] if reduced == problem.along else 1

    reduced_vector, kept_vector = vector_along(True), vector_along(False)

    def words(c: Columns) -> IntArray:
        total: IntArray = c.map("passes", lambda passes: sum(problem.state_words(passes)))
        return total

    def packet_words(c: Columns) -> IntArray:
        return ceil_div(c["vector"] * element_bytes, 4)

    def held(c: Columns) -> IntArray:
        """Vectors in registers at a time: all of them, or those of one step."""
        kept: BoolArray = c.map("keep", lambda keep: keep == "registers", np.bool_)
        return np.where(kept, c["packets"], c["unroll"] * c["batch"])

    return (
        Attribute("threads", ("subgroups", "kept_subgroups"), lambda c: c["subgroups"] * c["kept_subgroups"] * 32),
        Attribute(
            "kept_tile",
            ("lanes", "kept_subgroups", "batch", "vector"),
            lambda c: 32 // c["lanes"] * c["kept_subgroups"] * c["batch"] * kept_vector(c),
            "rows, or columns, of a block (workgroup)",
        ),
        Attribute(
            "step",
            ("lanes", "subgroups", "unroll", "vector"),
            lambda c: c["lanes"] * c["subgroups"] * c["unroll"] * reduced_vector(c),
            "elements of a row in one step of the loop (partial_reduction)",
        ),
        Attribute(
            "chunk",
            ("split", "vector", "peel"),
            lambda c: chunk_length(row_span(problem, c["vector"], _peeled(c)), problem.along, c["split"]),
            "places of a row that one block reduces",
        ),
        Attribute("steps", ("chunk", "step"), lambda c: ceil_div(c["chunk"], c["step"])),
        Attribute(
            "packets",
            ("steps", "unroll", "batch"),
            lambda c: c["steps"] * c["unroll"] * c["batch"],
            "vectors that a thread reads",
        ),
        Attribute(
            "states",
            ("batch", "vector"),
            lambda c: c["batch"] * kept_vector(c),
            "kept elements of a thread, each with a state (accumulators)",
        ),
        Attribute(
            "combine_bytes",
            ("subgroups", "kept_tile", "passes"),
            lambda c: (c["subgroups"] > 1) * words(c) * c["subgroups"] * c["kept_tile"] * 4,
            "shared memory through which subgroups combine their states",
        ),
        Attribute(
            "keep_bytes",
            ("packets", "threads", "vector", "keep"),
            lambda c: c.map("keep", lambda keep: keep == "shared") * c["packets"] * c["threads"] * c["vector"]
            * element_bytes,
            "shared memory that keeps rows",
        ),
        Attribute("keep_at", ("combine_bytes", "split"), lambda c: _keep_at(c["combine_bytes"], c["split"])),
        Attribute("shared_bytes", ("keep_at", "keep_bytes"), lambda c: c["keep_at"] + c["keep_bytes"]),
        Attribute(
            "registers",
            ("states", "packets", "unroll", "batch", "vector", "keep", "passes"),
            lambda c: REGISTER_OVERHEAD
            + c["states"] * words(c)
            + 2 * c["batch"]
            + held(c) * packet_words(c),
            "registers of a thread, estimated from below: states, addresses of rows, vectors",
        ),
        Attribute(
            "blocks",
            ("kept_tile", "split"),
            lambda c: ceil_div(problem.kept_extent, c["kept_tile"]) * problem.outer * c["split"],
        ),
    )  # fmt: skip


def _keep_at(combine_bytes: IntArray, split: IntArray) -> IntArray:
    """Where kept rows begin in shared memory: behind the flag of a split and the states of the subgroups."""
    return ceil_div(combine_at(split) + combine_bytes, KEEP_ALIGNMENT) * KEEP_ALIGNMENT


def combine_at(split: IntArray) -> IntArray:
    """Where the states of the subgroups begin in shared memory."""
    return np.where(split > 1, SPLIT_FLAG_BYTES, 0)


# Rules ----------------------------------------------------------------------------------------------------------------


def validity_constraints(problem: RowProblem, device: Device) -> tuple[Rule, ...]:
    """Rules without which the kernel does not compile, launch or compute ``problem``."""
    return (*_memory_rules(problem), *_split_rules(problem), *device_rules(device))


def pruning_rules(problem: RowProblem, device: Device) -> tuple[Rule, ...]:
    """Rules that leave out schedules which a simpler or smaller one equals or beats."""
    return (*_size_rules(problem), *_loop_rules(problem), no_hint_rule("x_cache", "keep", "shared"),
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
                f"{aligned} are aligned" + (", unless rows are peeled" if problem.along else "")
            ),
        ),
        Rule(
            "keep_width",
            ("keep", "vector"),
            lambda c: c.map(("keep", "vector"), lambda keep, v: keep != "shared" or v * element_bytes >= 4, np.bool_),
            lambda v: (
                f"rows kept in shared memory are copied by cp.async, 4, 8 or 16 bytes at a time, but vector = "
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
            "split_keep",
            ("split", "keep", "passes"),
            lambda c: (
                (c["split"] == 1)
                | c.map(("keep", "passes"), lambda keep, passes: (keep, passes) == ("reload", "one"), np.bool_)
            ),
            lambda v: (
                f"split is {v['split']} with keep {v['keep']} and {v['passes']} passes, but the last block of a split "
                "row has seen a part of it: use keep reload and one pass"
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
        # Lanes that do not share a row must hold rows of their own; what else makes the tile larger is a choice.
        useful: BoolArray = c["kept_tile"] < 2 * problem.kept_extent
        smallest: BoolArray = (c["kept_subgroups"] == 1) & (c["batch"] == 1)
        return useful | (smallest & (True if problem.along else c["vector"] == 1))

    return (
        Rule(
            "step_size",
            ("step", "chunk", "lanes", "subgroups", "unroll"),
            step_useful,
            lambda v: f"a step takes {v['step']} elements, but half as many already cover a part of {v['chunk']}",
        ),
        Rule(
            "tile_size",
            ("kept_tile", "kept_subgroups", "batch", "vector"),
            tile_useful,
            lambda v: (
                f"a block takes {v['kept_tile']} {'rows' if problem.along else 'columns'}, but half as many already "
                f"cover {problem.kept_extent}"
            ),
        ),
    )


def _loop_rules(problem: RowProblem) -> tuple[Rule, ...]:
    longest = max(STEP_LIMIT, problem.length // 2**13)

    def body(c: Columns) -> BoolArray:
        kept = c.map("keep", lambda keep: keep == "registers", np.bool_)
        return np.where(
            kept,
            c["packets"] * c["vector"] <= KEPT_BODY_LIMIT,
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
            lambda v: f"{v['steps']} steps for a row are many: let more lanes, subgroups or blocks share it",
        ),
        Rule(
            "keep_unroll",
            ("keep", "unroll"),
            lambda c: c.map(("keep", "unroll"), lambda keep, unroll: keep != "registers" or unroll == 1, np.bool_),
            lambda v: f"unroll is {v['unroll']}, but rows kept in registers are loaded all at once anyway",
        ),
        Rule(
            "code_size",
            ("keep", "packets", "unroll", "batch", "vector"),
            body,
            lambda v: (
                f"a thread's {v['packets']} vectors of {v['vector']} elements in registers ({KEPT_BODY_LIMIT} at most) "
                f"or {integer(v, 'unroll') * integer(v, 'batch')} a step ({BODY_LIMIT} at most) make too long a loop "
                "body"
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
