"""Verify a sample of the blocks of a large launch: compare their outputs with a reference."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from autosched import blas
from autosched.verify.launch import LaunchUnderTest
from autosched.verify.launch_plan import LaunchRun
from autosched.verify.launches import compared
from autosched.verify.oracle import Comparison
from autosched.verify.run import Run
from measurements.emulator import ASCENDING, Emulation, FindingKind, Order, emulate_blocks
from measurements.emulator.findings import WrittenElements
from measurements.emulator.sparse import can_generate, generated, seeds_of
from measurements.trials.comparison import compare
from search_spaces.arrays import IntArray
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.operators.problem import Problem, ProblemPart

GENERATED = "generated integers"  # name of the input case of sampled blocks (see measurements/emulator/sparse.py)
SAMPLED_FLOPS = 2.0**27  # flops limit for all sampled blocks together
SAMPLED_BYTES = 2.0**25  # limit for the bytes that all sampled blocks move
QUICK_SHARE = 2.0**-4  # share of these limits in a quick verification
_MOST = 48  # maximum number of groups of blocks
# An element of an additional output needs a complete row or column of tiles, and so all groups of blocks that compute
# it. This is the cost limit for these groups, in multiples of SAMPLED_FLOPS and SAMPLED_BYTES.
_WINDOWS = 4.0
# minimum number of groups of blocks; if a group costs more than _HEAVY times SAMPLED_FLOPS, a single group is enough
_FEWEST, _HEAVY = 3, 16.0
_PART_FLOPS = 2.0**31  # maximum flops of the reference per output element, because a block writes many elements
_FIRST = 8  # number of groups to run from the start of the grid: their tiles have full width, unlike tiles at the edges
# if all blocks of a grid combine their results, grids of up to this many blocks always run; larger grids have a flops
# limit
_MOST_TOGETHER = 32


def why_not_sampled(problem: Problem, kernel: GeneratedKernel, share: float = 1.0) -> str:
    """Return the reason why a sample of the blocks cannot be verified; "" if it can.

    The emulator must be able to generate single input elements, and an output element must depend on few input
    elements. If all blocks of the grid combine their results, emulating all of them must not take too long.

    Args:
        problem: Defines which parts of the outputs can be computed separately.
        kernel: The launch.
        share: Fraction of the time of a full verification that may be used.

    Returns:
        The reason.
    """
    if kernel.then:
        return "a launch of a pipeline needs all outputs of the previous launches"
    together = kernel.cooperating[0] == math.prod(kernel.grid) > _MOST_TOGETHER
    if together and problem.flops > _FEWEST * SAMPLED_FLOPS:
        return f"all {kernel.cooperating[0]} blocks combine their results, and emulating all of them takes too long"
    part = next(problem.parts(np.zeros(1, dtype=np.int64)), None)
    if part is None:
        return f"{problem.operator} does not define which inputs an output element needs"
    if part.problem.flops > share * _PART_FLOPS:
        return f"the reference of one element takes {part.problem.flops / 1e9:.1f} GFLOP"
    return (
        ""
        if can_generate(kernel)
        else "a sample of blocks cannot be verified for operands of these types, or that are both read and written"
    )


def sampled_blocks(problem: Problem, kernel: GeneratedKernel, seed: int, share: float = 1.0) -> tuple[int, ...]:
    """Choose the blocks to emulate if emulating all blocks would take too long.

    The blocks compute the first and the last results, results at a distance of a power of two from these, and random
    results. Their total work is limited. Blocks that combine their results are chosen together, and so are neighbours
    in a chain. Distances of powers of two detect two faults: indices that overflow, and orders of tiles that visit a
    tile again. With such a fault, blocks at these distances write the same results.

    Args:
        problem: Provides the flops and bytes of a block.
        kernel: Provides the grid, and the groups of blocks that combine their results.
        seed: Seed of the random blocks.
        share: Fraction of the time of a full verification that may be used.

    Returns:
        Linear indices of blocks in the grid, without duplicates.
    """
    count, stride = kernel.cooperating
    total = math.prod(kernel.grid)
    groups = total // count
    cost = max(problem.flops / SAMPLED_FLOPS, problem.min_bytes / SAMPLED_BYTES) / groups
    cost /= share
    most = int(min(_MOST * max(share, 0.25), max(_FEWEST if cost * share <= _HEAVY else 1, 1.0 / cost)))
    powers = [2**i for i in range(groups.bit_length() - 1, -1, -1)]
    drawn = np.random.default_rng((seed, 2)).integers(0, groups, 4).tolist()
    candidates = [groups - 1, 0, *drawn[:1], *(p for power in powers for p in (power, groups - 1 - power)), *drawn]
    if kernel.chained:
        first = [0, 1, groups - 1] if cost * share <= _HEAVY else [groups - 1]
        candidates = [*first, *(neighbour for g in candidates for neighbour in (g, g + 1))]
    chosen = list(dict.fromkeys(g for g in candidates if 0 <= g < groups))[:most]
    # also run all blocks of the first, the last and a random row or column of tiles
    if kernel.window > 1 and share == 1.0:
        last = (groups - 1) // kernel.window
        windows = list(dict.fromkeys((last, 0, int(drawn[1]) // kernel.window)))
        if cost * kernel.window <= _WINDOWS:
            firsts = [w * kernel.window for w in windows[: max(1, int(_WINDOWS / 2 / (cost * kernel.window)))]]
            groups_of_windows = (g for first in firsts for g in range(first, min(first + kernel.window, groups)))
            chosen = list(dict.fromkeys((*chosen, *groups_of_windows)))
    return tuple(_block(group, part, count, stride) for part in range(count) for group in chosen)


def sampled_flops(problem: Problem, kernel: GeneratedKernel, seed: int, share: float = 1.0) -> float:
    """Count the flops of the blocks of ``sampled_blocks`` and of all other blocks in the same clusters.

    Args:
        problem: Provides the total flops.
        kernel: Provides the grid and the clusters.
        seed: Seed of the sampled blocks.
        share: Fraction of the time of a full verification that may be used.

    Returns:
        Flops; 0 for kernels that only move data.
    """
    cluster = math.prod(kernel.cluster)
    clusters = {block // cluster for block in sampled_blocks(problem, kernel, seed, share)}
    return problem.flops * len(clusters) * cluster / math.prod(kernel.grid)


def verify_blocks(
    problem: Problem,
    kernel: GeneratedKernel,
    seed: int,
    order: Order = ASCENDING,
    limit: float = 60.0,
    share: float = 1.0,
    walked: bool = False,
) -> Run:
    """Run ``sampled_blocks`` and compare every element that they wrote.

    Args:
        problem: Provides the reference of any part of the outputs.
        kernel: Kernel that ``why_not_sampled`` accepts.
        seed: Seed of the blocks and the inputs.
        order: Order of blocks and threads.
        limit: CPU seconds of the launch.
        share: Fraction of the time of a full verification that may be used.
        walked: True if a tile walk checks that the tiles of all blocks cover the output.

    Returns:
        The run.

    Raises:
        HostFailure: This machine cannot run the emulator.
    """
    blocks = sampled_blocks(problem, kernel, seed, share)
    launch = LaunchUnderTest(kernel, seed, blocks=blocks)
    if (kernel.chained or kernel.window > 1) and len(blocks) < math.prod(kernel.grid):
        launch = replace(launch, read=_without_ends)
    done = launch.run(order, time_limit=limit)
    oracle = GeneratedReference(problem, kernel, seed, order, limit, walked)
    run = compared(LaunchRun("", order), done, oracle, len(blocks))
    return replace(run, problem=problem, cases=(GENERATED,), seed=seed, emulation=done.without_arrays())


class GeneratedReference(NamedTuple):
    """Oracle of sampled blocks, which computes the reference of the written elements on generated inputs.

    Attributes:
        problem: Provides the reference of any part of the outputs.
        kernel: The launch.
        seed: Seed of the inputs.
        order: Order of blocks and threads, if further blocks are launched.
        limit: CPU seconds of such a launch.
        walked: True if a tile walk checks that the tiles of all blocks cover the output.
    """

    problem: Problem
    kernel: GeneratedKernel
    seed: int
    order: Order
    limit: float
    walked: bool

    def compare(self, emulation: Emulation) -> Comparison:
        """Compare every element that the blocks wrote."""
        problem, elements = self.problem, emulation.elements
        outputs = [o for o in problem.operands() if o.role == "output"]
        written = elements[outputs[0].name]
        seeds, signed = seeds_of(self.kernel, self.seed), problem.signed_zeros
        worst, wrong = 0.0, self._missing(written)
        for part in problem.parts(written.positions) if written.positions.size else ():
            if wrong:
                break
            error, wrong = _compare_part(part, outputs[0].name, written, seeds, signed)
            worst = max(worst, error)
        left_out = []
        for further in outputs[1:]:
            of_further, is_compared = elements[further.name], False
            for part in problem.further_parts(further.name, of_further.positions) if of_further.positions.size else ():
                if wrong:
                    break
                is_compared = True
                error, wrong = _compare_part(part, further.name, of_further, seeds, signed)
                worst = max(worst, error)
            if not is_compared:
                left_out.append(f"{further.name} is not compared: the sampled blocks completed none of its elements")
        return Comparison(worst, wrong, left_out="; ".join(left_out))

    def _missing(self, written: WrittenElements) -> str:
        """Return the reason why all blocks together cannot write the whole output; "" if they can."""
        most = _most_written(self.kernel, written)
        if not _missing(self.problem, self.kernel, most, self.walked):
            return ""
        # The sampled blocks may have narrow tiles at the edges of matrices, but the first blocks have wide tiles.
        first = _first_written(self.problem, self.kernel, self.seed, self.order, self.limit)
        most = max((most, *(_most_written(self.kernel, one) for one in first)))
        return _missing(self.problem, self.kernel, most, self.walked)


def _without_ends(emulation: Emulation) -> Emulation:
    """Drop findings of the kind "workspace is not reset": the blocks that reset it may not be in the sample."""
    if emulation.status != "findings":
        return emulation
    return emulation.with_findings([f for f in emulation.findings if f.kind is not FindingKind.WORKSPACE_NOT_ZERO])


def _block(group: int, part: int, count: int, stride: int) -> int:
    """Return the index of block ``part`` in a group of ``count`` blocks that are ``stride`` apart."""
    return (group // stride * count + part) * stride + group % stride


def _first_written(
    problem: Problem, kernel: GeneratedKernel, seed: int, order: Order, limit: float
) -> tuple[WrittenElements, ...]:
    """Return the elements that the first groups of blocks write; empty if the groups do not finish."""
    count, stride = kernel.cooperating
    groups = range(min(_FIRST, math.prod(kernel.grid) // count))
    blocks = tuple(_block(group, part, count, stride) for part in range(count) for group in groups)
    done = emulate_blocks(kernel, blocks, seed=seed, order=order, time_limit=limit)
    output = next(o for o in problem.operands() if o.role == "output")
    return (done.elements[output.name],) if done.status in ("ok", "findings") else ()


def _most_written(kernel: GeneratedKernel, written: WrittenElements) -> int:
    """Return the maximum number of elements that a group of blocks wrote."""
    count, stride = kernel.cooperating
    # Adjacent elements usually have the same writer. Sorting sequences of equal writers is faster than sorting
    # elements.
    begins = np.flatnonzero(written.blocks[1:] != written.blocks[:-1]) + 1
    begins = np.concatenate((np.zeros(min(1, written.blocks.size), begins.dtype), begins))
    of_run = written.blocks[begins].astype(np.int64)
    sizes = np.diff(begins, append=written.blocks.size)
    groups, of_group = np.unique(of_run // (stride * count) * stride + of_run % stride, return_inverse=True)
    return int(np.bincount(of_group, sizes, groups.size).max(initial=0))


def _missing(problem: Problem, kernel: GeneratedKernel, most: int, walked: bool) -> str:
    """Return a reason if all groups of blocks together, with ``most`` elements each, cannot fill the output, else "".

    The sampled blocks of a chain may all have narrow tiles at an edge, so that ``most`` is small. If a tile walk
    already checks the tiles of all blocks, any ``most`` above 0 is accepted.
    """
    output = next(o for o in problem.operands() if o.role == "output")
    of_grid = math.prod(kernel.grid) // kernel.cooperating[0]
    # 2 for a chain: a block may leave elements to the next block, at most as many as it writes itself
    left_to_next = 2 if kernel.chained else 1
    if left_to_next * most * of_grid >= output.size or (kernel.chained and walked and most > 0):
        return ""
    return (
        f"no block writes more than {most} elements of {output.name}, so the {of_grid} blocks cannot write all "
        f"{output.size} elements"
    )


def _compare_part(
    part: ProblemPart, name: str, written: WrittenElements, seeds: dict[str, int], signed_zeros: bool
) -> tuple[float, str]:
    operands = {o.name: o for o in part.problem.operands()}
    inputs = {
        name: generated(operands[name].dtype, seeds[name], positions).reshape(operands[name].shape)
        for name, positions in part.inputs.items()
    }
    with blas.single_thread():
        reference, tolerance = (arrays[name] for arrays in part.problem.expected(inputs))
    positions = part.outputs[name].reshape(-1)
    at, is_written = _positions_in(written.positions, positions)
    comparison = compare(
        name,
        operands[name].dtype,
        written.values[at],
        np.broadcast_to(reference, part.outputs[name].shape).reshape(-1)[is_written],
        np.broadcast_to(tolerance, part.outputs[name].shape).reshape(-1)[is_written],
        signed_zeros=signed_zeros and operands[name].dtype.is_float,
    )
    if comparison.ok:
        return comparison.worst, ""
    first = int(positions[is_written][0])
    return comparison.worst, f"in the elements written by the sampled blocks, from {first} on: {comparison.reason}"


def _positions_in(written: IntArray, positions: IntArray) -> tuple[IntArray | slice, IntArray | slice]:
    """Return the indices of ``positions`` in the sorted ``written``, and which positions occur there."""
    first = int(np.searchsorted(written, positions[0]))
    # fast path for complete rows, which are most common
    if np.array_equal(written[first : first + positions.size], positions):
        return slice(first, first + positions.size), slice(None)
    at = np.minimum(np.searchsorted(written, positions), written.size - 1)
    matches = np.flatnonzero(written[at] == positions)
    return at[matches], matches
