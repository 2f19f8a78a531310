"""Traffic of a matmul between DRAM and L2, the same for every template that divides ``out`` into workgroup tiles."""

from __future__ import annotations

import math

from search_spaces.hardware.devices import Device, occupancy
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.config import Config
from search_spaces.templates.common.raster import HILBERT, RASTER_GROUPS

L2_SHARE = 0.8  # fraction of L2 that is available to operands; the output and other data use the remaining L2

HILBERT_SIDE = (
    # Extent of consecutive tiles on a Hilbert curve, divided by the side of a square with the same number of
    # tiles. Determined by counting.
    1.22
)


def dram_bytes(
    problem: Matmul, config: Config, device: Device, cluster: tuple[int, int] = (1, 1), out_of_step: float = 0.0
) -> float:
    """Return the number of bytes that a launch moves between DRAM and L2.

    Operands that fit into L2 are read once. Otherwise each wave of resident blocks reads panels: the rows of a and
    columns of b that its tiles need. If tiles are ordered in bands, a wave needs fewer panels.

    Args:
        problem: Provides sizes and types.
        config: Provides tiles, raster and splits.
        device: Provides the size of L2.
        cluster: Blocks along m and n that the raster orders together.
        out_of_step: Fraction of tiles whose blocks start at different positions along k; all other blocks advance
            together. If panels are larger than L2, blocks out of step read them several times.

    Returns:
        Bytes.
    """
    tile_m, tile_n, threads = config.integers("tile_m", "tile_n", "threads")
    tiles_m, tiles_n, blocks = config.integers("tiles_m", "tiles_n", "blocks")
    of_m, of_n = cluster
    partials = 0.0  # bytes of partial sums, which are written and then read
    if config.integer("split_k") > 1:
        partials = 2.0 * 4 * tile_m * tile_n * blocks
    compulsory = float(problem.min_bytes) + partials
    element = problem.input_dtype.bytes
    operand_bytes = element * (problem.m + problem.n) * problem.depth
    if operand_bytes <= L2_SHARE * device.l2_bytes:
        return compulsory
    registers, shared_bytes = config.integers("registers", "shared_bytes")
    resident = max(1, occupancy(device, threads, min(registers, device.max_registers_per_thread), shared_bytes))
    wave = min(resident * device.sm_count, tiles_m * tiles_n)
    rows, cols = wave_shape(config.text("raster"), wave // (of_m * of_n), tiles_m // of_m, tiles_n // of_n)
    waves = tiles_m * tiles_n / wave * problem.batch
    panel_a, panel_b = element * problem.depth * rows * of_m * tile_m, element * problem.depth * cols * of_n * tile_n
    panels = panel_a + panel_b
    again = max(1.0, panels / (L2_SHARE * device.l2_for_all))
    panels += out_of_step * (panel_a * (min(cols, again) - 1) + panel_b * (min(rows, again) - 1))
    out_bytes = problem.batch * problem.m * problem.n * problem.out_dtype.bytes
    return max(compulsory, waves * panels + out_bytes)


def wave_shape(raster: str, wave: int, tiles_m: int, tiles_n: int) -> tuple[float, float]:
    """Return the rows and columns of tiles that a wave of consecutive blocks covers, on average over starting tiles.

    Args:
        raster: Order of the tiles.
        wave: Blocks of a wave.
        tiles_m: Rows of tiles.
        tiles_n: Columns of tiles.
    """
    if raster == HILBERT:  # a wave may begin anywhere on the curve, so it extends further than a square of equal area
        side = HILBERT_SIDE * math.sqrt(wave)
        rows, columns = min(side, float(tiles_m)), min(side, float(tiles_n))
        return max(rows, wave / columns), max(columns, wave / rows)
    # In bands of several rows, tiles are ordered by columns. A wave may begin and end in the middle of a column, and in
    # the middle of a band.
    band = tiles_m if raster == "column" else min(RASTER_GROUPS[raster], tiles_m)
    bands = 1.0 + (wave - 1.0) / (band * tiles_n)
    columns = min((wave + band - 1.0) / band, float(tiles_n))
    return min(min(band, wave) * bands, float(tiles_m)), columns
