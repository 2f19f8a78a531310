"""Counts of a launch by emulating some of its blocks, at its true sizes and on its inputs: no loop is shortened."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod

from measurements.emulator.findings import Emulation
from measurements.emulator.host import HostFailure
from measurements.emulator.inputs_file import InputsFile
from measurements.emulator.sparse import emulate_blocks
from search_spaces.hardware.devices import Device
from search_spaces.hardware.launch_counts import LaunchCounts
from search_spaces.operators.problem import Problem
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.kernel import Kernel, Launch
from search_spaces.templates.template import KernelTemplate

SECONDS = 10.0  # of the CPU, that the first block may take
SOON = 0.15  # seconds; where the first block takes less, others are run, too
MOST_BYTES = 2**31  # of the inputs, which lie in one file
_LINE_SECTORS = 4
_LOADS, _STORES, _ATOMICS = ("ld", "cp.async", "wmma.load"), ("st", "wmma.store"), ("atom", "red")


@lru_cache(maxsize=2**10)
def counted(template: KernelTemplate, problem: Problem, schedule: Schedule, device: Device) -> LaunchCounts | None:
    """``count_launch`` of a schedule, on the problem's random inputs; None also where these are too large.

    Raises ValueError for a schedule that is not valid, and as ``count_launch`` and the problem's inputs do.
    """
    kernel = template.kernel(problem, schedule, device)
    if problem.min_bytes > MOST_BYTES:
        return None
    try:
        return count_launch(kernel, _inputs(problem))
    except (HostFailure, OSError):  # no compiler for the emulator, no room for the inputs
        return None


@lru_cache(maxsize=1)
def _inputs(problem: Problem) -> InputsFile:
    return InputsFile(problem.random_inputs(0))


def count_launch(kernel: Kernel, inputs: InputsFile) -> LaunchCounts | None:
    """What the blocks in the middle of the grid do; None where they cannot be emulated in ``SECONDS``.

    Raises HostFailure where this machine cannot emulate.
    """
    total = prod(kernel.grid)
    middle = _middle(kernel.grid)
    runs = [_run(kernel, (middle,), inputs)]
    if runs[0] is not None and runs[0].run_seconds < SOON and total > 1:
        others = tuple(b for b in dict.fromkeys((middle + 1, total // 3, 0)) if b < total and b != middle)
        more = _run(kernel, others, inputs)
        return None if more is None else _counts(kernel, [runs[0], more], 1 + len(others))
    return None if runs[0] is None else _counts(kernel, [runs[0]], 1)


def _middle(grid: Sequence[int]) -> int:
    x, y, z = grid
    return (z // 2 * y + y // 2) * x + x // 2


def _run(kernel: Kernel, blocks: Sequence[int], inputs: InputsFile) -> Emulation | None:
    done = emulate_blocks(kernel, blocks, inputs=inputs, check=False, count=True, time_limit=SECONDS).emulation
    return done if done.status in ("ok", "findings") else None


def _counts(launch: Launch, runs: Sequence[Emulation], sampled: int) -> LaunchCounts:
    executed: dict[str, float] = {}
    for run in runs:
        for operation, times in run.executed:
            executed[operation] = executed.get(operation, 0.0) + times / sampled
    sites = [s for run in runs for s in run.global_sites]
    constants = [s for s in sites if s.instruction == "ld.const"]
    loads = [s for s in sites if s.instruction.startswith(_LOADS) and s.instruction != "ld.const"]
    stores = [s for s in sites if s.instruction.startswith(_STORES)]
    atomics = [s for s in sites if s.instruction.startswith(_ATOMICS)]
    reached = [*loads, *stores, *atomics]
    warps, cycles = (sum(part) for part in zip(*(run.chains for run in runs), strict=True))
    return LaunchCounts(
        blocks=prod(launch.grid),
        threads=prod(launch.block),
        sampled=sampled,
        code=max(run.code for run in runs),
        executed=tuple(sorted(executed.items())),
        chain_cycles=cycles / max(warps, 1),
        shared_wavefronts=sum(s.wavefronts for run in runs for s in run.shared_sites) / sampled,
        requests=sum(s.requests for s in reached) / sampled,
        wavefronts=sum(max(s.requests * max(1.0, s.bytes / 4), s.sectors / _LINE_SECTORS) for s in reached) / sampled,
        load_sectors=sum(s.sectors for s in loads) / sampled,
        unique_sectors=sum(s.unique for s in loads) / sampled,
        store_sectors=sum(s.sectors for s in stores) / sampled,
        atomic_sectors=sum(s.sectors for s in atomics) / sampled,
        constant_requests=sum(s.sectors for s in constants) / sampled,
        dram_bytes=float(_least_bytes(launch)),
        dynamic_shared_bytes=launch.dynamic_shared_bytes,
        operand_bytes=sum(o.bytes for o in launch.operands),
    )


def _least_bytes(launch: Launch) -> int:
    """Each array once, one that is changed in place twice."""
    return sum(o.bytes * (2 if o.role == "inout" else 1) for o in launch.operands if o.role != "workspace")
