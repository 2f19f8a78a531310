"""GPUs as data rows: what a schedule must fit into, and the rates that cost models need. No GPU is queried.

A new GPU is one more row in ``DEVICES``. Sources of the rows: the limits of each compute capability are in the CUDA C++
Programming Guide, table "Technical Specifications per Compute Capability"; counts, clocks and bandwidths are in the
architecture white paper or the data sheet of the product, named at each row.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Self, overload

import numpy as np

from search_spaces.arrays import IntArray

_SHARED_ALLOCATION_UNIT = 128  # bytes, sm_80 and later
_SMS_OF_TPC, _SMS_OF_GPC = 2, 16  # of Hopper; some GPCs have 18 (H100 white paper, and products with 132 SMs)


class UnknownDevice(ValueError):
    """No row has that name. The message is one line that lists the names."""


@dataclass(frozen=True)
class Device:
    """One GPU. Bytes, hertz, bytes per second, and floating point operations per cycle of one SM (an FMA is two).

    ``tensor_flops_per_cycle`` holds, per operand type, the dense rate of the widest instruction with f32 accumulation
    (wgmma on sm_90, mma.sync elsewhere), and as "f16_f16" that of f16 added up in f16 where it is another one;
    ``mma_sync_fraction`` is the part of it that mma.sync reaches. Tensor peaks of
    data sheets are at ``tensor_clock_hz``, all others at ``clock_hz``. ``memory_bytes`` is the total that the driver
    reports; programs can use a little less. ``driver_names`` are the names under which the driver reports exactly
    this product.
    """

    name: str
    sm: int
    arch: str
    sm_count: int
    shared_per_block: int  # with opt-in
    shared_per_sm: int
    max_threads_per_sm: int
    max_blocks_per_sm: int
    l2_bytes: int
    memory_bytes: int
    dram_bandwidth: float
    clock_hz: float
    tensor_clock_hz: float
    tensor_flops_per_cycle: tuple[tuple[str, float], ...]
    mma_sync_fraction: float
    fma_flops_per_cycle: float
    l2_bandwidth: float
    driver_names: tuple[str, ...] = ()
    reserved_shared_per_block: int = 1024
    registers_per_sm: int = 65536
    registers_per_block: int = 65536
    max_registers_per_thread: int = 255
    register_allocation_unit: int = 256  # registers, per warp
    max_threads_per_block: int = 1024
    warp_size: int = 32
    schedulers_per_sm: int = 4  # each with its share of the registers
    shared_bytes_per_cycle: int = 128
    banks: int = 32
    bank_bytes: int = 4

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, (int, float)) and not 0 < value < float("inf"):
                raise ValueError(f"device {self.name!r}: {field.name} is {value}, but must be positive and finite")
        warp, unit = self.warp_size, _SHARED_ALLOCATION_UNIT
        shared_sizes = (self.shared_per_block, self.shared_per_sm, self.reserved_shared_per_block)
        rates = self.tensor_flops_per_cycle
        requirements = (
            (
                self.arch in (f"sm_{self.sm}", f"sm_{self.sm}a"),
                f"arch {self.arch!r} must be sm_{self.sm} or sm_{self.sm}a",
            ),
            (self.name == self.name.lower(), "name must be lower case"),
            (
                self.shared_per_block + self.reserved_shared_per_block <= self.shared_per_sm,
                "shared_per_block plus reserved_shared_per_block must fit into shared_per_sm",
            ),
            (all(size % unit == 0 for size in shared_sizes), f"shared sizes must be multiples of {unit} bytes"),
            (
                self.registers_per_block <= self.registers_per_sm,
                "registers_per_block must not exceed registers_per_sm",
            ),
            (
                self.registers_per_sm % (self.schedulers_per_sm * self.register_allocation_unit) == 0,
                "each scheduler's share of registers_per_sm must be a multiple of register_allocation_unit",
            ),
            (
                self.max_threads_per_block % warp == 0 and self.max_threads_per_sm % warp == 0,
                "thread limits must be multiples of warp_size",
            ),
            (
                self.max_threads_per_block <= self.max_threads_per_sm,
                "max_threads_per_block must not exceed max_threads_per_sm",
            ),
            (
                self.shared_bytes_per_cycle == self.banks * self.bank_bytes,
                "shared_bytes_per_cycle must be banks times bank_bytes",
            ),
            (self.mma_sync_fraction <= 1.0, "mma_sync_fraction must be at most 1"),
            (self.tensor_clock_hz <= self.clock_hz, "tensor_clock_hz must not exceed clock_hz"),
            (self.l2_bandwidth > self.dram_bandwidth, "l2_bandwidth must exceed dram_bandwidth"),
            (all(rate > 0 for _, rate in rates), "tensor rates must be positive"),
            (len(dict(rates)) == len(rates), "each type of tensor_flops_per_cycle must be named once"),
        )
        for met, requirement in requirements:
            if not met:
                raise ValueError(f"device {self.name!r}: {requirement}")

    @property
    def max_warps_per_sm(self) -> int:
        return self.max_threads_per_sm // self.warp_size

    def sms_of_clusters(self, cluster: int) -> int:
        """SMs that clusters of so many blocks fill, of 1, 2 or a multiple of 2: two blocks share a TPC; more find room
        in a GPC, of which the last SMs stay empty where ``cluster`` does not divide them. Which GPCs of a chip have
        more SMs than the fewest only its driver knows, which is asked where a kernel is loaded; here none has."""
        if cluster <= _SMS_OF_TPC:
            return self.sm_count // cluster * cluster
        return max(cluster, self.sm_count // _SMS_OF_GPC * (_SMS_OF_GPC // cluster * cluster))

    def tensor_rate(self, operand_dtype: str) -> float:
        """Dense tensor flops per cycle per SM for operands of a type, such as "f16", "tf32" or "e4m3"; of i8 integer
        operations; of "f16_f16" those added up in f16. Raises ValueError for a type that the tensor cores do not
        multiply."""
        rates = dict(self.tensor_flops_per_cycle)
        for name in (operand_dtype, operand_dtype.partition("_")[0]):  # the sums' type matters where a row names it
            if name in rates:
                return rates[name]
        known = ", ".join(name for name, _ in self.tensor_flops_per_cycle)
        raise ValueError(f"device {self.name} has no tensor rate for {operand_dtype!r}: use one of {known}")

    def tensor_peak(self, operand_dtype: str) -> float:
        """Dense tensor flop/s of the whole device, as its data sheet counts them. Raises ValueError."""
        return self.sm_count * self.tensor_rate(operand_dtype) * self.tensor_clock_hz

    @property
    def fma_peak(self) -> float:
        """f32 flop/s of the CUDA cores of the whole device."""
        return self.sm_count * self.fma_flops_per_cycle * self.clock_hz

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The device whose ``to_json()`` was ``data``. Raises ValueError for unknown or missing fields."""
        known = {f.name for f in dataclasses.fields(cls)}
        required = {f.name for f in dataclasses.fields(cls) if f.default is dataclasses.MISSING}
        wrong = sorted((set(data) - known) | (required - set(data)))
        if wrong:
            raise ValueError(f"a device row has unknown or missing fields: {', '.join(wrong)}")
        rates = tuple((str(name), float(rate)) for name, rate in data["tensor_flops_per_cycle"])
        names = tuple(str(name) for name in data.get("driver_names", ()))
        return cls(**{**data, "tensor_flops_per_cycle": rates, "driver_names": names})


# memory_bytes is what nvidia-smi lists, in MiB, with the product's default ECC setting. The GB of data sheets are GiB
# (an H200 of "141 GB" has 143771 MiB, which is 150.8e9 bytes), of which firmware reserves a little; ECC of GDDR6 (A10,
# L4, L40S) takes another sixteenth.
_MIB = 2**20

# l2_bandwidth is an estimate of what reads from L2 sustain: the vendor gives no figure. A100: 4.2 TB/s (Nsight, 40 GB
# model) to 5.6 TB/s (A800) in the RRZE gpu-benches issues 13 and 7; 5.5 TB/s, 36 bytes per cycle and SM, suits recorded
# matmuls best (AutoHeuristic, a100_mm). H100 SXM: at least 12.1 TB/s, which the Triton matmul of 1152x2048x10112 with
# tiles of 64x128 moves (AutoHeuristic, h100_mm, 98 us); those recordings show no limit but the port of an SM, 64 bytes
# per cycle, and the same is assumed for the PCIe card. The smaller chips have half as wide a path to
# each SM as A100 was thought to have: 16 bytes per cycle and SM.


def _tensor(flops: float, i8: float, fp8: float = 0.0, halves: float = 0.0) -> tuple[tuple[str, float], ...]:
    """Dense tensor flops per cycle of an SM, of 16-bit types, i8 and 8-bit floats: tf32 has half the rate of the first.
    The rates of 8-bit types, and of f16 added up in f16 (``halves``), are the peaks that the sources of the rows name,
    over SMs and clock."""
    eight_bits = (("e4m3", fp8), ("e5m2", fp8)) if fp8 else ()
    in_f16 = (("f16_f16", halves),) if halves else ()
    return ("f16", flops), ("bf16", flops), ("tf32", flops / 2), ("i8", i8), *eight_bits, *in_f16


def _architecture(sm: int, shared_per_sm: int, threads: int, blocks: int, **rates: Any) -> Callable[..., Device]:
    """What all products of one compute capability share."""
    return partial(
        Device,
        sm=sm,
        arch=f"sm_{sm}a" if sm >= 90 else f"sm_{sm}",
        shared_per_block=shared_per_sm - 1024,  # the driver keeps 1 KiB of each block
        shared_per_sm=shared_per_sm,
        max_threads_per_sm=threads,
        max_blocks_per_sm=blocks,
        **rates,
    )


# Hopper: mma.sync reaches on average 62.9% of the peak that wgmma reaches (arXiv 2402.13499, tensor core section), and
# published mma.sync matmuls stop at about 65% (arXiv 2501.12084). sm_80 to sm_89 have no wider instruction. GeForce
# products accumulate in f32 at half the rate of their chip, in f16 and, of i8, in i32 at all of it; the others have one
# rate for f32 and f16 (A100 and H100 white papers, tables of peaks).
_hopper = _architecture(
    90,
    233472,
    2048,
    32,
    tensor_flops_per_cycle=_tensor(4096, 8192, 8192),
    mma_sync_fraction=0.63,
    fma_flops_per_cycle=256.0,
)
_ampere = _architecture(
    80, 167936, 2048, 32, tensor_flops_per_cycle=_tensor(2048, 4096), mma_sync_fraction=1.0, fma_flops_per_cycle=128.0
)
_ga102 = _architecture(86, 102400, 1536, 16, mma_sync_fraction=1.0, fma_flops_per_cycle=256.0)
_ada = _architecture(89, 102400, 1536, 24, mma_sync_fraction=1.0, fma_flops_per_cycle=256.0)

DEVICES: tuple[Device, ...] = (
    # NVIDIA H200 data sheet (SXM): 141 GB, 4.8 TB/s, 989 TFLOP/s f16 dense, 1979 of fp8 and i8, 67 TFLOP/s f32; H100
    # white paper for the SM and the clocks (1980 MHz, tensor peaks at 1830 MHz). The full 60 MB of L2 are enabled.
    _hopper(
        name="h200", sm_count=132, l2_bytes=60 * _MIB, memory_bytes=143771 * _MIB,
        dram_bandwidth=4.8e12, l2_bandwidth=16.5e12, clock_hz=1.98e9, tensor_clock_hz=1.83e9,
        driver_names=("NVIDIA H200",),
    ),
    # H100 white paper (SXM5, 80 GB): 132 SMs, 50 MB of L2, 3.35 TB/s, 989.4 TFLOP/s f16 dense, 1978.9
    # of fp8 and i8, 66.9 TFLOP/s f32.
    _hopper(
        name="h100", sm_count=132, l2_bytes=50 * _MIB, memory_bytes=81559 * _MIB,
        dram_bandwidth=3.35e12, l2_bandwidth=16.5e12, clock_hz=1.98e9, tensor_clock_hz=1.83e9,
        driver_names=("NVIDIA H100 80GB HBM3",),
    ),
    # H100 white paper (PCIe, 80 GB): 114 SMs, 1755 MHz (tensor peaks at 1620 MHz), 2.04 TB/s, 756 TFLOP/s f16
    # dense, 1513 of fp8 and i8.
    _hopper(
        name="h100_pcie", sm_count=114, l2_bytes=50 * _MIB, memory_bytes=81559 * _MIB,
        dram_bandwidth=2.039e12, l2_bandwidth=12.7e12, clock_hz=1.755e9, tensor_clock_hz=1.62e9,
        driver_names=("NVIDIA H100 PCIe",),
    ),
    # A100 80GB data sheet (SXM4): 2039 GB/s, 312 TFLOP/s f16, 624 TOP/s i8, 19.5 TFLOP/s f32; A100 white paper: 108 SMs
    # of 64 f32 lanes, 1410 MHz, 40 MB of L2.
    _ampere(
        name="a100", sm_count=108, l2_bytes=40 * _MIB, memory_bytes=81920 * _MIB,
        dram_bandwidth=2.039e12, l2_bandwidth=5.5e12, clock_hz=1.41e9, tensor_clock_hz=1.41e9,
        driver_names=("NVIDIA A100-SXM4-80GB",),
    ),
    # A10 data sheet: 24 GB, 600 GB/s, 125 TFLOP/s f16 dense, 250 TOP/s i8, 31.2 TFLOP/s f32; GA102 white
    # paper: 6 MB of L2, 72 SMs.
    _ga102(
        name="a10", sm_count=72, l2_bytes=6 * _MIB, memory_bytes=23028 * _MIB,
        dram_bandwidth=0.6e12, l2_bandwidth=1.95e12, clock_hz=1.695e9, tensor_clock_hz=1.695e9,
        tensor_flops_per_cycle=_tensor(1024, 2048), driver_names=("NVIDIA A10",),
    ),
    # GA102 white paper: 24 GB, 82 SMs, 1695 MHz, 936 GB/s, 71 TFLOP/s f16 with f32 accumulation, 142 with f16, 284
    # TOP/s i8, 35.6 TFLOP/s f32.
    _ga102(
        name="rtx3090", sm_count=82, l2_bytes=6 * _MIB, memory_bytes=24576 * _MIB,
        dram_bandwidth=0.9362e12, l2_bandwidth=2.2e12, clock_hz=1.695e9, tensor_clock_hz=1.695e9,
        tensor_flops_per_cycle=_tensor(512, 2048, halves=1024), driver_names=("NVIDIA GeForce RTX 3090",),
    ),
    # Ada white paper: 24 GB, 128 SMs, 2520 MHz, 72 MB of L2, 1008 GB/s, 165.2 TFLOP/s f16 with f32 accumulation,
    # 330.3 with f16 and of fp8 with f32 accumulation, 660.6 TOP/s i8, 82.6 TFLOP/s f32.
    _ada(
        name="rtx4090", sm_count=128, l2_bytes=72 * _MIB, memory_bytes=24564 * _MIB,
        dram_bandwidth=1.008e12, l2_bandwidth=5.1e12, clock_hz=2.52e9, tensor_clock_hz=2.52e9,
        tensor_flops_per_cycle=_tensor(512, 2048, 1024, 1024), driver_names=("NVIDIA GeForce RTX 4090",),
    ),
    # L4 data sheet: 24 GB, 300 GB/s, 121 TFLOP/s f16 dense (242 sparse), 242 of fp8 and i8 dense, 30.3 TFLOP/s f32;
    # AD104: 58 SMs, 48 MB of L2.
    _ada(
        name="l4", sm_count=58, l2_bytes=48 * _MIB, memory_bytes=23034 * _MIB,
        dram_bandwidth=0.3e12, l2_bandwidth=1.9e12, clock_hz=2.04e9, tensor_clock_hz=2.04e9,
        tensor_flops_per_cycle=_tensor(1024, 2048, 2048), driver_names=("NVIDIA L4",),
    ),
    # L40S data sheet: 48 GB, 864 GB/s, 362 TFLOP/s f16 dense (733 sparse), 733 of fp8 and i8 dense, 91.6 TFLOP/s
    # f32; AD102: 142 SMs, 96 MB of L2.
    _ada(
        name="l40s", sm_count=142, l2_bytes=96 * _MIB, memory_bytes=46068 * _MIB,
        dram_bandwidth=0.864e12, l2_bandwidth=5.7e12, clock_hz=2.52e9, tensor_clock_hz=2.52e9,
        tensor_flops_per_cycle=_tensor(1024, 2048, 2048), driver_names=("NVIDIA L40S",),
    ),
)  # fmt: skip

_BY_NAME = {row.name: row for row in DEVICES}
if len(_BY_NAME) != len(DEVICES):
    raise ValueError("two device rows have the same name")


def device(name: str) -> Device:
    """The row called ``name``, whatever its case. Raises UnknownDevice; a similar name is never taken instead."""
    if not isinstance(name, str):
        raise UnknownDevice(f"a device name must be a string, not {name!r}: use one of {', '.join(_BY_NAME)}")
    row = _BY_NAME.get(name.lower())
    if row is not None:
        return row
    import difflib  # which a program that only calls kernels does without

    close = difflib.get_close_matches(name.lower(), _BY_NAME, n=1, cutoff=0.5)
    hint = f" (did you mean {close[0]}?)" if close else ""
    raise UnknownDevice(f"unknown device {name!r}{hint}: use one of {', '.join(_BY_NAME)}")


def device_of_driver_name(driver_name: str) -> Device:
    """The row of the GPU that the driver calls exactly ``driver_name``, for example "NVIDIA H200".

    Raises UnknownDevice: "NVIDIA H200 NVL" is a different product from "NVIDIA H200" and does not share its row.
    """
    for row in DEVICES:
        if driver_name in row.driver_names:
            return row
    raise UnknownDevice(f"no device row matches {driver_name!r}: the rows are {', '.join(_BY_NAME)}")


@overload
def occupancy(device: Device, threads: int, registers: int, shared_bytes: int) -> int: ...
@overload
def occupancy(
    device: Device, threads: IntArray | int, registers: IntArray | int, shared_bytes: IntArray | int
) -> IntArray | int: ...
def occupancy(
    device: Device, threads: IntArray | int, registers: IntArray | int, shared_bytes: IntArray | int
) -> IntArray | int:
    """Blocks that one SM holds at a time; 0 where a block does not fit at all.

    ``threads`` per block, ``registers`` per thread, ``shared_bytes`` per block (static plus dynamic); integers, or
    arrays that broadcast. The rules are those of the CUDA toolkit's ``cuda_occupancy.h``: registers are allocated per
    warp in whole units inside one of four sub-partitions; the check of registers per block rounds the warps up to the
    sub-partitions; shared memory is allocated in 128-byte units after the driver's reserve. Negative counts and fewer
    than one thread raise ValueError.
    """
    given = (threads, registers, shared_bytes)
    if all(isinstance(count, int) for count in given):  # without arrays: a cost model asks for one schedule at a time
        blocks = _blocks(device, *given, min, max, bool)
    else:
        t, r, s = (np.asarray(count, dtype=np.int64) for count in given)
        blocks = _blocks(device, t, r, s, np.minimum, np.maximum, np.any)
    return int(blocks) if np.ndim(blocks) == 0 else blocks


def _blocks(device: Device, t: Any, r: Any, s: Any, least: Any, most: Any, some: Any) -> Any:
    """``occupancy`` of t threads, r registers and s shared bytes, for integers or arrays; ``least``, ``most`` and
    ``some`` are minimum, maximum and any for that type."""
    if some(t < 1) or some(r < 0) or some(s < 0):
        raise ValueError("occupancy needs at least one thread and no negative registers or shared bytes")
    warps = -(-t // device.warp_size)
    per_warp = -(-(r * device.warp_size) // device.register_allocation_unit) * device.register_allocation_unit
    per_warp = most(per_warp, 1)  # a kernel without registers is limited by its warps alone
    warps_by_registers = device.registers_per_sm // device.schedulers_per_sm // per_warp * device.schedulers_per_sm
    block_registers = per_warp * (-(-warps // device.schedulers_per_sm) * device.schedulers_per_sm)
    shared = -(-(s + device.reserved_shared_per_block) // _SHARED_ALLOCATION_UNIT) * _SHARED_ALLOCATION_UNIT
    blocks = least(device.max_warps_per_sm // warps, warps_by_registers // warps)
    blocks = least(blocks, least(device.shared_per_sm // shared, device.max_blocks_per_sm))
    fits = (
        (t <= device.max_threads_per_block)
        & (r <= device.max_registers_per_thread)
        & (block_registers <= device.registers_per_block)
        & (s <= device.shared_per_block)
    )
    return blocks * fits
