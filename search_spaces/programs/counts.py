"""What one schedule of a tile program demands of the machine: counts that follow from the config, not times."""

from __future__ import annotations

import math

from search_spaces.hardware.bank_conflicts import WIDEST_BYTES, fragment_traffic
from search_spaces.hardware.cost_counts import CostCounts
from search_spaces.hardware.data_movement import SECTOR_BYTES, CopyPlan
from search_spaces.hardware.devices import Device, occupancy
from search_spaces.hardware.intrinsics import intrinsic
from search_spaces.programs import ir
from search_spaces.programs.functions import FUNCTIONS
from search_spaces.programs.lowering import analysis, copy
from search_spaces.programs.problem import ProgramProblem
from search_spaces.spaces.config import Config
from search_spaces.templates.common.compiled_registers import compiled_registers
from search_spaces.templates.common.matmul_traffic import L2_SHARE, wave_shape

MORE_REGISTERS = 22  # than the lower estimate, as of the hand-written template, whose loop is the same


def counts(problem: ProgramProblem, config: Config, device: Device) -> CostCounts:
    """The cost counts of a valid config."""
    found = analysis(problem, config)
    tile_m, tile_n, tile_k = config.integers("tile_m", "tile_n", "tile_k")
    threads, stages, steps, blocks = config.integers("threads", "stages", "tiles_k", "blocks")
    fragments_m, fragments_n = config.integers("fragments_m", "fragments_n")
    row, warps = intrinsic(config.text("intrinsic")), threads // device.warp_size
    shared_by = {"a": config.integer("sg_columns"), "b": config.integer("sg_rows")}

    copies = [copy(config, o) for o in found.operands]
    reads = [
        fragment_traffic(row, o.side, c.layout, c.region.element_bytes)
        for o, c in zip(found.operands, copies, strict=True)
    ]
    sharers = [shared_by[o.side] for o in found.operands]
    loop_wavefronts = sum(r.wavefronts * s for r, s in zip(reads, sharers, strict=True)) + sum(map(_copied, copies))
    multiplies = len(found.products) * fragments_m * fragments_n * tile_k // row.k * warps * row.instructions
    loads = sum(r.instructions * s for r, s in zip(reads, sharers, strict=True))
    moves = sum(c.requests * (3 if c.method == "ld.global" else 2) for c in copies)

    results = tile_m * tile_n
    stored = sum(results * s.value.dtype.bytes for s in found.stores)
    pieces = [row.n * s.value.dtype.bytes for s in found.stores]
    loaded = sum(math.prod(o.window.shape) * o.window.array.dtype.bytes for o in found.end if isinstance(o, ir.Load))
    arithmetic = sum(FUNCTIONS[o.function].cost for o in found.end if isinstance(o, ir.Map) and o.function != "cast")
    end = results / device.warp_size * (arithmetic + 2 * len(found.stores))
    return CostCounts(
        blocks=blocks,
        threads=threads,
        shared_bytes=config.integer("shared_bytes"),
        registers=compiled_registers(config, device, more=MORE_REGISTERS),
        unit=row.unit,
        operand_dtype=row.rated_as,
        flops=2.0 * results * tile_k * steps * len(found.products),
        instructions=(multiplies + 2 * loads + moves + 16 * warps) * steps + end,
        shared_wavefronts=loop_wavefronts * steps
        + sum(results * s.value.dtype.bytes / min(p, 128) for s, p in zip(found.stores, pieces, strict=True)),
        load_bytes=float(sum(c.sectors for c in copies) * SECTOR_BYTES * steps + loaded),
        store_bytes=stored * max(1.0, SECTOR_BYTES / min(pieces)),
        dram_bytes=_dram_bytes(problem, config, device),
        iterations=steps,
        stages=stages,
        barriers_per_iteration=1 if stages > 1 else 2,
        run_bytes=float(min(c.region.line * c.region.element_bytes for c in copies)),
    )


def _dram_bytes(problem: ProgramProblem, config: Config, device: Device) -> float:
    """Operands that fit into L2 are read once; otherwise each wave of blocks reads the panels that its tiles touch."""
    found = analysis(problem, config)
    operand_bytes = sum(math.prod(o.array.shape) * o.array.dtype.bytes for o in found.operands)
    if operand_bytes <= L2_SHARE * device.l2_bytes:
        return float(problem.min_bytes)
    threads, registers, shared_bytes, tiles_m, tiles_n = config.integers(
        "threads", "registers", "shared_bytes", "tiles_m", "tiles_n"
    )
    resident = max(1, occupancy(device, threads, min(registers, device.max_registers_per_thread), shared_bytes))
    wave = min(resident * device.sm_count, tiles_m * tiles_n)
    rows, columns = wave_shape(config.text("raster"), wave, tiles_m, tiles_n)
    touched = {"a": rows * config.integer("tile_m"), "b": columns * config.integer("tile_n")}
    panels = sum(found.depth * o.array.dtype.bytes * touched[o.side] for o in found.operands)
    waves = tiles_m * tiles_n / wave
    return max(float(problem.min_bytes), waves * panels + problem.min_bytes - operand_bytes)


def _copied(plan: CopyPlan) -> int:
    """Cycles of L1 and shared memory for a copy of a tile; cp.async of 16 bytes goes past L1."""
    if plan.method == "cp.async" and plan.vector * plan.region.element_bytes == WIDEST_BYTES:
        return max(plan.tags, plan.stores.wavefronts)
    return plan.tags + plan.stores.wavefronts
