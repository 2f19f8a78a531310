"""Cost counts of a transpose schedule."""

from __future__ import annotations

from search_spaces.hardware.costs.cost_counts import CostCounts
from search_spaces.hardware.costs.data_movement import Region, conflict_percent, expected_sectors
from search_spaces.hardware.costs.transactions import SECTOR_BYTES
from search_spaces.hardware.devices import Device
from search_spaces.operators.transpose import Transpose
from search_spaces.spaces.config import Config
from search_spaces.templates.common.compiled_registers import compiled_registers
from search_spaces.templates.transpose.lowering import shared_layout

REGISTER_SCALE = 2.1  # ratio of compiled to estimated registers, in 14 sampled kernels (sm_90a, NVRTC 13.5, 2026-11-22)


def counts(problem: Transpose, config: Config, device: Device) -> CostCounts:
    """Return the cost counts of a valid config. Each tile counts as one iteration of the main loop."""
    rows, columns, threads, tiles = config.integers("tile_m", "tile_n", "threads", "tiles_per_block")
    vector_x, copy_columns_x, block_rows = config.integers("vector_x", "copy_columns_x", "block_rows")
    vector_out, copy_columns_out = config.integers("vector_out", "copy_columns_out")
    element, warp = problem.element_bytes, device.warp_size
    elements = rows * columns
    loads, stores = elements / vector_x / warp, elements / vector_out / warp
    wavefronts = 0.0
    # Counted instructions: an access per vector, a bounds check and an address computation for partial tiles, and a
    # move per transposed element.
    instructions = 3.0 * (loads + stores) + (elements / warp if block_rows > 1 and element < 4 else 0.0)
    layout = shared_layout(config)
    if layout is not None:
        load_piece, store_piece = config.integers("load_piece", "store_piece")
        into, out_of = elements / load_piece / warp, elements / store_piece / warp
        instructions += out_of + (into if config["copy_x"] == "ld.global" else 0.0)
        if store_piece < vector_out and element < 4:
            instructions += elements / warp  # add the instructions that assemble registers from narrower elements
        # Without conflicts, an access of up to 4 bytes per lane takes one cycle of shared memory; wider accesses take
        # more.
        conflicts_in = conflict_percent(layout, element, "cols", vector_x, copy_columns_x, block_rows) / 100
        conflicts_out = conflict_percent(layout, element, "rows", vector_out, copy_columns_out) / 100
        wavefronts = into * max(1, load_piece * element // 4) * conflicts_in
        wavefronts += out_of * max(1, store_piece * element // 4) * conflicts_out
    load = expected_sectors(Region((rows, columns), "cols", problem.columns, element), vector_x, copy_columns_x)
    store = expected_sectors(Region((columns, rows), "cols", problem.rows, element), vector_out, copy_columns_out)
    return CostCounts(
        blocks=config.integer("blocks"),
        threads=threads,
        shared_bytes=config.integer("shared_bytes"),
        registers=compiled_registers(config, device, scale=REGISTER_SCALE),
        unit="fma",
        operand_dtype="f32",
        flops=0.0,
        instructions=(instructions + 8.0 * threads / warp) * tiles,
        shared_wavefronts=wavefronts * tiles,
        load_bytes=load * SECTOR_BYTES * tiles,
        store_bytes=store * SECTOR_BYTES * tiles,
        dram_bytes=float(problem.min_bytes),
        iterations=tiles,
        stages=config.integer("stages"),
        barriers_per_iteration=0 if layout is None else 1 if tiles == 1 else 2,
        run_bytes=float(element * min(rows, columns)),
    )
