"""Cost counts of a tcgen05 matmul schedule."""

from __future__ import annotations

import math

from search_spaces.hardware.costs.cost_counts import CostCounts
from search_spaces.hardware.costs.transactions import SECTOR_BYTES
from search_spaces.hardware.devices import Device
from search_spaces.hardware.tcgen05 import ROWS
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.config import Config
from search_spaces.templates.common.boxes import SIDES
from search_spaces.templates.common.matmul_traffic import dram_bytes
from search_spaces.templates.common.stream_k import ADDITIONS, TRIPS_TO_EXCHANGE, dealt_share, exchanged_bytes
from search_spaces.templates.tcgen05_matmul.lowering import blocks_of_tile, box
from search_spaces.templates.tcgen05_matmul.problem import row_of
from search_spaces.templates.tcgen05_matmul.space import LAUNCH_CONTROL

SCALING = 1.25  # instructions of a thread for each sum: an addition, and 1/32 of a load of 32 columns


def counts(problem: Matmul, config: Config, device: Device) -> CostCounts:
    """Return the cost counts of a valid config for one block."""
    tile_m, tile_n, tile_k = config.integers("tile_m", "tile_n", "tile_k")
    steps, stages, sum_buffers, split_k = config.integers("tiles_of_split", "stages", "sum_buffers", "split_k")
    launched, store_buffers = config.integers("launched_blocks", "store_buffers")
    pair = blocks_of_tile(config)
    stream_k, in_blocks = config.integer("stream_k"), problem.scale == "block"
    works = config.integer("blocks")
    asks = config.text("tile_scheduler") == LAUNCH_CONTROL
    # Number of persistent workers (blocks or clusters).
    workers = -(-works // config.integer("tiles_per_block")) if asks else launched // pair
    tiles = works / workers if stream_k else -(-works // workers)  # number of tiles per block
    row = row_of(problem, tile_m, tile_n)
    element = problem.input_dtype.bytes

    # Each multiplication reads the block's parts of a and b from shared memory. TMA writes each stage only once.
    multiplications = tile_k // row.k
    stage_bytes = config.integer("stage_bytes")
    read_bytes = multiplications * element * row.k * (ROWS + tile_n // pair)
    wavefronts = (read_bytes + stage_bytes) / device.shared_bytes_per_cycle
    boxes = sum(config.integer(f"stage_bytes_{side}") / (box(problem, config, side).size * element) for side in SIDES)
    # One thread issues multiplications, and another issues copies; each also waits for barriers and advances to the
    # next stage.
    issued = 4 * multiplications + 4 * boxes + 40
    if in_blocks:  # with block scales, warps load, scale and accumulate the sums of each k-tile
        issued += SCALING * ROWS * tile_n / device.warp_size
    results = ROWS * tile_n
    out_bytes = results * problem.out_dtype.bytes
    # Each thread loads, converts and stores a row, so a store of 16 bytes per lane writes only a part of each sector.
    finishing = 5.0 * results / device.warp_size
    stored = float(out_bytes) if store_buffers else out_bytes * max(1.0, SECTOR_BYTES / 16 / 2)
    # bytes of partial sums, which blocks write and the last block of a tile reads
    partial_bytes = 4.0 * results if split_k > 1 else 0.0
    stored = stored / split_k + partial_bytes
    exchanged = exchanged_bytes(ROWS, tile_n) if stream_k else 0.0
    overlapped = (tiles - 1) * stored if sum_buffers > 1 else 0.0
    ends = 1 if sum_buffers > 1 else math.ceil(tiles)
    return CostCounts(
        blocks=workers * pair,
        threads=config.integer("threads"),
        shared_bytes=config.integer("shared_bytes"),
        registers=config.integer("registers"),
        unit=row.unit,
        operand_dtype=row.rated_as,
        flops=2.0 * ROWS * tile_n * tile_k * problem.input_dtype.values * steps * tiles,
        instructions=(issued * steps + finishing) * tiles + ADDITIONS * exchanged,
        shared_wavefronts=(
            wavefronts * steps + (2.0 * out_bytes / device.shared_bytes_per_cycle if store_buffers else 0.0)
        )
        * tiles,
        load_bytes=(stage_bytes * steps + partial_bytes) * tiles + overlapped,
        store_bytes=stored * tiles - overlapped + 2 * exchanged,
        dram_bytes=dram_bytes(problem, config, device, (1, 1), dealt_share(works, workers) if stream_k else 0.0)
        + exchanged * launched,
        iterations=math.ceil(steps * tiles),
        cluster=pair,
        stages=stages,
        barriers_per_iteration=0,
        run_bytes=float(min(box(problem, config, side).line * element for side in SIDES)),
        drains=ends,
        round_trips=TRIPS_TO_EXCHANGE if stream_k else 0,
        drain_instructions=finishing * ends + ADDITIONS * exchanged,
    )
