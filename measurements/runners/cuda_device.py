"""Which GPU this machine has, asked in a worker process, and the device row that describes it."""

from __future__ import annotations

import ctypes
import dataclasses
import importlib.util
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from search_spaces.hardware.devices import DEVICES, Device, UnknownDevice, device_of_driver_name

WORKER_MODULE = "measurements.runners.cuda_worker"
_INSTALL = "pip install 'autosched[cuda13]'"


@cache
def _ask(request: str, gpu: int) -> dict[str, Any] | str:
    """What a worker answers to ``request``, asked once per process; or one line on why none does."""
    if importlib.util.find_spec("cupy") is None:
        return f"cupy is not installed: {_INSTALL}"
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "no NVIDIA driver is installed (libcuda.so.1 was not found)"
    from measurements.transport import WorkerError
    from measurements.worker import Worker  # which a program that uses the GPU itself does without

    with Worker(WORKER_MODULE) as worker:
        try:
            return worker.request({"op": request, "gpu": gpu, "checks": None}, 60.0)
        except WorkerError as error:
            return f"GPU {gpu} does not answer: {error}"


def _probe(gpu: int) -> dict[str, Any] | str:
    """What the worker says about the GPU, or one line on why there is none."""
    return _ask("open", gpu)


def cuda_available(gpu: int = 0) -> tuple[bool, str]:
    """Whether a GPU answers, and one line that says which, or why not. Asked once per process, in a worker."""
    found = _probe(gpu)
    return (False, found) if isinstance(found, str) else (True, f"{found['name']} answers")


def cuda_count() -> int:
    """How many GPUs a process of this machine sees, as CUDA numbers them: CUDA_VISIBLE_DEVICES can hide some.

    None of them is touched. 0 where there is no driver or no cupy.
    """
    found = _ask("count", 0)
    return 0 if isinstance(found, str) else int(found["gpus"])


def cuda_device(gpu: int = 0) -> Device:
    """The GPU with that index as a device row. Raises ValueError where none answers or no row is similar enough.

    A product that has no row gets the rates per SM and cycle of a row with the same compute capability, and its own
    name, counts, clocks and sizes.
    """
    found = _probe(gpu)
    if isinstance(found, str):
        raise ValueError(found)
    return device_row(str(found["name"]), found["attributes"], int(found["memory_bytes"]))


@dataclass(frozen=True)
class GpuHere:
    """A GPU of this process: ``number`` as CUDA counts them, its row, the driver's version ("" where it is not told,
    which is only on Linux) and that of the CUDA runtime, as CUDA numbers it."""

    number: int
    device: Device
    driver: str
    cuda: str


def gpu_here(cp: Any) -> GpuHere:
    """The current GPU, asked in this process through ``cp``, which is cupy: for programs that use the GPU themselves.

    Raises UnknownDevice as ``device_row`` does, and cupy's errors where no GPU answers.
    """
    runtime, device = cp.cuda.runtime, cp.cuda.Device()
    properties = runtime.getDeviceProperties(device.id)
    attributes = {str(k): int(v) for k, v in device.attributes.items()}
    attributes |= {f"ComputeCapability{part}": int(properties[part.lower()]) for part in ("Major", "Minor")}
    row = device_row(properties["name"].decode(), attributes, int(properties["totalGlobalMem"]))
    return GpuHere(int(device.id), row, _driver_version(), str(int(runtime.runtimeGetVersion())))


def _driver_version() -> str:
    """As NVML tells it, without loading NVML: the first version number of the driver's own file."""
    try:
        found = re.search(r"\d+\.[\d.]+", Path("/proc/driver/nvidia/version").read_text("utf-8", "replace"))
    except OSError:
        return ""
    return "" if found is None else found[0]


def device_row(name: str, attributes: Mapping[str, int], memory_bytes: int) -> Device:
    """The row of the GPU that the driver calls ``name``, with CUDA device attributes named as in ``cudaDeviceAttr``.

    Raises UnknownDevice where no row has its compute capability.
    """
    sm = 10 * attributes["ComputeCapabilityMajor"] + attributes["ComputeCapabilityMinor"]
    sm_count, l2_bytes = attributes["MultiProcessorCount"], attributes["L2CacheSize"]
    try:
        row = device_of_driver_name(name)
        # A slice of a GPU (MIG) bears its name, but not its size.
        if row.sm_count == sm_count:
            return row
        return dataclasses.replace(row, sm_count=sm_count, l2_bytes=l2_bytes, memory_bytes=memory_bytes)
    except UnknownDevice:
        pass
    siblings = [row for row in DEVICES if row.sm == sm]
    if not siblings:
        known = ", ".join(str(s) for s in sorted({row.sm for row in DEVICES}))
        raise UnknownDevice(f"{name} has compute capability {sm}, which no device row has: known are {known}")
    near = min(siblings, key=lambda row: abs(row.sm_count - sm_count))
    clock = attributes.get("ClockRate", 0) * 1e3 or near.clock_hz
    transfers = 2.0 * attributes.get("MemoryClockRate", 0) * 1e3  # two per clock
    bandwidth = transfers * attributes.get("GlobalMemoryBusWidth", 0) / 8 or near.dram_bandwidth
    rate = sm_count * clock / (near.sm_count * near.clock_hz)
    return dataclasses.replace(
        near,
        name="_".join(name.lower().removeprefix("nvidia ").split()),
        driver_names=(name,),
        clock_hz=clock,
        tensor_clock_hz=near.tensor_clock_hz / near.clock_hz * clock,
        dram_bandwidth=bandwidth,
        l2_bandwidth=max(near.l2_bandwidth * rate, 1.5 * bandwidth),
        shared_per_block=attributes["MaxSharedMemoryPerBlockOptin"],
        shared_per_sm=attributes["MaxSharedMemoryPerMultiprocessor"],
        max_threads_per_sm=attributes["MaxThreadsPerMultiProcessor"],
        max_blocks_per_sm=attributes["MaxBlocksPerMultiprocessor"],
        registers_per_sm=attributes["MaxRegistersPerMultiprocessor"],
        sm_count=sm_count,
        l2_bytes=l2_bytes,
        memory_bytes=memory_bytes,
    )
