"""The results of tuning, for programs: the best record of a problem, and its kernel."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from measurements.measurement import Provenance
from measurements.record import Record
from measurements.store import Store
from search_spaces.catalogue import template
from search_spaces.hardware.devices import Device, UnknownDevice
from search_spaces.hardware.devices import device as device_row
from search_spaces.operators.problem import Problem
from search_spaces.templates.kernel import Kernel

if TYPE_CHECKING:
    from autosched.runtime import LoadedKernel


class NoSchedule(LookupError):
    """The database has nothing for this problem on this device. The message is one sentence that says what to do."""


class StaleSchedule(UserWarning):
    """The best schedule was timed with another version of the kernel's code."""


class Database:
    """What has been tuned into a database (a path or SQLAlchemy URL), for reading. It must exist.

    Raises StoreError, a ValueError, as ``Store.open`` does.
    """

    def __init__(self, path: str | Path) -> None:
        self._store = Store.open(path, create=False)

    def best(
        self, problem: Problem, device: str | Device | None = None, provenance: Provenance | str | None = None
    ) -> Record | None:
        """The best record of exactly this problem and device, as ``Store.best`` ranks them; None if there is none.

        Without ``device``: the GPU of this machine where one answers, else the only device that has times of the
        problem. Raises NoSchedule where there are several, because times of different devices are not compared, and
        ValueError for an invalid problem, device or provenance.
        """
        Problem.check(problem)
        kind = None if provenance is None else _provenance(provenance)
        name = _gpu() or self._only_device(problem) if device is None else device_name(self._store, device)
        return None if name is None else self._store.best(problem, name, kind)

    def kernel(self, problem: Problem) -> LoadedKernel:
        """The best schedule for the GPU of this machine, compiled and loaded: ``out = kernel(a, b)``.

        Warns StaleSchedule where the kernel's code has changed since it was timed. Raises NoSchedule where nothing was
        tuned for this problem on this GPU, or its best schedule can no longer be used, and RuntimeUnavailable where
        kernels cannot be compiled or called.
        """
        from autosched.runtime import LoadedKernel, RuntimeUnavailable
        from measurements.compile import CompileFailure, CompilePool, NvrtcMissing
        from measurements.runners.cuda import cuda_available, cuda_device

        Problem.check(problem)
        answers, why = cuda_available()
        if not answers:
            raise RuntimeUnavailable(f"kernels need a GPU, and none can be used: {why}")
        gpu = cuda_device()
        record = self._store.best(problem, gpu.name)
        if record is None:
            others = self._store.devices(problem)
            there = f"only for {', '.join(others)}" if others else "for no device"
            raise NoSchedule(f"{self._store.name} has this problem {there}: tune it on {gpu.name} first")
        kernel = current_kernel(problem, record, gpu)
        try:
            with CompilePool(workers=1) as pool:
                compiled = pool.compile(kernel, gpu.arch)
        except NvrtcMissing as error:
            raise RuntimeUnavailable(str(error)) from error
        if isinstance(compiled, CompileFailure):
            raise NoSchedule(f"the best schedule no longer compiles ({compiled.reason}): tune the problem again")
        return LoadedKernel(kernel, compiled, record)

    def _only_device(self, problem: Problem) -> str | None:
        devices = self._store.devices(problem)
        if len(devices) > 1:
            raise NoSchedule(f"{self._store.name} has this problem for {', '.join(devices)}: name one of them")
        return devices[0] if devices else None


def current_kernel(problem: Problem, record: Record, device: Device) -> Kernel:
    """The kernel of a record as the current code generates it. Warns StaleSchedule, raises NoSchedule."""
    try:
        kernel = template(record.schedule.template).kernel(problem, record.schedule, device)
    except ValueError as error:
        raise NoSchedule(f"the best schedule is of an older version ({error}): tune the problem again") from error
    if kernel.digest != record.kernel_digest:
        warnings.warn(
            f"the schedule was timed by autosched {record.autosched_version}, whose kernel code was different: its "
            "time may no longer be right, tune the problem again",
            StaleSchedule,
            stacklevel=3,
        )
    return kernel


def device_name(store: Store, device: str | Device) -> str:
    """The name of a device as in the records of ``store``.

    Raises UnknownDevice for one that is neither a row nor in the store: that is a mistake, not an empty answer.
    """
    if isinstance(device, Device):
        return device.name
    stored = sorted({summary.device for summary in store.problems()})
    if device in stored:
        return device
    try:
        return device_row(device).name
    except UnknownDevice as error:
        here = f"; {store.name} holds {', '.join(stored)}" if stored else ""
        raise UnknownDevice(f"{error}{here}") from error


def _provenance(name: str) -> Provenance:
    try:
        return Provenance(name)
    except ValueError:
        raise ValueError(f"unknown provenance {name!r}: use one of {', '.join(Provenance)}") from None


def _gpu() -> str | None:
    """The name of the GPU of this machine, None where none can be used."""
    from measurements.runners.cuda import cuda_available, cuda_device

    if not cuda_available()[0]:
        return None
    try:
        return cuda_device().name
    except ValueError:
        return None
