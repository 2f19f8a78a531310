"""The decisions of a transpose schedule, what follows from them, and the rules a schedule must satisfy.

The kernel is ``autosched/kernels/transpose.cuh``; its ``static_assert``s carry the names of the rules here. Names:
rows and columns are those of x; the load side moves lines of x, the store side lines of out, which are columns of x.
"""

from __future__ import annotations

from functools import lru_cache
from math import gcd

import numpy as np

from search_spaces.arrays import BoolArray, IntArray
from search_spaces.hardware.bank_conflicts import WIDEST_BYTES
from search_spaces.hardware.data_movement import (
    MOST_CONFLICTS,
    SECTOR_BYTES,
    Region,
    conflict_percent,
    few_sectors,
    wide_enough,
)
from search_spaces.hardware.devices import Device
from search_spaces.hardware.fragments import WARP
from search_spaces.layouts.shared_layout import Axis, parse_layout, sampled_layouts
from search_spaces.operators.transpose import Transpose
from search_spaces.spaces.columns import Columns, ceil_div
from search_spaces.spaces.parameters import Parameter, categorical, ordinal
from search_spaces.spaces.rules import Attribute, Rule, integer
from search_spaces.spaces.space import Space
from search_spaces.templates.common.cache_hints import load_hint, no_hint_rule, store_hint
from search_spaces.templates.common.launch_rules import device_rules, grid_rule
from search_spaces.templates.common.raster import raster, raster_rule

STAGE_ALIGNMENT = 128  # bytes: a stage starts at a full line of banks
REGISTER_OVERHEAD = 24  # registers for addresses and counters, the fewest seen in compiled kernels
DRAINED = 32  # registers of elements on their way from shared memory to out
MOST_STAGED = 96  # registers of a thread that hold elements: twice as many and their addresses spill
SMALLEST_TILE, LARGEST_TILE = 1 << 10, 1 << 15  # bytes
NONE = "none"  # the layout of a tile that is never in shared memory


@lru_cache(maxsize=64)
def space(problem: Transpose, device: Device) -> Space:
    """All schedules of ``problem`` on ``device``."""
    return Space(
        "transpose",
        parameters(problem),
        attributes(problem),
        validity_constraints(problem, device),
        pruning_rules(problem, device),
    )


def vectors(problem: Transpose) -> tuple[int, ...]:
    """Elements that one access may move: up to 16 bytes."""
    return tuple(v for v in (1, 2, 4, 8, 16) if v * problem.element_bytes <= WIDEST_BYTES)


def layouts(problem: Transpose) -> tuple[str, ...]:
    """The ``sampled_layouts`` that no other matches here: pads after each line, swizzles of
    all eight chunks of 128 bytes, and xor."""

    def kept(text: str) -> bool:
        step = text.removeprefix("transpose+")
        if step.startswith("pad"):
            return step.endswith(",1)")
        return "+" not in step and not step.startswith(("swizzle(1,", "swizzle(2,"))

    return tuple(text for text in sampled_layouts(problem.element_bytes) if kept(text))


def parameters(problem: Transpose) -> tuple[Parameter, ...]:
    """The domains, before any rule applies."""
    tiles = (8, 16, 32, 64, 128, 256)
    columns = (4, 8, 16, 32)
    return (
        ordinal("tile_rows", tiles, "rows of x in a tile", 32),
        ordinal("tile_columns", tiles, "columns of x in a tile", 32),
        ordinal("threads", (64, 128, 256, 512), "threads of a block", 256),
        categorical("copy", ("ld.global", "cp.async"), "how x is loaded"),
        ordinal("load_vector", vectors(problem), "elements of a row of x that a thread loads at a time"),
        ordinal("load_columns", columns, "threads along the rows of x (load wg_map)"),
        ordinal("block_rows", vectors(problem), "rows of the block that a thread turns in registers"),
        ordinal("store_vector", vectors(problem), "elements of a row of out that a thread stores at a time"),
        ordinal("store_columns", columns, "threads along the rows of out (store wg_map)"),
        categorical(
            "layout", (NONE, *layouts(problem)), "shared-memory layout of the tile of x; none: it stays in registers"
        ),
        ordinal("block_tiles", (1, 2, 4, 8), "tiles that a block moves one after another"),
        ordinal("stages", (1, 2, 3), "tiles in shared memory at a time"),
        load_hint("x_cache", "x"),
        store_hint("out_cache", "out"),
        ordinal("min_blocks", (1, 2, 3, 4), "blocks per SM that registers are limited for"),
        raster(),
    )


def contiguity(text: str, rows: int, columns: int, axis: Axis) -> int:
    """Elements along ``axis`` that a layout keeps together; 0 for an illegal one."""
    layout = parse_layout(text, rows, columns)
    return 0 if isinstance(layout, str) else layout.contiguity(axis)


# Attributes -----------------------------------------------------------------------------------------------------------


def attributes(problem: Transpose) -> tuple[Attribute, ...]:
    """Derived columns, shared by rules, code generation and cost models."""
    element_bytes = problem.element_bytes

    def stage_bytes(text: str, rows: int, columns: int) -> int:
        layout = parse_layout(text, rows, columns)
        if isinstance(layout, str):
            return 0
        return -(-layout.size * element_bytes // STAGE_ALIGNMENT) * STAGE_ALIGNMENT

    def staged(c: Columns) -> IntArray:
        vectors_of_thread = ceil_div(c["tile_bytes"], c["load_vector"] * element_bytes * c["threads"])
        held = vectors_of_thread * ceil_div(c["load_vector"] * element_bytes, 4)  # a register each, however small
        # Pieces of less than a register that blocks are turned into, seen beside what they are made of.
        piece_bytes = c["block_rows"] * element_bytes
        pieces: IntArray = c["tile_bytes"] // (c["threads"] * piece_bytes) * ((c["block_rows"] > 1) & (piece_bytes < 4))
        return np.where(_loaded(c), held + pieces, np.minimum(held, DRAINED))

    def load_piece(text: str, rows: int, columns: int, vector: int, block_rows: int) -> int:
        kept = contiguity(text, rows, columns, "cols")
        return min(kept, vector) if block_rows == 1 or kept == 0 else block_rows

    def store_piece(text: str, rows: int, columns: int, vector: int) -> int:
        return min(contiguity(text, rows, columns, "rows"), vector)

    tile = ("layout", "tile_rows", "tile_columns")
    return (
        Attribute("row_tiles", ("tile_rows",), lambda c: ceil_div(problem.rows, c["tile_rows"]), "tiles down x"),
        Attribute(
            "column_tiles", ("tile_columns",), lambda c: ceil_div(problem.columns, c["tile_columns"]), "tiles across x"
        ),
        Attribute(
            "tiles",
            ("row_tiles", "column_tiles"),
            lambda c: problem.batch * c["row_tiles"] * c["column_tiles"],
            "tiles of all matrices",
        ),
        Attribute(
            "blocks",
            ("tiles", "block_tiles"),
            lambda c: ceil_div(c["tiles"], c["block_tiles"]),
            "blocks of the launch",
        ),
        Attribute(
            "tile_bytes",
            ("tile_rows", "tile_columns"),
            lambda c: c["tile_rows"] * c["tile_columns"] * element_bytes,
            "bytes of the elements of a tile",
        ),
        Attribute(
            "staged",
            ("tile_bytes", "threads", "load_vector", "block_rows", "copy"),
            staged,
            "registers of a thread that hold elements",
        ),
        Attribute(
            "registers",
            ("staged",),
            lambda c: c["staged"] + REGISTER_OVERHEAD,
            "registers of a thread, a lower estimate",
        ),
        Attribute(
            "load_piece",
            (*tile, "load_vector", "block_rows"),
            lambda c: c.map((*tile, "load_vector", "block_rows"), load_piece),
            "elements that one access moves to shared memory; 0 without",
        ),
        Attribute(
            "store_piece",
            (*tile, "store_vector"),
            lambda c: c.map((*tile, "store_vector"), store_piece),
            "elements that one access moves out of shared memory; 0 without",
        ),
        Attribute(
            "stage_bytes",
            tile,
            lambda c: c.map(tile, stage_bytes),
            "shared bytes of one tile",
        ),
        Attribute(
            "shared_bytes",
            ("stage_bytes", "stages"),
            lambda c: c["stage_bytes"] * c["stages"],
            "dynamic shared memory of a block",
        ),
    )


# Rules ----------------------------------------------------------------------------------------------------------------


def validity_constraints(problem: Transpose, device: Device) -> tuple[Rule, ...]:
    """Rules without which the kernel does not compile, launch or compute ``problem``."""
    return (
        *_map_constraints(problem),
        *_route_constraints(),
        _layout_constraint(),
        *_alignment_constraints(problem),
        grid_rule(("tiles",), lambda c: c["tiles"]),
        *device_rules(device),
    )


def pruning_rules(problem: Transpose, device: Device) -> tuple[Rule, ...]:
    """Rules that leave out schedules which a simpler one equals or beats, and poor thread bindings."""
    return (
        *_tile_pruning(problem),
        *_binding_pruning(problem),
        *_conflict_pruning(problem),
        *_order_pruning(problem, device),
        no_hint_rule("x_cache", "copy", "cp.async"),
    )


def _map_constraints(problem: Transpose) -> tuple[Rule, ...]:
    def load_divides(c: Columns) -> BoolArray:
        rows = c["threads"] // c["load_columns"] * c["block_rows"]
        return np.equal(c["tile_rows"] % rows, 0) & np.equal(
            c["tile_columns"] % (c["load_columns"] * c["load_vector"]), 0
        )

    def store_divides(c: Columns) -> BoolArray:
        rows = c["threads"] // c["store_columns"]
        divides = np.equal(c["tile_columns"] % rows, 0) & np.equal(
            c["tile_rows"] % (c["store_columns"] * c["store_vector"]), 0
        )
        return divides | _in_registers(c)

    return (
        Rule(
            "load_map",
            ("tile_rows", "tile_columns", "threads", "load_vector", "load_columns", "block_rows"),
            load_divides,
            lambda v: (
                f"{v['threads']} threads in {v['load_columns']} columns with blocks of {v['block_rows']}x"
                f"{v['load_vector']} elements do not divide the {v['tile_rows']}x{v['tile_columns']} tile of x"
            ),
        ),
        Rule(
            "store_map",
            ("tile_rows", "tile_columns", "threads", "store_vector", "store_columns", "layout"),
            store_divides,
            lambda v: (
                f"{v['threads']} threads in {v['store_columns']} columns of {v['store_vector']} elements do not divide "
                f"the {v['tile_columns']}x{v['tile_rows']} tile of out"
            ),
        ),
    )  # fmt: skip


def _route_constraints() -> tuple[Rule, ...]:
    return (
        Rule(
            "block_rows",
            ("copy", "block_rows"),
            lambda c: np.equal(c["block_rows"], 1) | _loaded(c),
            lambda v: f"block_rows is {v['block_rows']}, but cp.async brings no element into a register to turn it",
        ),
        Rule(
            "stages",
            ("copy", "stages"),
            lambda c: np.equal(c["stages"], 1) | ~_loaded(c),
            lambda v: f"{v['stages']} stages need cp.async: {v['copy']} has no tile in flight",
        ),
        Rule(
            "in_register",
            ("layout", "block_rows", "store_vector", "load_columns", "store_columns"),
            lambda c: (
                ~_in_registers(c)
                | (
                    np.equal(c["block_rows"], c["store_vector"])
                    & np.equal(c["load_columns"] * c["store_columns"], WARP)
                )
            ),
            lambda v: (
                "without shared memory a thread stores what it loaded (XeTile RFC, appendix 2.3): store_vector "
                f"{v['store_vector']} must be block_rows {v['block_rows']}, and load_columns {v['load_columns']} times "
                f"store_columns {v['store_columns']} the {WARP} threads of a warp"
            ),
        ),
    )


def _loaded(c: Columns) -> BoolArray:
    loaded: BoolArray = c.map("copy", lambda how: how == "ld.global", np.bool_)
    return loaded


def _in_registers(c: Columns) -> BoolArray:
    inside: BoolArray = c.map("layout", lambda text: text == NONE, np.bool_)
    return inside


def _layout_constraint() -> Rule:
    def refusal(text: str, rows: int, columns: int, block_rows: int) -> str | None:
        layout = parse_layout(text, rows, columns)
        if isinstance(layout, str):
            return layout
        together = layout.contiguity("rows")
        if block_rows > 1 and together < block_rows:
            return (
                f"blocks of {block_rows} rows are turned to be stored together, but layout {text} keeps {together} "
                "elements of a column together"
            )
        return None

    needs = ("layout", "tile_rows", "tile_columns", "block_rows")
    return Rule(
        "layout",
        needs,
        lambda c: c.map(needs, lambda *v: v[0] == NONE or refusal(*v) is None, np.bool_),
        lambda v: (
            refusal(str(v["layout"]), integer(v, "tile_rows"), integer(v, "tile_columns"), integer(v, "block_rows"))
            or ""
        ),
        "the layout is injective, stays inside its tile and keeps turned blocks together",
    )


def _alignment_constraints(problem: Transpose) -> tuple[Rule, ...]:
    element_bytes = problem.element_bytes

    def aligned(name: str, array: str, extent: int) -> Rule:
        return Rule(
            name.replace("vector", "alignment"),
            (name,),
            lambda c: np.equal(extent % c[name], 0),
            lambda v: (
                f"{name} is {v[name]}, but rows of {array} have {extent} elements: vectors of at most "
                f"{gcd(extent, WIDEST_BYTES // element_bytes)} are aligned"
            ),
        )

    def together(c: Columns) -> BoolArray:
        kept = c.map(("layout", "tile_rows", "tile_columns"), lambda text, m, n: contiguity(text, m, n, "cols"))
        wide = (c["load_vector"] * element_bytes >= 4) & (kept >= c["load_vector"])
        return wide | _loaded(c)

    return (
        aligned("load_vector", "x", problem.columns),
        aligned("store_vector", "out", problem.rows),
        Rule(
            "copy_async",
            ("copy", "load_vector", "layout", "tile_rows", "tile_columns"),
            together,
            lambda v: (
                "cp.async moves 4, 8 or 16 bytes to shared memory that stay together there, but load_vector "
                f"{v['load_vector']} is "
                f"{integer(v, 'load_vector') * element_bytes} bytes and layout {v['layout']} keeps "
                f"{contiguity(str(v['layout']), integer(v, 'tile_rows'), integer(v, 'tile_columns'), 'cols')} elements "
                "of a row together"
            ),
        ),
    )


def _tile_pruning(problem: Transpose) -> tuple[Rule, ...]:
    element_bytes = problem.element_bytes

    def size_rule(tile: str, extent: int) -> Rule:
        least = max(8, SECTOR_BYTES // element_bytes)

        def allows(c: Columns) -> BoolArray:
            sector = (c[tile] * element_bytes >= SECTOR_BYTES) | (c[tile] >= extent)
            return sector & ((c[tile] < 2 * extent) | (c[tile] <= least))

        return Rule(
            tile.replace("tile", "tile_size"),
            (tile,),
            allows,
            lambda v: (
                f"{tile} is {v[tile]} elements of {element_bytes} bytes: less than a sector of {SECTOR_BYTES} bytes, "
                f"or twice what covers the {extent} there are"
            ),
        )

    return (
        size_rule("tile_rows", problem.rows),
        size_rule("tile_columns", problem.columns),
        Rule(
            "tile_bytes",
            ("tile_bytes", "staged"),
            lambda c: (
                (c["tile_bytes"] >= min(SMALLEST_TILE, problem.elements * element_bytes))
                & (c["tile_bytes"] <= LARGEST_TILE)
                & (c["staged"] <= MOST_STAGED)
            ),
            lambda v: (
                f"a tile of {v['tile_bytes']} bytes, {v['staged']} registers of each thread, is outside the "
                f"{SMALLEST_TILE} to {LARGEST_TILE} bytes and {MOST_STAGED} registers that pay off"
            ),
        ),
    )


def _binding_pruning(problem: Transpose) -> tuple[Rule, ...]:
    """Automatic data movement: only bindings with few sectors and wide vectors."""
    element_bytes = problem.element_bytes

    def side(name: str, line: str, extent: int) -> tuple[Rule, ...]:
        vector, columns = f"{name}_vector", f"{name}_columns"

        def few(elements: int, v: int, threads: int) -> bool:
            return few_sectors(Region((WARP, elements), "cols", extent, element_bytes), v, threads)

        def wide(v: int) -> bool:
            return wide_enough(Region((WARP, 1), "cols", extent, element_bytes), v)

        return (
            Rule(
                f"{name}_sectors",
                (line, vector, columns),
                lambda c: c.map((line, vector, columns), few, np.bool_),
                lambda v: (
                    f"{v[columns]} threads with {v[vector]} elements each touch more sectors of 32 bytes than other "
                    f"bindings of a line of {v[line]} elements"
                ),
            ),
            Rule(
                f"{name}_width",
                (vector,),
                lambda c: c.map(vector, wide, np.bool_),
                lambda v: (
                    f"{vector} is {v[vector]}, but "
                    f"{gcd(extent, WIDEST_BYTES // element_bytes)} elements could be moved at a time"
                ),
            ),
        )

    return (*side("load", "tile_columns", problem.columns), *side("store", "tile_rows", problem.rows))


def _conflict_pruning(problem: Transpose) -> tuple[Rule, ...]:
    """Automatic data movement: only bindings with few bank conflicts."""
    element_bytes = problem.element_bytes

    def loads(text: str, rows: int, columns: int, vector: int, threads: int, block: int) -> bool:
        layout = parse_layout(text, rows, columns)
        if isinstance(layout, str) or columns % (threads * vector) or (block > 1 and layout.contiguity("rows") < block):
            return True  # the validity constraints refuse it
        return conflict_percent(layout, element_bytes, "cols", vector, threads, block) <= 100 * MOST_CONFLICTS

    def stores(text: str, rows: int, columns: int, vector: int, threads: int) -> bool:
        layout = parse_layout(text, rows, columns)
        if isinstance(layout, str) or rows % (threads * vector):
            return True
        return conflict_percent(layout, element_bytes, "rows", vector, threads) <= 100 * MOST_CONFLICTS

    tile = ("layout", "tile_rows", "tile_columns")
    load = (*tile, "load_vector", "load_columns", "block_rows")
    store = (*tile, "store_vector", "store_columns")
    return (
        Rule(
            "load_conflicts",
            load,
            lambda c: c.map(load, loads, np.bool_),
            lambda v: (
                f"layout {v['layout']} makes the stores of loaded vectors wait for banks more than {MOST_CONFLICTS:g} "
                "times as long as without conflicts"
            ),
        ),
        Rule(
            "store_conflicts",
            store,
            lambda c: c.map(store, stores, np.bool_),
            lambda v: (
                f"layout {v['layout']} makes the loads of out's vectors wait for banks more than {MOST_CONFLICTS:g} "
                "times as long as without conflicts"
            ),
        ),
    )


def _order_pruning(problem: Transpose, device: Device) -> tuple[Rule, ...]:
    return (
        raster_rule(("tile_rows", "tile_columns"), (problem.rows, problem.columns)),
        Rule(
            "stages_filled",
            ("stages", "block_tiles"),
            lambda c: c["stages"] <= c["block_tiles"],
            lambda v: f"{v['stages']} stages are more than the {v['block_tiles']} tiles of a block",
        ),
        Rule(
            "block_tiles",
            ("tiles", "block_tiles"),
            lambda c: np.equal(c["block_tiles"], 1) | (c["tiles"] >= c["block_tiles"] * device.sm_count),
            lambda v: f"{v['block_tiles']} tiles in each block leave some of the {device.sm_count} SMs without any",
        ),
    )
