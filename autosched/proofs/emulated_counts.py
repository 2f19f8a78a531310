"""Cost counts of a kernel that states none: counted while the emulator runs it.

One launch of the template's proxy problem (of the problem itself where there is no proxy) is run on the CPU, and its
memory requests are counted; per block they stand for those of the whole problem. Arithmetic is not counted: the time
that follows is that of moving bytes, issuing loads and stores, and waiting for shared memory.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

from measurements.emulator.emulator import emulate
from measurements.emulator.host import HostFailure
from search_spaces.hardware.bank_conflicts import PHASE_BYTES
from search_spaces.hardware.cost_counts import CostCounts
from search_spaces.hardware.data_movement import SECTOR_BYTES
from search_spaces.hardware.devices import Device
from search_spaces.operators.problem import Problem
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.template import KernelTemplate

SECONDS = 10.0  # that one launch may take here
INSTRUCTIONS_PER_REQUEST = 4  # with its address and what is done with what it loads: an assumption
_LOADS, _STORES = ("ld", "cp.async", "atom", "wmma.load"), ("st", "red", "atom", "wmma.store")


@lru_cache(maxsize=2**10)
def emulated_counts(
    template: KernelTemplate, problem: Problem, schedule: Schedule, device: Device
) -> CostCounts | None:
    """What the emulator counts; None where it cannot run the kernel, or not to its end in ``SECONDS``.

    Raises ValueError for a schedule that is not valid.
    """
    small = problem if template.proxy is None else template.proxy(problem, schedule)
    try:
        whole = template.kernel(problem, schedule, device)
        kernel = template.kernel(small, schedule, device)
    except ValueError:
        if small is problem:
            raise
        kernel, small = whole, problem  # the schedule is not one of the proxy
    try:
        run = emulate(kernel, small.random_inputs(0), time_limit=SECONDS, check=False)
    except HostFailure:
        return None
    if run.status not in ("ok", "findings"):
        return None
    blocks, threads = prod(kernel.grid), prod(kernel.block)
    warps = blocks * -(-threads // device.warp_size)
    loads = [s for s in run.global_sites if s.instruction.startswith(_LOADS)]
    stores = [s for s in run.global_sites if s.instruction.startswith(_STORES)]
    requests = sum(s.requests for s in run.global_sites) + sum(s.requests for s in run.shared_sites)
    lines = sum(max(s.requests, s.sectors * SECTOR_BYTES / PHASE_BYTES) for s in run.global_sites)
    moved = sum(prod(o.shape) * o.dtype.bytes for o in whole.operands if o.role != "workspace")
    return CostCounts(
        blocks=prod(whole.grid),
        threads=threads,
        shared_bytes=whole.dynamic_shared_bytes,
        registers=32,
        unit="fma",
        operand_dtype="f32",
        flops=float(problem.flops) / prod(whole.grid),
        instructions=INSTRUCTIONS_PER_REQUEST * requests / blocks,
        shared_wavefronts=(sum(s.wavefronts for s in run.shared_sites) + lines) / blocks,
        load_bytes=sum(s.sectors for s in loads) * SECTOR_BYTES / blocks,
        store_bytes=sum(s.sectors for s in stores) * SECTOR_BYTES / blocks,
        dram_bytes=float(moved),
        # The busiest load says how often the loop around it runs.
        iterations=max(1, max((s.requests // warps for s in loads), default=1)),
        stages=1,
        barriers_per_iteration=0,
        launches=whole.launches,
    )
