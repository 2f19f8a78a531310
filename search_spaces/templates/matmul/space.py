"""The decisions of a matmul schedule, what follows from them, and the rules a schedule must satisfy.

The kernel is ``autosched/kernels/matmul.cuh``; its ``static_assert``s carry the names of the rules here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import gcd

import numpy as np

from search_spaces.arrays import BoolArray, IntArray
from search_spaces.hardware.bank_conflicts import WIDEST_BYTES
from search_spaces.hardware.data_movement import (
    MOST_CONFLICTS,
    Region,
    few_conflicts,
    few_sectors,
    wide_enough,
)
from search_spaces.hardware.devices import Device
from search_spaces.hardware.fragments import WARP
from search_spaces.hardware.intrinsics import intrinsic, intrinsics_for
from search_spaces.hardware.requirements import OperandSide, Refusal
from search_spaces.layouts.shared_layout import Axis, parse_layout, sampled_layouts
from search_spaces.layouts.wg_map import WgMap
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.columns import Columns, ceil_div
from search_spaces.spaces.parameters import Parameter, categorical, ordinal
from search_spaces.spaces.rules import Attribute, Rule, integer
from search_spaces.spaces.space import Space
from search_spaces.templates.common.launch_rules import device_rules
from search_spaces.templates.common.raster import raster, raster_rule
from search_spaces.templates.common.tiling import Tiling

STAGE_ALIGNMENT = 128  # bytes: a stage starts at a full line of banks
EPILOGUE_PAD = 8  # f32 elements after each row of the epilogue's tile: 32 bytes, the step of wmma.store
REGISTER_OVERHEAD = 24  # registers for addresses and counters, the fewest seen in compiled kernels
BODY_LIMIT = 1024  # arithmetic instructions of the unrolled loop body; more overflow the instruction cache
NARROW = 16  # rows or columns of out under which fragments of tensor cores, at least 16 x 8, are mostly padding
FULL_WAVES = 2  # blocks per SM from which splitting k adds no parallelism


@lru_cache(maxsize=64)
def space(problem: Matmul, device: Device) -> Space:
    """All schedules of ``problem`` on ``device``."""
    return Space(
        "matmul",
        parameters(problem),
        attributes(problem),
        validity_constraints(problem, device),
        pruning_rules(problem, device),
        stratified_by="intrinsic",
    )


def parameters(problem: Matmul) -> tuple[Parameter, ...]:
    """The domains, before any rule applies."""
    element_bytes = problem.input_dtype.bytes
    tiles = (16, 32, 64, 96, 128, 192, 256)
    sg_data = (8, 16, 32, 48, 64, 96, 128)
    layouts = sampled_layouts(element_bytes)
    vectors = tuple(v for v in (1, 2, 4, 8) if v * element_bytes <= 16)
    columns = (1, 2, 4, 8, 16, 32, 64, 128)
    return (
        ordinal("tile_m", tiles, "rows of the workgroup tile of out"),
        ordinal("tile_n", tiles, "columns of the workgroup tile of out"),
        ordinal("tile_k", tuple(d * 32 // element_bytes for d in (1, 2, 4, 8)), "depth of one pipeline stage"),
        categorical(
            "intrinsic", tuple(row.name for row in intrinsics_for(problem.a, tf32=True)), "what multiplies fragments"
        ),
        ordinal("sg_layout_m", (1, 2, 4, 8), "subgroups along m (wg_map of out)"),
        ordinal("sg_layout_n", (1, 2, 4, 8), "subgroups along n (wg_map of out)"),
        ordinal("sg_data_m", sg_data, "rows of one subgroup's sub-tile (wg_map of out)"),
        ordinal("sg_data_n", sg_data, "columns of one subgroup's sub-tile (wg_map of out)"),
        categorical("layout_a", layouts, "shared-memory layout of the tile_m x tile_k tile of a"),
        categorical("layout_b", layouts, "shared-memory layout of the tile_k x tile_n tile of b"),
        categorical("copy_a", ("cp.async", "ld.global"), "how a goes to shared memory"),
        categorical("copy_b", ("cp.async", "ld.global"), "how b goes to shared memory"),
        ordinal("vector_a", vectors, "elements of a that a thread copies at a time"),
        ordinal("vector_b", vectors, "elements of b that a thread copies at a time"),
        ordinal("copy_columns_a", columns, "threads along contiguous memory (copy wg_map of a)"),
        ordinal("copy_columns_b", columns, "threads along contiguous memory (copy wg_map of b)"),
        ordinal("stages", (1, 2, 3, 4, 5), "k-tiles in shared memory at a time"),
        ordinal("k_unroll", (1, 2, 4, 8), "intrinsic steps of k unrolled"),
        categorical("epilogue", ("registers", "shared"), "route of the accumulators to memory"),
        ordinal("min_blocks", (1, 2, 3, 4), "blocks per SM that registers are limited for"),
        ordinal("split_k", (1, 2, 3, 4, 6, 8, 16), "blocks that share the k of one tile"),
        raster(),
        categorical(
            "batch_mapping",
            ("outer", "inner") if problem.batch > 1 else ("outer",),
            "whether the batch is the slowest or the fastest block index",
        ),
    )


def tiling(problem: Matmul) -> Tiling:
    return Tiling((problem.m, problem.n, problem.k), ("tile_m", "tile_n", "tile_k"), problem.batch)


def tile_shape(operand: str, tile_m: int, tile_n: int, tile_k: int) -> tuple[int, int]:
    """Shape of an operand's tile: a is (m, k), b is (k, n)."""
    return (tile_m, tile_k) if operand == "a" else (tile_k, tile_n)


def contiguous_extent(problem: Matmul, operand: str) -> int:
    """Elements of one contiguous line of an operand in global memory."""
    if operand == "a":
        return problem.k if problem.order_a == "row" else problem.m
    return problem.n if problem.order_b == "row" else problem.k


def row_major(problem: Matmul, operand: str) -> bool:
    return (problem.order_a if operand == "a" else problem.order_b) == "row"


def _tile_names(operand: str) -> tuple[str, str]:
    return ("tile_m", "tile_k") if operand == "a" else ("tile_k", "tile_n")


# Attributes -----------------------------------------------------------------------------------------------------------


def attributes(problem: Matmul) -> tuple[Attribute, ...]:
    """Derived columns, shared by rules, code generation and cost models."""
    element_bytes = problem.input_dtype.bytes

    def stage_bytes(operand: str) -> Callable[[Columns], IntArray]:
        def one(text: str, rows: int, cols: int) -> int:
            layout = parse_layout(text, rows, cols)
            if isinstance(layout, str):
                return 0
            return -(-layout.size * element_bytes // STAGE_ALIGNMENT) * STAGE_ALIGNMENT

        return lambda c: c.map((f"layout_{operand}", *_tile_names(operand)), one)

    def staging(operand: str) -> Callable[[Columns], IntArray]:
        rows, cols = _tile_names(operand)

        def compute(c: Columns) -> IntArray:
            through_registers: IntArray = c.map(f"copy_{operand}", lambda copy: copy == "ld.global")
            return through_registers * ceil_div(c[rows] * c[cols] * element_bytes, 4 * c["threads"])

        return compute

    def fragments(axis: str) -> Callable[[Columns], IntArray]:
        tile, sg_layout = f"tile_{axis}", f"sg_layout_{axis}"

        def compute(c: Columns) -> IntArray:
            size: IntArray = c.map("intrinsic", lambda name: getattr(intrinsic(name), axis))
            return c[tile] // (c[sg_layout] * size)

        return compute

    def fragment_registers(operand: OperandSide, axis: str) -> Callable[[Columns], IntArray]:
        def compute(c: Columns) -> IntArray:
            registers: IntArray = c.map("intrinsic", lambda name: intrinsic(name).fragment(operand).registers)
            return fragments(axis)(c) * registers

        return compute

    def epilogue_line(c: Columns) -> IntArray:
        return c["tile_n"] + EPILOGUE_PAD

    def epilogue_bytes(c: Columns) -> IntArray:
        through_shared: IntArray = c.map("epilogue", lambda e: e == "shared")
        return c["tile_m"] * epilogue_line(c) * 4 * through_shared

    return (
        *tiling(problem).attributes(),
        Attribute(
            "threads",
            ("sg_layout_m", "sg_layout_n"),
            lambda c: c["sg_layout_m"] * c["sg_layout_n"] * WARP,
            "threads of a block",
        ),
        Attribute(
            "stage_bytes_a", ("layout_a", "tile_m", "tile_k"), stage_bytes("a"), "shared bytes of one stage of a"
        ),
        Attribute(
            "stage_bytes_b", ("layout_b", "tile_k", "tile_n"), stage_bytes("b"), "shared bytes of one stage of b"
        ),
        Attribute("staging_a", ("tile_m", "tile_k", "threads", "copy_a"), staging("a"), "registers that copy a"),
        Attribute("staging_b", ("tile_k", "tile_n", "threads", "copy_b"), staging("b"), "registers that copy b"),
        Attribute(
            "stage_bytes",
            ("stage_bytes_a", "stage_bytes_b"),
            lambda c: c["stage_bytes_a"] + c["stage_bytes_b"],
            "shared bytes of one stage",
        ),
        Attribute(
            "staging",
            ("staging_a", "staging_b"),
            lambda c: c["staging_a"] + c["staging_b"],
            "registers of a thread that copy operands",
        ),
        Attribute(
            "epilogue_line",
            ("tile_n",),
            epilogue_line,
            "f32 elements from one row to the next of a tile of out in shared memory",
        ),
        Attribute(
            "shared_bytes",
            ("stage_bytes", "stages", "epilogue", "tile_m", "tile_n"),
            lambda c: np.maximum(c["stage_bytes"] * c["stages"], epilogue_bytes(c)),
            "dynamic shared memory of a block",
        ),
        Attribute(
            "accumulators",
            ("tile_m", "tile_n", "threads"),
            lambda c: ceil_div(c["tile_m"] * c["tile_n"], c["threads"]),
            "f32 accumulators of a thread",
        ),
        *(
            Attribute(
                f"fragments_{axis}",
                (f"tile_{axis}", f"sg_layout_{axis}", "intrinsic"),
                fragments(axis),
                f"fragments of out along {axis} of a subgroup",
            )
            for axis in "mn"
        ),
        Attribute(
            "fragment_registers_a",
            ("tile_m", "sg_layout_m", "intrinsic"),
            fragment_registers("a", "m"),
            "registers of a's fragments",
        ),
        Attribute(
            "fragment_registers_b",
            ("tile_n", "sg_layout_n", "intrinsic"),
            fragment_registers("b", "n"),
            "registers of b's fragments",
        ),
        Attribute(
            "registers",
            ("accumulators", "fragment_registers_a", "fragment_registers_b", "staging"),
            lambda c: (
                c["accumulators"]
                + c["fragment_registers_a"]
                + c["fragment_registers_b"]
                + c["staging"]
                + REGISTER_OVERHEAD
            ),
            "registers of a thread, a lower estimate",
        ),
    )


# Rules ----------------------------------------------------------------------------------------------------------------


def validity_constraints(problem: Matmul, device: Device) -> tuple[Rule, ...]:
    """Rules without which the kernel does not compile, launch or compute ``problem``."""
    return (
        *_map_rules(),
        *_intrinsic_rules(problem, device),
        *_operand_rules(problem, "a"),
        *_operand_rules(problem, "b"),
        tiling(problem).split_rule(),
        *tiling(problem).grid_rules(parameters(problem)),
        *device_rules(device),
    )


def pruning_rules(problem: Matmul, device: Device) -> tuple[Rule, ...]:
    """Rules that leave out schedules which a simpler or smaller one equals or beats."""
    return (
        *_tile_size_rules(problem),
        _code_size_rule(),
        *_copy_pruning(problem, "a"),
        *_copy_pruning(problem, "b"),
        *_stage_rules(problem),
        raster_rule(("tile_m", "tile_n"), (problem.m, problem.n)),
        *_tensor_core_rules(problem, device),
        _split_pruning(problem, device),
    )


def _tile_size_rules(problem: Matmul) -> tuple[Rule, ...]:
    smallest = {"tile_m": 16, "tile_n": 16, "tile_k": 32 // problem.input_dtype.bytes}

    def size_rule(tile: str) -> Rule:
        extent, least = int(getattr(problem, tile[-1])), smallest[tile]
        return Rule(
            tile.replace("tile", "tile_size"),
            (tile,),
            lambda c: (c[tile] < 2 * extent) | (c[tile] == least),
            lambda v: f"{tile} is {v[tile]}, but a tile of half of that already covers {tile[-1]} = {extent}",
        )

    return size_rule("tile_m"), size_rule("tile_n"), size_rule("tile_k")


def _tensor_core_rules(problem: Matmul, device: Device) -> tuple[Rule, ...]:
    """Tensor cores multiply at least 8 times as fast as CUDA cores, unless their fragments are mostly padding."""
    rows = intrinsics_for(problem.a, tf32=problem.precision == "tf32")
    tensor = [row.name for row in rows if row.unit != "fma" and row.min_sm <= device.sm]
    if not tensor or min(problem.m, problem.n) < NARROW:
        return ()
    return (
        Rule(
            "tensor_cores",
            ("intrinsic",),
            lambda c: c.map("intrinsic", lambda name: intrinsic(name).unit != "fma", dtype=np.bool_),
            lambda v: (
                f"{v['intrinsic']} multiplies on CUDA cores, but {tensor[-1]} does it on tensor cores, which are "
                f"faster where neither m nor n is under {NARROW}"
            ),
        ),
    )


def _split_pruning(problem: Matmul, device: Device) -> Rule:
    """Splitting k fills idle SMs; where all are busy, adding up the parts only costs time."""
    enough = FULL_WAVES * device.sm_count

    cut = tiling(problem)

    def blocks(c: Columns) -> IntArray:
        tiles: IntArray = cut.tiles_along(0, c) * cut.tiles_along(1, c)
        return problem.batch * tiles

    return Rule(
        "split_k_waves",
        ("tile_m", "tile_n", "split_k"),
        lambda c: (c["split_k"] == 1) | (blocks(c) < enough),
        lambda v: (
            f"split_k is {v['split_k']}, but tiles of {v['tile_m']}x{v['tile_n']} alone already give each of the "
            f"{device.sm_count} SMs of {device.name} {FULL_WAVES} blocks or more"
        ),
    )


@lru_cache(maxsize=2**12)
def _why_not_dealt_out(tile: int, sg_layout: int, sg_data: int) -> str | None:
    """Why a dimension of a tile cannot be dealt out to subgroups, each of which computes its own part."""
    wg_map = WgMap((sg_layout, 1), (sg_data, 1))
    try:
        wg_map.verify((tile, 1))
    except ValueError:
        return "they do not divide it"
    return "subgroups would share its parts" if wg_map.wraps((tile, 1))[0] else None


def _map_rules() -> tuple[Rule, ...]:
    def map_rule(axis: str) -> Rule:
        needs = (f"tile_{axis}", f"sg_layout_{axis}", f"sg_data_{axis}")
        return Rule(
            f"wg_map_{axis}",
            needs,
            lambda c: c.map(needs, lambda *sizes: _why_not_dealt_out(*sizes) is None, np.bool_),
            lambda v: (
                f"the wg_map has {v[needs[1]]} subgroups with sub-tiles of {v[needs[2]]} along {axis}, where the tile "
                f"has {v[needs[0]]}: {_why_not_dealt_out(*(integer(v, name) for name in needs))}"
            ),
        )

    return map_rule("m"), map_rule("n")


def _intrinsic_rules(problem: Matmul, device: Device) -> tuple[Rule, ...]:
    reduces = problem.reduced_axis is not None

    def fragment_rule(column: str, extent: str) -> Rule:
        return Rule(
            f"fragments_{extent}",
            (column, "intrinsic"),
            lambda c: c[column] % c.map("intrinsic", lambda name: getattr(intrinsic(name), extent)) == 0,
            lambda v: f"{column} is {v[column]}, which is not a multiple of the {extent} of {v['intrinsic']}",
        )

    return (
        fragment_rule("sg_data_m", "m"),
        fragment_rule("sg_data_n", "n"),
        fragment_rule("tile_k", "k"),
        Rule(
            "intrinsic_sm",
            ("intrinsic",),
            lambda c: c.map("intrinsic", lambda name: intrinsic(name).why_not(device) is None, dtype=np.bool_),
            lambda v: intrinsic(str(v["intrinsic"])).why_not(device) or "",
            "the device has the instruction",
        ),
        Rule(
            "precision",
            ("intrinsic",),
            lambda c: c.map(
                "intrinsic",
                lambda name: not intrinsic(name).rounds or problem.precision == "tf32",
                dtype=np.bool_,
            ),
            lambda v: f"{v['intrinsic']} rounds its operands to tf32, but the problem asks for ieee precision",
        ),
        Rule(
            "epilogue",
            ("intrinsic", "epilogue"),
            lambda c: c.map(
                ("intrinsic", "epilogue"),
                lambda name, route: route == "shared" or (not reduces and intrinsic(name).c.layout is not None),
                dtype=np.bool_,
            ),
            lambda v: (
                f"the {problem.reduction} reads the tile of out from shared memory, so the epilogue must go through it"
                if reduces
                else f"{v['intrinsic']} does not say which thread holds which accumulator, so the epilogue must go "
                "through shared memory"
            ),
        ),
        Rule(
            "k_unroll",
            ("tile_k", "intrinsic", "k_unroll"),
            lambda c: c["tile_k"] // c.map("intrinsic", lambda name: intrinsic(name).k) % c["k_unroll"] == 0,
            lambda v: (
                f"k_unroll is {v['k_unroll']}, which does not divide the "
                f"{integer(v, 'tile_k') // intrinsic(str(v['intrinsic'])).k} steps of {v['intrinsic']} in tile_k = "
                f"{v['tile_k']}"
            ),
        ),
    )


def _code_size_rule() -> Rule:
    return Rule(
        "code_size",
        ("accumulators", "intrinsic", "k_unroll"),
        lambda c: c["accumulators"] * c["k_unroll"] <= BODY_LIMIT * _results_per_instruction(c),
        lambda v: (
            f"{v['accumulators']} accumulators with k unrolled {v['k_unroll']} times make a loop body of over "
            f"{BODY_LIMIT} arithmetic instructions"
        ),
    )


def _results_per_instruction(c: Columns) -> IntArray:
    """Accumulators of a thread that one instruction updates."""
    return c.map("intrinsic", lambda name: intrinsic(name).results)


def _operand_rules(problem: Matmul, operand: OperandSide) -> tuple[Rule, ...]:
    element_bytes = problem.input_dtype.bytes
    names = _tile_names(operand)
    is_row_major = row_major(problem, operand)
    major, minor = names if is_row_major else names[::-1]
    extent = contiguous_extent(problem, operand)
    layout, copy, vector = f"layout_{operand}", f"copy_{operand}", f"vector_{operand}"
    columns = f"copy_columns_{operand}"

    def refusal(text: str, rows: int, cols: int, name: str) -> str | None:
        parsed = parse_layout(text, rows, cols)
        if isinstance(parsed, str):
            return parsed
        answer = intrinsic(name).requirement(operand, parsed, element_bytes)
        return answer.reason if isinstance(answer, Refusal) else None

    def contiguity(text: str, rows: int, cols: int) -> int:
        parsed = parse_layout(text, rows, cols)
        return 0 if isinstance(parsed, str) else parsed.contiguity("cols" if is_row_major else "rows")

    def copy_async(c: Columns) -> BoolArray:
        together = c.map((layout, *names), contiguity)
        moved: BoolArray = (c[vector] * element_bytes >= 4) & (together % c[vector] == 0) & (together > 0)
        by_register: BoolArray = c.map(copy, lambda how: how == "ld.global", dtype=np.bool_)
        return np.logical_or(by_register, moved)

    def copy_divides(c: Columns) -> BoolArray:
        rows = c["threads"] // c[columns]
        lines_left: IntArray = c[major] % np.maximum(rows, 1)
        elements_left: IntArray = c[minor] % (c[columns] * c[vector])
        return (rows > 0) & np.equal(lines_left, 0) & np.equal(elements_left, 0)

    return (
        Rule(
            layout,
            (layout, *names, "intrinsic"),
            lambda c: c.map((layout, *names, "intrinsic"), lambda *args: refusal(*args) is None, dtype=np.bool_),
            lambda v: refusal(str(v[layout]), integer(v, names[0]), integer(v, names[1]), str(v["intrinsic"])) or "",
            f"the layout of {operand} is injective, stays inside its tile and suits the intrinsic",
        ),
        Rule(
            f"copy_alignment_{operand}",
            (vector,),
            lambda c: extent % c[vector] == 0,
            lambda v: (
                f"{vector} is {v[vector]}, but lines of {operand} in memory have {extent} elements: vectors of "
                f"at most {gcd(extent, 16 // element_bytes)} are aligned"
            ),
        ),
        Rule(
            f"copy_map_{operand}",
            (major, minor, "threads", vector, columns),
            copy_divides,
            lambda v: (
                f"{v['threads']} threads in {v[columns]} columns of {v[vector]} elements do not divide the "
                f"{v[major]}x{v[minor]} tile of {operand} (lines across, elements along contiguous memory)"
            ),
        ),
        Rule(
            f"copy_async_{operand}",
            (copy, vector, layout, *names),
            copy_async,
            lambda v: (
                f"cp.async moves 4, 8 or 16 bytes that stay together, but {vector} = {v[vector]} is "
                f"{integer(v, vector) * element_bytes} bytes and layout {v[layout]} keeps "
                f"{contiguity(str(v[layout]), *(integer(v, name) for name in names))} elements of {operand} together"
            ),
        ),
    )


def _copy_pruning(problem: Matmul, operand: str) -> tuple[Rule, ...]:
    """Automatic data movement: only copies with wide vectors, few sectors and few bank conflicts."""
    element_bytes = problem.input_dtype.bytes
    names = _tile_names(operand)
    is_row_major = row_major(problem, operand)
    minor = names[1] if is_row_major else names[0]
    axis: Axis = "cols" if is_row_major else "rows"
    extent = contiguous_extent(problem, operand)
    layout, vector, columns = f"layout_{operand}", f"vector_{operand}", f"copy_columns_{operand}"

    @lru_cache
    def lines(elements: int) -> Region:
        return Region((WARP, elements), "cols", extent, element_bytes)

    def conflicts(text: str, rows: int, cols: int, v: int, c: int) -> bool:
        parsed = parse_layout(text, rows, cols)
        if isinstance(parsed, str) or (cols if is_row_major else rows) % (v * c):
            return True  # the validity constraints refuse it
        return (v, min(c, WARP)) in few_conflicts(parsed, element_bytes, axis)

    return (
        Rule(
            f"copy_width_{operand}",
            (vector,),
            lambda c: c.map(vector, lambda v: wide_enough(lines(1), v), np.bool_),
            lambda v: (
                f"{vector} is {v[vector]}, but {gcd(extent, WIDEST_BYTES // element_bytes)} elements could be copied "
                "at a time"
            ),
        ),
        Rule(
            f"copy_sectors_{operand}",
            (minor, vector, columns),
            lambda c: c.map((minor, vector, columns), lambda size, *v: few_sectors(lines(size), *v), np.bool_),
            lambda v: (
                f"{v[columns]} threads with {v[vector]} elements each touch more sectors of 32 bytes than other "
                f"bindings of a line of {v[minor]} elements"
            ),
        ),
        Rule(
            f"copy_conflicts_{operand}",
            (layout, *names, vector, columns),
            lambda c: c.map((layout, *names, vector, columns), conflicts, np.bool_),
            lambda v: (
                f"layout {v[layout]} makes the copy of {operand} in {v[columns]} columns of {v[vector]} elements wait "
                f"for banks more than {MOST_CONFLICTS:g} times as long as without conflicts, and longer than in other "
                "columns"
            ),
        ),
    )


def _stage_rules(problem: Matmul) -> tuple[Rule, ...]:
    split = tiling(problem)
    return (
        Rule(
            "stages",
            ("stages", *split.split_needs),
            lambda c: c["stages"] <= split.tiles_of_split(c),
            lambda v: (
                f"{v['stages']} stages are more than the k-tiles of a split (k = {problem.k}, tile_k = "
                f"{v['tile_k']}, split_k = {v['split_k']})"
            ),
        ),
        Rule(
            "stages_async",
            ("stages", "copy_a", "copy_b"),
            lambda c: (c["stages"] <= 2) | c.map(("copy_a", "copy_b"), lambda a, b: "cp.async" in (a, b), np.bool_),
            lambda v: f"{v['stages']} stages need a cp.async copy: loads through registers are one k-tile ahead",
        ),
    )
