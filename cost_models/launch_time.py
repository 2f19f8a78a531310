"""Time of any launch from what its blocks execute and move (``LaunchCounts``), its compiled resources, a device row.

Counts come from whoever has them: the emulator, where there is code to run; sizes alone, where a whole space is ranked
before anything is compiled. Both are rows of one ``LaunchTable``.

In SM cycles. A block keeps each pipe busy for its instructions times 32 over the pipe's rate: issue (four schedulers),
FMA (with integer multiplications), integer and logic, special functions and conversions, f64, tensor cores, L1
(wavefronts of shared memory; lines of global requests, those that it holds twice; spills; of either at least what the
addresses of its instructions take), L2 (sectors that L1 has not seen). Pipes overlap in part: their times add up as
powers do (``OVERLAP``). A block of ``r`` that live on an SM together also waits: its chain of dependent instructions,
of which the others hide all but ``EXPOSED / r``. An SM takes its share of the blocks one such time each, and at least
one chain. DRAM serves the launch beside that.

No rate is fitted: those of the pipes are the manufacturer's, and ``OVERLAP``, ``EXPOSED`` and ``TAIL`` are round,
and fits to recordings of other kernels did not improve on. docs/reference/estimates.md says how well that ranks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cost_models.analytic import DRAM_EFFICIENCY, LAUNCH_SECONDS, SM_PORT_BYTES, SPECIAL_RATE
from search_spaces.hardware.costs.cost_counts import CostCounts
from search_spaces.hardware.costs.launch_counts import LaunchCounts
from search_spaces.hardware.costs.ptx_costs import Pipe, by_pipe, f64_rate, reaches_shared, tensor_flops
from search_spaces.hardware.costs.transactions import SECTOR_BYTES
from search_spaces.hardware.devices import Device, occupancy

Floats = npt.NDArray[np.float64]

OVERLAP = 2.0  # exponent with which times of pipes add up: 1 is none, infinity is all
EXPOSED = 0.3  # of a chain of dependent instructions that nothing hides, where one block lives on an SM
TAIL = 0.5  # waves that an SM idles at the end of many: blocks that are left end at any time in the last one
CHAIN_LOAD = 480.0  # cycles of a load that L1 does not hold, as chains are counted (runtime/isa/counts.cpp)
MEMORY_SECONDS = 800e-9  # of a load that no cache holds, while all SMs ask for others
START = 600.0  # cycles in which a block is launched and retired, shared by those that live together
INTEGER_RATE = 64.0  # results per cycle of an SM, compute capability 7.0 to 12.1
ATOMIC_SECTORS = 4.0  # sectors that move in the time of one atomic's
# Cycles more of a line that L1 holds than of one that passes through it, but for chips for data centres: its data come
# at 64 bytes a cycle, measured on Turing (Jia et al., "Dissecting the NVIDIA Turing T4 GPU via Microbenchmarking"); of
# GeForce and RTX A cards no more is known than that gemm and dedispersion rank better so.
HELD_LINE = 1.0
WIDE_L1 = (80, 90, 100, 103)  # compute capabilities whose L1 gives a whole line a cycle
# Load and store units of an SM, each of which takes a lane's address a cycle: four in each of its parts, and eight in
# those of chips for data centres (figures of the SM in NVIDIA's white papers: TU102, GA102, AD102; GV100 to GH100).
# Recorded convolutions on RTX A4000 and A6000 take 2.1 cycles a load, by the hub of Kernel Tuner.
UNITS, WIDE_UNITS = 16.0, 32.0
SPILL_SECTORS = 4.0  # of a word that the lanes of a warp spill or load again: L1 writes through, and holds few of them


@dataclass(frozen=True)
class CompiledResources:
    """Resources that ptxas allots: registers per thread, and bytes of static shared memory per block.

    Spills are bytes of instructions in the code. Each is executed as often as the average instruction unless the counts
    say otherwise.
    """

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


@dataclass(frozen=True, eq=False)
class LaunchTable:
    """Launches, one element of each array per launch.

    Counts are as in ``LaunchCounts``, per block except for ``dram_bytes``, and compiled resources as in
    ``CompiledResources``. ``shared_bytes`` are static and dynamic ones. Of the wavefronts, ``held_lines`` are of lines
    that L1 holds. Of the chain, ``chain_loads`` wait one after another for other lines, ``CHAIN_LOAD`` cycles each.
    ``spilled_words`` stand for ``spill_bytes`` if they are known. Arrays broadcast.
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
        """Return a table of one launch."""
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
            chain_loads=np.array([counts.chain_cycles / CHAIN_LOAD]),  # the emulator does not say which part waits
            shared_bytes=np.array([counts.dynamic_shared_bytes + resources.static_shared_bytes], np.float64),
            registers=np.array([resources.registers], np.float64),
            spill_bytes=np.array([resources.spill_bytes], np.float64),
            spilled_words=None if counts.spilled_words is None else np.array([counts.spilled_words]),
        )


@dataclass(frozen=True, eq=False)
class LaunchTimes:
    """Times as in ``LaunchTime``, one element per launch; ``seconds`` are infinite if no block fits."""

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
    """Estimate one launch by what the emulator counted.

    Args:
        counts: Instructions, bytes and chains of the launch.
        device: The GPU.
        resources: Registers and memory, as ptxas allotted them.
        exposed: As of ``launch_times``.
        cold: As of ``launch_times``.

    Raises:
        ValueError: The block does not fit on the device.
    """
    table = LaunchTable.of(counts, resources)
    found = launch_times(table, device, exposed=exposed, cold=cold)
    if not np.isfinite(found.seconds[0]):
        raise ValueError(
            f"a block of {counts.threads} threads, {_held(table, device)[0]:.0f} registers a thread and "
            f"{table.shared_bytes[0]:.0f} bytes of shared memory does not fit on {device.name}"
        )
    return LaunchTime(
        float(found.seconds[0]),
        int(found.occupancy[0]),
        {name: float(cycles[0]) for name, cycles in found.pipes.items()},
        float(found.waiting[0]),
        float(found.sm_seconds[0]),
        float(found.dram_seconds[0]),
    )


def launch_times(launches: LaunchTable, device: Device, *, exposed: float = EXPOSED, cold: bool = False) -> LaunchTimes:
    """Estimate launches by what the emulator counted.

    Args:
        launches: A row for each.
        device: The GPU.
        exposed: The share of a chain that the warps of its own block do not hide.
        cold: L2 holds nothing before a launch, so that blocks that run first wait for DRAM, and later ones for L2.

    Returns:
        Seconds, blocks of an SM, and cycles of each pipe; infinite seconds where no block fits.
    """
    t = launches
    fits = t.shared_bytes <= device.shared_per_block
    whole = (t.threads, _held(t, device), np.where(fits, t.shared_bytes, 0.0))
    held = np.asarray(occupancy(device, *(np.ceil(n).astype(np.int64) for n in whole)), np.float64)
    fits &= held >= 1
    per_sm = np.ceil(t.blocks / device.sm_count)
    resident = np.minimum(np.maximum(held, 1.0), per_sm)
    pipes = _pipes(t, device)
    busy = sum(cycles**OVERLAP for cycles in pipes.values()) ** (1.0 / OVERLAP)
    chain = t.chain_cycles
    if cold:
        first = np.minimum(1.0, resident * device.sm_count / t.blocks)
        chain = chain + t.chain_loads * max(MEMORY_SECONDS * device.clock_hz - CHAIN_LOAD, 0.0) * first
    waiting = exposed * chain / resident + START / resident
    # Blocks come and go on their own: the last of many do not wait for a whole wave, but an SM is half empty for one.
    share = np.where(per_sm > 4 * resident, t.blocks / device.sm_count + TAIL * resident, per_sm)
    cycles = np.maximum(share * (busy + waiting), chain + START)
    sm_seconds = cycles / device.clock_hz
    dram_seconds = t.dram_bytes / (device.dram_bandwidth * DRAM_EFFICIENCY)
    seconds = np.where(fits, np.hypot(sm_seconds, dram_seconds) + LAUNCH_SECONDS, np.inf)
    return LaunchTimes(seconds, np.where(fits, resident, 0.0), pipes, waiting, sm_seconds, dram_seconds)


def least_seconds(counts: LaunchCounts, stated: CostCounts, device: Device) -> float:
    """Return the least time of a launch that does the ``stated`` flops and moves the bytes.

    Rates are the peaks of the device.
    """
    tensor = [tensor_flops(operation)[1] for operation, _ in counts.executed if tensor_flops(operation)[0]]
    doubles = any(operation.endswith(".f64") and "fma" in operation for operation, _ in counts.executed)
    peak = 2 * f64_rate(device.sm) * device.sm_count * device.clock_hz if doubles else device.fma_peak
    rates = dict(device.tensor_flops_per_cycle)
    peak = max([peak, *(device.tensor_peak(dtype) for dtype in tensor if dtype in rates)])
    return max(stated.flops * stated.blocks / peak, stated.dram_bytes / device.dram_bandwidth)


def _held(t: LaunchTable, device: Device) -> Floats:
    """Return the registers that a thread holds: what is beyond the device's most is spilled."""
    return np.minimum(t.registers, device.max_registers_per_thread)


def _pipes(t: LaunchTable, device: Device) -> dict[str, Floats]:
    """Cycles that one block keeps each pipe of an SM busy."""
    warps = np.ceil(t.threads / device.warp_size)
    executed = by_pipe(t.executed)
    nothing = np.zeros_like(t.blocks)

    def of(pipe: Pipe) -> Floats:
        return executed.get(pipe, nothing)

    instructions = sum(executed.values(), nothing)
    repeats = instructions / warps / np.maximum(t.code, 1.0)  # of an instruction of the code, on average
    on_average = t.spill_bytes / 4 * warps * np.maximum(repeats, 1.0)
    spills = on_average if t.spilled_words is None else t.spilled_words
    lanes = device.warp_size
    fma_rate = device.fma_flops_per_cycle / 2
    port = np.minimum(SM_PORT_BYTES, device.l2_bandwidth / device.clock_hz / np.minimum(device.sm_count, t.blocks))
    sectors = t.unique_sectors + t.store_sectors + ATOMIC_SECTORS * t.atomic_sectors + SPILL_SECTORS * spills
    held = nothing if device.sm in WIDE_L1 else HELD_LINE * t.held_lines
    addresses = lanes / (WIDE_UNITS if device.sm in WIDE_L1 else UNITS)  # cycles of an instruction's
    of_shared = sum((n for operation, n in t.executed.items() if reaches_shared(operation)), nothing)
    return {
        "issue": (instructions + spills) / device.schedulers_per_sm,
        "fma": (of("fma") + of("imad")) * lanes / fma_rate,
        "integer": np.maximum(of("alu"), of("imad")) * lanes / INTEGER_RATE,
        "special": of("special") * lanes / SPECIAL_RATE,
        "f64": of("f64") * lanes / f64_rate(device.sm),
        "tensor": _tensor_cycles(t, device),
        "shared": np.maximum(t.shared_wavefronts, addresses * of_shared),
        "L1": np.maximum(t.wavefronts + held, addresses * (of("memory") - of_shared)) + spills + of("constant"),
        "L2": sectors * SECTOR_BYTES / port,
    }


def _tensor_cycles(t: LaunchTable, device: Device) -> Floats:
    cycles = np.zeros_like(t.blocks)
    for operation, times in t.executed.items():
        flops, dtype = tensor_flops(operation)
        if not flops:
            continue
        try:
            rate = device.tensor_rate(dtype)
        except ValueError:  # of an older or a newer device's: as fast as f16
            rate = device.tensor_rate("f16")
        rate *= 1.0 if operation.startswith(("wgmma", "tcgen05")) else device.mma_sync_fraction
        cycles = cycles + times * flops / rate * device.clock_hz / device.tensor_clock_hz
    return cycles
