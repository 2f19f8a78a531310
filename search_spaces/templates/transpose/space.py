"""The decisions of a transpose schedule, what follows from them, and the rules a schedule must satisfy.

The kernel is ``autosched/kernels/transpose.cuh``; its ``static_assert``s carry the names of the rules here. Names:
rows and columns are those of x; the load side moves lines of x, the store side lines of out, which are columns of x.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from search_spaces.arrays import BoolArray, IntArray
from search_spaces.hardware.costs.data_movement import MOST_CONFLICTS, conflict_percent
from search_spaces.hardware.costs.transactions import SECTOR_BYTES, WIDEST_BYTES
from search_spaces.hardware.devices import Device
from search_spaces.hardware.fragments import WARP
from search_spaces.layouts.shared_layout import parse_layout, sampled_layouts
from search_spaces.operators.transpose import Transpose
from search_spaces.spaces.columns import TextColumn, ceil_div
from search_spaces.spaces.each import each
from search_spaces.spaces.parameters import Parameter, categorical, ordinal
from search_spaces.spaces.rules import Attribute, Rule
from search_spaces.spaces.space import Space
from search_spaces.templates.common.cache_hints import load_hint, no_hint_rule, store_hint
from search_spaces.templates.common.device_choices import offered
from search_spaces.templates.common.launch_rules import device_rules, grid_rule
from search_spaces.templates.common.line_access import alignment_rule, sectors_rule, width_rule
from search_spaces.templates.common.raster import raster, raster_rule
from search_spaces.templates.common.shared_tiles import contiguity, stage_bytes

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
        offered(parameters(problem), device),
        attributes(problem),
        validity_constraints(problem, device),
        pruning_rules(problem, device),
    )


def vectors(problem: Transpose) -> tuple[int, ...]:
    """Elements that one access may move: up to 16 bytes."""
    return tuple(v for v in (1, 2, 4, 8, 16) if v * problem.element_bytes <= WIDEST_BYTES)


def layouts(problem: Transpose) -> tuple[str, ...]:
    """Return the ``sampled_layouts`` that no other matches here: pads after each line, swizzles of all eight chunks of
    128 bytes, and xor."""

    def kept(text: str) -> bool:
        step = text.removeprefix("transpose+")
        if step.startswith("pad"):
            return step.endswith(",1)")
        return "+" not in step and not step.startswith(("swizzle(1,", "swizzle(2,"))

    return tuple(text for text in sampled_layouts(problem.element_bytes) if kept(text))


def parameters(problem: Transpose) -> tuple[Parameter, ...]:
    """Return the domains, before any rule applies."""
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


def attributes(problem: Transpose) -> tuple[Attribute, ...]:
    """Return derived columns, shared by rules, code generation and cost models."""
    element_bytes = problem.element_bytes

    def staged(
        tile_bytes: IntArray, threads: IntArray, load_vector: IntArray, block_rows: IntArray, copy: TextColumn
    ) -> IntArray:
        vectors_of_thread = ceil_div(tile_bytes, load_vector * element_bytes * threads)
        held = vectors_of_thread * ceil_div(load_vector * element_bytes, 4)  # a register each, however small
        # Pieces of less than a register that blocks are turned into, seen beside what they are made of.
        piece_bytes = block_rows * element_bytes
        pieces: IntArray = tile_bytes // (threads * piece_bytes) * ((block_rows > 1) & (piece_bytes < 4))
        return np.where(copy == "ld.global", held + pieces, np.minimum(held, DRAINED))

    def load_piece(layout: str, tile_rows: int, tile_columns: int, load_vector: int, block_rows: int) -> int:
        kept = contiguity(layout, tile_rows, tile_columns, "cols")
        return min(kept, load_vector) if block_rows == 1 or kept == 0 else block_rows

    def store_piece(layout: str, tile_rows: int, tile_columns: int, store_vector: int) -> int:
        return min(contiguity(layout, tile_rows, tile_columns, "rows"), store_vector)

    return (
        Attribute("row_tiles", lambda tile_rows: ceil_div(problem.rows, tile_rows), "tiles down x"),
        Attribute("column_tiles", lambda tile_columns: ceil_div(problem.columns, tile_columns), "tiles across x"),
        Attribute(
            "tiles", lambda row_tiles, column_tiles: problem.batch * row_tiles * column_tiles, "tiles of all matrices"
        ),
        Attribute("blocks", lambda tiles, block_tiles: ceil_div(tiles, block_tiles), "blocks of the launch"),
        Attribute(
            "tile_bytes",
            lambda tile_rows, tile_columns: tile_rows * tile_columns * element_bytes,
            "bytes of the elements of a tile",
        ),
        Attribute("staged", staged, "registers of a thread that hold elements"),
        Attribute("registers", lambda staged: staged + REGISTER_OVERHEAD, "registers of a thread, a lower estimate"),
        Attribute("load_piece", each(load_piece), "elements that one access moves to shared memory; 0 without"),
        Attribute("store_piece", each(store_piece), "elements that one access moves out of shared memory; 0 without"),
        Attribute(
            "stage_bytes",
            each(lambda layout, tile_rows, tile_columns: stage_bytes(layout, tile_rows, tile_columns, element_bytes)),
            "shared bytes of one tile",
        ),
        Attribute("shared_bytes", lambda stage_bytes, stages: stage_bytes * stages, "dynamic shared memory of a block"),
    )


def validity_constraints(problem: Transpose, device: Device) -> tuple[Rule, ...]:
    """Rules without which the kernel does not compile, launch or compute ``problem``."""
    return (
        *_map_constraints(),
        *_route_constraints(),
        _layout_constraint(),
        *_alignment_constraints(problem),
        grid_rule("tiles"),
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


def _map_constraints() -> tuple[Rule, ...]:
    return (
        Rule(
            "load_map",
            lambda tile_rows, tile_columns, threads, load_vector, load_columns, block_rows: (
                (tile_rows % (threads // load_columns * block_rows) == 0)
                & (tile_columns % (load_columns * load_vector) == 0)
            ),
            "{threads} threads in {load_columns} columns with blocks of {block_rows}x{load_vector} elements do not "
            "divide the {tile_rows}x{tile_columns} tile of x",
        ),
        Rule(
            "store_map",
            lambda tile_rows, tile_columns, threads, store_vector, store_columns, layout: (
                (tile_columns % (threads // store_columns) == 0) & (tile_rows % (store_columns * store_vector) == 0)
                | (layout == NONE)
            ),
            "{threads} threads in {store_columns} columns of {store_vector} elements do not divide the "
            "{tile_columns}x{tile_rows} tile of out",
        ),
    )


def _route_constraints() -> tuple[Rule, ...]:
    return (
        Rule(
            "block_rows",
            lambda copy, block_rows: (block_rows == 1) | (copy == "ld.global"),
            "block_rows is {block_rows}, but cp.async brings no element into a register to turn it",
        ),
        Rule(
            "stages",
            lambda copy, stages: (stages == 1) | (copy == "cp.async"),
            "{stages} stages need cp.async: {copy} has no tile in flight",
        ),
        Rule(
            "in_register",
            lambda layout, block_rows, store_vector, load_columns, store_columns: (
                (layout != NONE) | ((block_rows == store_vector) & (load_columns * store_columns == WARP))
            ),
            "without shared memory a thread stores what it loaded (XeTile RFC, appendix 2.3): store_vector "
            "{store_vector} must be block_rows {block_rows}, and load_columns {load_columns} times store_columns "
            f"{{store_columns}} the {WARP} threads of a warp",
        ),
    )


def _layout_constraint() -> Rule:
    def why_not(layout: str, tile_rows: int, tile_columns: int, block_rows: int) -> str | None:
        parsed = None if layout == NONE else parse_layout(layout, tile_rows, tile_columns)
        if parsed is None or isinstance(parsed, str):
            return parsed
        together = parsed.contiguity("rows")
        if block_rows == 1 or together >= block_rows:
            return None
        return (
            f"blocks of {block_rows} rows are turned to be stored together, but layout {layout} keeps {together} "
            "elements of a column together"
        )

    return Rule.refusing(
        "layout", why_not, "the layout is injective, stays inside its tile and keeps turned blocks together"
    )


def _alignment_constraints(problem: Transpose) -> tuple[Rule, ...]:
    element_bytes = problem.element_bytes

    def together(layout: str, tile_rows: int, tile_columns: int) -> int:
        return contiguity(layout, tile_rows, tile_columns, "cols")

    def copy_async(
        copy: TextColumn, load_vector: IntArray, layout: TextColumn, tile_rows: IntArray, tile_columns: IntArray
    ) -> BoolArray:
        kept = each(together)(layout, tile_rows, tile_columns)
        moved: BoolArray = (load_vector * element_bytes >= 4) & (kept >= load_vector)
        return (copy == "ld.global") | moved

    return (
        alignment_rule("load_alignment", "load_vector", "rows of x", problem.columns, element_bytes),
        alignment_rule("store_alignment", "store_vector", "rows of out", problem.rows, element_bytes),
        Rule(
            "copy_async",
            copy_async,
            lambda load_vector, layout, tile_rows, tile_columns: (
                "cp.async moves 4, 8 or 16 bytes to shared memory that stay together there, but load_vector "
                f"{load_vector} is {load_vector * element_bytes} bytes and layout {layout} keeps "
                f"{together(layout, tile_rows, tile_columns)} elements of a row together"
            ),
        ),
    )


def _tile_pruning(problem: Transpose) -> tuple[Rule, ...]:
    element_bytes = problem.element_bytes
    least = max(8, SECTOR_BYTES // element_bytes)

    def size_rule(tile: str, extent: int) -> Rule:
        return Rule(
            f"tile_size_{tile}",
            lambda size: (
                ((size * element_bytes >= SECTOR_BYTES) | (size >= extent)) & ((size < 2 * extent) | (size <= least))
            ),
            f"tile_{tile} is {{size}} elements of {element_bytes} bytes: less than a sector of {SECTOR_BYTES} bytes, "
            f"or twice what covers the {extent} there are",
            names={"size": f"tile_{tile}"},
        )

    return (
        size_rule("rows", problem.rows),
        size_rule("columns", problem.columns),
        Rule(
            "tile_bytes",
            lambda tile_bytes, staged: (
                (tile_bytes >= min(SMALLEST_TILE, problem.elements * element_bytes))
                & (tile_bytes <= LARGEST_TILE)
                & (staged <= MOST_STAGED)
            ),
            "a tile of {tile_bytes} bytes, {staged} registers of each thread, is outside the "
            f"{SMALLEST_TILE} to {LARGEST_TILE} bytes and {MOST_STAGED} registers that pay off",
        ),
    )


def _binding_pruning(problem: Transpose) -> tuple[Rule, ...]:
    """Automatic data movement: only bindings with few sectors and wide vectors."""

    def side(name: str, line: str, extent: int) -> tuple[Rule, ...]:
        vector = f"{name}_vector"
        return (
            sectors_rule(f"{name}_sectors", line, vector, f"{name}_columns", extent, problem.element_bytes),
            width_rule(f"{name}_width", vector, extent, problem.element_bytes),
        )

    return (*side("load", "tile_columns", problem.columns), *side("store", "tile_rows", problem.rows))


def _conflict_pruning(problem: Transpose) -> tuple[Rule, ...]:
    """Automatic data movement: only bindings with few bank conflicts."""
    element_bytes = problem.element_bytes

    def loads(
        layout: str, tile_rows: int, tile_columns: int, load_vector: int, load_columns: int, block_rows: int
    ) -> bool:
        parsed = parse_layout(layout, tile_rows, tile_columns)
        if isinstance(parsed, str) or tile_columns % (load_columns * load_vector):
            return True  # the validity constraints refuse it
        if block_rows > 1 and parsed.contiguity("rows") < block_rows:
            return True
        percent = conflict_percent(parsed, element_bytes, "cols", load_vector, load_columns, block_rows)
        return percent <= 100 * MOST_CONFLICTS

    def stores(layout: str, tile_rows: int, tile_columns: int, store_vector: int, store_columns: int) -> bool:
        parsed = parse_layout(layout, tile_rows, tile_columns)
        if isinstance(parsed, str) or tile_rows % (store_columns * store_vector):
            return True
        return conflict_percent(parsed, element_bytes, "rows", store_vector, store_columns) <= 100 * MOST_CONFLICTS

    def rule(name: str, function: Callable[..., bool], accesses: str) -> Rule:
        return Rule(
            name,
            each(function),
            f"layout {{layout}} makes the {accesses} vectors wait for banks more than {MOST_CONFLICTS:g} times as long "
            "as without conflicts",
        )

    return (
        rule("load_conflicts", loads, "stores of loaded"),
        rule("store_conflicts", stores, "loads of out's"),
    )


def _order_pruning(problem: Transpose, device: Device) -> tuple[Rule, ...]:
    return (
        raster_rule(("tile_rows", "tile_columns"), (problem.rows, problem.columns)),
        Rule(
            "stages_filled",
            lambda stages, block_tiles: stages <= block_tiles,
            "{stages} stages are more than the {block_tiles} tiles of a block",
        ),
        Rule(
            "block_tiles",
            lambda tiles, block_tiles: (block_tiles == 1) | (tiles >= block_tiles * device.sm_count),
            f"{{block_tiles}} tiles in each block leave some of the {device.sm_count} SMs without any",
        ),
    )
