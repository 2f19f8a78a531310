"""What one matmul schedule asks of the machine: counts that follow from the plan, none of them a time."""

from __future__ import annotations

from search_spaces.hardware.cost_counts import CostCounts
from search_spaces.hardware.data_movement import SECTOR_BYTES
from search_spaces.hardware.devices import Device, occupancy
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.config import Config
from search_spaces.templates.common.raster import raster_group
from search_spaces.templates.matmul.lowering import MatmulPlan, plan
from search_spaces.templates.matmul.space import EPILOGUE_PAD

L2_SHARE = 0.8  # of L2 that operands can count on; the rest holds the output and others' data


def counts(problem: Matmul, config: Config, device: Device) -> CostCounts:
    """The cost counts of a valid config."""
    p = plan(problem, config)
    tile_m, tile_n, tile_k = p.tile
    warp = device.warp_size
    warps = p.threads // warp
    steps = -(-p.tiles[2] // p.split_k)
    layout_m, layout_n = p.wg_map.sg_layout

    # Every subgroup in a row of sg_layout reads the same fragments of a, every one in a column those of b.
    reads_a, reads_b = p.a.loads, p.b.loads
    loop_wavefronts = (
        reads_a.wavefronts * layout_n
        + reads_b.wavefronts * layout_m
        + sum(o.copy.stores.wavefronts for o in (p.a, p.b))
    )
    multiplies = p.fragments[0] * p.fragments[1] * tile_k // p.intrinsic.k * warps * p.intrinsic.instructions
    reads = reads_a.instructions * layout_n + reads_b.instructions * layout_m
    # A copied packet costs its global load, its shared store, and the check and address of a partial tile.
    copies = sum(o.copy.requests * (3 if o.copy.method == "ld.global" else 2) for o in (p.a, p.b))
    loop_instructions = multiplies + 2 * reads + copies + 12 * warps

    results = tile_m * tile_n
    epilogue_wavefronts = 0.0
    if config["epilogue"] == "shared":
        passes = 2 if problem.reduced_axis is None else 4  # written and read, by a reduction twice
        epilogue_wavefronts = passes * tile_m * (tile_n + EPILOGUE_PAD) * 4 / device.shared_bytes_per_cycle
    partial_bytes = 4.0 * results if p.split_k > 1 else 0.0
    across, _, _ = p.reduction_tiles
    part_bytes = 4.0 * (tile_m if problem.reduced_axis == -1 else tile_n) if across > 1 else 0.0
    return CostCounts(
        blocks=p.blocks,
        threads=p.threads,
        shared_bytes=p.shared_bytes,
        registers=p.registers,
        unit=p.intrinsic.unit,
        operand_dtype=p.intrinsic.type_a,
        flops=2.0 * tile_m * tile_n * tile_k * steps,
        instructions=loop_instructions * steps + (4.0 if problem.reduced_axis is None else 7.0) * results / warp,
        shared_wavefronts=loop_wavefronts * steps + epilogue_wavefronts,
        load_bytes=sum(o.copy.sectors for o in (p.a, p.b)) * SECTOR_BYTES * steps + partial_bytes + part_bytes,
        store_bytes=results * problem.out_dtype.bytes / p.split_k + partial_bytes + part_bytes,
        dram_bytes=_dram_bytes(p, device),
        iterations=steps,
        stages=p.stages,
        barriers_per_iteration=1 if p.stages > 1 else 2,
    )


def _dram_bytes(p: MatmulPlan, device: Device) -> float:
    """Traffic between DRAM and L2 for the launch.

    Operands that fit into L2 are read once. Otherwise each wave of resident blocks reads the panels of a and b that
    its tiles touch, and a wave that walks in bands touches fewer.
    """
    problem, (tile_m, tile_n, _) = p.problem, p.tile
    partials = 2.0 * 4 * p.accumulators * p.threads * p.blocks if p.split_k > 1 else 0.0  # written, then read
    compulsory = float(problem.min_bytes) + partials
    element = problem.input_dtype.bytes
    operand_bytes = element * (problem.m + problem.n) * problem.k
    if operand_bytes <= L2_SHARE * device.l2_bytes:
        return compulsory
    tiles_m, tiles_n, _ = p.tiles
    resident = max(1, occupancy(device, p.threads, min(p.registers, device.max_registers_per_thread), p.shared_bytes))
    wave = min(resident * device.sm_count, tiles_m * tiles_n)
    rows, cols = _wave_shape(p.config.text("raster"), wave, tiles_m, tiles_n)
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
    band = min(raster_group(raster), tiles_m)
    return min(float(band) * max(1.0, wave / (band * tiles_n)), tiles_m), min(wave / band, float(tiles_n))
