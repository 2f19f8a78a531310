"""Stress sizes: larger problems for the same schedule, with long loops, many tiles, and addresses beyond 2^32.

On a few tiles, verification misses loops that end too early, tile orders that repeat tiles, and products of two sizes
that overflow. Extents grow by multiples of all tile sizes and vector widths, so that remainders are unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from autosched.verify.coverage import Role
from search_spaces.operators.input_cases import ALL_LARGEST
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.matvec import Matvec
from search_spaces.operators.problem import Problem
from search_spaces.operators.row_reduction import Reduce, RowProblem
from search_spaces.operators.transpose import ArrayMove
from search_spaces.spaces.parameters import Value
from search_spaces.spaces.schedule import Schedule

if TYPE_CHECKING:
    from search_spaces.programs.problem import ProgramProblem
    from search_spaces.tile_operators.tile_problem import TileProblem

LONG_STEPS = 72  # additional loop iterations along k, enough for every pipeline to wrap around many times
MANY_TILES = 18  # additional tiles: two bands of the widest swizzled tile order
# flops limit for a stream-K launch, in which all blocks must be emulated because they exchange sums
STREAMED_FLOPS = 2.0**32
# templates that swap m and n: their m is the problem's n
_EXCHANGED = ("wgmma_matmul_transposed", "tcgen05_matmul_transposed")
_SMS = 136  # assumed number of SMs, sufficient for all known devices except B200 and RTX 5090
MANY_PARTS = 72  # additional tiles along a reduced axis, each of which writes a partial result
MANY = 2**12  # additional rows or columns if tile sizes are unknown
LONG = 2**20  # a long row or column, or a long k of a matrix-vector product, has a quarter or an eighth of this
FAR_EXTENT = 2**29  # largest additional extent
OVERFLOWING = 2**31  # smallest number of elements that overflows a signed 32-bit index
BEYOND_ELEMENTS = 2**32  # number of elements whose byte offsets exceed 32 bits for every type
# a sum of 8-bit products at which f32 no longer represents every integer exactly; the largest product
LARGE_SUMS, LARGEST_PRODUCT = 2**26, 2**14


class StressSize(NamedTuple):
    """A stress size.

    Attributes:
        name: Name of the size.
        problem: The problem of this size.
        whole: If True, every block runs; otherwise some blocks that are far apart run.
        role: Purpose of the size in a full verification.
        fewer_blocks: If True and the grid may shrink, the launch has fewer blocks than planned.
        case: Required inputs, one of ``Problem.stress_inputs``; "" for any.
        smaller: Smaller sizes, in descending order. They replace this size if the schedule is invalid for it, or if the
            arrays exceed a process's address space.
    """

    name: str
    problem: Problem
    whole: bool
    role: Role | None = None
    fewer_blocks: bool = False
    case: str = ""
    smaller: tuple[StressSize, ...] = ()


class _Growth(NamedTuple):
    """Increases of a problem's extents, by field name. ``instead`` lists smaller increases, which are alternatives."""

    name: str
    extents: dict[str, int]
    whole: bool = False
    role: Role | None = None
    fewer_blocks: bool = False
    case: str = ""
    instead: tuple[dict[str, int], ...] = ()


def stress_sizes(small: Problem, schedule: Schedule) -> Iterator[StressSize]:
    """Return larger versions of ``small``, a problem with few tiles. The schedule may be invalid for some of them.

    Sizes that reach high addresses are omitted if the problem does not allow such large arrays.
    """
    for growth in _growths(small, schedule):
        grown = (growth._replace(extents=extents) for extents in (growth.extents, *growth.instead))
        sizes = [size for each in grown for size in _from_largest(small, each)]
        if sizes:
            largest, *smaller = sizes
            yield largest._replace(smaller=tuple(smaller))


def _from_largest(small: Problem, growth: _Growth) -> Iterator[StressSize]:
    """Yield ``small`` with increased extents.

    If the purpose is high addresses, smaller increases follow, as long as an array has ``OVERFLOWING`` elements.

    Each size is first yielded with a shortened k, then with the k of ``small``, because a schedule may need as many
    k-tiles as ``small`` has.
    """
    for less in range(0, 16, 2):
        longer = {f: getattr(small, f) + (n >> less) for f, n in growth.extents.items() if n > 0}
        shorter = {f: getattr(small, f) + n for f, n in growth.extents.items() if n < 0}
        for extents in ({**longer, **shorter}, longer) if shorter else (longer,):
            try:
                grown = replace(small, **extents)
            except ValueError:  # an array would exceed the size that the problem allows
                continue
            if growth.role == "far" and max(o.size for o in grown.operands()) < OVERFLOWING:
                return
            yield StressSize(growth.name, grown, growth.whole, growth.role, growth.fewer_blocks, growth.case)
        if growth.role != "far":
            return


def with_short_k(problem: Problem, schedule: Schedule, share: float) -> Problem:
    """Return ``problem`` with k reduced to about ``share`` of k, but at least two k-tiles, with the same remainder.

    Tiles, their order and their positions in out are unchanged. Returns ``problem`` itself if it has no k, or its k is
    already short.
    """
    if not isinstance(problem, Matmul):
        return problem
    of_split = _of_split(problem, schedule)
    steps = problem.k // of_split
    num_steps = max(2, int(share * steps))
    return replace(problem, k=problem.k - (steps - num_steps) * of_split) if num_steps < steps else problem


def _of_split(problem: Matmul, schedule: Schedule) -> int:
    """Return the extent along k that all splits together process in one iteration."""
    chosen = schedule.values
    return int(chosen.get("tile_k", 256)) * int(chosen.get("split_k", 1)) * problem.input_dtype.values


def _growths_of_program(small: ProgramProblem, schedule: Schedule) -> Iterator[_Growth]:
    """Yield ways to enlarge a tile program's problem along the sizes that are divided among blocks."""
    # imported lazily: only tile programs need this function
    from search_spaces.programs.schedules.proxy import independent_tiles

    tiles = independent_tiles(small, schedule)
    if tiles:
        more = MANY_TILES if len(tiles) == 1 else math.isqrt(MANY_TILES)
        yield _Growth("many tiles", {n: more * tile for n, tile in tiles.items()}, True, "many tiles")
        for name, tile in tiles.items():
            yield _Growth(f"far {name}", {name: FAR_EXTENT // tile * tile}, False, "far")


def _growths_of_rows(small: TileProblem) -> Iterator[_Growth]:
    """Yield ways to enlarge the number of rows of an operator that computes each row separately."""
    if next(small.parts(np.zeros(1, np.int64)), None) is None:
        return
    (name,) = small.batch_sizes
    yield _Growth(f"many {name}", {name: MANY // 32}, True, "many tiles")
    yield _Growth(f"far {name}", {name: FAR_EXTENT}, False, "far")


def _growths(small: Problem, schedule: Schedule) -> Iterator[_Growth]:
    """Yield ways to enlarge a problem, grouped by role."""
    match small:
        case Matmul():
            yield from _growths_of_matmul(small, schedule)
        case Matvec():
            yield _Growth("many rows", {"n": MANY}, True, "many tiles")
            yield _Growth("far rows", {"n": FAR_EXTENT}, False, "far")
            yield _Growth("long k", {"k": LONG // 8})
        case Reduce(axis="column"):
            yield _Growth("many columns", {"columns": MANY}, True, "many tiles")
            yield _Growth("far columns", {"columns": FAR_EXTENT}, False, "far")
            if small.reduction_size == 0:
                yield _Growth("long columns", {"rows": LONG // 8})
            else:
                far = min(FAR_EXTENT, 1 << (2 * BEYOND_ELEMENTS // small.columns).bit_length())
                yield _Growth("far parts", {"rows": small.reduction_size * max(1, far // small.reduction_size)}, False,
                              "far")  # fmt: skip
        case RowProblem():
            yield _Growth("many rows", {"rows": MANY // 4}, True, "many tiles")
            far = min(FAR_EXTENT, 1 << (2 * BEYOND_ELEMENTS // small.columns).bit_length())
            yield _Growth("far rows", {"rows": far}, False, "far")
            if not (isinstance(small, Reduce) and small.reduction_size):
                yield _Growth("long rows", {"columns": LONG // 4}, True)
        case ArrayMove():
            yield _Growth("many rows", {"rows": MANY}, True, "many tiles")
            yield _Growth("many columns", {"columns": MANY}, True, "many tiles")
            yield _Growth("far rows", {"rows": FAR_EXTENT, "columns": 64}, False, "far")
            yield _Growth("far columns", {"rows": 64, "columns": FAR_EXTENT}, False, "far")
            yield _Growth(
                "far matrices",
                {"batch": min(FAR_EXTENT, BEYOND_ELEMENTS // (small.rows * small.columns) + 64)},
                False,
                "far",
            )
        case _ if hasattr(small, "program"):
            yield from _growths_of_program(cast("ProgramProblem", small), schedule)
        case _ if hasattr(small, "tile_problem") and small.batch_sizes:
            yield from _growths_of_rows(cast("TileProblem", small))


def _growths_of_matmul(small: Matmul, schedule: Schedule) -> Iterator[_Growth]:
    chosen = schedule.values
    of_split = _of_split(small, schedule)
    if schedule.template in _EXCHANGED:
        swapped = {"m": "n", "n": "m"}
        chosen = {f"{name[:-1]}{swapped.get(name[-1], name[-1])}": value for name, value in chosen.items()}
    steps = 2 if chosen.get("stream_k") or int(chosen.get("tiles_per_block", 1)) > 1 else 1
    shorter = min(0, small.k % of_split + steps * of_split - small.k)
    rows, columns = (_more_tiles(small, chosen, axis, MANY_TILES) for axis in ("m", "n"))
    smallest = min(small.m * small.n, small.m * small.k, small.n * small.k)
    yield _Growth("many rows of tiles", {"m": rows, "k": shorter}, True, "many tiles")
    yield _Growth("many columns of tiles", {"n": columns, "k": shorter}, True, "many tiles", fewer_blocks=True)
    if chosen.get("stream_k"):  # all blocks must run, so the problem grows as little as possible
        longer = dict.fromkeys(_rows_of_all_workers(small, chosen, small.k + shorter))
        most, *fewer = ({"m": m, "k": shorter} for m in longer)
        yield _Growth("all workers", most, True, "many tiles", instead=tuple(fewer))
        yield _Growth("far rows", {"m": -(-OVERFLOWING // small.n // rows) * rows, "k": shorter}, False, "far")
        far = -(-OVERFLOWING // small.m // columns) * columns
        yield _Growth("far columns", {"n": far, "k": shorter}, False, "far")
    else:
        yield _Growth("far rows", {"m": FAR_EXTENT, "k": shorter}, False, "far")
        yield _Growth("far columns", {"n": FAR_EXTENT, "k": shorter}, False, "far")
    if small.batch > 1:
        yield _Growth(
            "far matrices", {"batch": min(FAR_EXTENT, BEYOND_ELEMENTS // smallest + 2), "k": shorter}, False, "far"
        )
    yield _Growth("long k", {"k": of_split * LONG_STEPS})
    if small.a == "i8":
        more = -(-LARGE_SUMS // LARGEST_PRODUCT // of_split) * of_split
        yield _Growth("large sums", {"k": more}, True, case=ALL_LARGEST)


def _rows_of_all_workers(small: Matmul, chosen: Mapping[str, Value], k: int) -> Iterator[int]:
    """Yield how many rows to add so that every concurrent stream-K worker has tiles. The best number comes first.

    More than one worker per SM is assumed only if all blocks of such a launch can be emulated.
    """
    workers = _SMS * int(chosen.get("min_blocks", 1))
    of_worker = 2 if int(chosen.get("tiles_per_block", 1)) > 2 else 1  # minimum tiles per worker in a stream-K launch
    across = small.batch * math.ceil(small.n / int(chosen["tile_n"]))
    of_one_block = 2 * _SMS
    for tiles in dict.fromkeys((max(of_one_block, workers * of_worker), of_one_block)):
        # First try to add ``tiles`` rows of tiles. If the time limit does not allow this, try to add only ``tiles``
        # tiles in total, then fewer.
        for least in (tiles, *(math.ceil(tiles * 0.75**i / across) for i in range(8))):
            more = _more_tiles(small, chosen, "m", least)
            if tiles == of_one_block or small.flops / small.m / small.k * (small.m + more) * k <= STREAMED_FLOPS:
                yield more


def _more_tiles(small: Matmul, chosen: Mapping[str, Value], axis: str, least: int) -> int:
    """Return the number of rows or columns that add at least ``least`` tiles along an axis, in whole clusters.

    A reduction along the axis needs ``MANY_PARTS`` tiles instead; persistent blocks need enough tiles for two clusters.
    """
    if f"tile_{axis}" not in chosen:
        return MANY
    cluster = int(chosen.get(f"cluster_{axis}", 1))
    reduced = {"m": -2, "n": -1}[axis] == small.reduced_axis
    several = int(chosen.get("tiles_per_block", 1))
    tiles = max(MANY_PARTS if reduced else least, (several + 1) * cluster if several > 1 else 0)
    return -(-tiles // cluster) * cluster * int(chosen[f"tile_{axis}"])
