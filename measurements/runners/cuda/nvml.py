"""The clock of a busy GPU, read through NVML."""

from __future__ import annotations

import importlib
from collections.abc import Callable


def open_clock(pci_bus_id: str) -> tuple[Callable[[], float | None], str | None]:
    """A reader of the SM clock in MHz, and the driver's version; neither where pynvml is not installed."""
    try:
        pynvml = importlib.import_module("pynvml")
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByPciBusId(pci_bus_id)
        version = pynvml.nvmlSystemGetDriverVersion()
    except Exception:  # pynvml may be missing, and a driver may hide NVML
        return lambda: None, None

    def clock() -> float | None:
        try:
            return float(pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM))
        except pynvml.NVMLError:
            return None

    return clock, version if isinstance(version, str) else version.decode()
