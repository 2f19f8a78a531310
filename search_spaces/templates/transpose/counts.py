"""What one transpose schedule asks of the machine: counts that follow from the plan, none of them a time."""

from __future__ import annotations

from search_spaces.hardware.cost_counts import CostCounts
from search_spaces.hardware.data_movement import SECTOR_BYTES, Region, conflict_percent, expected_sectors
from search_spaces.hardware.devices import Device
from search_spaces.operators.transpose import Transpose
from search_spaces.spaces.config import Config
from search_spaces.templates.transpose.lowering import TransposePlan, plan


def counts(problem: Transpose, config: Config, device: Device) -> CostCounts:
    """The cost counts of a valid config. Its step is a tile."""
    p = plan(problem, config)
    element, warp = problem.element_bytes, device.warp_size
    elements = p.tile[0] * p.tile[1]
    (block_rows, load_vector), store_vector = p.load_map.sg_data, p.store_map.sg_data[1]
    loads, stores = elements / load_vector / warp, elements / store_vector / warp
    wavefronts = 0.0
    # A vector costs its access, and the check and address of a partial tile; turned elements cost a move each.
    instructions = 3.0 * (loads + stores) + (elements / warp if block_rows > 1 and element < 4 else 0.0)
    if p.layout is not None:
        into, out_of = elements / p.load_piece / warp, elements / p.store_piece / warp
        wavefronts = _wavefronts(p, into, out_of)
        instructions += out_of + (into if config["copy"] == "ld.global" else 0.0)
        if p.store_piece < store_vector and element < 4:
            instructions += elements / warp  # pieces are put together
    load = expected_sectors(Region(p.tile, "cols", problem.columns, element), load_vector, p.load_map.sg_layout[1])
    store = expected_sectors(
        Region((p.tile[1], p.tile[0]), "cols", problem.rows, element), store_vector, config.integer("store_columns")
    )
    tiles = p.block_tiles
    return CostCounts(
        blocks=p.blocks,
        threads=p.threads,
        shared_bytes=p.shared_bytes,
        registers=p.registers,
        unit="fma",
        operand_dtype="f32",
        flops=0.0,
        instructions=(instructions + 8.0 * p.threads / warp) * tiles,
        shared_wavefronts=wavefronts * tiles,
        load_bytes=load * SECTOR_BYTES * tiles,
        store_bytes=store * SECTOR_BYTES * tiles,
        dram_bytes=float(problem.min_bytes),
        iterations=tiles,
        stages=config.integer("stages"),
        barriers_per_iteration=0 if p.layout is None else 1 if tiles == 1 else 2,
    )


def _wavefronts(p: TransposePlan, into: float, out_of: float) -> float:
    """Cycles of shared memory for one tile: accesses of up to 4 bytes take one without conflicts, wider ones more."""
    if p.layout is None:
        return 0.0
    element = p.problem.element_bytes
    (block_rows, load_vector), store_vector = p.load_map.sg_data, p.store_map.sg_data[1]
    load = conflict_percent(p.layout, element, "cols", load_vector, p.load_map.sg_layout[1], block_rows)
    store = conflict_percent(p.layout, element, "rows", store_vector, p.store_map.sg_layout[1])
    phases_in, phases_out = (max(1, piece * element // 4) for piece in (p.load_piece, p.store_piece))
    return (into * phases_in * load + out_of * phases_out * store) / 100
