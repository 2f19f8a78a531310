"""The decisions of a program's schedule, and what follows from them: the parameters and attributes of its space."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from search_spaces.hardware import intrinsics
from search_spaces.hardware.dtypes import DType
from search_spaces.hardware.fragments import WARP
from search_spaces.layouts.shared_layout import sampled_layouts
from search_spaces.programs.analysis import Analysis, Operand, analyse
from search_spaces.programs.ir import ProgramError
from search_spaces.programs.problem import ProgramProblem
from search_spaces.spaces.columns import ceil_div
from search_spaces.spaces.each import each
from search_spaces.spaces.parameters import Parameter, categorical, ordinal
from search_spaces.spaces.rules import Attribute
from search_spaces.templates.common.raster import raster
from search_spaces.templates.common.shared_tiles import stage_bytes

MOST_CHOICES = 1024  # combinations of tile sizes that p.choose may leave open: each is traced
COPY_COLUMNS = (1, 2, 4, 8, 16, 32, 64, 128)
REGISTER_OVERHEAD = 24  # for addresses and counters
AXES = "mnk"


@dataclass(frozen=True)
class Choices:
    """What ``p.choose`` leaves open. ``tiles`` has the (m, n, k) of the products for each combination of values;
    ``deciding`` the names that each of the three depends on."""

    domains: Mapping[str, tuple[int, ...]]
    analysis: Analysis
    tiles: Mapping[tuple[int, ...], tuple[int, int, int]]
    deciding: tuple[tuple[str, ...], ...]

    @property
    def element(self) -> DType:
        return self.analysis.operands[0].array.dtype


@lru_cache(maxsize=64)
def choices(problem: ProgramProblem) -> Choices:
    """Traces the program with every combination. Raises ProgramError for one that the compiler refuses, and for a
    program that is another one with other tile sizes."""
    program, sizes = problem.program, problem.sizes
    domains = program.domains(sizes)
    if math.prod(map(len, domains.values())) > MOST_CHOICES:
        raise ProgramError(f"{program.name}: p.choose leaves more than {MOST_CHOICES} combinations of sizes open")
    found = {
        values: analyse(program.trace(sizes, dict(zip(domains, values, strict=True))))
        for values in itertools.product(*domains.values())
    }
    first = next(iter(found.values()))
    if any((a.operands, _kinds(a)) != (first.operands, _kinds(first)) for a in found.values()):
        raise ProgramError(f"{program.name}: the chosen sizes must not change which operations there are")
    tiles = {values: a.tile for values, a in found.items()}
    deciding = tuple(tuple(name for at, name in enumerate(domains) if _depends(tiles, at, axis)) for axis in range(3))
    return Choices(domains, first, tiles, deciding)


def _kinds(analysis: Analysis) -> list[object]:
    return [(type(o), getattr(o, "function", None)) for o in analysis.end]


def _depends(tiles: Mapping[tuple[int, ...], tuple[int, int, int]], at: int, axis: int) -> bool:
    seen: dict[tuple[int, ...], int] = {}
    return any(seen.setdefault(v[:at] + v[at + 1 :], tile[axis]) != tile[axis] for v, tile in tiles.items())


def operand_names(operand: Operand) -> dict[str, str]:
    """The columns of one operand, by the names that rules of all operands use."""
    rows, cols = ("tile_m", "tile_k") if operand.side == "a" else ("tile_k", "tile_n")
    major, minor = (rows, cols) if operand.row_major else (cols, rows)
    own = {name: f"{name}_{operand.name}" for name in ("layout", "copy", "vector")}
    return {
        **own,
        "columns": f"copy_columns_{operand.name}",
        "rows": rows,
        "cols": cols,
        "major": major,
        "minor": minor,
    }


def rows_of_intrinsics(element: DType) -> tuple[str, ...]:
    """The rows of mma.sync that multiply the type and add up in f32."""
    found = intrinsics.intrinsics_for(element.name, tf32=False, acc="f32")
    return tuple(row.name for row in found if row.unit == "mma" and row.c.layout is not None)


def parameters(problem: ProgramProblem) -> tuple[Parameter, ...]:
    found = choices(problem)
    element_bytes = found.element.bytes
    vectors = tuple(v for v in (1, 2, 4, 8) if v * element_bytes <= 16)
    of_operands: list[Parameter] = []
    for o in found.analysis.operands:
        of_operands += [
            categorical(
                f"layout_{o.name}", sampled_layouts(element_bytes), f"shared-memory layout of a tile of {o.name}"
            ),
            categorical(f"copy_{o.name}", ("cp.async", "ld.global"), f"how {o.name} goes to shared memory"),
            ordinal(f"vector_{o.name}", vectors, f"elements of {o.name} that a thread copies at a time"),
            ordinal(f"copy_columns_{o.name}", COPY_COLUMNS, f"threads along contiguous memory of {o.name}"),
        ]
    return (
        *(ordinal(name, values, "a size that the program leaves open") for name, values in found.domains.items()),
        *(
            ordinal(f"tile_{AXES[axis]}", (found.analysis.tile[axis],), f"{AXES[axis]} of a product, which is fixed")
            for axis in range(3)
            if not found.deciding[axis]
        ),
        categorical("intrinsic", rows_of_intrinsics(found.element), "what multiplies fragments"),
        ordinal("sg_rows", (1, 2, 4, 8), "subgroups along the rows of a tile (wg_map of the products)"),
        ordinal("sg_columns", (1, 2, 4, 8), "subgroups along the columns of a tile (wg_map of the products)"),
        *of_operands,
        ordinal("stages", (1, 2, 3, 4, 5), "steps of the loop in shared memory at a time"),
        ordinal("min_blocks", (1, 2, 3, 4), "blocks per SM that registers are limited for"),
        raster(),
    )


def attributes(problem: ProgramProblem) -> tuple[Attribute, ...]:
    """Derived columns, shared by rules, lowering and counts."""
    found = choices(problem)
    operands, element_bytes = found.analysis.operands, found.element.bytes
    products = len(found.analysis.products)
    sums = {f"bytes_{i}": f"stage_bytes_{o.name}" for i, o in enumerate(operands)}
    staged = {f"registers_{i}": f"staging_{o.name}" for i, o in enumerate(operands)}
    lefts = sum(o.side == "a" for o in operands)
    rights = len(operands) - lefts

    def registers(accumulators, fragments_m, fragments_n, staging):  # type: ignore[no-untyped-def]  # columns
        return accumulators + 4 * lefts * fragments_m + 2 * rights * fragments_n + staging + REGISTER_OVERHEAD

    return (
        *(_tile_attribute(found, axis) for axis in range(3) if found.deciding[axis]),
        Attribute("threads", lambda sg_rows, sg_columns: sg_rows * sg_columns * WARP, "threads of a block"),
        Attribute("sg_data_m", lambda tile_m, sg_rows: tile_m // sg_rows, "rows of a subgroup's sub-tile"),
        Attribute("sg_data_n", lambda tile_n, sg_columns: tile_n // sg_columns, "columns of a subgroup's sub-tile"),
        Attribute("fragments_m", lambda sg_data_m: sg_data_m // 16, "fragments along the rows of a sub-tile"),
        Attribute("fragments_n", lambda sg_data_n: sg_data_n // 8, "fragments along the columns of a sub-tile"),
        *(
            Attribute(
                f"stage_bytes_{o.name}",
                each(lambda layout, rows, cols: stage_bytes(layout, rows, cols, element_bytes)),
                f"shared bytes of one stage of {o.name}",
                names=operand_names(o),
            )
            for o in operands
        ),
        *(
            Attribute(
                f"staging_{o.name}",
                lambda rows, cols, threads, copy: (
                    (copy == "ld.global") * ceil_div(rows * cols * element_bytes, 4 * threads)
                ),
                f"registers that copy {o.name}",
                names=operand_names(o),
            )
            for o in operands
        ),
        Attribute("stage_bytes", lambda **c: sum(c.values()), "shared bytes of one stage", names=sums),
        Attribute("staging", lambda **c: sum(c.values()), "registers of a thread that copy operands", names=staged),
        Attribute("shared_bytes", lambda stage_bytes, stages: stage_bytes * stages, "shared memory of a block"),
        Attribute(
            "accumulators",
            lambda tile_m, tile_n, threads: products * ceil_div(tile_m * tile_n, threads),
            "accumulators of a thread, of all products",
        ),
        Attribute("registers", registers, "registers of a thread, a lower estimate"),
        *(_count_attribute(found, axis) for axis in range(3)),
        Attribute("blocks", lambda tiles_m, tiles_n: tiles_m * tiles_n, "blocks of the launch"),
    )


def _tile_attribute(found: Choices, axis: int) -> Attribute:
    names = found.deciding[axis]
    at = [list(found.domains).index(name) for name in names]
    table = {tuple(values[i] for i in at): tile[axis] for values, tile in found.tiles.items()}

    def size(**chosen: int) -> int:
        return table[tuple(chosen.values())]

    return Attribute(f"tile_{AXES[axis]}", each(size), f"{AXES[axis]} of a product", names={n: n for n in names})


def _count_attribute(found: Choices, axis: int) -> Attribute:
    extent = (*found.analysis.trace.extent, found.analysis.depth)[axis]
    count: Callable[..., object] = lambda tile: ceil_div(extent, tile)  # noqa: E731
    return Attribute(f"tiles_{AXES[axis]}", count, f"tiles along {AXES[axis]}", names={"tile": f"tile_{AXES[axis]}"})
