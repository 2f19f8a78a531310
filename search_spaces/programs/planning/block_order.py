"""Launch orders of blocks that differ in their numbers of iterations (causal attention), and the load per SM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np

from search_spaces.arrays import IntArray
from search_spaces.programs.inference.inference import Inference
from search_spaces.programs.planning.splits import Split, shared_loop
from search_spaces.spaces.parameters import Value
from search_spaces.templates.common.raster import RASTER_GROUPS

FORWARD, BACKWARD, FOLDED, ZIGZAG = "forward", "backward", "folded", "zigzag"
BLOCK_ORDERS = (FORWARD, BACKWARD, FOLDED, ZIGZAG)
PARAMETER = "block_order"
# maximum number of simulated blocks; in a larger grid, a single block hardly affects how evenly the SMs are loaded
MOST_SIMULATED = 4096
EMPTY = 0.5  # assumption: a block that returns immediately takes as long as this fraction of an iteration


@dataclass(frozen=True)
class Uneven:
    """A loop whose number of iterations depends on a grid coordinate.

    If there are more than MOST_SIMULATED coordinates, ``iterations`` is a sample for MOST_SIMULATED of them, including
    the first and the last.

    Attributes:
        axis: Grid axis that the number of iterations depends on.
        iterations: Number of iterations of a block, by its coordinate along the axis.
        loop: Id of the loop.
    """

    axis: int
    iterations: tuple[int, ...]
    loop: int

    @property
    def mean(self) -> float:
        """Average number of iterations of a block."""
        return sum(self.iterations) / len(self.iterations)


@cache
def uneven(inference: Inference) -> Uneven | None:
    """Return the loop and grid axis with the most uneven work; None if all blocks have equal work.

    Among the loops whose number of iterations depends on an axis, the function chooses the loop and axis with the most
    iterations. Coordinates along other axes are 0.
    """
    trace = inference.trace
    if trace.is_dynamic:
        return None
    zero = {number: 0 for number in inference.loops}
    best: Uneven | None = None
    for loop in inference.loops.values():
        for axis in sorted(loop.first.axes | loop.stop.axes):
            count = trace.blocks[axis]
            sampled = np.unique(np.linspace(0, count - 1, min(count, MOST_SIMULATED), dtype=np.int64)).tolist()
            blocks = [tuple(at if a == axis else 0 for a in range(len(trace.blocks))) for at in sampled]
            iterations = tuple(loop.iterations(block, zero) for block in blocks)
            if len(set(iterations)) > 1 and (best is None or sum(iterations) > sum(best.iterations)):
                best = Uneven(axis, iterations, loop.number)
    return best


@cache
def may_share_long_tiles(inference: Inference) -> bool:
    """Return True if the number of iterations of ``p.split`` differs between tiles and depends only on coordinates."""
    shared, of = shared_loop(inference), uneven(inference)
    if shared is None or of is None or of.loop != shared[0].number:
        return False
    bounds = (shared[0].first, shared[0].stop)
    return not any(b.scalars or b.arguments for b in bounds) and {a for b in bounds for a in b.axes} == {of.axis}


def blocks_per_tile(inference: Inference, split: Split) -> float:
    """Return the average number of blocks that share a tile, not counting blocks that return immediately."""
    return _blocks_of_tiles(inference, split.count, split.each_if_long)[0]


def share_of_parts(inference: Inference, split: Split) -> float:
    """Return the fraction of blocks that share their tile with other blocks, and therefore store a partial result."""
    return _blocks_of_tiles(inference, split.count, split.each_if_long)[1]


@cache
def _blocks_of_tiles(inference: Inference, count: int, each: int) -> tuple[float, float]:
    """Return the average number of blocks per tile, and the fraction of blocks whose tile has several blocks."""
    of = uneven(inference)
    if of is None or not each:
        return float(count), 1.0
    shared = np.maximum(-(-np.array(of.iterations) // each), 1)
    return float(shared.mean()), float(shared[shared > 1].sum() / shared.sum())


def order_of(values: Mapping[str, Value]) -> str:
    """Return the block order of a schedule."""
    return str(values.get(PARAMETER, FORWARD))


def order_code(order: str, index: str, count: int) -> str:
    """Return CUDA C++ for a block's coordinate along the uneven axis, given the block's index in launch order."""
    last, half = count - 1, (count + 1) // 2
    match order:
        case "backward":
            return f"{last} - ({index})"
        case "folded":  # launch even coordinates in ascending order, then odd coordinates in descending order
            return f"(({index}) < {half} ? 2 * ({index}) : 2 * ({last} - ({index})) + 1)"
        case "zigzag":  # launch the upper half in descending order, then the lower half in ascending order
            return f"(({index}) < {half} ? {last} - ({index}) : ({index}) - {half})"
    return index


def ordered(order: str, index: IntArray, count: int) -> IntArray:
    """Return coordinates by index in launch order, as ``order_code`` computes them."""
    match order:
        case "backward":
            return count - 1 - index
        case "folded":
            return np.where(index < (count + 1) // 2, 2 * index, 2 * (count - 1 - index) + 1)
        case "zigzag":
            return np.where(index < (count + 1) // 2, count - 1 - index, index - (count + 1) // 2)
    return index


@lru_cache(maxsize=2**12)
def imbalance(
    inference: Inference, order: str, raster: str, sm_count: int, resident: int, parts: int = 1, each: int = 0
) -> float:
    """Return the time of the busiest SM, relative to its time if all blocks had the average length.

    Blocks that return immediately are not included in the average, but they delay other blocks.

    Args:
        inference: Inference of the program at one choice of sizes.
        order: Order of the blocks along the uneven axis.
        raster: Order of the tiles.
        sm_count: Number of SMs of the device.
        resident: Number of resident blocks per SM.
        parts: Number of blocks that share a tile, each with an equal range of iterations. The first blocks of all tiles
            are launched before the second blocks, and so on.
        each: Maximum number of iterations per block if tiles have different numbers of blocks
            (``Split.each_if_long``); 0 if all tiles have ``parts`` blocks.
    """
    of, count = uneven(inference), inference.trace.block_count * parts
    if of is None or count > MOST_SIMULATED or not of.mean:
        return 1.0
    coordinates = _coordinates(inference.trace.blocks, raster)[of.axis]
    iterations = np.array(of.iterations)[ordered(order, coordinates, len(of.iterations))]
    shared = np.maximum(-(-iterations // each), 1) if each else np.full_like(iterations, parts)
    lengths = np.concatenate(
        [np.where(p < shared, (p + 1) * iterations // shared - p * iterations // shared, EMPTY) for p in range(parts)]
    )
    load = np.zeros(sm_count)
    first = lengths[: sm_count * resident]
    # blocks first fill all SMs; then each block is assigned to the SM that has the least load
    np.add.at(load, np.arange(first.size) % sm_count, first)
    for length in lengths[first.size :]:
        load[load.argmin()] += length
    working = int(shared.sum())
    return max(1.0, float(load.max()) / (-(-working // sm_count) * float(iterations.sum()) / working))


def _coordinates(blocks: tuple[int, ...], raster: str) -> list[IntArray]:
    """Return the coordinates of all blocks in launch order (autosched/common/raster.cuh)."""
    index = np.arange(int(np.prod(blocks)))
    if len(blocks) == 1:
        return [index]
    rows, columns = blocks[-2:]
    leading, tile = [index // (rows * columns)] * (len(blocks) - 2), index % (rows * columns)
    if raster == "row":
        return [*leading, tile // columns, tile % columns]
    group = rows if raster == "column" else RASTER_GROUPS[raster]
    first, inside = tile // (group * columns) * group, tile % (group * columns)
    height = np.minimum(group, rows - first)
    return [*leading, first + inside % height, inside // height]
