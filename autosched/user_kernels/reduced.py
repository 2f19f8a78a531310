"""Reduce large problems of element-wise kernels whose kernel file has no ``[proxy]``.

The main conditions for an element-wise kernel are:

- The kernel has one launch.
- Each extent of its arrays is one of the file's sizes.
- Each extent of an input is also an extent of an output, so nothing is summed along an axis that the outputs lack.

Each size shrinks by a multiple of the elements per block, which preserves the remainder of the last block. A size that
is not passed to the source is not changed, because the source may contain its value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache

from autosched.user_kernels.kernel_file import CLUSTER, GRID, KernelFile
from autosched.user_kernels.problem import KernelProblem
from search_spaces.spaces.parameters import Value

BLOCKS = 8  # number of blocks along each axis whose size is reduced
_SMALL_BYTES = 2**20  # a problem with at most this many bytes does not shrink further


def shrinks(file: KernelFile) -> bool:
    """Return True if problems of the file may be reduced, because the kernel is element-wise and has no ``[proxy]``."""
    if file.proxy or file.further or file.first or any(a.fetch is not None for a in file.arguments):
        return False
    if any(a.name in CLUSTER and a.expression.text != "1" for a in file.launch):
        return False
    if any(a.fill is not None and a.fill.kind in ("file", "array") for a in file.arguments):
        return False
    sizes = {name for name, _ in file.sizes}
    extents = [(a.kind, {e.text for e in a.shape}) for a in file.arrays]
    written = set().union(*(names for kind, names in extents if kind in ("output", "inout")))
    return bool(written) and written <= sizes and all(names <= written for _, names in extents)


def reduced(problem: KernelProblem, config: Mapping[str, Value]) -> KernelProblem:
    """Return ``problem`` with sizes reduced to a few blocks of the grid.

    Remainders are unchanged, and every rule of the file holds.

    Args:
        problem: Problem of an element-wise kernel (``shrinks``).
        config: Values of the parameters.

    Returns:
        The smaller problem, or ``problem`` itself if nothing can shrink.
    """
    return _reduced(problem, tuple(config.items()))


@lru_cache(maxsize=256)
def _reduced(problem: KernelProblem, items: tuple[tuple[str, Value], ...]) -> KernelProblem:
    file, config, sizes = problem.file, dict(items), dict(problem.sizes)
    try:
        spans = {name: _span(file, sizes, config, name) for name in _reported_names(file)}
        for name in sorted(spans, key=lambda n: sizes[n] // max(1, spans[n]), reverse=True):
            blocks = -(-sizes[name] // spans[name]) if spans[name] else 0
            if blocks > BLOCKS and problem.of(sizes).min_bytes > _SMALL_BYTES:
                smaller = {**sizes, name: sizes[name] - (blocks - BLOCKS) * spans[name]}
                sizes = smaller if _keeps_rules(file, smaller, config) else sizes
        return problem.of(sizes)
    except ValueError:  # an expression is undefined for the reduced sizes
        return problem


def _reported_names(file: KernelFile) -> list[str]:
    """Return the names of the sizes that the source receives, as a scalar argument or a macro."""
    expressions = [e for a in file.arguments for e in a.passed_values] + [d.expression for d in file.defines]
    derived = {a.name: a.expression for a in file.derived}
    waiting, seen = [name for e in expressions for name in e.names], set[str]()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += derived[name].names if name in derived else ()
    return [name for name, _ in file.sizes if name in seen]


def _span(file: KernelFile, sizes: Mapping[str, int], config: Mapping[str, Value], name: str) -> int:
    """Return by how much a size must grow to add one block to the grid; 0 if all smaller sizes have the same grid."""

    def grid(extent: int) -> int:
        values = file.values({**sizes, name: extent}, config)
        return math.prod(int(values[axis]) for axis in GRID)

    last = _first(grid, sizes[name])
    return last - _first(grid, last - 1) if last > 1 else 0


def _first(grid: Callable[[int], int], extent: int) -> int:
    """Return the smallest extent with the same grid as ``extent``. The grid is assumed to grow with the size."""
    num_blocks, low, high = grid(extent), 1, extent
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if grid(middle) >= num_blocks else (middle + 1, high)
    return low


def _keeps_rules(file: KernelFile, sizes: Mapping[str, int], config: Mapping[str, Value]) -> bool:
    values = file.values(sizes, config)
    return all(bool(rule.expression.value(values)) for rule in file.rules if not rule.pruning)
