"""Time of any launch from what its blocks execute and move (``LaunchCounts``), its compiled resources, a device row.

In SM cycles. A block keeps each pipe busy for its instructions times 32 over the pipe's rate: issue (four schedulers),
FMA (with integer multiplications), integer and logic, special functions and conversions, f64, tensor cores, L1
(wavefronts of shared memory, lines of global requests, spills), L2 (sectors that L1 has not seen). Pipes overlap in
part: their times add up as powers do (``OVERLAP``). A block of ``r`` that live on an SM together also waits: its chain
of dependent instructions, of which the others hide all but ``EXPOSED / r``. An SM takes its share of the blocks one
such time each, and at least one chain. DRAM serves the launch beside that.

No rate is fitted: those of the pipes are the manufacturer's, and ``OVERLAP``, ``EXPOSED`` and ``TAIL`` are round,
and fits to recordings of other kernels did not improve on. docs/reference/estimates.md says how well that ranks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from cost_models.analytic import DRAM_EFFICIENCY, LAUNCH_SECONDS, SM_PORT_BYTES, SPECIAL_RATE
from search_spaces.hardware.costs.cost_counts import CostCounts
from search_spaces.hardware.costs.data_movement import SECTOR_BYTES
from search_spaces.hardware.costs.launch_counts import LaunchCounts
from search_spaces.hardware.costs.ptx_costs import by_pipe, f64_rate, tensor_flops
from search_spaces.hardware.devices import Device, occupancy

OVERLAP = 2.0  # exponent with which times of pipes add up: 1 is none, infinity is all
EXPOSED = 0.3  # of a chain of dependent instructions that nothing hides, where one block lives on an SM
TAIL = 0.5  # waves that an SM idles at the end of many: blocks that are left end at any time in the last one
CHAIN_LOAD = 480.0  # cycles of a load that L1 does not hold, as chains are counted (runtime/isa/counts.cpp)
MEMORY_SECONDS = 800e-9  # of a load that no cache holds, while all SMs ask for others
START = 600.0  # cycles in which a block is launched and retired, shared by those that live together
INTEGER_RATE = 64.0  # results per cycle of an SM, compute capability 7.0 to 12.1
ATOMIC_SECTORS = 4.0  # sectors that move in the time of one atomic's
SPILL_SECTORS = 4.0  # of a word that the lanes of a warp spill or load again: L1 writes through, and holds few of them


@dataclass(frozen=True)
class CompiledResources:
    """What ptxas allots: per thread, and bytes of static shared memory of a block. Spills are bytes of instructions in
    the code, each executed as often as the code around it."""

    registers: int
    spill_bytes: int = 0
    static_shared_bytes: int = 0


@dataclass(frozen=True)
class LaunchTime:
    """``pipes`` are cycles of one block, ``waiting`` what it waits for besides; seconds are of the launch."""

    seconds: float
    occupancy: int
    pipes: dict[str, float]
    waiting: float
    sm_seconds: float
    dram_seconds: float


def launch_time(
    counts: LaunchCounts,
    device: Device,
    resources: CompiledResources,
    *,
    exposed: float = EXPOSED,
    cold: bool = False,
) -> LaunchTime:
    """Estimate a launch. ``exposed`` is the share of a chain that the warps of its own block do not hide. ``cold``:
    L2 holds nothing before it, so that blocks that run first wait for DRAM, and later ones for L2.

    Raises ValueError where the block does not fit on the device.
    """
    shared = counts.dynamic_shared_bytes + resources.static_shared_bytes
    registers = min(resources.registers, device.max_registers_per_thread)
    resident = int(occupancy(device, counts.threads, registers, shared))
    if resident < 1:
        raise ValueError(
            f"a block of {counts.threads} threads, {registers} registers a thread and {shared} bytes of shared memory "
            f"does not fit on {device.name}"
        )
    per_sm = math.ceil(counts.blocks / device.sm_count)
    resident = min(resident, per_sm)
    pipes = _pipes(counts, device, resources)
    busy = float(np.sum(np.array(list(pipes.values())) ** OVERLAP) ** (1.0 / OVERLAP))
    chain = counts.chain_cycles
    if cold:
        first = min(1.0, resident * device.sm_count / counts.blocks)
        chain *= 1.0 + (max(MEMORY_SECONDS * device.clock_hz / CHAIN_LOAD, 1.0) - 1.0) * first
    waiting = exposed * chain / resident + START / resident
    # Blocks come and go on their own: the last of many do not wait for a whole wave, but an SM is half empty for one.
    share = counts.blocks / device.sm_count + TAIL * resident if per_sm > 4 * resident else float(per_sm)
    cycles = max(share * (busy + waiting), chain + START)
    sm_seconds = cycles / device.clock_hz
    dram_seconds = counts.dram_bytes / (device.dram_bandwidth * DRAM_EFFICIENCY)
    seconds = math.hypot(sm_seconds, dram_seconds) + LAUNCH_SECONDS
    return LaunchTime(seconds, resident, pipes, waiting, sm_seconds, dram_seconds)


def least_seconds(counts: LaunchCounts, stated: CostCounts, device: Device) -> float:
    """Return what a launch takes at least that does the ``stated`` flops and moves the bytes, at the peaks of the
    device."""
    tensor = [tensor_flops(operation)[1] for operation, _ in counts.executed if tensor_flops(operation)[0]]
    doubles = any(operation.endswith(".f64") and "fma" in operation for operation, _ in counts.executed)
    peak = 2 * f64_rate(device.sm) * device.sm_count * device.clock_hz if doubles else device.fma_peak
    rates = dict(device.tensor_flops_per_cycle)
    peak = max([peak, *(device.tensor_peak(dtype) for dtype in tensor if dtype in rates)])
    return max(stated.flops * stated.blocks / peak, stated.dram_bytes / device.dram_bandwidth)


def _pipes(counts: LaunchCounts, device: Device, resources: CompiledResources) -> dict[str, float]:
    """Cycles that one block keeps each pipe of an SM busy."""
    warps = math.ceil(counts.threads / device.warp_size)
    executed = by_pipe(counts.executed)
    instructions = sum(executed.values())
    repeats = instructions / warps / max(counts.code, 1)  # of an instruction of the code, on average
    spills = resources.spill_bytes / 4 * warps * max(repeats, 1.0)
    multiplied = executed.get("imad", 0.0)
    lanes = device.warp_size
    fma_rate = device.fma_flops_per_cycle / 2
    port = min(SM_PORT_BYTES, device.l2_bandwidth / device.clock_hz / min(device.sm_count, counts.blocks))
    sectors = counts.unique_sectors + counts.store_sectors + ATOMIC_SECTORS * counts.atomic_sectors
    sectors += SPILL_SECTORS * spills
    return {
        "issue": (instructions + spills) / device.schedulers_per_sm,
        "fma": (executed.get("fma", 0.0) + multiplied) * lanes / fma_rate,
        "integer": max(executed.get("alu", 0.0), multiplied) * lanes / INTEGER_RATE,
        "special": executed.get("special", 0.0) * lanes / SPECIAL_RATE,
        "f64": executed.get("f64", 0.0) * lanes / f64_rate(device.sm),
        "tensor": _tensor_cycles(counts, device),
        "shared": counts.shared_wavefronts,
        "L1": counts.wavefronts + spills + executed.get("constant", 0.0),
        "L2": sectors * SECTOR_BYTES / port,
    }


def _tensor_cycles(counts: LaunchCounts, device: Device) -> float:
    cycles = 0.0
    for operation, times in counts.executed:
        flops, dtype = tensor_flops(operation)
        if not flops:
            continue
        try:
            rate = device.tensor_rate(dtype)
        except ValueError:  # of an older or a newer device's: as fast as f16
            rate = device.tensor_rate("f16")
        rate *= 1.0 if operation.startswith("wgmma") else device.mma_sync_fraction
        cycles += times * flops / rate * device.clock_hz / device.tensor_clock_hz
    return cycles
