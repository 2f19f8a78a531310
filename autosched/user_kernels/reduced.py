"""A smaller problem that stands for a large one of an element-wise kernel whose file names none.

A kernel is element-wise here if it is one launch, each extent of its arrays is one of the file's sizes, and its inputs
have extents of its outputs alone: then nothing is summed over an extent that no output has. Sizes shrink by whole
blocks of the grid, so that remainders stay; a size that the source is not told, which it may therefore fix, stays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache

from autosched.user_kernels.kernel_file import CLUSTER, GRID, KernelFile
from autosched.user_kernels.problem import KernelProblem
from search_spaces.spaces.parameters import Value

BLOCKS = 8  # of the grid, along a size that shrinks
_SMALL_BYTES = 2**20  # of a problem that need not shrink further


def shrinks(file: KernelFile) -> bool:
    """Whether problems of the file may be reduced: an element-wise kernel without a ``[proxy]``."""
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
    """Return ``problem`` with a few blocks along each size that makes its grid large, the same remainders, and every
    rule of the file kept; ``problem`` itself where nothing can shrink.

    Args:
        problem: Of an element-wise kernel (``shrinks``).
        config: The values of the parameters.
    """
    return _reduced(problem, tuple(config.items()))


@lru_cache(maxsize=256)
def _reduced(problem: KernelProblem, items: tuple[tuple[str, Value], ...]) -> KernelProblem:
    file, config, sizes = problem.file, dict(items), dict(problem.sizes)
    try:
        spans = {name: _span(file, sizes, config, name) for name in _told(file)}
        for name in sorted(spans, key=lambda n: sizes[n] // max(1, spans[n]), reverse=True):
            blocks = -(-sizes[name] // spans[name]) if spans[name] else 0
            if blocks > BLOCKS and problem.of(sizes).min_bytes > _SMALL_BYTES:
                smaller = {**sizes, name: sizes[name] - (blocks - BLOCKS) * spans[name]}
                sizes = smaller if _keeps_rules(file, smaller, config) else sizes
        return problem.of(sizes)
    except ValueError:  # an expression has no value at smaller sizes
        return problem


def _told(file: KernelFile) -> list[str]:
    """Return the sizes that the source learns: by a scalar argument, or a macro."""
    expressions = [a.value for a in file.arguments if a.value is not None] + [d.expression for d in file.defines]
    derived = {a.name: a.expression for a in file.derived}
    waiting, seen = [name for e in expressions for name in e.names], set[str]()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += derived[name].names if name in derived else ()
    return [name for name, _ in file.sizes if name in seen]


def _span(file: KernelFile, sizes: Mapping[str, int], config: Mapping[str, Value], name: str) -> int:
    """Return how much of a size a block of the grid takes; 0 where the grid does not follow from it."""

    def grid(extent: int) -> int:
        values = file.values({**sizes, name: extent}, config)
        return math.prod(int(values[axis]) for axis in GRID)

    last = _first(grid, sizes[name])
    return last - _first(grid, last - 1) if last > 1 else 0


def _first(grid: Callable[[int], int], extent: int) -> int:
    """Return the smallest extent with the grid of ``extent``; a grid grows with a size."""
    wanted, low, high = grid(extent), 1, extent
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if grid(middle) >= wanted else (middle + 1, high)
    return low


def _keeps_rules(file: KernelFile, sizes: Mapping[str, int], config: Mapping[str, Value]) -> bool:
    values = file.values(sizes, config)
    return all(bool(rule.expression.value(values)) for rule in file.rules if not rule.pruning)
