"""What a matmul moves between DRAM and L2, the same for every template that cuts out into workgroup tiles."""

from __future__ import annotations

from search_spaces.hardware.devices import Device, occupancy
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.config import Config
from search_spaces.templates.common.raster import RASTER_GROUPS

L2_SHARE = 0.8  # of L2 that operands can count on; the rest holds the output and others' data


def dram_bytes(problem: Matmul, config: Config, device: Device) -> float:
    """Traffic between DRAM and L2 for the launch.

    Operands that fit into L2 are read once. Otherwise each wave of resident blocks reads the panels of a and b that
    its tiles touch, and a wave that walks in bands touches fewer.
    """
    tile_m, tile_n, threads = config.integers("tile_m", "tile_n", "threads")
    tiles_m, tiles_n, blocks = config.integers("tiles_m", "tiles_n", "blocks")
    partials = 0.0  # written, then read
    if config.integer("split_k") > 1:
        partials = 2.0 * 4 * tile_m * tile_n * blocks
    compulsory = float(problem.min_bytes) + partials
    element = problem.input_dtype.bytes
    operand_bytes = element * (problem.m + problem.n) * problem.k
    if operand_bytes <= L2_SHARE * device.l2_bytes:
        return compulsory
    registers, shared_bytes = config.integers("registers", "shared_bytes")
    resident = max(1, occupancy(device, threads, min(registers, device.max_registers_per_thread), shared_bytes))
    wave = min(resident * device.sm_count, tiles_m * tiles_n)
    rows, cols = _wave_shape(config.text("raster"), wave, tiles_m, tiles_n)
    waves = tiles_m * tiles_n / wave * problem.batch
    panels = element * problem.k * (rows * tile_m + cols * tile_n)
    out_bytes = problem.batch * problem.m * problem.n * problem.out_dtype.bytes
    return max(compulsory, waves * panels + out_bytes)


def _wave_shape(raster: str, wave: int, tiles_m: int, tiles_n: int) -> tuple[float, float]:
    """Rows and columns of tiles that a wave of consecutive blocks covers."""
    if raster == "row":
        return max(1.0, wave / tiles_n), min(float(tiles_n), wave)
    if raster == "column":
        return min(float(tiles_m), wave), max(1.0, wave / tiles_m)
    band = min(RASTER_GROUPS[raster], tiles_m)
    return min(float(band) * max(1.0, wave / (band * tiles_n)), tiles_m), min(wave / band, float(tiles_n))
