"""Sizes that provoke: the same schedule on problems with long loops, many tiles, and addresses beyond 2^32.

A proof on a few tiles sees no loop that ends too early, no order of tiles that repeats itself, and no product of two
sizes that overflows. Extents grow by powers of two, which all tiles and vectors divide, so that remainders stay.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from search_spaces.operators.matmul import Matmul
from search_spaces.operators.matvec import Matvec
from search_spaces.operators.problem import Problem
from search_spaces.operators.row_reduction import Reduce, RowProblem
from search_spaces.operators.transpose import ArrayMove
from search_spaces.spaces.schedule import Schedule

LONG_STEPS = 72  # of a loop over tiles: every ring of stages has turned over many times
MANY_TILES = 18  # more: two bands of the largest order of tiles
MANY = 2**12  # elements, where tiles are not known: at least as many
LONG = 2**20  # elements of a line, or of a vector's k
FAR = 2**29  # of one extent: the largest power of two that is allowed
BEYOND = 2**32  # elements, and more bytes


@dataclass(frozen=True)
class ProvokingSize:
    """``whole``: every block is run; else some, far apart."""

    name: str
    problem: Problem
    whole: bool


def provoking_sizes(small: Problem, schedule: Schedule) -> Iterator[ProvokingSize]:
    """Problems that grow out of ``small``, a cut of few tiles; the schedule may be invalid for some of them."""
    for name, whole, extents in _growths(small, schedule):
        for less in range(0, 16, 2):  # where an array would be too large, by a smaller power of two
            try:
                grown = replace(
                    small, **{f: n if f == "k" else getattr(small, f) + (n >> less) for f, n in extents.items()}
                )
            except ValueError:
                continue
            yield ProvokingSize(name, grown, whole)
            break


def with_short_k(problem: Problem, schedule: Schedule, share: float) -> Problem:
    """``problem`` with about ``share`` of its k, two steps at least, and the same remainder: tiles, their order and
    their places in out stay. ``problem`` itself where it has no k, or no more."""
    if not isinstance(problem, Matmul):
        return problem
    of_split = _of_split(schedule)
    steps = problem.k // of_split
    kept = max(2, int(share * steps))
    return replace(problem, k=problem.k - (steps - kept) * of_split) if kept < steps else problem


def _of_split(schedule: Schedule) -> int:
    """Elements along k of one tile of each split."""
    chosen = dict(schedule.items)
    return int(chosen.get("tile_k", 256)) * int(chosen.get("split_k", 1))


def _growths(small: Problem, schedule: Schedule) -> Iterator[tuple[str, bool, dict[str, int]]]:
    """Names, whether all blocks are run, and how much longer each field becomes; k is given as it shall be."""
    match small:
        case Matmul():
            chosen = dict(schedule.items)
            of_split = _of_split(schedule)
            rows, columns = (MANY_TILES * int(chosen[t]) if t in chosen else MANY for t in ("tile_m", "tile_n"))
            short = min(small.k, small.k % of_split + of_split)
            smallest = min(small.m * small.n, small.m * small.k, small.n * small.k)
            yield "long k", False, {"k": small.k + of_split * LONG_STEPS}
            yield "many rows of tiles", True, {"m": rows, "k": short}
            yield "many columns of tiles", True, {"n": columns, "k": short}
            yield "far rows", False, {"m": FAR}
            yield "far columns", False, {"n": FAR}
            yield "far matrices", False, {"batch": min(FAR, BEYOND // smallest + 2)}
        case Matvec():
            yield "long k", False, {"k": small.k + LONG // 8}
            yield "many rows", True, {"n": MANY}
            yield "far rows", False, {"n": FAR}
        case Reduce(axis="column"):
            yield "many columns", True, {"columns": MANY}
            yield "far columns", False, {"columns": FAR}
            if small.reduction_size == 0:
                yield "long columns", False, {"rows": LONG // 8}
        case RowProblem():
            if not (isinstance(small, Reduce) and small.reduction_size):
                yield "long rows", True, {"columns": LONG // 4}
            yield "many rows", True, {"rows": MANY // 4}
            yield "far rows", False, {"rows": min(FAR, 1 << (2 * BEYOND // small.columns).bit_length())}
        case ArrayMove():
            yield "many rows", True, {"rows": MANY}
            yield "many columns", True, {"columns": MANY}
            yield "far rows", False, {"rows": FAR, "columns": 64}
            yield "far columns", False, {"rows": 64, "columns": FAR}
            yield "far matrices", False, {"batch": min(FAR, BEYOND // (small.rows * small.columns) + 64)}
