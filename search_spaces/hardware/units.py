"""Arithmetic units and their rates per SM. A new kind of instruction is one more row."""

from collections.abc import Callable
from dataclasses import dataclass

from search_spaces.hardware.devices import Device

# 32-bit integer operations per cycle and SM: 64 multiply-adds of two operations each (CUDA C++ Programming Guide, table
# "Throughput of Native Arithmetic Instructions", sm_75 to sm_90). The same is assumed for later architectures.
IMAD_PER_CYCLE = 128.0


@dataclass(frozen=True)
class Unit:
    """An arithmetic unit.

    Attributes:
        doc: Subject and verb in the description of a cost-model feature, "1 if {doc} the arithmetic".
        tensor: True if the unit runs on tensor cores, False for CUDA cores. A unit on tensor cores has the clock of the
            tensor cores. Its rate is ``share(device)`` times the dense rate of the tensor cores
            (``Device.tensor_rate``), for the type to which operands are converted (``as_type``).
        opaque: True if the ISA does not specify which lane holds which element.
        asynchronous: True if warps continue while the unit multiplies.
    """

    name: str
    doc: str
    tensor: bool
    share: Callable[[Device], float] = lambda device: 1.0
    as_type: Callable[[Device, str], str] = lambda device, operand: operand
    opaque: bool = False
    asynchronous: bool = False

    def flops_per_cycle(self, device: Device, operand: str) -> float:
        """Return flops per cycle and SM for operands of type ``operand``, accumulating in f32.

        Raises:
            ValueError: The tensor cores of ``device`` do not multiply this type.
        """
        if not self.tensor:
            return min(device.fma_flops_per_cycle, IMAD_PER_CYCLE) if operand == "i8" else device.fma_flops_per_cycle
        return device.tensor_rate(self.as_type(device, operand)) * self.share(device)

    def clock_hz(self, device: Device) -> float:
        """Return the clock of the unit in Hz."""
        return device.tensor_clock_hz if self.tensor else device.clock_hz


# On an H100, a published wmma matmul reaches at most 0.21x the speed of cuBLAS, and mma.sync reaches 0.65x to 0.8x
# (repository blackwell-tensorcore-kernels). wmma is slower because of loads and stores of fragments with opaque
# layouts. With this rate, the model estimates about 0.21x for a well tuned wmma kernel.
WMMA_FRACTION = 0.4  # rate of wmma, as a fraction of the rate of mma.sync


def _mma_sync_type(device: Device, operand: str) -> str:
    """Return the type that the hardware multiplies if mma.sync has operands of type ``operand``.

    For 9.0, 10.x and 11.0, NVRTC 13.5 compiles mma.sync of 8-bit floats to conversions to f16 (F2FP.F16.E4M3.UNPACK)
    and two HMMA.16816. For 8.9 and 12.x, it compiles them to QMMA.16832. It always compiles mma.sync of i8 to
    IMMA.16832.
    """
    converted = device.has("fp8_mma") and not device.has("native_fp8_mma")
    return "f16" if operand in ("e4m3", "e5m2") and converted else operand


UNITS: dict[str, Unit] = {
    row.name: row
    for row in (
        Unit("fma", "CUDA cores do", tensor=False),
        Unit("wmma", "wmma does", True, lambda device: device.mma_sync_fraction * WMMA_FRACTION, opaque=True),
        Unit("mma", "mma.sync does", True, lambda device: device.mma_sync_fraction, _mma_sync_type),
        Unit("wgmma", "wgmma does", True, asynchronous=True),
        Unit("tcgen05", "tcgen05 does", True, asynchronous=True),
    )
}


def unit(name: str) -> Unit:
    """Return the row with this name. Raises ValueError, which lists the known names."""
    if name not in UNITS:
        raise ValueError(f"unknown unit {name!r}: use one of {', '.join(UNITS)}")
    return UNITS[name]
