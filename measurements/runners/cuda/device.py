"""Query the GPUs of this machine in a worker process, and find their rows in the table of devices."""

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

from search_spaces.hardware.architectures import UnknownArchitecture, architecture
from search_spaces.hardware.devices import Device, UnknownDevice, all_devices, device_of, devices_of_driver_name
from search_spaces.hardware.products import GpuProduct, has_geforce_rates

WORKER_MODULE = "measurements.runners.cuda.worker"
_INSTALL = "pip install 'autosched[cuda13]'"
_MIB = 2**20
# Two GPUs of the same name count as the same product if their memory sizes differ by less than this fraction. The
# driver reports up to 3% less memory than nvidia-smi; different products with the same name differ by more.
_SAME_MEMORY = 0.05
_SLICED = (80, 90, 100, 103, 120)  # compute capabilities of GPUs that MIG can divide into slices
_INTEGRATED = (87, 110, 121)  # compute capabilities for which every GPU model shares the CPU's memory


def missing_driver() -> str:
    """Return a message if no NVIDIA driver is installed; otherwise ""."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "no NVIDIA driver is installed (libcuda.so.1 was not found)"
    return ""


@cache
def _ask(request: str, gpu: int) -> dict[str, Any] | str:
    """Return a worker's reply to ``request``, or one line with the reason of the failure. The reply is cached."""
    if importlib.util.find_spec("cupy") is None:
        return f"cupy is not installed: {_INSTALL}"
    if why := missing_driver():
        return why
    # late imports, because programs that use the GPU in their own process do not need workers
    from measurements.runners.cuda.requests import Count, Open, to_message
    from measurements.workers.transport import WorkerError
    from measurements.workers.worker import Worker

    with Worker(WORKER_MODULE) as worker:
        try:
            return worker.request(to_message(Count() if request == "count" else Open(gpu)), 60.0)
        except WorkerError as error:
            return f"GPU {gpu} does not respond: {error}"


def _probe(gpu: int) -> dict[str, Any] | str:
    """Return the worker's description of the GPU, or one line with the reason of the failure."""
    return _ask("open", gpu)


def cuda_available(gpu: int = 0) -> tuple[bool, str]:
    """Return True and the name of the GPU, or False and the reason.

    The GPU is queried once per process, in a worker.
    """
    answer = _probe(gpu)
    return (False, answer) if isinstance(answer, str) else (True, f"{answer['name']} answers")


def cuda_count() -> int:
    """Return the number of visible GPUs (CUDA_VISIBLE_DEVICES), without creating a context.

    Returns 0 without a driver or cupy.
    """
    answer = _ask("count", 0)
    return 0 if isinstance(answer, str) else int(answer["gpus"])


def cuda_device(gpu: int = 0) -> Device:
    """Return the device row of the GPU with index ``gpu``; see ``device_row``.

    Raises:
        ValueError: The GPU does not exist, or is older than Turing.
    """
    answer = _probe(gpu)
    if isinstance(answer, str):
        raise ValueError(answer)
    return device_row(str(answer["name"]), answer["attributes"], int(answer["memory_bytes"]))


@dataclass(frozen=True)
class CurrentGpu:
    """A GPU of this process: its CUDA index, its device row, and the versions of the driver and the CUDA runtime.

    The driver's version is "" on systems other than Linux. The runtime's version is CUDA's integer, such as "13000".
    """

    number: int
    device: Device
    driver: str
    cuda: str


def current_gpu(cp: Any) -> CurrentGpu:
    """Return the current GPU, queried in this process through the cupy module ``cp``.

    Raises UnknownDevice as ``device_row`` does, and cupy's errors without a GPU.
    """
    runtime, device = cp.cuda.runtime, cp.cuda.Device()
    properties = runtime.getDeviceProperties(device.id)
    attributes = {str(k): int(v) for k, v in device.attributes.items()}
    attributes |= {f"ComputeCapability{part}": int(properties[part.lower()]) for part in ("Major", "Minor")}
    row = device_row(properties["name"].decode(), attributes, int(properties["totalGlobalMem"]))
    return CurrentGpu(int(device.id), row, _driver_version(), str(int(runtime.runtimeGetVersion())))


def _driver_version() -> str:
    """Return the driver's version from ``/proc``, in the spelling of NVML, without loading NVML."""
    try:
        match = re.search(r"\d+\.[\d.]+", Path("/proc/driver/nvidia/version").read_text("utf-8", "replace"))
    except OSError:
        return ""
    return "" if match is None else match[0]


def device_row(name: str, attributes: Mapping[str, int], memory_bytes: int) -> Device:
    """Return the device row of a GPU, from its name in the driver and its CUDA attributes (``cudaDeviceAttr``).

    Some products share a name, so the number of SMs and the memory must also match. For a GPU without a row, or a slice
    of a GPU (MIG), a *derived* row is returned. A derived row combines limits of the compute capability, rates of
    similar products and values from the driver. Raises UnknownDevice if the compute capability is unknown or older than
    Turing.
    """
    sm = 10 * attributes["ComputeCapabilityMajor"] + attributes["ComputeCapabilityMinor"]
    sm_count = attributes["MultiProcessorCount"]
    rows = devices_of_driver_name(name.partition(" MIG ")[0])
    for row in rows:
        if row.sm_count == sm_count and abs(memory_bytes / row.memory_bytes - 1) < _SAME_MEMORY:
            return row
    for row in rows:
        if row.sm in _SLICED and row.sm_count >= sm_count and row.memory_bytes >= memory_bytes:
            return _slice(row, sm_count, attributes["L2CacheSize"], memory_bytes)
    return _derived(name, sm, attributes, memory_bytes)


def _slice(row: Device, sm_count: int, l2_bytes: int, memory_bytes: int) -> Device:
    """Return the device table's row for a slice of a GPU.

    Rates per SM are those of the GPU. Bandwidths are proportional to the slice's size.
    """
    return dataclasses.replace(
        row,
        sm_count=sm_count,
        l2_bytes=l2_bytes,
        memory_bytes=memory_bytes,
        dram_bandwidth=row.dram_bandwidth * min(1.0, memory_bytes / row.memory_bytes),
        l2_bandwidth=row.l2_bandwidth * max(sm_count / row.sm_count, memory_bytes / row.memory_bytes),
        derived=True,
    )


def _derived(name: str, sm: int, attributes: Mapping[str, int], memory_bytes: int) -> Device:
    """Return a row derived from similar GPUs, for a product that has no row."""
    try:
        its = architecture(sm)
    except UnknownArchitecture as error:
        raise UnknownDevice(f"{name}: {error}") from error
    geforce = has_geforce_rates(name)
    sm_count = attributes["MultiProcessorCount"]
    likely = (
        row for row in all_devices() if row.sm == its.sm and has_geforce_rates(" ".join(row.driver_names)) == geforce
    )
    near = min(likely, key=lambda row: abs(row.sm_count - sm_count), default=None)
    near = near or min((row for row in all_devices() if row.sm == its.sm), key=lambda row: abs(row.sm_count - sm_count))
    integrated = bool(attributes.get("Integrated", 0)) or its.sm in _INTEGRATED
    clock = near.clock_hz if integrated else attributes.get("ClockRate", 0) * 1e3 or near.clock_hz
    # The computed bandwidth assumes two transfers per clock. It is not used if the GPU shares its memory with the CPU,
    # because the driver then reports the memory clock differently or not at all.
    reported_bandwidth = 2e3 * attributes.get("MemoryClockRate", 0) * attributes.get("GlobalMemoryBusWidth", 0) / 8
    bandwidth = near.dram_bandwidth if integrated else reported_bandwidth or near.dram_bandwidth
    guessed = [
        quantity
        for quantity, known in (("clock", clock != near.clock_hz), ("bandwidth", reported_bandwidth))
        if not known
    ]
    product = GpuProduct(
        "_".join(name.lower().removeprefix("nvidia ").split()),
        sm,
        sm_count,
        clock / 1e6,
        attributes["L2CacheSize"] / _MIB,
        memory_bytes / _MIB,
        bandwidth / 1e9,
        (name,),
        geforce=geforce,
        tensor_mhz=near.tensor_clock_hz / near.clock_hz * clock / 1e6,
        l2_gb_s=max(near.l2_bandwidth * sm_count * clock / (near.sm_count * near.clock_hz), 1.5 * bandwidth) / 1e9,
        unconfirmed=", ".join(("rates", *guessed)),
    )
    return dataclasses.replace(
        device_of(product, derived=True),
        shared_per_block=attributes["MaxSharedMemoryPerBlockOptin"],
        shared_per_sm=attributes["MaxSharedMemoryPerMultiprocessor"],
        reserved_shared_per_block=attributes.get("ReservedSharedMemoryPerBlock", its.reserved_shared),
        max_threads_per_sm=attributes["MaxThreadsPerMultiProcessor"],
        max_blocks_per_sm=attributes["MaxBlocksPerMultiprocessor"],
        registers_per_sm=attributes["MaxRegistersPerMultiprocessor"],
        memory_bytes=memory_bytes,
    )
