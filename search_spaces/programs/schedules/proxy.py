"""Reduced problems (proxies) for the emulator: few blocks and iterations, and the same remainders as the original."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from itertools import product

from search_spaces.programs.inference.inference import Inference
from search_spaces.programs.language import ir
from search_spaces.programs.language.independence import independent
from search_spaces.programs.language.index import Index
from search_spaces.programs.planning.choices import choices_of
from search_spaces.programs.planning.memory import stages_of
from search_spaces.programs.planning.splits import LONG, TILES, shared_loop
from search_spaces.programs.planning.tails import peeled
from search_spaces.programs.problem import ProgramProblem
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.matmul.proxy import LEAST_TILES, MOST_TILES
from search_spaces.templates.matmul.stream_k import streams


def proxy(problem: ProgramProblem, schedule: Schedule) -> ProgramProblem:
    """Return a reduced problem: few tiles of ``schedule``, the same remainders, and enough iterations to refill rings.

    The sizes that are divided into tiles, by the grid or by loops, are reduced. A grid dimension is reduced to one tile
    and the remainder. A loop is reduced to as many iterations as the ring has stages, plus one. Numbers of batches and
    heads are reduced to 2 each, or to more if their ratios require it. If the schedule is not legal for the reduced
    problem, ``problem`` is returned.
    """
    inference = choices_of(problem).inference(schedule.values)
    cut = dict(problem.sizes)
    for name, (unit, count) in _units(inference, schedule).items():
        cut[name] = min(cut[name], unit * count + (cut[name] % unit or unit))
    for sizes in ({**cut, **_fewer_matrices(inference.trace, problem.sizes)}, cut):
        if sizes != problem.sizes:
            smaller = _cut(problem, sizes, schedule, inference)
            if smaller is not None:
                return smaller
    return problem


def _cut(
    problem: ProgramProblem, sizes: Mapping[str, int], schedule: Schedule, inference: Inference
) -> ProgramProblem | None:
    """Return the problem with other sizes, or None if the schedule is not legal for this problem."""
    try:
        smaller = dataclasses.replace(problem, **sizes)
        if choices_of(smaller).domains != choices_of(problem).domains:
            return None
        staged = choices_of(smaller).inference(schedule.values).staged.values()
    except ValueError:
        return None
    if [s.name for s in staged] != [s.name for s in inference.staged.values()]:
        return None
    if not schedule.values.get("stream_k"):
        return smaller
    return _with_partial_wave(problem, smaller, schedule, _axes(inference.trace, problem.sizes))


def _fewer_matrices(trace: ir.Trace, sizes: Mapping[str, int]) -> dict[str, int]:
    """Return reduced batch sizes, with unchanged ratios and at least 2 each.

    Batch sizes occur only in the leading dimensions of arrays, never in the last two.
    """
    counted = {name for array in trace.arrays for name in array.sizes[:-2]}
    counted -= {name for array in trace.arrays for name in array.sizes[-2:]}
    common = math.gcd(*(sizes[name] for name in counted))
    divisor = max((d for d in range(1, common // 2 + 1) if common % d == 0), default=1)
    return {name: sizes[name] // divisor for name in counted}


def _with_partial_wave(
    problem: ProgramProblem, small: ProgramProblem, schedule: Schedule, axes: Mapping[str, int]
) -> ProgramProblem | None:
    """Return ``small``, enlarged so that stream-K divides some tiles but not all; None if this is impossible.

    ``axes``: Grid axis of each size that the grid divides into tiles.
    """
    trace = choices_of(small).inference(schedule.values).trace
    blocks = trace.blocks
    most = {axis: -(-problem.sizes[name] // trace.tile[axis]) for name, axis in axes.items()}
    ranges = [range(n, min(most.get(axis, n), MOST_TILES) + 1) for axis, n in enumerate(blocks)]
    candidates = [tiles for tiles in product(*ranges) if math.prod(tiles) >= LEAST_TILES and streams(math.prod(tiles))]
    if not candidates:
        return None
    tiles, sizes = min(candidates, key=math.prod), dict(small.sizes)
    for name, axis in axes.items():
        rest = problem.sizes[name] % trace.tile[axis] or trace.tile[axis]
        sizes[name] = min(problem.sizes[name], (tiles[axis] - 1) * trace.tile[axis] + rest)
    return dataclasses.replace(problem, **sizes)


def independent_tiles(problem: ProgramProblem, schedule: Schedule) -> dict[str, int]:
    """Return the sizes along which results are independent, each with the extent of a block's tile."""
    trace = choices_of(problem).inference(schedule.values).trace
    return {name: trace.tile[axis] for name, axis in independent(trace).items()}


def _axes(trace: ir.Trace, sizes: Mapping[str, int]) -> dict[str, int]:
    """Return the grid axis of each size that the grid divides into tiles."""
    axes: dict[str, int] = {}
    for operation, _ in trace.walk():
        if isinstance(operation, ir.LoadTile | ir.StoreTile | ir.AtomicRmw):
            window = operation.window
            for name, at in zip(window.sizes, window.at, strict=True):
                for axis, size in enumerate(trace.tile):
                    if name and at == Index("block", axis) * size and sizes[name] == trace.extent[axis]:
                        axes[name] = axis
    return axes


def _whole_iterations(splits: int, stages: int) -> int:
    """Return how many whole iterations a proxy with split-K needs, so that each block refills its ring.

    A block needs one iteration more than the ring has stages. The last block has one iteration less than the others. In
    addition to the returned iterations, the proxy's loop has one iteration that may be partial.
    """
    return stages if splits == 1 else splits * (stages + 1) - 2


def _shared_iterations(parts: int, stages: int, only_long: bool) -> int:
    """Return how many whole iterations a proxy needs in a loop that ``p.split`` divides among ``parts`` blocks.

    In addition to the returned iterations, the proxy's loop has one iteration that may be partial. The numbers of
    iterations of two blocks then differ by at most one, and the block with the most iterations refills its ring.

    With ``only_long``, only tiles with many iterations are divided among several blocks. All blocks of such a tile have
    the same number of iterations, except the last block, which needs at least one.
    """
    return max(parts * stages, (parts - 1) * (stages + 1)) if only_long else parts * stages


def _iterations_of_loops(inference: Inference, schedule: Schedule, most_parts: int | None = None) -> dict[int, int]:
    """Return how many whole iterations a proxy needs, by loop.

    ``most_parts`` limits the number of blocks that are assumed to share a loop.
    """
    stages = stages_of(inference, schedule.values)
    for loop in peeled(inference, schedule.values):  # one more, so that two iterations are executed without masks
        stages[loop] = stages.get(loop, 1) + 1
    shared = shared_loop(inference)
    if shared is not None:
        parts = shared[0].parts if most_parts is None else min(shared[0].parts, most_parts)
        long = schedule.values.get(TILES) == LONG
        return {number: _shared_iterations(parts, stages.get(number, 1), long) for number in inference.loops}
    splits = int(schedule.values.get("split_k", 1))
    return {number: _whole_iterations(splits, stages.get(number, 1)) for number in inference.loops}


def enough_iterations(problem: ProgramProblem, schedule: Schedule, most_parts: int | None = None) -> int:
    """Return how many whole iterations a proxy needs: the maximum over its loops.

    Args:
        problem: The original problem.
        schedule: Schedule with the stages of rings and the splits.
        most_parts: Limit for the number of blocks that are assumed to share a loop; None for no limit.
    """
    inference = choices_of(problem).inference(schedule.values)
    return max(_iterations_of_loops(inference, schedule, most_parts).values(), default=1)


def _units(inference: Inference, schedule: Schedule) -> dict[str, tuple[int, int]]:
    """Return, for each size that can be reduced, the extent of a tile or step, and how many of them a proxy needs."""
    units: dict[str, tuple[int, int]] = {}
    iterations = _iterations_of_loops(inference, schedule)
    walked: dict[str, set[int]] = {}
    fixed: set[str] = set()
    for operation, _ in inference.trace.walk():
        if not isinstance(operation, ir.LoadTile | ir.StoreTile | ir.AtomicRmw | ir.Prefetch):
            continue
        window = operation.window
        for name, at, extent in zip(window.sizes, window.at, window.shape, strict=True):
            if not name:
                continue
            loops = [inference.loops[n] for n in at.loops]
            if at.kind == "constant":
                if extent != 1:
                    fixed.add(name)
                continue
            walked.setdefault(name, set()).add(extent)
            most = max((iterations[loop.number] for loop in loops), default=1)
            unit, count = units.get(name, (extent, 1))
            units[name] = max(unit, extent), max(count, most)
        # skip sizes such as numbers of heads and batches, whose ratios must not change
        fixed.update(window.array.sizes[:-2])
    return {
        name: unit
        for name, unit in units.items()
        if name not in fixed and all(unit[0] % size == 0 for size in walked[name])
    }
