"""GPUs as data rows, with limits for schedules and rates for cost models. No GPU is queried.

A device is a product (``products``: counts, clocks, bandwidths) of an architecture (``architectures``: limits and
features). A new GPU is one more product.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Self, overload

import numpy as np

from search_spaces.arrays import IntArray
from search_spaces.hardware.architectures import FEATURES, Architecture, architecture, capabilities_called
from search_spaces.hardware.products import ALIASES, PRODUCTS, GpuProduct, rates_of

_MIB = 2**20
# least number of SMs of a Hopper GPC; some GPCs have 18 (H100 white paper, and products with 132 SMs)
_SMS_OF_TPC, _SMS_OF_GPC = 2, 16


_TWO_PARTITIONS = (80, 90)  # compute capabilities whose L2 has two partitions
# fields that may be 0: the driver reserves nothing on sm_75, and the clock may be unknown
_MAY_BE_ZERO = ("reserved_shared_per_block", "sustained_clock_hz")


@cache
def _features(sm: int, arch: str) -> frozenset[str]:
    return architecture(sm).features_of(arch)


class UnknownDevice(ValueError):
    """No device row has this name. The message is one line with the known names."""


@dataclass(frozen=True)
class Device:
    """One GPU. Units are bytes, hertz, bytes per second, and flops per cycle and SM (an FMA counts as two).

    Data sheets state tensor peaks at ``tensor_clock_hz``, and all other peaks at ``clock_hz``.

    Attributes:
        tensor_flops_per_cycle: Dense rate by operand type, for the widest instruction with f32 accumulation (such as
            wgmma on sm_90). "f16_f16" is the rate of f16 accumulated in f16, if it differs.
        mma_sync_fraction: Fraction of ``tensor_flops_per_cycle`` that mma.sync reaches.
        memory_bytes: Total memory that the driver reports; programs can use slightly less.
        driver_names: Names that the driver reports for this product; other products may have the same names.
        sustained_clock_hz: Clock that the power limit allows while tensor cores multiply 16-bit floats without pause. 0
            if this clock is not known to be below ``tensor_clock_hz``.
        sms_of_gpcs: Number of SMs of each GPC, measured on one chip; empty if not measured.
        unconfirmed: Values of the row that no source confirms.
        derived: True if values come from the driver and the architecture, because the product has no row.
    """

    name: str
    sm: int
    arch: str
    sm_count: int
    shared_per_block: int  # largest dynamic shared memory of a block, with opt-in
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
    shared_allocation_unit: int = 128
    registers_per_sm: int = 65536
    registers_per_block: int = 65536
    max_registers_per_thread: int = 255
    register_allocation_unit: int = 256  # registers are allocated per warp, in multiples of this number
    max_threads_per_block: int = 1024
    warp_size: int = 32
    schedulers_per_sm: int = 4  # schedulers of an SM, each with an equal share of the registers
    shared_bytes_per_cycle: int = 128
    banks: int = 32
    bank_bytes: int = 4
    sustained_clock_hz: float = 0.0
    sms_of_gpcs: tuple[int, ...] = ()
    unconfirmed: str = ""
    derived: bool = False

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or (value == 0 and field.name in _MAY_BE_ZERO):
                continue
            if isinstance(value, (int, float)) and not 0 < value < float("inf"):
                raise ValueError(f"device {self.name!r}: {field.name} is {value}, but must be positive and finite")
        warp, unit = self.warp_size, self.shared_allocation_unit
        targets = self.architecture.targets
        shared_sizes = (self.shared_per_block, self.shared_per_sm, self.reserved_shared_per_block)
        rates = self.tensor_flops_per_cycle
        requirements = (
            (
                self.arch in targets,
                f"arch {self.arch!r} must be one of {', '.join(targets)}",
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
            (self.sustained_clock_hz <= self.tensor_clock_hz, "sustained_clock_hz must not exceed tensor_clock_hz"),
            (self.l2_bandwidth > self.dram_bandwidth, "l2_bandwidth must exceed dram_bandwidth"),
            (all(rate > 0 for _, rate in rates), "tensor rates must be positive"),
            (len(dict(rates)) == len(rates), "each type of tensor_flops_per_cycle must be named once"),
        )
        for met, requirement in requirements:
            if not met:
                raise ValueError(f"device {self.name!r}: {requirement}")

    @property
    def architecture(self) -> Architecture:
        """Limits and features of the device's compute capability. Raises UnknownArchitecture."""
        return architecture(self.sm)

    def has(self, feature: str) -> bool:
        """Return True if code compiled for ``arch`` can use a feature.

        Args:
            feature: A key of ``architectures.FEATURES``; "" for no requirement, which every device satisfies.

        Raises:
            KeyError: The feature is unknown.
        """
        return not feature or FEATURES[feature].name in _features(self.sm, self.arch)

    @property
    def note(self) -> str:
        """Note on uncertain values of the row; "" if every value is from a data sheet."""
        derived = f"derived from the driver's figures and sm_{self.architecture.sm}" if self.derived else ""
        unconfirmed = f"unconfirmed: {self.unconfirmed}" if self.unconfirmed else ""
        return "; ".join(part for part in (derived, unconfirmed) if part)

    @property
    def max_warps_per_sm(self) -> int:
        """Maximum number of warps per SM."""
        return self.max_threads_per_sm // self.warp_size

    def sms_of_clusters(self, cluster: int) -> int:
        """Return the number of SMs that clusters of ``cluster`` blocks (1, or a multiple of 2) can occupy.

        Clusters of two blocks fit into a TPC. A larger cluster must fit into a GPC. If ``cluster`` does not divide the
        number of SMs of a GPC, the remaining SMs stay empty. Some GPCs of a chip may have more SMs than others, but
        only the driver knows their numbers of SMs. All GPCs are assumed to have the minimum.
        """
        if cluster <= _SMS_OF_TPC:
            return self.sm_count // cluster * cluster
        return max(cluster, self.sm_count // _SMS_OF_GPC * (_SMS_OF_GPC // cluster * cluster))

    def running_sms(self, cluster: int) -> int:
        """Return the number of SMs that clusters of ``cluster`` blocks are expected to occupy.

        Unlike ``sms_of_clusters``, this function uses the GPCs of a measured chip. Launches use at most this number of
        SMs. If a chip can run fewer clusters, its driver reports the true number when the kernel is loaded.
        """
        if cluster <= _SMS_OF_TPC or not self.sms_of_gpcs:
            return self.sms_of_clusters(cluster)
        return max(cluster, sum(sms // cluster * cluster for sms in self.sms_of_gpcs))

    @property
    def l2_for_all(self) -> int:
        """Usable bytes of L2 for data that all SMs read.

        If L2 has two partitions, each partition has a copy for its own SMs (A100 white paper, "A100 L2 cache"; H100
        also has two partitions).
        """
        return self.l2_bytes // 2 if self.sm in _TWO_PARTITIONS else self.l2_bytes

    def tensor_rate(self, operand_dtype: str) -> float:
        """Return dense tensor flops per cycle and SM for an operand type.

        Args:
            operand_dtype: Operand type, such as "f16", "tf32", "e4m3" or "i8"; "f16_f16" for f16 accumulated in f16.

        Raises:
            ValueError: The tensor cores do not multiply this type.
        """
        rates = dict(self.tensor_flops_per_cycle)
        for name in (
            operand_dtype,
            operand_dtype.partition("_")[0],
        ):  # a rate that names the accumulator type takes precedence
            if name in rates:
                return rates[name]
        known = ", ".join(name for name, _ in self.tensor_flops_per_cycle)
        raise ValueError(f"device {self.name} has no tensor rate for {operand_dtype!r}: use one of {known}")

    def tensor_peak(self, operand_dtype: str) -> float:
        """Return the dense tensor peak of the whole device in flop/s, as in its data sheet.

        Raises:
            ValueError: The tensor cores do not multiply this type.
        """
        return self.sm_count * self.tensor_rate(operand_dtype) * self.tensor_clock_hz

    @property
    def fma_peak(self) -> float:
        """Peak of f32 arithmetic on the CUDA cores of the whole device, in flop/s."""
        return self.sm_count * self.fma_flops_per_cycle * self.clock_hz

    def to_json(self) -> dict[str, Any]:
        """Return all fields as JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read a device from a result of ``to_json``. Raises ValueError if a field is unknown or missing."""
        known = {f.name for f in dataclasses.fields(cls)}
        required = {f.name for f in dataclasses.fields(cls) if f.default is dataclasses.MISSING}
        wrong = sorted((set(data) - known) | (required - set(data)))
        if wrong:
            raise ValueError(f"a device row has unknown or missing fields: {', '.join(wrong)}")
        rates = tuple((str(name), float(rate)) for name, rate in data["tensor_flops_per_cycle"])
        names = tuple(str(name) for name in data.get("driver_names", ()))
        gpcs = tuple(int(sms) for sms in data.get("sms_of_gpcs", ()))
        return cls(**{**data, "tensor_flops_per_cycle": rates, "driver_names": names, "sms_of_gpcs": gpcs})


def device_of(product: GpuProduct, *, derived: bool = False) -> Device:
    """Return the device row of a product, with the limits of its architecture.

    Args:
        product: The product.
        derived: True if values come from the driver instead of a data sheet.

    Raises:
        UnknownArchitecture: The compute capability has no row.
    """
    its = architecture(product.sm)
    rates = product.rates or rates_of(its.sm, product.geforce)
    clock = product.mhz * 1e6
    return Device(
        name=product.name,
        sm=product.sm,
        arch=its.targets[0] if its.sm == product.sm else f"sm_{its.sm}",
        sm_count=product.sms,
        shared_per_block=its.shared_per_block,
        shared_per_sm=its.shared_per_sm,
        max_threads_per_sm=its.threads,
        max_blocks_per_sm=its.blocks,
        l2_bytes=int(product.l2_mib * _MIB),
        memory_bytes=int(product.memory_mib * _MIB),
        dram_bandwidth=product.gb_s * 1e9,
        clock_hz=clock,
        tensor_clock_hz=product.tensor_mhz * 1e6 or clock,
        tensor_flops_per_cycle=rates.by_type,
        mma_sync_fraction=rates.mma_sync,
        fma_flops_per_cycle=rates.fma,
        l2_bandwidth=product.l2_gb_s * 1e9 or rates.l2_bytes * product.sms * clock,
        driver_names=product.driver_names,
        reserved_shared_per_block=its.reserved_shared,
        shared_allocation_unit=its.shared_unit,
        registers_per_sm=its.registers,
        registers_per_block=its.registers,
        sustained_clock_hz=product.sustained_mhz * 1e6,
        sms_of_gpcs=product.sms_of_gpcs,
        unconfirmed=product.unconfirmed,
        derived=derived,
    )


DEFAULT_DEVICE = "h200"  # device that is assumed if the user names none and no GPU is available

_LIST = "autosched devices lists all names"
_BY_NAME = {product.name: product for product in PRODUCTS}
if len(_BY_NAME) != len(PRODUCTS) or ALIASES.keys() & _BY_NAME.keys():
    raise ValueError("two device rows have the same name")


@cache
def _row(name: str) -> Device:
    return device_of(_BY_NAME[name])


def all_devices() -> tuple[Device, ...]:
    """Return the rows of all products. The rows are created at the first call, because their creation takes 5 ms."""
    return tuple(map(_row, _BY_NAME))


def device(name: str) -> Device:
    """Return the device row with this name, ignoring case.

    Raises:
        UnknownDevice: No row has this name. If ``name`` is an architecture, the message lists the GPUs of this
            architecture.
    """
    if not isinstance(name, str):
        raise UnknownDevice(f"a device name must be a string, not {name!r}: {_LIST}")
    lower = name.lower()
    full = ALIASES.get(lower, lower)
    if full in _BY_NAME:
        return _row(full)
    siblings = [known.name for known in PRODUCTS if known.sm in capabilities_called(name)]
    if siblings:
        raise UnknownDevice(f"{name!r} is an architecture, not a GPU: use one of {', '.join(siblings)}")
    import difflib  # a late import, because programs that only call kernels do not need this module

    close = difflib.get_close_matches(lower, (*_BY_NAME, *ALIASES), n=3, cutoff=0.5)
    hint = f" (did you mean {' or '.join(close)}?)" if close else ""
    raise UnknownDevice(f"unknown device {name!r}{hint}: {_LIST}")


def devices_of_driver_name(driver_name: str) -> tuple[Device, ...]:
    """Return the rows of GPUs whose name in the driver is exactly ``driver_name``, such as "NVIDIA H200".

    There may be several rows ("Orin"), or none for an unknown product. Longer names do not match: "NVIDIA H200 NVL"
    does not return the row of "NVIDIA H200".
    """
    return tuple(_row(product.name) for product in PRODUCTS if driver_name in product.driver_names)


@overload
def occupancy(
    device: Device,
    threads: int,
    registers: int,
    shared_bytes: int,
    *,
    named_barriers: int = ...,
    tensor_memory: bool = ...,
) -> int: ...


@overload
def occupancy(
    device: Device,
    threads: IntArray | int,
    registers: IntArray | int,
    shared_bytes: IntArray | int,
    *,
    named_barriers: int = ...,
    tensor_memory: bool = ...,
) -> IntArray | int: ...
def occupancy(
    device: Device,
    threads: IntArray | int,
    registers: IntArray | int,
    shared_bytes: IntArray | int,
    *,
    named_barriers: int = 0,
    tensor_memory: bool = False,
) -> IntArray | int:
    """Return the number of resident blocks per SM.

    The rules are from the CUDA toolkit's ``cuda_occupancy.h``. Registers are allocated per warp, in whole units, within
    one of four sub-partitions. For the limit of registers per block, the number of warps is rounded up to a multiple of
    four. Shared memory, including what the driver reserves, is allocated in units of 128 bytes (256 on sm_75). From
    compute capability 9.0 on, the blocks of an SM share its named barriers. If a kernel allocates tensor memory, an SM
    runs one block, until that block relinquishes its allocation permit.

    Args:
        device: The GPU.
        threads: Threads per block. ``threads``, ``registers`` and ``shared_bytes`` are integers or broadcastable
            arrays.
        registers: Registers per thread.
        shared_bytes: Shared memory per block in bytes, static plus dynamic.
        named_barriers: Named barriers per block.
        tensor_memory: True if the kernel allocates tensor memory.

    Returns: Number of blocks; 0 if not even one block fits.

    Raises:
        ValueError: A count is negative, or there is no thread.
    """
    sizes = (threads, registers, shared_bytes)
    if all(isinstance(count, int) for count in sizes):  # fast path for single schedules
        blocks = _blocks(device, *sizes, min, max, bool)
    else:
        t, r, s = (np.asarray(count, dtype=np.int64) for count in sizes)
        blocks = _blocks(device, t, r, s, np.minimum, np.maximum, np.any)
    if tensor_memory or named_barriers:
        blocks = np.minimum(blocks, _shared_resources(device.architecture, named_barriers, tensor_memory))
    return int(blocks) if np.ndim(blocks) == 0 else blocks


def _shared_resources(its: Architecture, named_barriers: int, tensor_memory: bool) -> int:
    """Return the number of blocks per SM that named barriers and tensor memory allow."""
    by_barriers = its.named_barriers // named_barriers if its.named_barriers and named_barriers else its.blocks
    return min(by_barriers, its.tensor_memory_blocks) if tensor_memory else by_barriers


def _blocks(device: Device, t: Any, r: Any, s: Any, least: Any, most: Any, some: Any) -> Any:
    """Return the result of ``occupancy`` for t threads, r registers and s shared bytes, as integers or arrays.

    ``least``, ``most`` and ``some`` are the functions minimum, maximum and any, for integers or for arrays.
    """
    if some(t < 1) or some(r < 0) or some(s < 0):
        raise ValueError("occupancy needs at least one thread; registers and shared bytes must not be negative")
    warps = -(-t // device.warp_size)
    per_warp = -(-(r * device.warp_size) // device.register_allocation_unit) * device.register_allocation_unit
    per_warp = most(per_warp, 1)  # avoids a division by 0: with 0 registers, registers do not limit blocks
    warps_by_registers = device.registers_per_sm // device.schedulers_per_sm // per_warp * device.schedulers_per_sm
    block_registers = per_warp * (-(-warps // device.schedulers_per_sm) * device.schedulers_per_sm)
    shared = -(-(s + device.reserved_shared_per_block) // device.shared_allocation_unit) * device.shared_allocation_unit
    shared = most(shared, 1)  # avoids a division by 0 on sm_75, where the driver reserves nothing
    blocks = least(device.max_warps_per_sm // warps, warps_by_registers // warps)
    blocks = least(blocks, least(device.shared_per_sm // shared, device.max_blocks_per_sm))
    fits = (
        (t <= device.max_threads_per_block)
        & (r <= device.max_registers_per_thread)
        & (block_registers <= device.registers_per_block)
        & (s <= device.shared_per_block)
    )
    return blocks * fits


@overload
def register_limit(device: Device, threads: int, blocks: int = ...) -> int: ...


@overload
def register_limit(device: Device, threads: IntArray, blocks: IntArray | int = ...) -> IntArray: ...
@overload
def register_limit(device: Device, threads: int, blocks: IntArray) -> IntArray: ...
def register_limit(device: Device, threads: IntArray | int, blocks: IntArray | int = 1) -> IntArray | int:
    """Return the maximum registers per thread with which an SM can run ``blocks`` blocks of ``threads`` threads.

    ptxas uses the same limit for a kernel with these launch bounds. Warps are distributed to the schedulers, which have
    separate registers, so the scheduler with the most warps determines the limit. For example, with nine warps one
    scheduler has three, so the limit is the same as with twelve.

    Args:
        device: The GPU.
        threads: Threads per block. ``threads`` and ``blocks`` are integers or broadcastable arrays.
        blocks: Blocks per SM, at least 1.
    """
    if isinstance(threads, int) and isinstance(blocks, int):  # fast path for single schedules, as in ``occupancy``
        one: int = _limit(device, threads, blocks, min)
        return one
    limit: IntArray = _limit(device, np.asarray(threads), np.asarray(blocks), np.minimum)
    return limit


def _limit(device: Device, t: Any, b: Any, least: Any) -> Any:
    """Return the result of ``register_limit`` for t threads and b blocks, as integers or arrays."""
    warps = -(-t // device.warp_size)
    of_block = _registers_of_warp(device, device.registers_per_block, warps)
    of_warp = least(of_block, _registers_of_warp(device, device.registers_per_sm, warps * b))
    return least(of_warp // device.warp_size, device.max_registers_per_thread)


def _registers_of_warp(device: Device, registers: int, warps: Any) -> Any:
    """Return the number of registers per warp, in whole allocation units, if ``warps`` share ``registers`` evenly."""
    dealt = -(-warps // device.schedulers_per_sm) * device.schedulers_per_sm
    return registers // dealt // device.register_allocation_unit * device.register_allocation_unit
