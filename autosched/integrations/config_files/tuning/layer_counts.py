"""Count instructions and bytes of a layer's two matmuls from sizes only, for many configurations at once.

Counting needs no compilation, so a tuner's whole space is ranked in milliseconds. Only the best few configurations are
then compiled, and ranked again by times estimated from counts of the compiled kernel (``derived_counts.py``). A test
compares the counts from sizes with the counts of compiled kernels. Times are computed from the counts as for any Triton
launch (``autosched/triton/estimate.py``). Tokens are assumed to choose experts uniformly and independently.

The constants below describe the code that Triton 3.9 generates from vLLM's kernel. They are linear fits over a dozen
tiles. ``_ITERATION`` counts the instructions per loop iteration, and ``_COPY`` the additional instructions for each
copy in it. Constants with ``ONCE`` or ``WIDE`` in their names count code outside the loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np
import numpy.typing as npt

from autosched.integrations.config_files.files import Config
from autosched.integrations.config_files.layer import Layer
from autosched.triton.estimate import triton_times
from cost_models.launch_time import CHAIN_LOAD, MEMORY_SECONDS, LaunchTable
from search_spaces.hardware.costs.transactions import SECTOR_BYTES
from search_spaces.hardware.devices import Device

Floats = npt.NDArray[np.float64]
_WARPGROUP_ROWS = 64  # Triton uses wgmma or tcgen05 for output tiles with at least this number of rows
_NAMES = ("BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "GROUP_SIZE_M", "num_warps", "num_stages")
_USUAL = {"num_warps": 4, "num_stages": 3, "GROUP_SIZE_M": 1}
# Search space of vLLM's own tuner for NVIDIA GPUs, in the order of the tuner's loops.
SPACE: dict[str, tuple[int, ...]] = {
    "BLOCK_SIZE_M": (16, 32, 64, 128, 256),
    "BLOCK_SIZE_N": (32, 64, 128, 256),
    "BLOCK_SIZE_K": (64, 128, 256),
    "GROUP_SIZE_M": (1, 16, 32, 64),
    "num_warps": (4, 8),
    "num_stages": (2, 3, 4, 5),
}
_ITERATION, _COPY = 24.0, 4.8  # integer instructions per warp: in an iteration, and for each copy in it
_ONCE, _ONCE_COPY = 120.0, 26.0  # the same outside the loop
_WIDE_ONCE, _WIDE_COPY = 25.0, 7.0  # integer multiplications for addresses, per warp, outside the loop
_DECODED = 0.8  # integer instructions to convert an 8-bit float of a fragment to 16 bits
_LOOP = 6.0  # other instructions per iteration: barriers, branch, waits for copies
# Latencies in cycles: one mma.sync in a dependent chain; the other code of an iteration with mma.sync, wgmma or
# tcgen05; multiplication by block scales; and the code outside the loop.
_MMA, _AROUND_MMA, _AROUND_WGMMA, _AROUND_TCGEN05, _SCALED, _CHAIN_ONCE = 33.0, 60.0, 86.0, 386.0, 60.0, 1500.0


@dataclass(frozen=True, eq=False)
class ConfigColumns:
    """Several configurations, stored as one array per parameter."""

    m: Floats
    n: Floats
    k: Floats
    group: Floats
    warps: Floats
    stages: Floats

    @classmethod
    def of(cls, configs: list[dict[str, int]]) -> ConfigColumns:
        """Return arrays with one element per configuration. Missing parameters get default values."""
        table = np.array([[c.get(name, _USUAL.get(name, 0)) for name in _NAMES] for c in configs], dtype=np.float64)
        return cls(*table.reshape(-1, len(_NAMES)).T)

    def warps_across(self) -> tuple[Floats, Floats]:
        """Return the number of warps along rows and along columns, as Triton distributes mma.sync tiles (16 by 8)."""
        rows, columns = np.ones_like(self.m), np.ones_like(self.m)
        for _ in range(5):
            more = rows * columns < self.warps
            down = (self.m / rows >= self.n / columns) & (rows < self.m / 16)
            rows, columns = np.where(more & down, 2 * rows, rows), np.where(more & ~down, 2 * columns, columns)
        return rows, columns


def tuner_space(layer: Layer) -> list[dict[str, int]]:
    """Return the configurations that vLLM's tuner would time for a layer."""
    configs = [dict(zip(SPACE, values, strict=True)) for values in product(*SPACE.values())]
    if layer.block_shape:
        configs = [c for c in configs if layer.block_shape[1] % c["BLOCK_SIZE_K"] == 0]
    return configs


def as_config(config: dict[str, int]) -> Config:
    """Return a configuration as a hashable tuple."""
    return tuple(sorted(config.items()))


def estimated_seconds(configs: list[dict[str, int]], layer: Layer, rows: int, device: Device) -> Floats:
    """Estimate the time of a layer's two matmuls for a batch, for each configuration.

    Args:
        configs: Tiles, warps and stages of each configuration.
        layer: Experts, sizes and types.
        rows: Tokens of the batch.
        device: The GPU.

    Returns:
        ESTIMATED seconds of each configuration; infinity if a block does not fit on the device.
    """
    c = ConfigColumns.of(configs)
    times = [triton_times(launch_table(c, layer, rows, n, k, device), device).seconds for n, k in layer.matmuls]
    return np.asarray(sum(times))


@lru_cache(maxsize=256)
def tokens_of_experts(experts: int, top_k: int, rows: int) -> tuple[int, ...]:
    """Return the number of tokens of each expert if tokens choose experts uniformly at random (with a fixed seed)."""
    rng = np.random.default_rng(0)
    choices = np.argpartition(rng.random((rows, experts)), top_k - 1, axis=1)[:, :top_k]
    return tuple(np.bincount(choices.reshape(-1), minlength=experts).tolist())


def launch_table(c: ConfigColumns, layer: Layer, rows: int, n: int, k: int, device: Device) -> LaunchTable:
    """Count the instructions and bytes of one matmul of a layer, for each configuration.

    Args:
        c: The configurations as columns.
        layer: Experts, sizes and types.
        rows: Tokens of the batch, distributed evenly among the experts.
        n: Columns of the weights of one expert.
        k: Depth of the weights.
        device: The GPU. It determines whether Triton uses wgmma or mma.sync.

    Returns:
        A table with the counts of one configuration's launch in each row.
    """
    tokens = np.array(tokens_of_experts(layer.experts, layer.top_k, rows))
    blocks = _row_blocks(c, layer, rows) * np.ceil(n / c.n)
    depth = np.minimum(c.k, min(layer.block_shape)) if layer.block_shape else c.k
    iterations = np.ceil(k / depth)
    valid = rows_of_blocks(c, layer, rows)
    # bytes that a block copies per iteration, in copies of 16 bytes
    copied = (c.m * layer.row_bytes + c.n * layer.weight_bytes) * depth
    requested_bytes = (valid * layer.row_bytes + c.n * layer.weight_bytes) * depth
    stored = valid * c.n * 2
    sectors = iterations * requested_bytes / SECTOR_BYTES

    tile = _Tile.of(c, layer, depth, device)
    needed = registers(c, layer)
    code, executed = _executed(c, layer, tile, copied, iterations)
    weights = (tokens > 0).sum() * n * k * layer.weight_bytes
    moved = weights + rows * layer.top_k * n * 2 + rows * k * layer.row_bytes
    memory = MEMORY_SECONDS * device.clock_hz
    waiting, cold = (iterations * tile.cycles_of_iteration(c.stages, load) for load in (CHAIN_LOAD, memory))
    return LaunchTable(
        blocks=blocks,
        threads=32 * c.warps,
        code=code,
        executed=executed,
        chain_cycles=_CHAIN_ONCE + waiting,
        chain_loads=1.0 + (cold - waiting) / (memory - CHAIN_LOAD),
        # Copies and fragment loads access shared memory in lines of 128 bytes. The output is also stored to and loaded
        # from shared memory once.
        shared_wavefronts=(iterations * (copied + tile.fragment_bytes * c.warps) + 2 * c.m * c.n * 2) / 128,
        wavefronts=(iterations * copied + c.m * c.n * 2) / 128,
        held_lines=np.zeros_like(blocks),
        unique_sectors=sectors,
        store_sectors=stored / SECTOR_BYTES,
        atomic_sectors=np.zeros_like(blocks),
        dram_bytes=np.minimum(moved, blocks * (iterations * requested_bytes + stored)),
        shared_bytes=shared_bytes(c, layer, device),
        registers=needed,
        # Each spilled byte is stored and loaded once per iteration.
        spill_bytes=2 * 4 * np.maximum(needed - device.max_registers_per_thread, 0.0),
    )


def rows_of_blocks(c: ConfigColumns, layer: Layer, rows: int) -> Floats:
    """Return the average number of used rows per tile; the remaining rows are padding."""
    return np.asarray(np.minimum(rows * layer.top_k / _row_blocks(c, layer, rows), c.m))


def _row_blocks(c: ConfigColumns, layer: Layer, rows: int) -> Floats:
    tokens = np.array(tokens_of_experts(layer.experts, layer.top_k, rows))
    by_tile = {int(m): int(np.ceil(tokens / m).sum()) for m in np.unique(c.m)}
    return np.array([by_tile[int(m)] for m in c.m], dtype=np.float64)


def shared_bytes(c: ConfigColumns, layer: Layer, device: Device) -> Floats:
    """Return the bytes of shared memory per block.

    Triton uses one buffer per stage for wgmma, which reads asynchronously, and one buffer less for mma.sync.
    """
    buffers = np.where(_by_warpgroups(c, device), c.stages, np.maximum(c.stages - 1, 1))
    return np.asarray(buffers * (c.m * layer.row_bytes + c.n * layer.weight_bytes) * c.k)


def registers(c: ConfigColumns, layer: Layer) -> Floats:
    """Return the registers that a thread needs for accumulators, copies and addresses.

    Registers beyond the device's maximum are spilled.
    """
    threads = 32 * c.warps
    sums = c.m * c.n / threads * (2.0 if layer.block_shape else 1.3)
    # number of 16-byte copies per thread, each of which needs registers for an address
    copied = (c.m + c.n) * c.k * layer.weight_bytes / 16 / threads
    return np.asarray(sums + 2.0 * copied + 32.0)


@dataclass(frozen=True, eq=False)
class _Tile:
    """Work of one loop iteration on a tile.

    ``mma`` (mma.sync) and ``wgmma`` are numbers of instructions per warp. ``fragment_bytes`` is the number of bytes
    that a warp reads from shared memory. ``decoded`` is the number of 8-bit floats that a thread converts, and
    ``converted`` is the number of integers. ``chain`` is the latency of the iteration in cycles, excluding copies.
    """

    mma: Floats
    mma_operation: str
    wgmma: Floats
    wgmma_operation: str
    fragment_bytes: Floats
    decoded: Floats
    converted: Floats
    chain: Floats

    def cycles_of_iteration(self, stages: Floats, load: float) -> Floats:
        """Return the cycles of an iteration. Copies take ``load`` cycles and are issued several iterations ahead."""
        return np.maximum(self.chain, (self.chain + load) / np.maximum(stages - 1, 1))

    @classmethod
    def of(cls, c: ConfigColumns, layer: Layer, depth: Floats, device: Device) -> _Tile:
        wide = _by_warpgroups(c, device)
        across_m, across_n = c.warps_across()
        rows, columns = c.m / across_m, np.maximum(c.n / across_n, 8.0)
        dtype = {"fp8_w8a8": "e4m3", "int8_w8a8": "s8"}.get(layer.dtype, "bf16")
        # mma.sync multiplies 8-bit floats only on Ada and consumer Blackwell. For other GPUs, Triton converts them to
        # f16 first.
        decodes = dtype == "e4m3" and device.sm not in (89, 120, 121)
        narrow = "f16" if decodes else dtype
        step = 32 if narrow in ("e4m3", "s8") else 16
        none = np.zeros_like(c.m)
        fragments = rows * layer.row_bytes + columns * layer.weight_bytes
        around = _AROUND_TCGEN05 if device.sm // 10 == 10 else _AROUND_WGMMA
        scaled = _SCALED if layer.block_shape else 0.0
        return cls(
            mma=np.where(wide, 0.0, rows / 16 * columns / 8 * depth / step),
            mma_operation=f"mma.sync.aligned.m16n8k{step}.row.col.f32.{narrow}.{narrow}.f32",
            wgmma=np.where(wide, c.m / 64 * c.n / 64 * depth / 32 * 4 / c.warps, 0.0),
            wgmma_operation=f"wgmma.mma_async.sync.aligned.m64n64k32.f32.{dtype}.{dtype}",
            fragment_bytes=np.where(wide, 0.0, fragments * depth),
            decoded=np.where(wide, 0.0, (rows + columns) * depth / 32) if decodes else none,
            converted=np.where(wide, c.n / c.warps, columns) * depth / 32 if layer.dtype == "int8_w8a16" else none,
            chain=scaled + np.where(wide, around, _MMA * depth / step + _AROUND_MMA),
        )


def _executed(
    c: ConfigColumns, layer: Layer, tile: _Tile, copied: Floats, iterations: Floats
) -> tuple[Floats, dict[str, Floats]]:
    """Return the number of instructions in a warp's code, and how often the warps of a block execute each operation."""
    copies = copied / 16 / (32 * c.warps)  # number of 16-byte copies per thread and iteration
    results = c.m * c.n / (32 * c.warps)
    integer = _ITERATION + _COPY * copies + _DECODED * tile.decoded + tile.converted
    once = _ONCE + _ONCE_COPY * copies
    scaled = 2 * results if layer.block_shape else np.zeros_like(results)
    # Number of factors by which each final sum is multiplied: the router's weight, and the scales of rows and columns.
    factors = 1 if layer.block_shape else {"": 1, "int8_w8a16": 2}.get(layer.dtype, 3)
    loads = copies + tile.fragment_bytes / 512  # ldmatrix reads 512 bytes
    of_warp = {
        "add.s32": iterations * integer + once,
        "mad.lo.s32": _WIDE_ONCE + _WIDE_COPY * copies,
        "cvt.rn.f32.s32": iterations * tile.converted,
        "fma.rn.f32": iterations * scaled + factors * results,
        "cp.async.cg.shared.global": iterations * loads + c.stages * copies,
        "bar.sync": iterations * _LOOP,
        tile.mma_operation: iterations * tile.mma,
        tile.wgmma_operation: iterations * tile.wgmma,
    }
    code = integer + once + scaled + results + loads + _LOOP + tile.mma + tile.wgmma + tile.converted
    return code, {operation: times * c.warps for operation, times in of_warp.items()}


def _by_warpgroups(c: ConfigColumns, device: Device) -> npt.NDArray[np.bool_]:
    return np.asarray((c.m >= _WARPGROUP_ROWS) & (c.warps % 4 == 0) & (device.sm // 10 in (9, 10)))
