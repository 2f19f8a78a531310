"""Estimated times of Triton launches.

The time of a compiled launch is estimated from the work of its emulated blocks and the resources of its cubin. The time
of a launch that is not compiled is estimated from formulas that compute its counts from sizes
(``integrations/config_files/tuning/layer_counts.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autosched.triton.cubin import cubin_resources
from autosched.verify.launch_counting import CountedRun, averaged
from cost_models.launch_time import CompiledResources, LaunchTable, LaunchTimes, launch_times
from search_spaces.hardware.costs.launch_counts import LaunchCounts
from search_spaces.hardware.costs.transactions import SECTOR_BYTES
from search_spaces.hardware.devices import Device
from search_spaces.launches.launch import Launch

_UNKNOWN_REGISTERS = 64  # assumed number of registers per thread, if there is no cubin


def estimated_seconds(launch: Launch, runs: Sequence[CountedRun], cubin: bytes, device: Device) -> float:
    """Estimate the time of a launch from the work of some emulated blocks.

    Args:
        launch: Grid and block.
        runs: Emulations of some blocks of the launch, with counts.
        cubin: Machine code from ptxas, with registers, shared and local memory.
        device: The GPU.

    Returns:
        ESTIMATED seconds; 0 if a run has not ended, infinity if a block does not fit on the device.
    """
    if any(r.emulation.status not in ("ok", "findings") for r in runs):
        return 0.0
    counted = LaunchTable.of(triton_counts(launch, runs), compiled_resources(cubin))
    return float(triton_times(counted, device).seconds[0])


def triton_times(launches: LaunchTable, device: Device) -> LaunchTimes:
    """Estimate the times of launches of Triton code, with a cold L2 cache.

    Warps of Triton code synchronise after each tile, so one warp does not hide the latency of another.
    """
    return launch_times(launches, device, exposed=1.0, cold=True)


def triton_counts(launch: Launch, runs: Sequence[CountedRun]) -> LaunchCounts:
    """Return the average work of a block, with DRAM traffic limited to one pass over each array."""
    counts = averaged(launch, runs, float(sum(operand.bytes for operand in launch.operands)))
    requested_bytes = (
        SECTOR_BYTES * counts.blocks * (counts.unique_sectors + counts.store_sectors + counts.atomic_sectors)
    )
    return replace(counts, dram_bytes=min(counts.dram_bytes, requested_bytes))


def compiled_resources(cubin: bytes) -> CompiledResources:
    """Return a kernel's resources. All shared memory counts as dynamic, and all local memory as spills."""
    resources = cubin_resources(cubin)
    if resources is None:
        return CompiledResources(_UNKNOWN_REGISTERS)
    return CompiledResources(
        resources.registers, 2 * resources.local_bytes
    )  # each spilled byte is assumed to be stored once and loaded once
