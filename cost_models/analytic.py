"""Analytic model of the time of a kernel launch. Inputs are the launch's cost counts and the device's data.

Times are in SM cycles. A block executes ``iterations`` steps of the main loop. Each step keeps five pipes busy:

- math: flops, divided by the rate of the unit;
- issue: warp instructions, divided among four schedulers;
- special: special functions of all lanes, SPECIAL_RATE per cycle;
- shared: wavefronts, one per cycle, including spills (local memory uses the same 128-byte-wide L1);
- load: bytes from L2, divided by the smaller of the bandwidth of the SM's port and the SM's share of the L2 bandwidth.
  Multicast data that L2 reads for another block of the cluster only takes time at the port.

With more warps, pipes overlap better. Pipes take ``mix(pipes) = (1 - e) * max + e * sum`` cycles, with
``e = 1 / (1 + OVERLAP * warps per scheduler)``, as if each warp kept OVERLAP instructions in flight. The arithmetic of
an asynchronous unit overlaps as well as the arithmetic of ASYNC_WARPS warps. One cycle lasts ``1 / clock_hz``.
``clock_hz`` is the clock at which all units except tensor cores reach their peak.

``r`` blocks are resident on an SM (``devices.occupancy``). Each block alternates between using the pipes and waiting:

- busy: ``b = mix(math, issue, special, shared, load)`` cycles of the pipes for a step of one block;
- waiting: ``z`` cycles for barriers and loads:

  - After each barrier the pipes of shared memory and arithmetic refill (REFILL), unless operands stay in registers.
  - With one stage, a block waits for all of ``latency + load``, as nothing overlaps inside the block.
  - With s stages, s - 1 loads are in flight. By Little's law, a block waits for
    ``(latency + load) / (s - 1) - mix(all but load)``, if positive. If loads are issued after the arithmetic of a step
    (``loads_last``), the time of the arithmetic is added to the latency.

One step of all r blocks then takes ``max(r * b, z + b1 + (r - 1) * b * b / (b + z))``. The first term is the asymptotic
bound of a closed queueing network with r customers, the second term the balanced-job bound (Zahorjan, Sevcik, Eager and
Galler, 1982). ``b1`` is ``mix(all but load)`` of a single block. The second bound has its minimum at
``z = b * (sqrt(r - 1) - 1)``, so a smaller z is raised to this value. The latency lies between the latencies of L2 and
DRAM: it grows with the bytes of a step that come from DRAM.

An SM processes ``ceil(blocks / SMs)`` blocks, r at a time. The last group may have fewer than r blocks (wave
quantisation and tail). Clusters whose size does not divide the number of SMs of a GPC leave SMs idle
(``Device.running_sms``). If an SM runs a single block with fewer warps than the SM has schedulers, some schedulers are
idle. If blocks have different amounts of work, the launch takes at least as long as the ``longest`` block.

Every group of blocks also takes time to fill its pipelines and to store its tiles. Only the first group's fill is fully
exposed. Further costs are added:

- ``drains``: the arithmetic stops until a result has left the registers. Each drain costs a refill and the waiting
  time.
- ``restarts``: loads start again after a drain. Each restart costs the time of a first load.
- ``round_trips``: accesses to L2 that do not overlap with other work. Each costs the latency.
- ``boxes``: results are stored through boxes in shared memory. Each box costs two barriers. If all buffers are in use,
  a block also waits until a TMA store has read a buffer (STORE_ROUND_TRIP), minus the time in which the block writes
  the other buffers.
- ``alone_bytes``: traffic of a final block that runs alone, limited by the SM's port or by load latencies
  (``alone_trips``).
- ``staged_bytes``: traffic of a preparing launch before the kernel, at DRAM bandwidth.

In attention, for example, a step multiplies the result of another product (``chained``). Each warp then waits for its
own result, so pipes overlap only through different warps of a scheduler. If the first product of the next step is
issued ahead, a warp must wait only for the fraction ``exposed_products`` of its math. Other instructions hide a part of
the remaining math. They can hide the fraction HIDDEN of the math of all r blocks on an SM. Each block has 1/r of this
math, so the fraction ``min(r * HIDDEN, 1)`` of its remaining math is hidden. Warpgroups that share an asynchronous unit
all wait while it multiplies, unless they alternate (``ping_pong``). If the warps that copy a step's tiles take longer
than the step's arithmetic (``copying_cycles``), the block waits for the difference.

DRAM transfers data at ``dram_bandwidth * DRAM_EFFICIENCY``. Two effects reduce this rate: too few bytes in flight (by
Little's law, an SM needs its share of ``dram_bandwidth * DRAM_SECONDS``), and short contiguous runs. The times of SMs
and DRAM overlap, but less if they are nearly equal: ``(sm^2 + dram^2)^(1/2)``. The start of the first blocks, and the
stores and round trips of the last blocks, do not overlap with anything. Each launch adds a constant time.

If the power limit lowers the clock, the SMs take longer (``power_limit.py``). Idle cycles save power and raise the
clock, so near the limit an idle cycle costs only two thirds of a cycle.

Predictions are monotonic: more bank conflicts, bytes, instructions or spills never give a shorter time.

DRAM_LATENCY, REFILL, OVERLAP, BLOCK_START and the sum of SM and DRAM time were fitted on recorded Triton matmuls
(AutoHeuristic, A100 and H100, the files ``a100_mm`` and ``h100_mm``) and evaluated on the other recordings:
``benchmarks/cost_model/model_against_measured.py``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cost_models import power_limit
from cost_models.cost_columns import CostColumns
from search_spaces.arrays import FloatArray, IntArray
from search_spaces.hardware.costs.cost_counts import CostCounts
from search_spaces.hardware.devices import Device, occupancy, register_limit
from search_spaces.hardware.units import unit

SM_PORT_BYTES = 64.0  # bytes per cycle from L2 to one SM (A100 white paper: 64 bytes/clk/SM)
L2_LATENCY = 270.0  # cycles, close to published pointer-chase results on Ampere to Hopper (arXiv 2402.13499)
DRAM_LATENCY = 0.37e-6  # seconds of DRAM latency; pointer chases measure 0.3 us (arXiv 2402.13499)
# DRAM bytes per step at which half of the steps wait for DRAM (a step waits for its slowest sector)
MISSED_BYTES = 1024.0
DRAM_EFFICIENCY = 0.9  # a device copy on H200 moves 4.3 of 4.8 TB/s
DRAM_SECONDS = 0.42e-6  # latency of an idle DRAM; 4.3 TB/s on an H200 need 13 KiB in flight on each SM
RUN_BYTES = 8.0  # DRAM time lost per contiguous run, in bytes that DRAM could transfer in this time: an assumption
BARRIER = 20.0  # cycles that a block-wide barrier takes, in addition to one per warp of the block
REFILL = 45.0  # cycles after a barrier until loads from shared memory have arrived and the arithmetic is busy again
SPECIAL_RATE = 16.0  # results per SM and cycle, compute capability 7.0 to 12.1 (CUDA C++ Programming Guide)
OVERLAP = 16.0  # number of instructions that a warp keeps in flight
ASYNC_WARPS = 8  # an asynchronous unit overlaps its arithmetic with other work as well as this number of warps
BLOCK_START = 620.0  # cycles to launch a block, set up its addresses and retire it
# Additional cycles to start a cluster, whose blocks wait for each other at start and end. On an H100 (2026-11-27),
# clusters of two add 1.0 us to a matmul of 1,024^3. All values from 300 to 2,000 rank the schedules of 21 problems
# equally well.
CLUSTER_START = 1000.0
STORE_ROUND_TRIP = 500.0  # cycles until a TMA store has read its box from shared memory: an assumption
# cycles in which neither of two alternating warpgroups multiplies; they occur twice per step. Published effect of
# alternation: attention on 8,192 positions with head size 128 rises from 570 to 620-640 TFLOP/s (arXiv 2407.08608)
ALTERNATION = 420.0
# If the first product of the next step is issued ahead, other instructions of an SM hide this fraction of the time of
# the second products. On an H100, this shortens attention on 8,448 positions with head size 128 from 4.02 to 3.54 ms
# (arXiv 2407.08608, ablation of "GEMM-softmax pipelining"); the second products take 1.18 ms at the peak rate
HIDDEN = 0.41
BOX_BARRIERS = 2  # barriers of a warpgroup per box: one before and one after the box is written
# H100, 2026-11-27: a launch of a one-block kernel in a graph takes 1.18 us, of which the kernel itself takes 0.73 us
LAUNCH_SECONDS = 0.45e-6
_WARPGROUP = 4  # warps of a warpgroup
SPILL_WAVEFRONTS = 2.0  # number of accesses per spilled word: one write and one read


@dataclass(frozen=True)
class Analysis:
    """Results of the model for n launches, one array [n] per quantity. Cycles are SM cycles.

    Attributes:
        occupancy: Resident blocks per SM.
        waves: Number of blocks divided by the number of blocks that run at the same time.
        math, issue, special, shared, load: Cycles for which one block keeps each pipe busy.
        step: Cycles of one main-loop iteration of all resident blocks of an SM.
        in_flight: Bytes from DRAM that an SM waits for at the same time.
        slowed: Highest clock divided by the clock under the power limit.
        sm_seconds, dram_seconds, seconds: Time of the SMs, of DRAM, and of the whole launch.
    """

    occupancy: IntArray
    waves: FloatArray
    math: FloatArray
    issue: FloatArray
    special: FloatArray
    shared: FloatArray
    load: FloatArray
    step: FloatArray
    in_flight: FloatArray
    slowed: FloatArray
    sm_seconds: FloatArray
    dram_seconds: FloatArray
    seconds: FloatArray


def predict(work: CostCounts, device: Device, *, registers: int | None = None, spill_bytes: int = 0) -> float:
    """Predict the seconds of one launch.

    Args:
        work: Counts of the launch.
        device: The GPU.
        registers: Registers per thread, as the compiler reports. None: use the estimate in ``work``, and count
            registers above the device's limits as spilled.
        spill_bytes: Spill stores plus loads per thread in bytes, as the compiler reports.

    Raises:
        ValueError: The block does not fit on the device, or a count is negative, NaN or infinite.
    """
    register_counts = None if registers is None else [registers]
    return float(analyse([work], device, registers=register_counts, spill_bytes=[spill_bytes]).seconds[0])


def busy(work: CostCounts, device: Device, *, registers: int | None = None, spill_bytes: int = 0) -> dict[str, float]:
    """Return the fraction of a launch's predicted time for which each resource of the device is busy.

    DRAM has two entries: transfers at the full rate, and waiting. DRAM waits if too few requests are in flight, or if
    contiguous runs are short.

    Args:
        work: Counts of the launch.
        device: The GPU.
        registers: As for ``predict``.
        spill_bytes: As for ``predict``.

    Returns:
        Fractions from 0 to 1, by name of the resource.

    Raises:
        ValueError: As for ``predict``.
    """
    if work.then:
        return _busy_pipeline((dataclasses.replace(work, then=()), *work.then), device, registers, spill_bytes)
    a = analyse([work], device, registers=None if registers is None else [registers], spill_bytes=[spill_bytes])
    seconds = float(a.seconds[0])
    moving = (work.dram_bytes + work.staged_bytes) / device.dram_bandwidth
    # converts cycles of one block to seconds of an SM
    blocks = -(-work.blocks // device.running_sms(work.cluster)) / device.clock_hz
    return {
        "tensor cores" if unit(work.unit).tensor else "arithmetic": float(a.math[0]) * blocks / seconds,
        "instruction issue": float(a.issue[0]) * blocks / seconds,
        **({"special functions": float(a.special[0]) * blocks / seconds} if work.special else {}),
        "shared memory and L1": float(a.shared[0]) * blocks / seconds,
        "L2": float(a.load[0]) * blocks / seconds,
        "moving bytes of DRAM": moving / seconds,
        "waiting for memory (latency)": max(0.0, float(a.dram_seconds[0]) - moving) / seconds,
        "launching": LAUNCH_SECONDS * work.launches / seconds,
    }


def _busy_pipeline(
    works: Sequence[CostCounts], device: Device, registers: int | None, spill_bytes: int
) -> dict[str, float]:
    """Return ``busy`` for several successive launches, as fractions of their total time."""
    parts, total = dict[str, float](), 0.0
    for work in works:
        used = None if registers is None else min(registers, int(register_limit(device, np.array([work.threads]))[0]))
        seconds = predict(work, device, registers=used, spill_bytes=spill_bytes)
        total += seconds
        for name, part in busy(work, device, registers=used, spill_bytes=spill_bytes).items():
            parts[name] = parts.get(name, 0.0) + part * seconds
    return {name: part / total for name, part in parts.items()}


def analyse(
    works: Sequence[CostCounts],
    device: Device,
    *,
    registers: Sequence[int] | IntArray | None = None,
    spill_bytes: Sequence[int] | IntArray | None = None,
) -> Analysis:
    """Predict n launches (or pipelines of launches) at once, and also return intermediate results.

    Args:
        works: Counts of each launch.
        device: The GPU.
        registers: Registers per thread, [n] (maximum over the launches of a pipeline). None: the estimates in
            ``works``.
        spill_bytes: Spill stores plus loads per thread in bytes, [n]. None: computed from ``registers``.

    Returns:
        Seconds, and the cycles of each pipe, [n]. For a pipeline, the cycles describe its longest launch.

    Raises:
        ValueError: As for ``predict``.
    """
    if not any(work.then for work in works):
        return _of_launches(works, device, registers, spill_bytes)
    owners = np.array([i for i, work in enumerate(works) for _ in range(1 + len(work.then))])
    launches = [launch for work in works for launch in (work, *work.then)]
    spilled = None if spill_bytes is None else np.asarray(spill_bytes)[owners]
    used = None
    if registers is not None:  # maximum over the launches of a pipeline
        limit = register_limit(device, np.array([launch.threads for launch in launches]))
        used = np.minimum(np.asarray(registers)[owners], limit)
    each = _of_launches(launches, device, used, spilled)
    longest = [int(max(np.flatnonzero(owners == i), key=lambda at: each.seconds[at])) for i in range(len(works))]
    columns = {f.name: getattr(each, f.name)[longest] for f in dataclasses.fields(Analysis)}
    sums = {n: np.bincount(owners, getattr(each, n)) for n in ("sm_seconds", "dram_seconds", "seconds")}
    return Analysis(**columns | sums)


def _of_launches(
    works: Sequence[CostCounts],
    device: Device,
    registers: Sequence[int] | IntArray | None,
    spill_bytes: Sequence[int] | IntArray | None,
) -> Analysis:
    """Return the result of ``analyse`` for launches that are not pipelines."""
    w = CostColumns.of(works)
    resident, spilled = _residency(w, device, registers, spill_bytes)
    clock = device.clock_hz
    sms = np.array([device.running_sms(work.cluster) for work in works], dtype=np.int64)
    active = np.minimum(w.blocks, sms)
    per_sm = -(-w.blocks // sms)
    resident = np.minimum(resident, per_sm)
    port = np.minimum(SM_PORT_BYTES, device.l2_bandwidth / clock / active)  # bytes per cycle for one SM
    missed = w.dram_bytes / w.blocks / w.iterations
    block = _BlockCycles(
        **_pipe_cycles(w, device, works, spilled, port, resident),
        latency=L2_LATENCY + (DRAM_LATENCY * clock - L2_LATENCY) * missed / (missed + MISSED_BYTES),
        barriers=_barrier_cycles(w, device),
        warps_of_scheduler=_warps(w, device) / device.schedulers_per_sm,
        overlapping=np.where(w.asynchronous, ASYNC_WARPS, _warps(w, device)) / device.schedulers_per_sm,
    )
    full_step = _step_cycles(w, block, resident)
    cycles = _sm_cycles(w, device, block, per_sm, resident, full_step, w.store_bytes / port)
    sm_seconds = cycles / clock
    ends = _end_cycles(w, block) / clock
    in_flight = resident * np.maximum(w.stages - 1, 1) * missed
    dram_seconds = _dram_seconds(w, device, in_flight * active)
    multiplied = block.math * _tensor_shares(works, device) * -(-w.blocks // sms) / clock
    moved = w.dram_bytes / device.dram_bandwidth + w.blocks * (w.load_bytes + w.store_bytes) / device.l2_bandwidth
    slowed = power_limit.slowdown(device, multiplied, moved, _overlapped(sm_seconds, dram_seconds, ends))
    sm_seconds = sm_seconds * slowed
    staged_seconds = w.staged_bytes / (device.dram_bandwidth * DRAM_EFFICIENCY)
    alone_seconds = np.maximum(w.alone_bytes / SM_PORT_BYTES, w.alone_trips * L2_LATENCY) / clock
    return Analysis(
        occupancy=resident,
        waves=w.blocks / (sms * resident),
        math=block.math,
        issue=block.issue,
        special=block.special,
        shared=block.shared,
        load=block.load,
        step=full_step,
        in_flight=in_flight,
        slowed=slowed,
        sm_seconds=sm_seconds,
        dram_seconds=dram_seconds,
        seconds=_overlapped(sm_seconds, dram_seconds, ends)
        + alone_seconds
        + staged_seconds
        + LAUNCH_SECONDS * w.launches,
    )


@dataclass(frozen=True)
class _BlockCycles:
    """Cycles that all steps of one block take on each pipe. Each field is an array [n].

    ``latency`` is the latency of a load, ``barriers`` the barrier cycles of one step, and ``overlapping`` the number of
    warps per scheduler whose work overlaps.
    """

    math: FloatArray
    issue: FloatArray
    special: FloatArray
    shared: FloatArray
    load: FloatArray
    latency: FloatArray
    barriers: FloatArray
    overlapping: FloatArray
    warps_of_scheduler: FloatArray


def _warps(w: CostColumns, device: Device) -> IntArray:
    warps: IntArray = -(-w.threads // device.warp_size)
    return warps


def _residency(
    w: CostColumns,
    device: Device,
    registers: Sequence[int] | IntArray | None,
    spill_bytes: Sequence[int] | IntArray | None,
) -> tuple[IntArray, FloatArray]:
    """Compute the resident blocks per SM and the spilled bytes per thread.

    Without ``registers``, the register estimate in the cost counts is used. Estimated registers above the limit of a
    launch count as spilled.
    """
    spilled = np.zeros(len(w.blocks)) if spill_bytes is None else np.asarray(spill_bytes, dtype=np.float64)
    if not (np.isfinite(spilled) & (spilled >= 0)).all():
        raise ValueError("spill_bytes must be zero or more bytes per thread")
    if registers is None:
        limit = register_limit(device, w.threads)
        spilled = spilled + 4.0 * np.maximum(w.registers - limit, 0)
        used = np.minimum(w.registers, limit)
    else:
        used = np.asarray(registers, dtype=np.int64)
    resident = np.asarray(occupancy(device, w.threads, used, w.shared_bytes), dtype=np.int64)
    if (resident < 1).any():
        i = int(np.flatnonzero(resident < 1)[0])
        raise ValueError(
            f"a block of {w.threads[i]} threads, {used[i]} registers per thread and {w.shared_bytes[i]} bytes of "
            f"shared memory does not fit on {device.name}: choose a smaller tile or fewer stages"
        )
    return resident, spilled


def _pipe_cycles(
    w: CostColumns,
    device: Device,
    works: Sequence[CostCounts],
    spilled: FloatArray,
    port: FloatArray,
    resident: IntArray,
) -> dict[str, FloatArray]:
    """Compute the cycles for which one block keeps each pipe busy: counts divided by rates. Includes spilled words."""
    # Each warp uses only one scheduler, and the tensor core of that scheduler. H100, 2026-11-27: a matmul of 2048^3
    # with one two-warp block per SM takes twice as long as with all four schedulers in use.
    idle = np.maximum(device.schedulers_per_sm / (resident * _warps(w, device)), 1.0)
    spill_words = spilled / 4.0 * _warps(w, device) * w.iterations  # warp accesses of one block
    return {
        "math": w.flops / _rates(works, device) * idle,
        "issue": (w.instructions + spill_words) / device.schedulers_per_sm * idle,
        "special": w.special * device.warp_size / SPECIAL_RATE,
        "shared": w.shared_wavefronts + SPILL_WAVEFRONTS * spill_words,
        "load": np.maximum(w.load_bytes / port, (w.load_bytes + w.multicast_bytes) / SM_PORT_BYTES),
    }


def _barrier_cycles(w: CostColumns, device: Device) -> FloatArray:
    """Compute the cycles per step that a block loses at barriers: waiting, and then filling the pipes again."""
    refill = np.where(w.refills & (w.shared_wavefronts > 0), REFILL, 0.0)
    cycles = w.ping_pong * 2.0 * ALTERNATION
    stalled: FloatArray = w.barriers_per_iteration * (BARRIER + _warps(w, device) + refill) + cycles
    return stalled


def _step_cycles(w: CostColumns, block: _BlockCycles, together: IntArray) -> FloatArray:
    """Compute the cycles of one step of all blocks that share an SM; ``together`` is their number.

    The result is the larger of two bounds, with the symbols of the module's description: the asymptotic bound ``r *
    b``, and the balanced-job bound ``z + b1 + (r - 1) * b * b / (b + z)``.
    """
    n = w.iterations
    pipes = np.stack([block.math / n, block.issue / n, block.special / n, block.shared / n, block.load / n])
    busy = _mix(pipes, np.where(w.asynchronous, 1, together) * block.overlapping)
    alone = _mix(pipes[:-1], block.overlapping)
    # In a chain of products each warp waits for its own result. Only the other warps of its scheduler can work during
    # this wait. If warpgroups do not alternate, they reach their products at the same time: either all of them
    # multiply, or none. On an H100 (2026-11-27), causal attention of 8 x 2048 x 128 takes 31.7 us; overlapping
    # warpgroups would take 22 us.
    own = np.maximum(np.floor(block.warps_of_scheduler), 1.0)
    hidden = (1.0 - w.exposed_products) * pipes[0] * np.minimum(HIDDEN * together, 1.0)
    exposed = pipes[0] - hidden
    chain = (exposed + np.maximum(hidden, pipes[1:3].sum(axis=0))) / own
    rest = np.maximum(pipes[1:3].max(axis=0), pipes[1:3].sum(axis=0) / own)
    lockstep = w.asynchronous & ~w.ping_pong & (own > 1)
    chain = np.where(lockstep, exposed + np.maximum(hidden, rest), chain)
    alone = np.where(w.chained, np.maximum(alone, chain), alone)
    arrival = block.latency + block.load / n
    issued = np.where(w.loads_last, alone, 0.0)
    late = np.maximum((issued + arrival) / np.maximum(w.stages - 1, 1) - alone, 0.0)
    late = np.maximum(late, w.copying_cycles - alone)
    wait = np.where(w.stages == 1, arrival, late) + block.barriers
    # raise z (``wait``) at least to the minimum of the balanced-job bound, because below this z the bound would fall as
    # z grows
    wait = np.maximum(wait, busy * (np.sqrt(together - 1.0) - 1.0))
    queued = alone + wait + (together - 1) * busy * busy / np.maximum(busy + wait, 1.0)
    longest: FloatArray = np.maximum(together * busy, queued)
    return longest


def _sm_cycles(
    w: CostColumns,
    device: Device,
    block: _BlockCycles,
    per_sm: IntArray,
    resident: IntArray,
    full_step: FloatArray,
    store: FloatArray,
) -> FloatArray:
    """Compute the cycles of an SM for ``per_sm`` blocks, ``resident`` at a time; the last group may be smaller.

    Every group of blocks fills its pipelines, stores its tiles (``store`` cycles each), and waits for results to leave
    the registers (drain).
    """
    full, rest = per_sm // resident, per_sm % resident
    first_load = np.where(w.stages == 1, 0.0, block.latency + block.load / w.iterations)
    drain = w.drains * REFILL + w.drain_instructions / device.schedulers_per_sm
    drain += w.boxed * _waited_for_boxes(w, device, STORE_ROUND_TRIP)
    drain += w.restarts * first_load + w.round_trips * block.latency
    fill = _start_cycles(w) + first_load
    cycles = full * (w.iterations * full_step + resident * store + drain) + fill * (1.0 + (full - 1) / resident)
    last = w.iterations * _step_cycles(w, block, np.maximum(rest, 1)) + rest * store + drain + fill / resident
    cycles += np.where(rest > 0, last, 0.0)
    alone = fill + w.longest * w.iterations * _step_cycles(w, block, np.ones_like(resident)) + store + drain
    return np.where(w.longest > 1.0, np.maximum(cycles, alone), cycles)


def _start_cycles(w: CostColumns) -> FloatArray:
    """Compute the cycles until a block has started. The blocks of a cluster also wait for each other."""
    started: FloatArray = BLOCK_START + np.where(w.cluster > 1, CLUSTER_START, 0.0)
    return started


def _end_cycles(w: CostColumns, block: _BlockCycles) -> FloatArray:
    """Compute the cycles at the start and end of a launch that do not overlap with loads of other blocks.

    These are the start of the first blocks, and the stores of the last blocks, including the round trips of split-K.
    """
    ends: FloatArray = _start_cycles(w) + w.round_trips * block.latency + w.store_bytes / SM_PORT_BYTES
    return ends


def _overlapped(sm_seconds: FloatArray, dram_seconds: FloatArray, ends: FloatArray) -> FloatArray:
    """Combine the times of SMs and DRAM, which overlap except during ``ends``, a part of ``sm_seconds``."""
    ends = np.minimum(ends, sm_seconds)
    seconds: FloatArray = np.hypot(sm_seconds - ends, dram_seconds) + ends
    return seconds


def _dram_seconds(w: CostColumns, device: Device, in_flight: FloatArray) -> FloatArray:
    """Compute the DRAM time. It is longer if SMs have few bytes ``in_flight``, and if contiguous runs are short."""
    scarce = device.dram_bandwidth * DRAM_SECONDS / np.maximum(in_flight, 1.0)
    served = (
        device.dram_bandwidth * DRAM_EFFICIENCY / np.sqrt(1.0 + scarce**2) * w.run_bytes / (w.run_bytes + RUN_BYTES)
    )
    seconds: FloatArray = w.dram_bytes / served
    return seconds


def waited_for_boxes(work: CostCounts, device: Device, round_trip: float = STORE_ROUND_TRIP) -> float:
    """Return how many cycles a block waits for barriers and for free box buffers while it stores one result.

    Args:
        work: Counts of the launch.
        device: The GPU.
        round_trip: Cycles until a TMA store has read its box.
    """
    return float(_waited_for_boxes(CostColumns.of([work]), device, round_trip)[0])


def _waited_for_boxes(w: CostColumns, device: Device, round_trip: float) -> FloatArray:
    barriers = BOX_BARRIERS * (BARRIER + _WARPGROUP)
    written = w.drain_instructions / np.maximum(w.boxed, 1) / device.schedulers_per_sm / w.boxes + barriers
    full = np.maximum(w.boxes / w.box_buffers - 1.0, 0.0)  # number of times that a block waits for a free buffer
    waited: FloatArray = w.boxes * barriers + full * np.maximum(round_trip - (w.box_buffers - 1) * written, 0.0)
    return waited


def _tensor_shares(works: Sequence[CostCounts], device: Device) -> FloatArray:
    """Return the peak rate of each launch's unit as a fraction of the tensor cores' peak rate, for the power limit.

    The fraction is 0 for units other than tensor cores.
    """
    kinds = {(w.unit, w.operand_dtype) for w in works}
    shares = {
        (name, operand): unit(name).flops_per_cycle(device, operand) / device.tensor_rate(operand)
        for name, operand in kinds
        if unit(name).tensor
    }
    return np.array([shares.get((w.unit, w.operand_dtype), 0.0) for w in works], dtype=np.float64)


def _rates(works: Sequence[CostCounts], device: Device) -> FloatArray:
    """Return each launch's flops per SM and per cycle of ``clock_hz``, even if its unit runs at another clock."""
    kinds = {(w.unit, w.operand_dtype) for w in works}
    rates = {
        (name, operand): unit(name).flops_per_cycle(device, operand) * unit(name).clock_hz(device) / device.clock_hz
        for name, operand in kinds
    }
    return np.array([rates[w.unit, w.operand_dtype] for w in works], dtype=np.float64)


def _mix(pipes: FloatArray, warps_per_scheduler: FloatArray) -> FloatArray:
    """Combine the cycles of pipes [p, n]. More warps per scheduler overlap the pipes better."""
    exposed = 1.0 / (1.0 + OVERLAP * warps_per_scheduler)
    mixed: FloatArray = (1.0 - exposed) * pipes.max(axis=0) + exposed * pipes.sum(axis=0)
    return mixed
