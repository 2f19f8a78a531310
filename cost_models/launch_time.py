"""Estimated time of any launch, from its counts (``LaunchCounts``), its compiled resources and the device's data.

For compiled code, the emulator determines the counts. To rank a space before any kernel is compiled, counts are
computed from sizes. In both cases the counts are a row of a ``LaunchTable``.

Times are in SM cycles. A block keeps each pipe busy for 32 times the number of its warp instructions, divided by the
pipe's rate in lanes per cycle. The pipes are:

- issue (four schedulers); FMA, with integer multiplications; integer and logic; special functions and conversions;
  f64; tensor cores
- L1: wavefronts of shared memory, lines of global requests (lines that hit L1 count twice), and spills. Shared and
  global requests each take at least as long as the load/store units need for the addresses.
- L2: sectors that miss L1

Pipes overlap partly: their times are combined by a power sum (``OVERLAP``). A block also waits for its chain of
dependent instructions. With ``r`` resident blocks per SM, other blocks hide all of this waiting time except the
fraction ``EXPOSED / r``. The time of an SM is the sum of the busy and the exposed waiting times of its blocks, but at
least the time of one full chain. DRAM transfers overlap with the time of the SMs. The power limit may lower the clock
of the SMs (``power_limit.py``).

No rate is fitted to measurements: the rates of the pipes are published by NVIDIA. ``OVERLAP``, ``EXPOSED`` and ``TAIL``
are round numbers; values fitted to recordings of other kernels were not better. docs/reference/estimates.md reports the
ranking quality.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cost_models import power_limit
from cost_models.analytic import DRAM_EFFICIENCY, LAUNCH_SECONDS, SM_PORT_BYTES, SPECIAL_RATE
from search_spaces.hardware.costs.cost_counts import CostCounts
from search_spaces.hardware.costs.launch_counts import LaunchCounts
from search_spaces.hardware.costs.ptx_costs import Pipe, by_pipe, f64_rate, reaches_shared, tensor_flops
from search_spaces.hardware.costs.transactions import SECTOR_BYTES
from search_spaces.hardware.devices import Device, occupancy

Floats = npt.NDArray[np.float64]

OVERLAP = 2.0  # exponent of the power sum of pipe times: 1 means no overlap, infinity full overlap
EXPOSED = 0.3  # if no other block is resident on its SM, a block waits for this fraction of a dependent chain's time
TAIL = 0.5  # average idle time of an SM at the end of a launch, in waves, since blocks end at random times
# cycles of a load that misses L1; must equal the value in the chain counts of runtime/isa/counts.cpp
CHAIN_LOAD = 480.0
MEMORY_SECONDS = 800e-9  # latency of a load that misses all caches, while all SMs load
START = 600.0  # cycles to launch and retire a block; resident blocks do this concurrently
INTEGER_RATE = 64.0  # results per cycle of an SM, compute capability 7.0 to 12.1
ATOMIC_SECTORS = 4.0  # time of a sector of an atomic operation, as a multiple of the time of a plain sector
# Extra cycles of L1 for a line that hits. L1 delivers only 64 bytes per cycle, so a line that hits costs one more
# cycle. A line that misses does not, because its time is counted at L2. Data-centre chips have no extra cycles
# (WIDE_L1). Measured on Turing (Jia et al., "Dissecting the NVIDIA Turing T4 GPU via Microbenchmarking"). For GeForce
# and RTX A cards, the only evidence is that rankings of gemm and dedispersion improve.
HELD_LINE = 1.0
WIDE_L1 = (80, 90, 100, 103)  # compute capabilities whose L1 delivers a complete line per cycle
# Load/store units of an SM. Each processes one lane's address per cycle. An SM has four per partition, or eight on
# data-centre chips (SM diagrams in NVIDIA's white papers: TU102, GA102, AD102; GV100 to GH100). Convolutions recorded
# on RTX A4000 and A6000 (Kernel Tuner's hub) take 2.1 cycles per load.
UNITS, WIDE_UNITS = 16.0, 32.0
# L2 sectors per word that a warp spills or reloads: L1 is write-through, and few spilled words stay in L1
SPILL_SECTORS = 4.0


@dataclass(frozen=True)
class CompiledResources:
    """Resources that ptxas allocates: registers per thread, bytes of static shared memory per block, and spills.

    ``spill_bytes`` are the bytes of all spill instructions in the code. Unless the counts contain spilled words, spill
    instructions are assumed to execute as often as the average instruction.
    """

    registers: int
    spill_bytes: int = 0
    static_shared_bytes: int = 0


@dataclass(frozen=True)
class LaunchTime:
    """Time of a launch in seconds.

    ``pipes`` are the cycles for which one block keeps each pipe busy. ``waiting`` are the additional cycles that the
    block waits.
    """

    seconds: float
    occupancy: int
    pipes: dict[str, float]
    waiting: float
    sm_seconds: float
    dram_seconds: float


@dataclass(frozen=True, eq=False)
class LaunchTable:
    """Counts and resources of launches, with one array element per launch.

    Counts are as in ``LaunchCounts``; all counts except ``dram_bytes`` are per block. Compiled resources are as in
    ``CompiledResources``. ``shared_bytes`` is the sum of static and dynamic bytes. ``held_lines`` is the number of
    wavefronts for lines that hit L1. ``chain_loads`` is the number of dependent loads in the chain, with ``CHAIN_LOAD``
    cycles each. ``spilled_words``, if known, is used instead of ``spill_bytes``. Arrays may have shapes that broadcast.
    """

    blocks: Floats
    threads: Floats
    code: Floats
    executed: Mapping[str, Floats]
    chain_cycles: Floats
    chain_loads: Floats
    shared_wavefronts: Floats
    wavefronts: Floats
    held_lines: Floats
    unique_sectors: Floats
    store_sectors: Floats
    atomic_sectors: Floats
    dram_bytes: Floats
    shared_bytes: Floats
    registers: Floats
    spill_bytes: Floats
    spilled_words: Floats | None = None

    @classmethod
    def of(cls, counts: LaunchCounts, resources: CompiledResources) -> LaunchTable:
        """Return a table with one launch."""
        same = (
            *("blocks", "threads", "code", "chain_cycles", "shared_wavefronts", "wavefronts"),
            *("unique_sectors", "store_sectors", "atomic_sectors", "dram_bytes"),
        )
        return cls(
            **{name: np.array([getattr(counts, name)], np.float64) for name in same},
            held_lines=np.array(
                [counts.wavefronts * max(0.0, 1.0 - counts.unique_sectors / max(counts.load_sectors, 1.0))]
            ),
            executed={operation: np.array([times]) for operation, times in counts.executed},
            # the emulator does not count the loads in a chain, so assume that all cycles of the chain are loads
            chain_loads=np.array([counts.chain_cycles / CHAIN_LOAD]),
            shared_bytes=np.array([counts.dynamic_shared_bytes + resources.static_shared_bytes], np.float64),
            registers=np.array([resources.registers], np.float64),
            spill_bytes=np.array([resources.spill_bytes], np.float64),
            spilled_words=None if counts.spilled_words is None else np.array([counts.spilled_words]),
        )


@dataclass(frozen=True, eq=False)
class LaunchTimes:
    """Times as in ``LaunchTime``, one element per launch; ``seconds`` are infinite if no block fits on an SM."""

    seconds: Floats
    occupancy: Floats
    pipes: dict[str, Floats]
    waiting: Floats
    sm_seconds: Floats
    dram_seconds: Floats


def launch_time(
    counts: LaunchCounts,
    device: Device,
    resources: CompiledResources,
    *,
    exposed: float = EXPOSED,
    cold: bool = False,
) -> LaunchTime:
    """Estimate the time of one launch from the emulator's counts.

    Args:
        counts: Instructions, bytes and chains of the launch.
        device: The GPU.
        resources: Registers and memory allocated by ptxas.
        exposed: See ``launch_times``.
        cold: See ``launch_times``.

    Raises:
        ValueError: The block does not fit on the device.
    """
    table = LaunchTable.of(counts, resources)
    times = launch_times(table, device, exposed=exposed, cold=cold)
    if not np.isfinite(times.seconds[0]):
        raise ValueError(
            f"a block of {counts.threads} threads, {_resident_bytes(table, device)[0]:.0f} registers per thread and "
            f"{table.shared_bytes[0]:.0f} bytes of shared memory does not fit on {device.name}"
        )
    return LaunchTime(
        float(times.seconds[0]),
        int(times.occupancy[0]),
        {name: float(cycles[0]) for name, cycles in times.pipes.items()},
        float(times.waiting[0]),
        float(times.sm_seconds[0]),
        float(times.dram_seconds[0]),
    )


def launch_times(launches: LaunchTable, device: Device, *, exposed: float = EXPOSED, cold: bool = False) -> LaunchTimes:
    """Estimate the times of launches from their counts.

    Args:
        launches: One row per launch.
        device: The GPU.
        exposed: Fraction of a chain's time that other warps of the block do not hide.
        cold: True if L2 is empty before a launch. Loads of the first blocks then wait for DRAM, and loads of later
            blocks wait for L2.

    Returns:
        Seconds, blocks per SM, and cycles of each pipe. Seconds are infinite if no block fits on an SM.
    """
    t = launches
    fits = t.shared_bytes <= device.shared_per_block
    whole = (t.threads, _resident_bytes(t, device), np.where(fits, t.shared_bytes, 0.0))
    resident_blocks = np.asarray(occupancy(device, *(np.ceil(n).astype(np.int64) for n in whole)), np.float64)
    fits &= resident_blocks >= 1
    per_sm = np.ceil(t.blocks / device.sm_count)
    resident = np.minimum(np.maximum(resident_blocks, 1.0), per_sm)
    pipes = _pipes(t, device)
    busy = sum(cycles**OVERLAP for cycles in pipes.values()) ** (1.0 / OVERLAP)
    chain = t.chain_cycles
    if cold:
        first = np.minimum(1.0, resident * device.sm_count / t.blocks)
        chain = chain + t.chain_loads * max(MEMORY_SECONDS * device.clock_hz - CHAIN_LOAD, 0.0) * first
    waiting = exposed * chain / resident + START / resident
    # Blocks start and end independently, so the number of waves is not rounded up. Instead, TAIL is added, because SMs
    # are partly idle in the last wave.
    share = np.where(per_sm > 4 * resident, t.blocks / device.sm_count + TAIL * resident, per_sm)
    cycles = np.maximum(share * (busy + waiting), chain + START)
    sm_seconds = cycles / device.clock_hz
    dram_seconds = t.dram_bytes / (device.dram_bandwidth * DRAM_EFFICIENCY)
    sm_seconds = sm_seconds * _slowdown(t, device, np.hypot(sm_seconds, dram_seconds))
    seconds = np.where(fits, np.hypot(sm_seconds, dram_seconds) + LAUNCH_SECONDS, np.inf)
    return LaunchTimes(seconds, np.where(fits, resident, 0.0), pipes, waiting, sm_seconds, dram_seconds)


def _slowdown(t: LaunchTable, device: Device, seconds: Floats) -> Floats:
    """Return the ratio of the highest clock to the clock under the power limit, for launches that take ``seconds``."""
    multiplying = _tensor_cycles(t, device, at_peak=True) * t.blocks / device.sm_count / device.clock_hz
    sectors = t.unique_sectors + t.store_sectors + t.atomic_sectors
    moving = t.dram_bytes / device.dram_bandwidth + t.blocks * sectors * SECTOR_BYTES / device.l2_bandwidth
    return power_limit.slowdown(device, multiplying, moving, seconds)


def least_seconds(counts: LaunchCounts, stated: CostCounts, device: Device) -> float:
    """Return the time that the user's ``stated`` flops and bytes take at the device's peak rates, a lower bound."""
    tensor = [tensor_flops(operation)[1] for operation, _ in counts.executed if tensor_flops(operation)[0]]
    doubles = any(operation.endswith(".f64") and "fma" in operation for operation, _ in counts.executed)
    peak = 2 * f64_rate(device.sm) * device.sm_count * device.clock_hz if doubles else device.fma_peak
    rates = dict(device.tensor_flops_per_cycle)
    peak = max([peak, *(device.tensor_peak(dtype) for dtype in tensor if dtype in rates)])
    return max(stated.flops * stated.blocks / peak, stated.dram_bytes / device.dram_bandwidth)


def _resident_bytes(t: LaunchTable, device: Device) -> Floats:
    """Return the registers per thread, limited to the device's maximum, because further registers are spilled."""
    return np.minimum(t.registers, device.max_registers_per_thread)


def _pipes(t: LaunchTable, device: Device) -> dict[str, Floats]:
    """Return the cycles for which one block keeps each pipe of an SM busy."""
    warps = np.ceil(t.threads / device.warp_size)
    executed = by_pipe(t.executed)
    nothing = np.zeros_like(t.blocks)

    def of(pipe: Pipe) -> Floats:
        return executed.get(pipe, nothing)

    instructions = sum(executed.values(), nothing)
    # number of executions of the average instruction of the code
    repeats = instructions / warps / np.maximum(t.code, 1.0)
    on_average = t.spill_bytes / 4 * warps * np.maximum(repeats, 1.0)
    spills = on_average if t.spilled_words is None else t.spilled_words
    lanes = device.warp_size
    fma_rate = device.fma_flops_per_cycle / 2
    port = np.minimum(SM_PORT_BYTES, device.l2_bandwidth / device.clock_hz / np.minimum(device.sm_count, t.blocks))
    sectors = t.unique_sectors + t.store_sectors + ATOMIC_SECTORS * t.atomic_sectors + SPILL_SECTORS * spills
    held_bytes = nothing if device.sm in WIDE_L1 else HELD_LINE * t.held_lines
    # cycles that the load/store units need for the addresses of one instruction
    addresses = lanes / (WIDE_UNITS if device.sm in WIDE_L1 else UNITS)
    of_shared = sum((n for operation, n in t.executed.items() if reaches_shared(operation)), nothing)
    return {
        "issue": (instructions + spills) / device.schedulers_per_sm,
        "fma": (of("fma") + of("imad")) * lanes / fma_rate,
        "integer": np.maximum(of("alu"), of("imad")) * lanes / INTEGER_RATE,
        "special": of("special") * lanes / SPECIAL_RATE,
        "f64": of("f64") * lanes / f64_rate(device.sm),
        "tensor": _tensor_cycles(t, device),
        "shared": np.maximum(t.shared_wavefronts, addresses * of_shared),
        "L1": np.maximum(t.wavefronts + held_bytes, addresses * (of("memory") - of_shared)) + spills + of("constant"),
        "L2": sectors * SECTOR_BYTES / port,
    }


def _tensor_cycles(t: LaunchTable, device: Device, *, at_peak: bool = False) -> Floats:
    """Return the tensor core cycles of one block. With ``at_peak``, mma.sync is assumed to be as fast as wgmma."""
    cycles = np.zeros_like(t.blocks)
    for operation, times in t.executed.items():
        flops, dtype = tensor_flops(operation)
        if not flops:
            continue
        try:
            rate = device.tensor_rate(dtype)
        except ValueError:  # the device has no rate for the type: assume the rate of f16
            rate = device.tensor_rate("f16")
        if not (at_peak or operation.startswith(("wgmma", "tcgen05"))):
            rate *= device.mma_sync_fraction
        cycles = cycles + times * flops / rate * device.clock_hz / device.tensor_clock_hz
    return cycles
