"""Orders of blocks with different numbers of iterations, as in causal attention, and the resulting load per SM."""

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
MOST_SIMULATED = 4096  # blocks; among more, a single one hardly matters


@dataclass(frozen=True)
class Uneven:
    """Iterations of a block by its coordinate along grid axis ``axis``, for the loop whose iterations differ most.

    Of more than MOST_SIMULATED coordinates only that many are sampled, including the first and the last.
    """

    axis: int
    turns: tuple[int, ...]

    @property
    def mean(self) -> float:
        """Average number of iterations."""
        return sum(self.turns) / len(self.turns)


@cache
def uneven(found: Inference) -> Uneven | None:
    """Return the iterations along the grid axis that affects them most, with other coordinates 0; None without one."""
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
    """Return the block order of a schedule."""
    return str(values.get(PARAMETER, FORWARD))


def order_code(order: str, index: str, count: int) -> str:
    """Return CUDA C++ for a block's coordinate along the uneven axis, given its index in launch order."""
    last, half = count - 1, (count + 1) // 2
    match order:
        case "backward":
            return f"{last} - ({index})"
        case "folded":  # even coordinates ascending, then odd ones descending
            return f"(({index}) < {half} ? 2 * ({index}) : 2 * ({last} - ({index})) + 1)"
    return index


def ordered(order: str, index: IntArray, count: int) -> IntArray:
    """Return the coordinates that ``order_code`` computes."""
    match order:
        case "backward":
            return count - 1 - index
        case "folded":
            return np.where(index < (count + 1) // 2, 2 * index, 2 * (count - 1 - index) + 1)
    return index


@lru_cache(maxsize=2**12)
def imbalance(found: Inference, order: str, raster: str, sm_count: int, resident: int, parts: int = 1) -> float:
    """Return the time of the busiest SM relative to one with as many blocks of average length.

    Args:
        found: The program at some choice of sizes.
        order: Order of the blocks along the uneven axis.
        raster: Order of the tiles.
        sm_count: SMs of the device.
        resident: Resident blocks per SM.
        parts: Number of blocks that share the iterations of a tile equally. The first parts of all tiles come first.
    """
    of, count = uneven(found), found.trace.block_count * parts
    if of is None or count > MOST_SIMULATED or not of.mean:
        return 1.0
    coordinates = _coordinates(found.trace.blocks, raster)[of.axis]
    turns = np.array(of.turns)[ordered(order, coordinates, len(of.turns))]
    lengths = np.concatenate([(part + 1) * turns // parts - part * turns // parts for part in range(parts)])
    load = np.zeros(sm_count)
    first = lengths[: sm_count * resident]
    np.add.at(
        load, np.arange(first.size) % sm_count, first
    )  # the first blocks fill all slots; each later one goes to the SM with the least load
    for length in lengths[first.size :]:
        load[load.argmin()] += length
    return max(1.0, float(load.max()) / (-(-count // sm_count) * of.mean / parts))


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
