"""Cost counts of a matmul schedule."""

from __future__ import annotations

import math

from search_spaces.hardware.costs.bank_conflicts import fragment_traffic
from search_spaces.hardware.costs.cost_counts import CostCounts
from search_spaces.hardware.costs.data_movement import CopyPlan
from search_spaces.hardware.costs.transactions import SECTOR_BYTES, WIDEST_BYTES
from search_spaces.hardware.devices import Device
from search_spaces.hardware.intrinsics import intrinsic
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.config import Config
from search_spaces.templates.common.compiled_registers import compiled_registers
from search_spaces.templates.common.matmul_traffic import dram_bytes
from search_spaces.templates.common.stream_k import (
    ADDITIONS,
    TRIPS_OF_SPLIT,
    dealt_share,
    exchanged_bytes,
    trips_to_exchange,
)
from search_spaces.templates.matmul.decisions import whole_tile
from search_spaces.templates.matmul.lowering import SIDES, copy, reduction_parts, tile, wg_maps

# Registers in addition to the lower bound. 24 sampled kernels (sm_90a, NVRTC 13.5, 2026-11-22) needed 22 registers more
# in the median, and 46 more at the 90th percentile; none of these kernels spilled.
MORE_REGISTERS = 22


def counts(problem: Matmul, config: Config, device: Device) -> CostCounts:
    """Return the cost counts of a valid config."""
    tile_m, tile_n, tile_k = tile(config)
    threads, stages, split_k, steps = config.integers("threads", "stages", "split_k", "tiles_of_split")
    blocks, launched, stream_k = config.integers("blocks", "launched_blocks", "stream_k")
    tiles = blocks / launched  # number of tiles per block
    fragments_m, fragments_n = config.integers("fragments_m", "fragments_n")
    row = intrinsic(config.text("intrinsic"))
    warps = threads // device.warp_size

    copies = [copy(problem, config, side) for side in SIDES]
    reads = [
        fragment_traffic(row, side, c.layout, c.region.element_bytes) for side, c in zip(SIDES, copies, strict=True)
    ]
    # If several subgroups multiply the same fragments, each of them reads these fragments.
    sharers = [math.prod(m.sharers(c.region.shape)) for m, c in zip(wg_maps(config)[:2], copies, strict=True)]
    loop_wavefronts = sum(r.wavefronts * s for r, s in zip(reads, sharers, strict=True)) + sum(map(_copied, copies))
    multiplies = fragments_m * fragments_n * tile_k // row.k * warps * row.instructions
    loads = sum(r.instructions * s for r, s in zip(reads, sharers, strict=True))
    # For each vector, a copy executes a global load and a shared store, and for partial tiles a bounds check and an
    # address computation.
    moves = sum(c.requests * (3 if c.method == "ld.global" else 2) for c in copies)
    iterations = -(-tile_k // (row.k * config.integer("unroll")))
    loop_instructions = multiplies + 2 * loads + moves + (12 + 4 * iterations) * warps

    results = tile_m * tile_n
    out_bytes = results * problem.out_dtype.bytes
    stored_bytes, epilogue_wavefronts = float(out_bytes), 0.0
    if config["epilogue"] == "registers":
        # A store from registers writes one row of a fragment at a time. Each row fills only part of a sector, and is a
        # separate line of L1.
        piece = row.n * problem.out_dtype.bytes
        stored_bytes *= max(1.0, SECTOR_BYTES / piece)
        epilogue_wavefronts = out_bytes / min(piece, device.shared_bytes_per_cycle)
    elif whole_tile(problem, row):
        # The epilogue writes and reads each f32 sum in shared memory: once, or twice with a reduction.
        passes = 2 if problem.reduced_axis is None else 4
        epilogue_wavefronts = (passes * 4 * results + out_bytes) / device.shared_bytes_per_cycle
    else:
        # every result is written to shared memory, read, and stored to global memory
        epilogue_wavefronts = 3 * out_bytes / device.shared_bytes_per_cycle
    partial_bytes = 4.0 * results if split_k > 1 else 0.0
    across, _ = reduction_parts(problem, config)
    part_bytes = 4.0 * (tile_m if problem.reduced_axis == -1 else tile_n) if across > 1 else 0.0
    finishing = (4.0 if problem.reduced_axis is None else 7.0) * results / device.warp_size
    # With stream-K, no other work overlaps with the end of a tile and the exchange of sums.
    exchanged = exchanged_bytes(tile_m, tile_n) if stream_k else 0.0
    ends = math.ceil(tiles) if stream_k else 0
    dealt = dealt_share(blocks, launched) if stream_k else 0.0
    return CostCounts(
        blocks=launched,
        threads=threads,
        shared_bytes=config.integer("shared_bytes"),
        registers=compiled_registers(config, device, more=MORE_REGISTERS),
        unit=row.unit,
        operand_dtype="i8" if problem.a == "i8" else row.rated_as,  # CUDA cores multiply all float types in f32
        flops=2.0 * tile_m * tile_n * tile_k * problem.input_dtype.values * steps * tiles,
        instructions=(loop_instructions * steps + finishing) * tiles + ADDITIONS * exchanged,
        shared_wavefronts=(loop_wavefronts * steps + epilogue_wavefronts) * tiles,
        load_bytes=(sum(c.sectors for c in copies) * SECTOR_BYTES * steps + partial_bytes + part_bytes) * tiles,
        store_bytes=(stored_bytes / split_k + partial_bytes + part_bytes) * tiles + 2 * exchanged,
        dram_bytes=dram_bytes(problem, config, device, out_of_step=dealt) + exchanged * launched,
        iterations=math.ceil(steps * tiles),
        stages=stages,
        barriers_per_iteration=1 if stages > 1 else 2,
        refills=config["fragment_buffers"] == 1,
        run_bytes=float(min(c.region.line * c.region.element_bytes for c in copies)),
        restarts=max(ends - 1, 0) * (1 - config.integer("early_copies")),
        drains=ends,
        round_trips=trips_to_exchange(exchanged, threads) if stream_k else TRIPS_OF_SPLIT if split_k > 1 else 0,
        drain_instructions=finishing * ends + ADDITIONS * exchanged,
    )


def _copied(plan: CopyPlan) -> int:
    """Return the cycles of L1 and shared memory for copying a tile.

    Only a 16-byte cp.async bypasses L1 (PTX ISA, "cp.async", .cg), so its tag lookups overlap with its stores. For all
    other copies, the cycles of loads and stores add up.
    """
    if plan.method == "cp.async" and plan.vector * plan.region.element_bytes == WIDEST_BYTES:
        return max(plan.tags, plan.stores.wavefronts)
    return plan.tags + plan.stores.wavefronts
