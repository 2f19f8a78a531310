"""The time of Triton launches, all of them: a compiled one from what its blocks executed in the emulator and what its
cubin says of resources, one that nobody has compiled from counts by sizes (``configs/tuning/layer_counts.py``)."""

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

_UNKNOWN_REGISTERS = 64  # of a thread, where there is no cubin


def estimated_seconds(launch: Launch, runs: Sequence[CountedRun], cubin: bytes, device: Device) -> float:
    """Estimate a launch from what some of its blocks executed.

    Args:
        launch: Grid and block.
        runs: Emulated parts of it, counted.
        cubin: What ptxas made of it: registers, shared and local memory.
        device: The GPU.

    Returns:
        ESTIMATED seconds; 0 where a run has not ended, infinity where a block does not fit on the device.
    """
    if any(r.emulation.status not in ("ok", "findings") for r in runs):
        return 0.0
    counted = LaunchTable.of(triton_counts(launch, runs), compiled_resources(cubin))
    return float(triton_times(counted, device).seconds[0])


def triton_times(launches: LaunchTable, device: Device) -> LaunchTimes:
    """Estimate launches of Triton's code, with a cold L2. Its warps meet at a barrier whenever a tile has arrived, so
    that none of them hides what another waits for."""
    return launch_times(launches, device, exposed=1.0, cold=True)


def triton_counts(launch: Launch, runs: Sequence[CountedRun]) -> LaunchCounts:
    """Return what a block does on average. DRAM serves each array once, and no more than what the blocks ask for."""
    counts = averaged(launch, runs, float(sum(operand.bytes for operand in launch.operands)))
    asked = SECTOR_BYTES * counts.blocks * (counts.unique_sectors + counts.store_sectors + counts.atomic_sectors)
    return replace(counts, dram_bytes=min(counts.dram_bytes, asked))


def compiled_resources(cubin: bytes) -> CompiledResources:
    """Triton asks for all of its shared memory at the launch; its only local memory is that of spills."""
    found = cubin_resources(cubin)
    if found is None:
        return CompiledResources(_UNKNOWN_REGISTERS)
    return CompiledResources(found.registers, 2 * found.local_bytes)  # each stored once, and loaded once
