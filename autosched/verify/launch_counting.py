"""Count the work of a launch by emulating some of its blocks at the true size and on the real inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from math import prod

import numpy as np

from measurements.emulator.findings import Emulation, ExecutedLine, GlobalSite
from measurements.emulator.host.compiler import HostFailure
from measurements.emulator.inputs_file import InputsFile
from measurements.emulator.sparse import emulate_blocks
from search_spaces.hardware.costs.launch_counts import LaunchCounts
from search_spaces.hardware.devices import Device
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.launch import Launch
from search_spaces.launches.operand import Operand
from search_spaces.operators.problem import Problem
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.template import KernelTemplate

SECONDS = 10.0  # time limit for the first block, in CPU seconds
SOON = 0.15  # if the first block takes fewer seconds than this, two more blocks run
LEAST_SHARE = 0.02  # groups of blocks that represent a smaller fraction of the grid are ignored
MOST_BYTES = 2**31  # maximum size of the inputs, which are stored in one file
_LINE_SECTORS = 4
_LOADS, _STORES, _ATOMICS = ("ld", "cp.async", "wmma.load"), ("st", "wmma.store"), ("atom", "red")


@dataclass(frozen=True, eq=False)
class CountedLaunch:
    """Executed instructions and moved bytes of a launch.

    ``lines`` maps a source line to the number of times that the warps of a block executed the line's PTX (weighted
    average over runs).
    """

    counts: LaunchCounts
    lines: tuple[tuple[float, tuple[ExecutedLine, ...]], ...] = ()


@lru_cache(maxsize=2**7)
def counted(
    template: KernelTemplate, problem: Problem, schedule: Schedule, device: Device
) -> tuple[CountedLaunch, ...] | None:
    """Count the executed work of a schedule's launches on the problem's random inputs.

    Inputs written by an earlier launch of a pipeline are replaced with zeros.

    Args:
        template: Generates the kernel.
        problem: Problem at its true size.
        schedule: A valid schedule.
        device: The GPU.

    Returns:
        The counts of each launch, in launch order. None if the inputs exceed MOST_BYTES, if ``count_launch`` returns
        None, or if this machine cannot run the emulator.

    Raises:
        ValueError: The schedule is invalid, or the inputs cannot be created or do not fit the launch.
    """
    kernel, problem = template.kernel(problem, schedule, device), problem.under(schedule.values)
    if problem.min_bytes > MOST_BYTES:
        return None
    counts = []
    try:
        for step, inputs in _steps_on_inputs(kernel, problem):
            runs = counted_runs(step, inputs)
            if runs is None:
                return None
            lines = tuple((r.share / r.blocks, r.emulation.lines) for r in runs)
            counts.append(CountedLaunch(averaged(step, runs, float(_least_bytes(step))), lines))
    except (HostFailure, OSError):  # the emulator has no compiler, or the disk has no space for the inputs
        return None
    return tuple(counts)


def _steps_on_inputs(kernel: GeneratedKernel, problem: Problem) -> Iterator[tuple[GeneratedKernel, InputsFile]]:
    if not kernel.then:
        yield kernel, _inputs(problem)
        return
    arrays = problem.random_inputs(0)
    filled: set[str] = set()
    for step in kernel.steps:
        before = {o.name: replace(o, role="inout", zeroed=False) for o in step.operands if o.name in filled}
        arrays |= {n: np.zeros(o.shape, o.dtype.storage) for n, o in before.items() if n not in arrays}
        seen = tuple(before.get(a.name, a) if isinstance(a, Operand) else a for a in step.arguments)
        names = {o.name for o in step.operands}
        yield replace(step, arguments=seen), InputsFile({n: a for n, a in arrays.items() if n in names})
        filled |= {o.name for o in step.operands if o.role in ("output", "workspace")}


@lru_cache(maxsize=1)
def _inputs(problem: Problem) -> InputsFile:
    return InputsFile(problem.random_inputs(0))


def count_launch(kernel: GeneratedKernel, inputs: InputsFile) -> LaunchCounts | None:
    """Return the average work of a block; None if blocks cannot be emulated in ``SECONDS`` each.

    Raises HostFailure if this machine cannot run the emulator.
    """
    runs = counted_runs(kernel, inputs)
    return None if runs is None else averaged(kernel, runs, float(_least_bytes(kernel)))


def counted_runs(kernel: GeneratedKernel, inputs: InputsFile) -> list[CountedRun] | None:
    """Emulate sampled blocks of a kernel, and return their counts."""

    def run(blocks: Sequence[int]) -> Emulation:
        return emulate_blocks(kernel, blocks, inputs=inputs, check=False, count=True, time_limit=SECONDS)

    return sampled_runs(kernel.grid, run)


@dataclass(frozen=True, eq=False)
class CountedRun:
    """An emulation of ``blocks`` blocks with counts. The blocks represent the fraction ``share`` of the grid."""

    share: float
    blocks: int
    emulation: Emulation


def sampled_runs(grid: Sequence[int], run: Callable[[Sequence[int]], Emulation]) -> list[CountedRun] | None:
    """Return runs of blocks that together represent the grid, or None if a run does not complete.

    ``run`` emulates the given blocks and counts executed instructions.
    """
    runs: list[CountedRun] = []
    parts = _parts(grid)
    for share, block in parts:
        done = run((block,))
        if not _ended(done):
            return None
        runs.append(CountedRun(share, 1, done))
    share, block = parts[0]
    more_blocks = tuple(b for b in dict.fromkeys((block + 1, prod(grid) // 3)) if b < prod(grid) and b != block)
    # average several blocks, because a block's work may depend on data
    if runs[0].emulation.run_seconds < SOON and share > 0.9 and more_blocks:
        more = run(more_blocks)
        if _ended(more):
            most = share * len(more_blocks) / (1 + len(more_blocks))
            runs[0] = replace(runs[0], share=share - most)
            runs.append(CountedRun(most, len(more_blocks), more))
    return runs


def _parts(grid: Sequence[int]) -> list[tuple[float, int]]:
    """Return pairs (fraction of the grid, block that represents this fraction), in descending order of the fraction.

    The blocks are an inner block, and the last block along each axis, which may have less work. Fractions below
    ``LEAST_SHARE`` are ignored.
    """
    axes = [[((n - 1) / n, (n - 1) // 2), (1 / n, n - 1)] if n > 1 else [(1.0, 0)] for n in grid]
    parts = []
    for (share_x, x), (share_y, y), (share_z, z) in product(*axes):
        parts.append((share_x * share_y * share_z, (z * grid[1] + y) * grid[0] + x))
    parts = sorted((part for part in parts if part[0] >= LEAST_SHARE), reverse=True)
    total = sum(share for share, _ in parts)
    return [(share / total, block) for share, block in parts]


def _ended(done: Emulation) -> bool:
    return done.status in ("ok", "findings")


def averaged(launch: Launch, runs: Sequence[CountedRun], dram_bytes: float) -> LaunchCounts:
    """Return the average work per block of the launch. ``dram_bytes`` is the minimum DRAM traffic of the launch."""
    executed: dict[str, float] = {}
    for r in runs:
        for operation, times in r.emulation.executed:
            executed[operation] = executed.get(operation, 0.0) + times * r.share / r.blocks

    def total(kinds: tuple[str, ...], count: Callable[[GlobalSite], float]) -> float:
        return sum(
            r.share / r.blocks * sum(count(s) for s in r.emulation.global_sites if s.instruction.startswith(kinds))
            for r in runs
        )

    def loads(count: Callable[[GlobalSite], float]) -> float:
        return total(_LOADS, count) - total(("ld.const",), count)

    def wavefronts(site: GlobalSite) -> float:
        return max(site.requests * max(1.0, site.bytes / 4), site.sectors / _LINE_SECTORS)

    return LaunchCounts(
        blocks=prod(launch.grid),
        threads=prod(launch.block),
        sampled=sum(r.blocks for r in runs),
        code=max(r.emulation.code for r in runs),
        executed=tuple(sorted(executed.items())),
        chain_cycles=sum(r.share * r.emulation.chains[1] / max(r.emulation.chains[0], 1) for r in runs),
        shared_wavefronts=sum(r.share / r.blocks * sum(s.wavefronts for s in r.emulation.shared_sites) for r in runs),
        requests=loads(lambda s: s.requests) + total((*_STORES, *_ATOMICS), lambda s: s.requests),
        wavefronts=loads(wavefronts) + total((*_STORES, *_ATOMICS), wavefronts),
        load_sectors=loads(lambda s: s.sectors),
        unique_sectors=loads(lambda s: s.unique),
        store_sectors=total(_STORES, lambda s: s.sectors),
        atomic_sectors=total(_ATOMICS, lambda s: s.sectors),
        constant_requests=total(("ld.const",), lambda s: s.sectors),
        dram_bytes=dram_bytes,
        dynamic_shared_bytes=launch.dynamic_shared_bytes,
        operand_bytes=sum(o.bytes for o in launch.operands),
    )


def _least_bytes(launch: Launch) -> int:
    """Return the minimum DRAM traffic: the bytes of each array, counted twice if the array is modified in place."""
    return sum(o.bytes * (2 if o.role == "inout" else 1) for o in launch.operands if o.role != "workspace")
