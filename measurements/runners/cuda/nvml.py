"""Read the state of a busy GPU through NVML: clock, reasons for a lower clock, energy and power."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass

# Bits of nvmlDeviceGetCurrentClocksEventReasons that invalidate a time. The power limit (0x4) is not included, because
# running into it is a property of the kernel on this GPU.
SLOWDOWNS = {
    0x08: "a hardware slowdown",
    0x20: "heat",
    0x40: "heat (hardware)",
    0x80: "a power brake",
}


@dataclass(frozen=True)
class GpuState:
    """Functions that read a GPU's state.

    ``clock`` reads the SM clock in MHz, None if unknown. ``slowdowns`` reads the reasons for a lower clock (values of
    SLOWDOWNS), except those that the kernel itself causes. ``joules`` reads the energy used since the driver was
    loaded, and ``watts`` the current power; None if unavailable.
    """

    clock: Callable[[], float | None] = lambda: None
    slowdowns: Callable[[], tuple[str, ...]] = lambda: ()
    joules: Callable[[], float | None] = lambda: None
    watts: Callable[[], float | None] = lambda: None


def open_state(pci_bus_id: str) -> tuple[GpuState, str | None]:
    """Return the state of a GPU and its driver's version. Without NVML, the state is empty and the version None."""
    try:
        pynvml = importlib.import_module("pynvml")
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByPciBusId(pci_bus_id)
        version = pynvml.nvmlSystemGetDriverVersion()
    except Exception:  # pynvml may be missing, and a driver may hide NVML
        return GpuState(), None
    # Old drivers and old versions of pynvml have this function only under its older name.
    events = getattr(pynvml, "nvmlDeviceGetCurrentClocksEventReasons", None)
    reasons = events or getattr(pynvml, "nvmlDeviceGetCurrentClocksThrottleReasons", None)

    def clock() -> float | None:
        try:
            return float(pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM))
        except pynvml.NVMLError:
            return None

    def slowdowns() -> tuple[str, ...]:
        try:
            bits = int(reasons(handle)) if reasons is not None else 0
        except pynvml.NVMLError:
            return ()
        return tuple(text for bit, text in SLOWDOWNS.items() if bits & bit)

    def joules() -> float | None:
        try:
            return float(pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)) * 1e-3
        except (pynvml.NVMLError, AttributeError):  # not supported by GPUs before Volta and by old versions of pynvml
            return None

    def watts() -> float | None:
        try:
            return float(pynvml.nvmlDeviceGetPowerUsage(handle)) * 1e-3
        except (pynvml.NVMLError, AttributeError):
            return None

    return GpuState(clock, slowdowns, joules, watts), version if isinstance(version, str) else version.decode()
