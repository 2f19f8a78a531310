"""Find the GPUs of this machine on which kernels can be timed, or the reason why there are none."""

from __future__ import annotations

from dataclasses import dataclass

from autosched.tuning.backends.backend import BackendError
from autosched.tuning.backends.options import Gpus
from measurements.runners.cuda.runner import cuda_available, cuda_count, cuda_device
from search_spaces.hardware.devices import Device, UnknownDevice
from search_spaces.hardware.devices import device as device_row


@dataclass(frozen=True)
class UsableGpus:
    """GPUs to use: ``numbers`` are their CUDA device numbers, and ``device`` is their common model.

    If no GPU is usable, ``why_not`` is one line with the reason.
    """

    numbers: tuple[int, ...] = ()
    device: Device | None = None
    why_not: str = ""


def probe(requested: Gpus | None) -> UsableGpus:
    """Return the GPUs that can measure, and the model of these GPUs.

    Raises BackendError if a requested GPU does not exist, or if the requested GPUs are of different models.
    """
    num_gpus = 1 if requested is None else cuda_count()
    if num_gpus == 0:
        return UsableGpus(why_not=f"no GPU on this machine responds: {cuda_available(0)[1]}")
    used = tuple(range(num_gpus)) if requested is None or requested == "all" else tuple(requested)
    for gpu in used:
        if not 0 <= gpu < num_gpus:
            raise BackendError(f"unknown GPU {gpu}: this machine has {num_gpus}, numbered from 0")
        answers, why = cuda_available(gpu)
        if not answers:
            return UsableGpus(why_not=f"no GPU on this machine responds: {why}")
    try:
        kinds = {gpu: cuda_device(gpu) for gpu in used}
    except ValueError as error:
        return UsableGpus(why_not=str(error))
    first = kinds[used[0]]
    for gpu, kind in kinds.items():
        if kind != first:
            raise BackendError(
                f"GPU {used[0]} ({first.name}, {first.sm_count} SMs) and GPU {gpu} ({kind.name}, {kind.sm_count} SMs) "
                "are different models, whose times are not comparable: name GPUs of one model"
            )
    return UsableGpus(used, first)


def wanted_device(device: str | Device | None, gpu: Device | None) -> Device | None:
    """Return the requested device. Raises UnknownDevice if neither the device table nor this machine has it."""
    if device is None or isinstance(device, Device):
        return device
    if gpu is not None and isinstance(device, str) and device.lower() == gpu.name:
        return gpu  # use the detected device, because its clocks and sizes may differ from those in the device table
    try:
        return device_row(device)
    except UnknownDevice as error:
        here = f" (the GPU of this machine is {gpu.name})" if gpu is not None else ""
        raise UnknownDevice(f"{error}{here}") from error
