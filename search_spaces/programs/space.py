"""The schedules of a tile program: those that its kernel can run, and those worth a try."""

from __future__ import annotations

from functools import lru_cache
from math import gcd

import numpy as np

from search_spaces.hardware import intrinsics
from search_spaces.hardware.bank_conflicts import WIDEST_BYTES, fragment_traffic
from search_spaces.hardware.devices import Device
from search_spaces.hardware.requirements import Refusal
from search_spaces.layouts.shared_layout import parse_layout
from search_spaces.programs.analysis import Operand
from search_spaces.programs.decisions import COPY_COLUMNS, attributes, choices, operand_names, parameters
from search_spaces.programs.problem import ProgramProblem
from search_spaces.spaces.each import each
from search_spaces.spaces.rules import Rule
from search_spaces.spaces.space import Space
from search_spaces.templates.common.launch_rules import device_rules
from search_spaces.templates.common.line_access import sectors_rule
from search_spaces.templates.common.operand_rules import operand_rules
from search_spaces.templates.common.raster import raster_rule

FEW_THREADS = 128  # a warp for each scheduler of an SM
LEAST_RESULTS = 32  # of a thread, whose reads of fragments keep up with mma.sync
BODY_LIMIT = 1024  # products of the unrolled loop body; more overflow the instruction cache


@lru_cache(maxsize=64)
def space(problem: ProgramProblem, device: Device) -> Space:
    """All schedules of ``problem`` on ``device``."""
    operands = choices(problem).analysis.operands
    return Space(
        problem.program.name,
        parameters(problem),
        attributes(problem),
        (
            *_map_rules(),
            _intrinsic_rule(device),
            *(rule for o in operands for rule in _staged(o)),
            *device_rules(device),
        ),
        (*_size_rules(problem), *(rule for o in operands for rule in _operand_pruning(o))),
        stratified_by="intrinsic",
    )


def _map_rules() -> tuple[Rule, ...]:
    def dealt(axis: str, subgroups: str, size: int) -> Rule:
        return Rule(
            f"wg_map_{axis}",
            lambda tile, groups: np.equal(tile % (groups * size), 0),
            f"{{groups}} subgroups along {axis} do not get whole fragments of {size} of the tile's {{tile}}",
            names={"tile": f"tile_{axis}", "groups": subgroups},
        )

    return dealt("m", "sg_rows", 16), dealt("n", "sg_columns", 8)


def _intrinsic_rule(device: Device) -> Rule:
    def why_not(tile_k: int, intrinsic: str) -> str | None:
        row = intrinsics.intrinsic(intrinsic)
        if tile_k % row.k:
            return f"tile_k is {tile_k}, which is not a multiple of the k of {intrinsic}"
        return row.why_not(device)

    return Rule.refusing("intrinsic", why_not, "the device has the instruction, and it divides the loop's step")


def _staged(operand: Operand) -> tuple[Rule, ...]:
    axis = "cols" if operand.row_major else "rows"
    extent, element_bytes = operand.array.shape[1], operand.array.dtype.bytes
    return operand_rules(operand.side, operand.name, operand_names(operand), axis, extent, element_bytes)  # type: ignore[arg-type]


def _size_rules(problem: ProgramProblem) -> tuple[Rule, ...]:
    found = choices(problem)
    products = len(found.analysis.products)
    extents = dict(zip("mnk", (*found.analysis.trace.extent, found.analysis.depth), strict=True))
    smallest = {axis: min(tile[at] for tile in found.tiles.values()) for at, axis in enumerate("mnk")}

    def size_rule(axis: str) -> Rule:
        extent, least = extents[axis], smallest[axis]
        return Rule(
            f"tile_size_{axis}",
            lambda tile: (tile < 2 * extent) | (tile == least),
            f"tile_{axis} is {{tile}}, but a tile of half of that already covers {extent}",
            names={"tile": f"tile_{axis}"},
        )

    return (
        *(size_rule(axis) for axis in "mnk"),
        Rule(
            "code_size",
            lambda fragments_m, fragments_n, tile_k: products * fragments_m * fragments_n * tile_k <= 16 * BODY_LIMIT,
            f"the unrolled body of {{fragments_m}}x{{fragments_n}} fragments and {{tile_k}} along k has more than "
            f"{BODY_LIMIT} products",
        ),
        Rule(
            "warp_part",
            lambda threads, accumulators: (threads <= FEW_THREADS) | (accumulators >= LEAST_RESULTS * products),
            "{threads} threads with {accumulators} accumulators each: fewer subgroups would read less of shared memory",
        ),
        Rule(
            "stages_overlap",
            lambda stages, tiles_k: (stages >= 2) | (tiles_k < 2),
            "{stages} stage waits for all of memory's latency in every step of {tiles_k}",
        ),
        raster_rule(("tile_m", "tile_n"), found.analysis.trace.extent),
    )


def _operand_pruning(operand: Operand) -> tuple[Rule, ...]:
    """cp.async of what is aligned, few sectors, and no bank conflicts of ldmatrix."""
    element_bytes, extent = operand.array.dtype.bytes, operand.array.shape[1]
    widest = gcd(extent, WIDEST_BYTES // element_bytes)
    names = operand_names(operand)

    def fits(major: int, minor: int, threads: int, vector: int) -> bool:
        return any(
            major % (threads // columns) == 0 and minor % (columns * vector) == 0
            for columns in COPY_COLUMNS
            if columns <= threads
        )

    def as_wide(vector: int, major: int, minor: int, threads: int, copy: str) -> bool:
        if copy != "cp.async" and vector * element_bytes >= 4:
            return False
        return vector == widest or not fits(major, minor, threads, 2 * vector)

    def conflict_free(layout: str, rows: int, cols: int, intrinsic: str) -> bool:
        row, parsed = intrinsics.intrinsic(intrinsic), parse_layout(layout, rows, cols)
        if isinstance(parsed, str) or isinstance(row.requirement(operand.side, parsed, element_bytes), Refusal):
            return True  # the validity constraints refuse it
        read = fragment_traffic(row, operand.side, parsed, element_bytes)
        return read.wavefronts <= read.ideal

    return (
        Rule(
            f"copy_whole_{operand.name}",
            each(as_wide),
            f"{{copy}} of {{vector}} elements: cp.async could take more of a line of {operand.name} at a time",
            names={name: names[name] for name in ("vector", "major", "minor", "copy")},
        ),
        sectors_rule(
            f"copy_sectors_{operand.name}", names["minor"], names["vector"], names["columns"], extent, element_bytes
        ),
        Rule(
            f"read_conflicts_{operand.name}",
            each(conflict_free),
            "layout {layout} makes ldmatrix wait for banks, which padded and swizzled tiles do not",
            names={name: names[name] for name in ("layout", "rows", "cols")},
        ),
    )
