"""Parameters, attributes and rules of the space of transpose schedules.

The kernel is ``autosched/kernels/transpose.cuh``; its ``static_assert``s carry the names of the rules here. Rows and
columns are rows and columns of x. Loads access lines of x; stores access lines of out, which are columns of x.
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

REGISTER_OVERHEAD = 24  # registers for addresses and counters; compiled kernels have at least this number
DRAINED = 32  # registers for elements that are loaded from shared memory and not yet stored to out
MOST_STAGED = 96  # limit of a thread's registers for elements; with twice this number, elements and addresses spill
SMALLEST_TILE, LARGEST_TILE = 1 << 10, 1 << 15  # smallest and largest size of a tile in bytes
NONE = "none"  # value of layout_x for tiles that are transposed only in registers


@lru_cache(maxsize=64)
def space(problem: Transpose, device: Device) -> Space:
    """Return all schedules of ``problem`` on ``device``."""
    return Space(
        "transpose",
        offered(parameters(problem), device),
        attributes(problem),
        validity_constraints(problem, device),
        pruning_rules(problem, device),
    )


def vectors(problem: Transpose) -> tuple[int, ...]:
    """Return the possible numbers of elements per access. An access has at most 16 bytes."""
    return tuple(v for v in (1, 2, 4, 8, 16) if v * problem.element_bytes <= WIDEST_BYTES)


def layouts(problem: Transpose) -> tuple[str, ...]:
    """Return the ``sampled_layouts`` that can differ in speed for transposes.

    These are padding after each line, swizzles of all eight 16-byte chunks of 128 bytes, and xor.
    """

    def kept(text: str) -> bool:
        step = text.removeprefix("transpose+")
        if step.startswith("pad"):
            return step.endswith(",1)")
        return "+" not in step and not step.startswith(("swizzle(1,", "swizzle(2,"))

    return tuple(text for text in sampled_layouts(problem.element_bytes) if kept(text))


def parameters(problem: Transpose) -> tuple[Parameter, ...]:
    """Return the parameters with all their values, before rules exclude combinations."""
    tiles = (8, 16, 32, 64, 128, 256)
    columns = (4, 8, 16, 32)
    return (
        ordinal("tile_m", tiles, "rows of x in a tile", 32),
        ordinal("tile_n", tiles, "columns of x in a tile", 32),
        ordinal("threads", (64, 128, 256, 512), "threads of a block", 256),
        categorical("copy_x", ("ld.global", "cp.async"), "how x is loaded"),
        ordinal("vector_x", vectors(problem), "elements of a row of x that a thread loads at a time"),
        ordinal("copy_columns_x", columns, "number of adjacent threads that load along a row of x"),
        ordinal(
            "block_rows", vectors(problem), "rows of x in the block of elements that a thread transposes in registers"
        ),
        ordinal("vector_out", vectors(problem), "elements of a row of out that a thread stores at a time"),
        ordinal("copy_columns_out", columns, "number of adjacent threads that store along a row of out"),
        categorical(
            "layout_x",
            (NONE, *layouts(problem)),
            "shared-memory layout of the tile of x; none: the tile stays in registers",
        ),
        ordinal("tiles_per_block", (1, 2, 4, 8), "tiles that a block transposes one after another"),
        ordinal("stages", (1, 2, 3), "number of tiles that shared memory holds at the same time"),
        load_hint("cache_hint_x", "x"),
        store_hint("cache_hint_out", "out"),
        ordinal("min_blocks", (1, 2, 3, 4), "blocks per SM for which the compiler limits registers"),
        raster(),
    )


def attributes(problem: Transpose) -> tuple[Attribute, ...]:
    """Return the attributes, for use in rules, code generation and cost models."""
    element_bytes = problem.element_bytes

    def staged(
        tile_bytes: IntArray, threads: IntArray, vector_x: IntArray, block_rows: IntArray, copy_x: TextColumn
    ) -> IntArray:
        vectors_of_thread = ceil_div(tile_bytes, vector_x * element_bytes * threads)
        held = vectors_of_thread * ceil_div(vector_x * element_bytes, 4)  # each vector needs at least one register
        # While a block of elements is transposed, elements narrower than a register occupy a register each, in addition
        # to the source registers.
        piece_bytes = block_rows * element_bytes
        pieces: IntArray = tile_bytes // (threads * piece_bytes) * ((block_rows > 1) & (piece_bytes < 4))
        return np.where(copy_x == "ld.global", held + pieces, np.minimum(held, DRAINED))

    def load_piece(layout_x: str, tile_m: int, tile_n: int, vector_x: int, block_rows: int) -> int:
        contiguous = contiguity(layout_x, tile_m, tile_n, "cols")
        return min(contiguous, vector_x) if block_rows == 1 or contiguous == 0 else block_rows

    def store_piece(layout_x: str, tile_m: int, tile_n: int, vector_out: int) -> int:
        return min(contiguity(layout_x, tile_m, tile_n, "rows"), vector_out)

    return (
        Attribute("row_tiles", lambda tile_m: ceil_div(problem.rows, tile_m), "tiles down x"),
        Attribute("column_tiles", lambda tile_n: ceil_div(problem.columns, tile_n), "tiles across x"),
        Attribute(
            "tiles", lambda row_tiles, column_tiles: problem.batch * row_tiles * column_tiles, "tiles of all matrices"
        ),
        Attribute("blocks", lambda tiles, tiles_per_block: ceil_div(tiles, tiles_per_block), "blocks of the launch"),
        Attribute(
            "tile_bytes",
            lambda tile_m, tile_n: tile_m * tile_n * element_bytes,
            "bytes of a tile without padding",
        ),
        Attribute("staged", staged, "registers of a thread that hold elements"),
        Attribute("registers", lambda staged: staged + REGISTER_OVERHEAD, "lower bound of the registers of a thread"),
        Attribute(
            "load_piece", each(load_piece), "elements that one access writes to shared memory; 0 without shared memory"
        ),
        Attribute(
            "store_piece",
            each(store_piece),
            "elements that one access reads from shared memory; 0 without shared memory",
        ),
        Attribute(
            "stage_bytes",
            each(lambda layout_x, tile_m, tile_n: stage_bytes(layout_x, tile_m, tile_n, element_bytes)),
            "shared-memory bytes of one tile",
        ),
        Attribute(
            "shared_bytes",
            lambda stage_bytes, stages: stage_bytes * stages,
            "dynamic shared memory of a block, in bytes",
        ),
    )


def validity_constraints(problem: Transpose, device: Device) -> tuple[Rule, ...]:
    """Return the rules that are necessary for the kernel to compile, launch and compute ``problem``."""
    return (
        *_map_constraints(),
        *_route_constraints(),
        _layout_constraint(),
        *_alignment_constraints(problem),
        grid_rule("tiles"),
        *device_rules(device),
    )


def pruning_rules(problem: Transpose, device: Device) -> tuple[Rule, ...]:
    """Return the rules that exclude slow thread mappings, and schedules that are not faster than a simpler one."""
    return (
        *_tile_pruning(problem),
        *_binding_pruning(problem),
        *_conflict_pruning(problem),
        *_order_pruning(problem, device),
        no_hint_rule("cache_hint_x", "copy_x", "cp.async"),
    )


def _map_constraints() -> tuple[Rule, ...]:
    return (
        Rule(
            "load_map",
            lambda tile_m, tile_n, threads, vector_x, copy_columns_x, block_rows: (
                (tile_m % (threads // copy_columns_x * block_rows) == 0) & (tile_n % (copy_columns_x * vector_x) == 0)
            ),
            "{threads} threads in {copy_columns_x} columns with blocks of {block_rows}x{vector_x} elements do not "
            "divide the {tile_m}x{tile_n} tile of x",
        ),
        Rule(
            "store_map",
            lambda tile_m, tile_n, threads, vector_out, copy_columns_out, layout_x: (
                (tile_n % (threads // copy_columns_out) == 0) & (tile_m % (copy_columns_out * vector_out) == 0)
                | (layout_x == NONE)
            ),
            "{threads} threads in {copy_columns_out} columns of {vector_out} elements do not divide the "
            "{tile_n}x{tile_m} tile of out",
        ),
    )


def _route_constraints() -> tuple[Rule, ...]:
    return (
        Rule(
            "block_rows",
            lambda copy_x, block_rows: (block_rows == 1) | (copy_x == "ld.global"),
            "block_rows is {block_rows}, but blocks are transposed in registers, which cp.async bypasses",
        ),
        Rule(
            "stages",
            lambda copy_x, stages: (stages == 1) | (copy_x == "cp.async"),
            "{stages} stages need cp.async: with {copy_x}, no tile is in flight",
        ),
        Rule(
            "in_register",
            lambda layout_x, block_rows, vector_out, copy_columns_x, copy_columns_out: (
                (layout_x != NONE) | ((block_rows == vector_out) & (copy_columns_x * copy_columns_out == WARP))
            ),
            "without shared memory a thread stores what it loaded (XeTile RFC, appendix 2.3): vector_out = "
            "{vector_out} must equal block_rows = {block_rows}, and copy_columns_x * copy_columns_out = "
            f"{{copy_columns_x}} * {{copy_columns_out}} must equal the {WARP} threads of a warp",
        ),
    )


def _layout_constraint() -> Rule:
    def why_not(layout_x: str, tile_m: int, tile_n: int, block_rows: int) -> str | None:
        parsed = None if layout_x == NONE else parse_layout(layout_x, tile_m, tile_n)
        if parsed is None or isinstance(parsed, str):
            return parsed
        together = parsed.contiguity("rows")
        if block_rows == 1 or together >= block_rows:
            return None
        return (
            f"transposed blocks of {block_rows} rows are stored with one access, but layout {layout_x} keeps "
            f"{together} "
            "elements of a column together"
        )

    return Rule.refusing(
        "layout_x",
        why_not,
        "the layout is injective, stays inside the tile's memory and keeps transposed blocks contiguous",
    )


def _alignment_constraints(problem: Transpose) -> tuple[Rule, ...]:
    element_bytes = problem.element_bytes

    def together(layout_x: str, tile_m: int, tile_n: int) -> int:
        return contiguity(layout_x, tile_m, tile_n, "cols")

    def copy_async(
        copy_x: TextColumn, vector_x: IntArray, layout_x: TextColumn, tile_m: IntArray, tile_n: IntArray
    ) -> BoolArray:
        contiguous = each(together)(layout_x, tile_m, tile_n)
        moved: BoolArray = (vector_x * element_bytes >= 4) & (contiguous >= vector_x)
        return (copy_x == "ld.global") | moved

    return (
        alignment_rule("load_alignment", "vector_x", "rows of x", problem.columns, element_bytes),
        alignment_rule("store_alignment", "vector_out", "rows of out", problem.rows, element_bytes),
        Rule(
            "copy_async",
            copy_async,
            lambda vector_x, layout_x, tile_m, tile_n: (
                "cp.async copies 4, 8 or 16 bytes that are contiguous in shared memory, but vector_x "
                f"{vector_x} is {vector_x * element_bytes} bytes and layout {layout_x} keeps "
                f"{together(layout_x, tile_m, tile_n)} elements of a row together"
            ),
        ),
    )


def _tile_pruning(problem: Transpose) -> tuple[Rule, ...]:
    element_bytes = problem.element_bytes
    least = max(8, SECTOR_BYTES // element_bytes)

    def size_rule(axis: str, extent: int) -> Rule:
        return Rule(
            f"tile_size_{axis}",
            lambda size: (
                ((size * element_bytes >= SECTOR_BYTES) | (size >= extent)) & ((size < 2 * extent) | (size <= least))
            ),
            f"tile_{axis} is {{size}} elements of {element_bytes} bytes: less than a sector of {SECTOR_BYTES} bytes, "
            f"or more than twice the extent {extent}",
            names={"size": f"tile_{axis}"},
        )

    return (
        size_rule("m", problem.rows),
        size_rule("n", problem.columns),
        Rule(
            "tile_bytes",
            lambda tile_bytes, staged: (
                (tile_bytes >= min(SMALLEST_TILE, problem.elements * element_bytes))
                & (tile_bytes <= LARGEST_TILE)
                & (staged <= MOST_STAGED)
            ),
            "a tile of {tile_bytes} bytes with {staged} registers per thread is not efficient: efficient tiles have "
            f"{SMALLEST_TILE} to {LARGEST_TILE} bytes and at most {MOST_STAGED} registers per thread",
        ),
    )


def _binding_pruning(problem: Transpose) -> tuple[Rule, ...]:
    """Return rules that restrict a search to thread mappings with few sectors and wide vectors."""

    def side(name: str, operand: str, line: str, extent: int) -> tuple[Rule, ...]:
        vector = f"vector_{operand}"
        return (
            sectors_rule(f"{name}_sectors", line, vector, f"copy_columns_{operand}", extent, problem.element_bytes),
            width_rule(f"{name}_width", vector, extent, problem.element_bytes),
        )

    return (*side("load", "x", "tile_n", problem.columns), *side("store", "out", "tile_m", problem.rows))


def _conflict_pruning(problem: Transpose) -> tuple[Rule, ...]:
    """Return rules that restrict a search to thread mappings with few bank conflicts."""
    element_bytes = problem.element_bytes

    def loads(layout_x: str, tile_m: int, tile_n: int, vector_x: int, copy_columns_x: int, block_rows: int) -> bool:
        parsed = parse_layout(layout_x, tile_m, tile_n)
        if isinstance(parsed, str) or tile_n % (copy_columns_x * vector_x):
            return True  # a validity constraint already rejects an illegal layout
        if block_rows > 1 and parsed.contiguity("rows") < block_rows:
            return True
        percent = conflict_percent(parsed, element_bytes, "cols", vector_x, copy_columns_x, block_rows)
        return percent <= 100 * MOST_CONFLICTS

    def stores(layout_x: str, tile_m: int, tile_n: int, vector_out: int, copy_columns_out: int) -> bool:
        parsed = parse_layout(layout_x, tile_m, tile_n)
        if isinstance(parsed, str) or tile_m % (copy_columns_out * vector_out):
            return True
        return conflict_percent(parsed, element_bytes, "rows", vector_out, copy_columns_out) <= 100 * MOST_CONFLICTS

    def rule(name: str, function: Callable[..., bool], accesses: str) -> Rule:
        return Rule(
            name,
            each(function),
            f"with layout {{layout_x}}, the {accesses} vectors take more than {MOST_CONFLICTS:g} times as many cycles "
            "as without bank conflicts",
        )

    return (
        rule("load_conflicts", loads, "stores of loaded"),
        rule("store_conflicts", stores, "loads of out's"),
    )


def _order_pruning(problem: Transpose, device: Device) -> tuple[Rule, ...]:
    return (
        raster_rule(("tile_m", "tile_n"), (problem.rows, problem.columns)),
        Rule(
            "stages_filled",
            lambda stages, tiles_per_block: stages <= tiles_per_block,
            "{stages} stages are more than the {tiles_per_block} tiles of a block",
        ),
        Rule(
            "tiles_per_block",
            lambda tiles, tiles_per_block: (tiles_per_block == 1) | (tiles >= tiles_per_block * device.sm_count),
            f"{{tiles_per_block}} tiles in each block leave some of the {device.sm_count} SMs without tiles",
        ),
    )
