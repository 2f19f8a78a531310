"""Count the floating-point operations of a program's products."""

from __future__ import annotations

import itertools
import math

from search_spaces.programs.language import ir

MOST_SAMPLED = 512  # limit of blocks whose iterations are counted; larger grids are extrapolated


def product_flops(trace: ir.Trace) -> float:
    """Return the number of floating-point operations of all products, without operations on padding."""
    covered = math.prod(b * t for b, t in zip(trace.blocks, trace.tile, strict=True))
    inside = math.prod(trace.extent) / covered
    total = 0.0
    for operation, around in trace.walk():
        if isinstance(operation, ir.Mma):
            (m, k), n = operation.a.shape, operation.b.shape[1]
            total += 2.0 * m * n * k * operation.a.dtype.values * inside * _iterations(trace, around)
    return total


def _iterations(trace: ir.Trace, regions: tuple[ir.Region, ...]) -> float:
    """Return the iterations of nested loops, summed over all blocks. A partial last iteration counts as a fraction."""
    around = [region for region in regions if isinstance(region, ir.Loop)]
    if not around:
        return float(trace.block_count)
    total, count = 0.0, 0
    step = -(-trace.block_count // MOST_SAMPLED)
    for block in itertools.islice(itertools.product(*map(range, trace.blocks)), 0, None, step):
        iterations = 1.0
        for loop in around:
            zero = {outer.number: 0 for outer in around}
            iterations *= max(0, loop.stop.at(block, zero) - loop.first.at(block, zero)) / loop.step
        total, count = total + iterations, count + 1
    return total * trace.block_count / count
