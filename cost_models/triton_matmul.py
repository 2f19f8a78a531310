"""Cost counts of PyTorch's Triton matmul template, for the analytic time model, derived from the template's code.

The counts were evaluated on AutoHeuristic's recordings of A100 and H100
(``benchmarks/results/model_against_measured.md``).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from search_spaces.hardware.costs.cost_counts import CostCounts
from search_spaces.hardware.devices import Device, occupancy
from search_spaces.operators.matmul import Matmul

_BAND = 8  # GROUP_M of PyTorch's template
_L2_SHARE = 0.4  # fraction of L2 available to operands, fitted to the *_mm recordings
# Number of times that the blocks of an SM read a panel again, divided by (flop/s of the tensor cores / bytes of L2).
# Blocks drift apart further if they compute faster, and a smaller L2 evicts panels earlier. Fitted to the *_mm
# recordings.
_DRIFT = 1.35e-7
_LINE = 128  # bytes of an L2 line
# Lengths of an operand's row or column, in bytes. From the first length on, steps that use only half of an L2 line cost
# extra. From the second length on, they cost as much as steps that use the full line.
_LONG_LINES = 24 << 10, 88 << 10
# Triton emits wgmma only for tiles of at least this number of rows, and blocks of at least this number of warps
_WGMMA_ROWS, _WARPGROUP = 64, 4


@dataclass(frozen=True)
class TritonConfig:
    """Compile-time constants of PyTorch's matmul template."""

    block_m: int
    block_n: int
    block_k: int
    stages: int
    warps: int


def uses_wgmma(chip: Device, config: TritonConfig) -> bool:
    """Return True if Triton uses wgmma for a configuration."""
    return chip.sm == 90 and config.block_m >= _WGMMA_ROWS and config.warps % _WARPGROUP == 0


def counts(
    problem: Matmul, chip: Device, alignment: tuple[int, int], config: TritonConfig, *, own_buffers: bool = False
) -> CostCounts:
    """Return the cost counts of PyTorch's Triton template.

    The template copies tiles of a and b to shared memory by cp.async, in a pipeline of ``stages`` stages. Tiles in
    shared memory are multiplied by ldmatrix and mma.sync, or by wgmma. Blocks are ordered in bands of 8 rows of tiles.

    Args:
        problem: Sizes and types.
        chip: The GPU.
        alignment: Alignment in bytes, up to 16, of the contiguous rows or columns of a and of b. Copies have at most
            this width.
        config: Tile sizes, warps and stages.
        own_buffers: True if each stage has its own buffer, so that loads need not wait for the arithmetic of their
            step, as in CUTLASS's kernels. Triton's mma.sync loop has one buffer less than stages.
    """
    element, ieee = problem.input_dtype.bytes, problem.a == "f32" and problem.precision == "ieee"
    m, n, k, warps = config.block_m, config.block_n, config.block_k, config.warps
    threads, tile, wgmma = 32 * warps, m * n, uses_wgmma(chip, config)
    tiles_m, tiles_n, steps = -(-problem.m // m), -(-problem.n // n), -(-problem.k // k)
    buffers = max(1, config.stages - (0 if wgmma or own_buffers else 1))
    copied = element * k * (m + n)
    requests = sum(element * k * side / width / 32 for side, width in zip((m, n), alignment, strict=True))
    # On Ampere, each 128-byte line costs a cycle of L1, even if copies use only a part of the line. In the Hopper
    # recordings, partly used lines cost only half a cycle.
    least = 0.5 if wgmma else 1.0
    copied_lines = m * max(least, element * k / 128) + k * max(least, element * n / 128)
    read = _wgmma_bytes(config, element) if wgmma else _fragment_bytes(config, element)
    multiplies = tile * k / 32 if ieee else tile * k * element / (16 * 8 * 32) / (8 if wgmma else 1)
    warps_m, warps_n = _warps(config)
    accumulators = tile // threads
    fragments = 0 if wgmma else (m // warps_m + n // warps_n) * min(k, 16) // 32
    loaded = 0.0 if wgmma else read / 512
    # Warpgroups of a block wait for each other when a tile arrives and when its buffer is released, and the tensor
    # cores wait for the last warpgroup. In CUTLASS's kernels each warpgroup waits independently.
    together = wgmma and warps > _WARPGROUP and not own_buffers
    work = CostCounts(
        blocks=tiles_m * tiles_n,
        threads=threads,
        shared_bytes=min(buffers * copied, chip.shared_per_block),
        registers=max(24, min(40 + accumulators + fragments, 255)),  # fitted to the *_mm recordings
        unit="fma" if ieee else "wgmma" if wgmma else "mma",
        operand_dtype=problem.a if problem.a != "f32" else ("f32" if ieee else "tf32"),
        flops=2.0 * tile * k * steps,
        instructions=(multiplies + loaded + 2 * requests + 12 * warps) * steps + 4.0 * tile / 32,
        shared_wavefronts=(read / 128 + copied_lines) * steps,
        load_bytes=element * k * (m * _lines(problem, "a", k) + n * _lines(problem, "b", k)) * steps,
        store_bytes=float(tile * problem.out_dtype.bytes),
        dram_bytes=0.0,
        iterations=steps,
        stages=config.stages,
        barriers_per_iteration=1 if config.stages > 1 and not together else 2,
        # The next load overwrites the tile that was multiplied last, so it must wait for this multiplication. With
        # wgmma, one multiplication stays in flight across the barrier. An additional buffer holds its tile, so the load
        # waits only for the preceding multiplication.
        refills=not wgmma or together,
        loads_last=not own_buffers and config.stages > 1,
        run_bytes=CostCounts.run_bytes if own_buffers else _run_bytes(problem, chip, config),
    )
    return dataclasses.replace(work, dram_bytes=_dram_bytes(problem, chip, config, work))


def _lines(problem: Matmul, side: str, k: int) -> float:
    """Return the number of bytes that L2 moves for each byte of an operand that a step uses.

    If the operand's rows (or columns) are long, a step that uses half of a 128-byte L2 line costs as much as one that
    uses the whole line. In recordings on A100 with k = 50,000, steps of 64 bytes take longer than steps of 128 bytes.
    They take 1.3 times as long if one operand is contiguous along k, and 1.6 times if both operands are. If neither
    operand is, steps of both lengths take equally long. The reason for the dependence on k is unknown.
    """
    along_k = problem.order_a == "row" if side == "a" else problem.order_b == "col"
    element = problem.input_dtype.bytes
    least, most = _LONG_LINES
    far = min(1.0, max(0.0, (problem.k * element - least) / (most - least)))
    return 1 + far * (max(1.0, _LINE / (element * k)) - 1) if along_k else 1.0


def _run_bytes(problem: Matmul, chip: Device, config: TritonConfig) -> float:
    """Return the length in bytes of the contiguous pieces that a step reads from DRAM.

    The length is the harmonic mean over both operands, weighted by size. On A100, ``_lines`` already accounts for the
    cost of short pieces.
    """
    if chip.sm < 90:
        return CostCounts.run_bytes
    element = problem.input_dtype.bytes
    a = element * (config.block_k if problem.order_a == "row" else config.block_m)
    b = element * (config.block_n if problem.order_b == "row" else config.block_k)
    return (problem.m + problem.n) / (problem.m / a + problem.n / b)


def _warps(config: TritonConfig) -> tuple[int, int]:
    """Return the number of warps along m and along n of a tile that mma.sync multiplies."""
    m, n, warps = config.block_m, config.block_n, config.warps
    along_n = min(warps, max(1, n // 8 if m <= 16 else int(np.sqrt(warps * n / m)) or 1))
    return max(1, warps // along_n), along_n


def _fragment_bytes(config: TritonConfig, element: int) -> float:
    """Return the bytes that all warps together read from shared memory in a step, for mma.sync."""
    warps_m, warps_n = _warps(config)
    return float(element * config.block_k * (config.block_m * warps_n + config.block_n * warps_m))


def _wgmma_bytes(config: TritonConfig, element: int) -> float:
    """Return the bytes that a step's wgmmas read: each reads 64 rows of ``a``, and its warpgroup's columns of ``b``."""
    warpgroups = config.warps // _WARPGROUP
    along_n = max(1, warpgroups // max(1, min(warpgroups, config.block_m // _WGMMA_ROWS)))
    rows = config.block_m / _WGMMA_ROWS
    return rows * config.block_k * element * (_WGMMA_ROWS * along_n + config.block_n)


def _dram_bytes(problem: Matmul, chip: Device, config: TritonConfig, work: CostCounts) -> float:
    """Return the DRAM bytes of a launch.

    A wave of blocks reads the panels of its band once. If L2 has sufficient capacity, it keeps the panels of a for the
    next wave, and the panels of b for the next band. Blocks that share an SM drift apart after the first wave, and then
    read panels again that L2 has evicted. Each panel is read at most once per block that shares the SM, and at most
    once per tile that needs it.
    """
    element, tiles_m, tiles_n = (
        problem.input_dtype.bytes,
        -(-problem.m // config.block_m),
        -(-problem.n // config.block_n),
    )
    resident = min(occupancy(chip, work.threads, work.registers, work.shared_bytes), -(-work.blocks // chip.sm_count))
    wave = min(resident * chip.sm_count, work.blocks)
    band = min(_BAND, tiles_m)
    rows = min(band * max(1.0, wave / (band * tiles_n)), tiles_m)
    columns = min(wave / band, float(tiles_n))
    panel_a, panel_b = (element * problem.k * side for side in (config.block_m, config.block_n))
    capacity = _L2_SHARE * chip.l2_bytes
    cached_fraction = min(1.0, capacity / (rows * panel_a + columns * panel_b))
    kept_b = min(1.0, capacity / (rows * panel_a + tiles_n * panel_b))
    pace = chip.sm_count * chip.tensor_clock_hz * chip.tensor_rate("f16") / chip.l2_bytes  # flop/s per byte of L2
    drift = min(_DRIFT * pace * (resident - 1) / resident, resident - 1.0)
    again = drift * (1 - cached_fraction) * (1 - min(1.0, resident * chip.sm_count / work.blocks))
    a = element * problem.m * problem.k * (1 + (max(1.0, tiles_n / columns) - 1) * (1 - cached_fraction))
    b = element * problem.n * problem.k * (1 + (max(1.0, tiles_m / rows) - 1) * (1 - kept_b))
    a *= min(1 + again, max(1.0, columns))
    b *= min(1 + again, max(1.0, rows))
    return a + b + problem.m * problem.n * problem.out_dtype.bytes
