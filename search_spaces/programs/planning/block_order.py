"""Orders of blocks that differ in length, such as those of causal attention: which of them an SM has at one time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np

from search_spaces.arrays import IntArray
from search_spaces.programs.inference.inference import Inference
from search_spaces.spaces.parameters import Value
from search_spaces.templates.common.raster import RASTER_GROUPS

FORWARD, BACKWARD, FOLDED = "forward", "backward", "folded"
BLOCK_ORDERS = (FORWARD, BACKWARD, FOLDED)
PARAMETER = "block_order"
MOST_SIMULATED = 4096  # blocks; of more, the lengths of single ones hardly matter


@dataclass(frozen=True)
class Uneven:
    """The turns of a block by its coordinate along ``axis`` of the grid, of the loop whose turns differ most.

    Of more than MOST_SIMULATED coordinates only so many are looked at, the first and the last among them.
    """

    axis: int
    turns: tuple[int, ...]

    @property
    def mean(self) -> float:
        return sum(self.turns) / len(self.turns)


@cache
def uneven(found: Inference) -> Uneven | None:
    """Return the axis along which blocks differ in length, or None. Other coordinates are 0."""
    trace = found.trace
    if trace.is_dynamic:
        return None
    zero = {number: 0 for number in found.loops}
    best: Uneven | None = None
    for loop in found.loops.values():
        for axis in sorted(loop.first.axes | loop.stop.axes):
            count = trace.blocks[axis]
            looked_at = np.unique(np.linspace(0, count - 1, min(count, MOST_SIMULATED), dtype=np.int64)).tolist()
            blocks = [tuple(at if a == axis else 0 for a in range(len(trace.blocks))) for at in looked_at]
            turns = tuple(loop.turns(block, zero) for block in blocks)
            if len(set(turns)) > 1 and (best is None or sum(turns) > sum(best.turns)):
                best = Uneven(axis, turns)
    return best


def order_of(values: Mapping[str, Value]) -> str:
    """Return the order of a schedule."""
    return str(values.get(PARAMETER, FORWARD))


def order_code(order: str, index: str, count: int) -> str:
    """Return the coordinate of the block with this index along the axis, in CUDA C++."""
    last, half = count - 1, (count + 1) // 2
    match order:
        case "backward":
            return f"{last} - ({index})"
        case "folded":  # even ones forwards, then odd ones backwards
            return f"(({index}) < {half} ? 2 * ({index}) : 2 * ({last} - ({index})) + 1)"
    return index


def ordered(order: str, index: IntArray, count: int) -> IntArray:
    """Return what ``order_code`` does."""
    match order:
        case "backward":
            return count - 1 - index
        case "folded":
            return np.where(index < (count + 1) // 2, 2 * index, 2 * (count - 1 - index) + 1)
    return index


@lru_cache(maxsize=2**12)
def imbalance(found: Inference, order: str, raster: str, sm_count: int, resident: int) -> float:
    """Return how much longer the SM with most work takes than one with as many blocks of average length.

    Args:
        found: The program at some choice of sizes.
        order: Of the blocks along the uneven axis.
        raster: The order of tiles.
        sm_count: SMs of the device.
        resident: Blocks that an SM has at one time.
    """
    of, count = uneven(found), found.trace.block_count
    if of is None or count > MOST_SIMULATED or not of.mean:
        return 1.0
    coordinates = _coordinates(found.trace.blocks, raster)[of.axis]
    lengths = np.array(of.turns)[ordered(order, coordinates, len(of.turns))]
    load = np.zeros(sm_count)
    first = lengths[: sm_count * resident]
    np.add.at(load, np.arange(first.size) % sm_count, first)  # dealt out at the start; then to who is done first
    for length in lengths[first.size :]:
        load[load.argmin()] += length
    return max(1.0, float(load.max()) / (-(-count // sm_count) * of.mean))


def _coordinates(blocks: tuple[int, ...], raster: str) -> list[IntArray]:
    """Return the coordinates of all blocks, in the order in which they are launched (autosched/common/raster.cuh)."""
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
