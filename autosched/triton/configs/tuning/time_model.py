"""ESTIMATED time of a layer's two matmuls for every configuration at once, from sizes alone: nothing is compiled.

It ranks a tuner's whole space in milliseconds, so that only the first few need a compiler. Tokens choose experts evenly
and independently. A block of ``r`` that live on an SM multiplies, reads its operands from L2, and moves them through
shared memory; these overlap in part, and each turn of its loop waits for a copy that ``num_stages`` and the other
blocks hide. DRAM moves the weights of the experts that have tokens; too few bytes in flight leave it idle. Registers
and shared memory are those that Triton was seen to use. No constant is fitted to times.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from autosched.triton.configs.files import Config
from autosched.triton.configs.layer import Layer
from cost_models.analytic import DRAM_EFFICIENCY, LAUNCH_SECONDS, SM_PORT_BYTES
from cost_models.launch_time import MEMORY_SECONDS, OVERLAP, START
from search_spaces.hardware.devices import Device, occupancy

Floats = npt.NDArray[np.float64]
TURN_CYCLES = 60.0  # of a turn of the loop that nothing overlaps: barriers, addresses, the predicate
_WARPGROUP_ROWS = 64  # of an output tile, from which Triton multiplies by wgmma on sm_90
_NAMES = ("BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "GROUP_SIZE_M", "num_warps", "num_stages")
# The space of vLLM's own tuner for NVIDIA, in its order of loops.
SPACE: dict[str, tuple[int, ...]] = {
    "BLOCK_SIZE_M": (16, 32, 64, 128, 256),
    "BLOCK_SIZE_N": (32, 64, 128, 256),
    "BLOCK_SIZE_K": (64, 128, 256),
    "GROUP_SIZE_M": (1, 16, 32, 64),
    "num_warps": (4, 8),
    "num_stages": (2, 3, 4, 5),
}


@dataclass(frozen=True, eq=False)
class Columns:
    """Configurations by parameter, one array each."""

    m: Floats
    n: Floats
    k: Floats
    group: Floats
    warps: Floats
    stages: Floats

    @classmethod
    def of(cls, configs: list[dict[str, int]]) -> Columns:
        table = np.array([[c.get(name, _USUAL.get(name, 0)) for name in _NAMES] for c in configs], dtype=np.float64)
        return cls(*table.reshape(-1, len(_NAMES)).T)


_USUAL = {"num_warps": 4, "num_stages": 3, "GROUP_SIZE_M": 1}


def tuner_space(layer: Layer) -> list[dict[str, int]]:
    """Return the configurations that vLLM's tuner would time for the layer."""
    found = [dict(zip(SPACE, values, strict=True)) for values in product(*SPACE.values())]
    if layer.block_shape:
        found = [c for c in found if layer.block_shape[1] % c["BLOCK_SIZE_K"] == 0]
    return found


def as_config(config: dict[str, int]) -> Config:
    return tuple(sorted(config.items()))


def shared_bytes(c: Columns, layer: Layer, device: Device) -> Floats:
    """Of a block: Triton keeps a buffer a stage for wgmma, which reads it late, and one less for mma.sync."""
    buffers = np.where(_by_warpgroups(c, device), c.stages, np.maximum(c.stages - 1, 1))
    return buffers * (c.m * layer.row_bytes + c.n * layer.weight_bytes) * c.k


def registers(c: Columns, layer: Layer) -> Floats:
    """Return that a thread would need: sums, what it copies, and addresses. What is beyond the device's most is
    spilled."""
    threads = 32 * c.warps
    sums = c.m * c.n / threads * (2.0 if layer.block_shape else 1.3)
    copied = (c.m + c.n) * c.k * layer.weight_bytes / 16 / threads  # of 16 bytes, each with an address
    return np.asarray(sums + 2.0 * copied + 32.0)


def estimated_seconds(configs: list[dict[str, int]], layer: Layer, rows: int, device: Device) -> Floats:
    """ESTIMATED seconds of both matmuls for a batch of ``rows``, by configuration; infinity where no block fits."""
    c = Columns.of(configs)
    shared, needed = shared_bytes(c, layer, device), registers(c, layer)
    regs = np.minimum(needed, device.max_registers_per_thread)
    spilled = 32 * c.warps * (needed - regs)
    fits = shared <= device.shared_per_block
    resident = occupancy(
        device,
        (32 * c.warps).astype(np.int64),
        np.ceil(regs).astype(np.int64),
        np.where(fits, shared, 0).astype(np.int64),
    )
    fits &= np.asarray(resident) > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        seconds = sum(
            _matmul(c, layer, rows, n, k, np.asarray(resident, np.float64), spilled, device) for n, k in layer.matmuls
        )
    return np.where(fits, seconds, np.inf)


@lru_cache(maxsize=256)
def tokens_of_experts(experts: int, top_k: int, rows: int) -> tuple[int, ...]:
    """Tokens of each expert in a batch whose tokens choose evenly: one draw, always the same."""
    rng = np.random.default_rng(0)
    choices = np.argpartition(rng.random((rows, experts)), top_k - 1, axis=1)[:, :top_k]
    return tuple(np.bincount(choices.reshape(-1), minlength=experts).tolist())


def _matmul(
    c: Columns, layer: Layer, rows: int, n: int, k: int, resident: Floats, spilled: Floats, device: Device
) -> Any:
    tokens = np.array(tokens_of_experts(layer.experts, layer.top_k, rows))
    active = int((tokens > 0).sum())
    by_tile = {int(m): int(np.ceil(tokens / m).sum()) for m in np.unique(c.m)}
    row_blocks = np.array([by_tile[int(m)] for m in c.m], dtype=np.float64)
    blocks = row_blocks * np.ceil(n / c.n)
    used = np.minimum(blocks, device.sm_count)
    resident = np.minimum(resident, np.ceil(blocks / device.sm_count))
    depth = np.minimum(c.k, min(layer.block_shape)) if layer.block_shape else c.k
    turns = np.ceil(k / depth)
    bytes_of_turn = (c.m * layer.row_bytes + c.n * layer.weight_bytes) * depth

    by_warpgroups = _by_warpgroups(c, device)
    rate = device.tensor_rate(_tensor_type(layer)) * np.where(by_warpgroups, 1.0, device.mma_sync_fraction)
    multiply = 2 * c.m * c.n * depth / rate
    # Each warp of mma.sync reads its part of both tiles; a warpgroup reads both once.
    across = np.where(c.warps > 4, 2, 1)
    read_again = np.where(by_warpgroups, 1.0, np.minimum(c.warps / across, np.maximum(c.n / 16, 1.0)))
    staged = bytes_of_turn + c.m * layer.row_bytes * depth * read_again + c.n * layer.weight_bytes * depth * across
    staged += 2 * 4 * spilled  # stored and loaded in each turn
    through_shared = staged / device.shared_bytes_per_cycle
    port = np.minimum(SM_PORT_BYTES, device.l2_bandwidth / device.clock_hz / used)
    from_l2 = bytes_of_turn / port
    scaled = c.m * c.n / device.fma_flops_per_cycle * 4 if layer.block_shape else 0.0
    converted = c.n * depth / 32 if layer.row_bytes != layer.weight_bytes else 0.0
    busy = (multiply**OVERLAP + through_shared**OVERLAP + from_l2**OVERLAP + (scaled + converted) ** OVERLAP) ** (
        1 / OVERLAP
    )
    # A copy is asked for so many turns before it is used; what they do not hide, the block waits for.
    latency = MEMORY_SECONDS * device.clock_hz
    ahead = np.maximum(c.stages - 1, 1) * resident
    turn = np.maximum(busy, (latency + busy) / (ahead + 1)) + TURN_CYCLES / resident
    per_sm = np.ceil(blocks / device.sm_count)
    share = np.where(per_sm > 4 * resident, blocks / device.sm_count, per_sm)
    cycles = share * (turns * turn + START / resident) + latency
    sm_seconds = cycles / device.clock_hz

    weights = active * n * k * layer.weight_bytes
    again = np.where(c.group > 1, 1.0, np.maximum(1.0, np.minimum(row_blocks / active, 2.0)))
    moved = weights * again + rows * layer.top_k * (k * layer.row_bytes + n * 2)
    in_flight = used * resident * np.maximum(c.stages - 1, 1) * c.n * layer.weight_bytes * depth
    dram = np.minimum(device.dram_bandwidth * DRAM_EFFICIENCY, in_flight / MEMORY_SECONDS)
    return np.hypot(sm_seconds, moved / dram) + LAUNCH_SECONDS


def _by_warpgroups(c: Columns, device: Device) -> npt.NDArray[np.bool_]:
    return np.asarray((c.m >= _WARPGROUP_ROWS) & (c.warps % 4 == 0) & (device.sm // 10 in (9, 10)))


def _tensor_type(layer: Layer) -> str:
    return {"fp8_w8a8": "e4m3", "int8_w8a8": "i8"}.get(layer.dtype, "bf16")
