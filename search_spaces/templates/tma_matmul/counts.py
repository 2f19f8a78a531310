"""Cost counts of a TMA matmul schedule."""

from __future__ import annotations

import math

from search_spaces.hardware.costs.bank_conflicts import fragment_traffic
from search_spaces.hardware.costs.cost_counts import CostCounts
from search_spaces.hardware.costs.transactions import SECTOR_BYTES
from search_spaces.hardware.devices import Device
from search_spaces.hardware.intrinsics import intrinsic
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.config import Config
from search_spaces.templates.common.boxes import SIDES
from search_spaces.templates.common.compiled_registers import compiled_registers
from search_spaces.templates.common.matmul_traffic import dram_bytes
from search_spaces.templates.common.stream_k import (
    ADDITIONS,
    TRIPS_OF_SPLIT,
    dealt_share,
    exchanged_bytes,
    trips_to_exchange,
)
from search_spaces.templates.matmul.counts import MORE_REGISTERS
from search_spaces.templates.matmul.decisions import tile_shape
from search_spaces.templates.matmul.lowering import tile, wg_maps
from search_spaces.templates.tma_matmul.lowering import box, boxes

OF_STAGE = 16  # warp instructions to wait for a stage, release the stage and advance to the next


def counts(problem: Matmul, config: Config, device: Device) -> CostCounts:
    """Return the cost counts of a valid config."""
    tile_m, tile_n, tile_k = tile(config)
    stages, split_k, steps = config.integers("stages", "split_k", "tiles_of_split")
    fragments_m, fragments_n = config.integers("fragments_m", "fragments_n")
    row = intrinsic(config.text("intrinsic"))
    blocks, launched, stream_k = config.integers("blocks", "launched_blocks", "stream_k")
    tiles = blocks / launched  # number of tiles per block
    warps = config.integer("multiplying_threads") // device.warp_size
    element = problem.input_dtype.bytes

    reads = [
        (fragment_traffic(row, side, box(problem, config, side), element), boxes(problem, config, side))
        for side in SIDES
    ]
    # If several subgroups need the same part of an operand, each of them reads the fragments of this part.
    sharers = [
        math.prod(m.sharers(tile_shape(side, tile_m, tile_n, tile_k)))
        for side, m in zip(SIDES, wg_maps(config)[:2], strict=True)
    ]
    stage_bytes = config.integer("stage_bytes")
    wavefronts = stage_bytes / device.shared_bytes_per_cycle + sum(
        read.wavefronts * count * s for (read, count), s in zip(reads, sharers, strict=True)
    )
    multiplies = fragments_m * fragments_n * tile_k // row.k * warps * row.instructions
    loads = sum(read.instructions * count * s for (read, count), s in zip(reads, sharers, strict=True))
    copies = 2 * sum(count for _, count in reads) + OF_STAGE  # instructions of the producer warp, which issues copies
    issued = multiplies + 2 * loads + copies + OF_STAGE * warps

    results = tile_m * tile_n
    out_bytes = results * problem.out_dtype.bytes
    stored_bytes, epilogue_wavefronts = float(out_bytes), 3 * out_bytes / device.shared_bytes_per_cycle
    if config["epilogue"] == "registers":
        # A store from registers writes one row of a fragment at a time. Each row fills only part of a sector, and is a
        # separate line of L1.
        piece = row.n * problem.out_dtype.bytes
        stored_bytes *= max(1.0, SECTOR_BYTES / piece)
        epilogue_wavefronts = out_bytes / min(piece, device.shared_bytes_per_cycle)
    partial_bytes = 4.0 * results if split_k > 1 else 0.0
    finishing = 4.0 * results / device.warp_size
    # With stream-K, the next stages are filled while a tile's sums are exchanged and stored, but the tensor cores are
    # idle.
    exchanged = exchanged_bytes(tile_m, tile_n) if stream_k else 0.0
    ends = math.ceil(tiles) if stream_k else 0
    dealt = dealt_share(blocks, launched) if stream_k else 0.0
    return CostCounts(
        blocks=launched,
        threads=config.integer("threads"),
        shared_bytes=config.integer("shared_bytes"),
        registers=compiled_registers(config, device, more=MORE_REGISTERS),
        unit=row.unit,
        operand_dtype="i8" if problem.a == "i8" else row.rated_as,
        flops=2.0 * tile_m * tile_n * tile_k * problem.input_dtype.values * steps * tiles,
        instructions=(issued * steps + finishing) * tiles + ADDITIONS * exchanged,
        shared_wavefronts=(wavefronts * steps + epilogue_wavefronts) * tiles,
        load_bytes=(stage_bytes * steps + partial_bytes) * tiles,
        store_bytes=(stored_bytes / split_k + partial_bytes) * tiles + 2 * exchanged,
        dram_bytes=dram_bytes(problem, config, device, out_of_step=dealt) + exchanged * launched,
        iterations=math.ceil(steps * tiles),
        stages=stages,
        barriers_per_iteration=0.0,  # no barrier cost, as warps that multiply do not wait for each other
        refills=config["fragment_buffers"] == 1,
        run_bytes=float(min(box(problem, config, side).line * element for side in SIDES)),
        drains=ends,
        round_trips=trips_to_exchange(exchanged, config.integer("multiplying_threads"))
        if stream_k
        else TRIPS_OF_SPLIT
        if split_k > 1
        else 0,
        drain_instructions=finishing * ends + ADDITIONS * exchanged,
    )
