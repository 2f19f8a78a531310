"""Loops whose iterations are split among blocks (split-K, stream-K, ``p.split``), and loops that only accumulate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from search_spaces.hardware.dtypes import F32, U32
from search_spaces.launches.operand import Operand
from search_spaces.programs.inference.inference import Inference
from search_spaces.programs.language import ir
from search_spaces.spaces.parameters import Value

SPLITS = (1, 2, 3, 4, 6, 8, 16)
PARTIALS, COUNTERS = "split_partials", "split_counters"
PARTS = "split_parts"  # name of the attribute with the number of blocks that share the split loop
# name of the parameter with the number of launches: 2 if a second launch combines the partial results
LAUNCHES = "split_launches"
PARTS_OF_TILE = "parts_of_tile"  # name of a variable in a kernel: the number of blocks that share the block's tile
# name of a parameter: ALL if all tiles have the same number of blocks, LONG if short tiles have fewer
TILES = "split_tiles"
ALL, LONG = "all", "long"


@cache
def accumulating(inference: Inference) -> frozenset[int]:
    """Return the ids of the loops that only add products of staged tiles to states.

    In these loops, products of an iteration may still be in flight when the next iteration begins.
    """
    return frozenset(n for n, loop in inference.loops.items() if _accumulates(inference, loop))


def _accumulates(inference: Inference, loop: ir.Loop) -> bool:
    staged = {id_ for (id_, _), tile in inference.staged.items() if tile.advance not in ("placed", "gathered")}
    tiles: set[int] = set()
    reads: dict[int, int] = {}
    sums: dict[int, int] = {}
    for operation in loop.body:
        match operation:
            case ir.LoadTile(result) if result.id in staged:
                tiles.add(result.id)
            case ir.TransposeTile(result, value) if value.id in tiles:
                tiles.add(result.id)
            case ir.Read(result, state):
                reads[result.id] = state
            case ir.Mma(result, a, b, c) if c is not None and {a.id, b.id} <= tiles and c.id in reads:
                sums[result.id] = reads[c.id]
            case ir.Set(state, value) if sums.get(value.id) == state:
                pass
            case ir.Move():
                pass
            case _:
                return False
    sets = [o.state for o in loop.body if isinstance(o, ir.Set)]
    return bool(sums) and len(sets) == len(set(sets)) == len(sums) == len(set(reads.values())) == len(reads)


@cache
def splittable(inference: Inference) -> ir.Loop | None:
    """Return the only loop of a program if the search may split its iterations among blocks, else None.

    The loop must only accumulate products, starting at zero, and the program must not store anything before the
    end of the loop.
    """
    if len(inference.loops) != 1 or not accumulating(inference):
        return None
    (loop,) = inference.loops.values()
    zero: set[int] = set()
    for operation in inference.trace.operations:
        match operation:
            case ir.Loop():
                states = {o.state for o in loop.body if isinstance(o, ir.Set)}
                constant = loop.first.kind == loop.stop.kind == "constant"
                return loop if states <= zero and constant else None
            case ir.Set(state, value):
                definition = inference.definitions[value.id]
                if isinstance(definition, ir.Fill) and definition.number == 0.0:
                    zero.add(state)
            case ir.StoreTile() | ir.AtomicRmw() | ir.If() | ir.Read():
                return None
            case _:
                pass
    return None


@cache
def shared_loop(inference: Inference) -> tuple[ir.Loop, ir.FetchPart] | None:
    """Return the loop of ``p.split``, and the operation that fetches another block's states; None without p.split."""
    loop = next((loop for loop in inference.loops.values() if loop.parts), None)
    fetch = next((o for o, _ in inference.trace.walk() if isinstance(o, ir.FetchPart)), None)
    return None if loop is None or fetch is None else (loop, fetch)


@cache
def combining_loop(inference: Inference) -> int | None:
    """Return the id of the loop that combines the blocks' states after ``p.split``; None without ``p.split``."""
    shared = shared_loop(inference)
    if shared is None:
        return None
    return next(number for number, loop in inference.loops.items() if shared[1] in loop.body)


@cache
def fetched_states(inference: Inference) -> frozenset[int]:
    """Return the states into which a block loads the states of other blocks, in order to combine them."""
    shared = shared_loop(inference)
    return frozenset(() if shared is None else shared[1].copies)


def count_code(loop: ir.Loop) -> str:
    """Return CUDA C++ for the number of iterations of a loop, which is negative for some empty loops."""
    return ((loop.stop - loop.first + (loop.step - 1)) // loop.step).code


@dataclass(frozen=True)
class Split:
    """A loop whose ``iterations`` are split among ``count`` blocks. The partial result of a block is called a part.

    Attributes:
        launched: With stream-K, the number of blocks among which the iterations of all tiles are divided, so that two
            blocks may share a tile. 0 without stream-K.
        combined: Ids of the states that the program itself combines (``p.split``).
        launches: 1 if the block that finishes last combines the parts, 2 if a second launch does.
        only_long: True if tiles with few iterations have fewer blocks, so that each block has at most ``each``
            iterations. Surplus blocks of a tile return immediately.
    """

    loop: ir.Loop
    count: int
    iterations: int
    launched: int = 0
    combined: tuple[int, ...] = ()
    launches: int = 1
    only_long: bool = False

    @property
    def each(self) -> int:
        """Number of iterations per block, for a tile with the most iterations."""
        return -(-self.iterations // self.count)

    @property
    def each_if_long(self) -> int:
        """Iterations per block, which determine each tile's number of blocks; 0 if this number is the same for all."""
        return self.each if self.only_long else 0

    @property
    def keeps_last(self) -> bool:
        """True if only two blocks share a tile: the last to finish keeps its part in registers and reads the other.

        If there are more than two blocks, all blocks store their parts, so that the order of additions does not depend
        on which block is last.
        """
        return bool(self.combined) and self.launches == 1 and self.count == 2

    @property
    def states(self) -> list[int]:
        """Ids of the states that form a part."""
        return list(self.combined) or [o.state for o in self.loop.body if isinstance(o, ir.Set)]

    def workspaces(self, blocks: int, registers: int, threads: int) -> tuple[Operand, ...]:
        """Return the arrays in global memory that hold the parts, and the counters or flags of tiles.

        With stream-K, each block has memory for one part and two flags, for the tile that it shares with the next
        block. With ``keeps_last``, there is memory for one part and two flags per tile.
        """
        if self.launched:
            return (
                Operand(PARTIALS, "workspace", F32, (self.launched, registers, threads)),
                Operand(COUNTERS, "workspace", U32, (self.launched, 2), zeroed=True),
            )
        if self.keeps_last:
            return (
                Operand(PARTIALS, "workspace", F32, (blocks, registers, threads)),
                Operand(COUNTERS, "workspace", U32, (blocks, 2), zeroed=True),
            )
        parts = Operand(PARTIALS, "workspace", F32, (blocks, self.count, registers, threads))
        if self.launches > 1:
            return (parts,)
        return parts, Operand(COUNTERS, "workspace", U32, (blocks,), zeroed=True)


def split_of(inference: Inference, values: Mapping[str, Value]) -> Split | None:
    """Return the split of a schedule; None if each block executes all iterations of its tile."""
    shared = shared_loop(inference)
    if shared is not None:
        loop, fetch = shared
        iterations, launches = inference.trace.iterations()[loop.number], int(values.get(LAUNCHES, 1))
        only_long = values.get(TILES, ALL) == LONG
        return None if loop.parts == 1 else Split(loop, loop.parts, iterations, 0, fetch.states, launches, only_long)
    count, streams = int(values.get("split_k", 1)), bool(values.get("stream_k", 0))
    summed = splittable(inference) if count > 1 or streams else None
    if summed is None:
        return None
    return Split(
        summed, count, inference.trace.iterations()[summed.number], int(values["launched_blocks"]) if streams else 0
    )
