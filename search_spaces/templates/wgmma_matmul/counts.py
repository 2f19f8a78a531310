"""Cost counts of a wgmma matmul schedule."""

from __future__ import annotations

import math

from search_spaces.hardware.costs.cost_counts import CostCounts
from search_spaces.hardware.costs.transactions import SECTOR_BYTES
from search_spaces.hardware.devices import Device
from search_spaces.hardware.wgmma import ROWS, WARPGROUP
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.config import Config
from search_spaces.templates.common.boxes import SIDES
from search_spaces.templates.common.matmul_traffic import dram_bytes
from search_spaces.templates.common.raster import HILBERT, hilbert_rounds
from search_spaces.templates.common.stream_k import (
    ADDITIONS,
    TRIPS_OF_SPLIT,
    dealt_share,
    exchanged_bytes,
    trips_to_exchange,
)
from search_spaces.templates.wgmma_matmul.fragments import loading
from search_spaces.templates.wgmma_matmul.lowering import box
from search_spaces.templates.wgmma_matmul.movement import copying
from search_spaces.templates.wgmma_matmul.problem import row_of

HILBERT_CYCLES = 100.0  # cycles of one round of the search for a tile on a Hilbert curve: 25 dependent instructions
# Fraction of k-tiles that both consumers finish at the same time. This is an assumption, based on the 808 TFLOP/s of a
# kernel without k-tiles in flight (fast.cu).
BOTH_END = 0.125
ROWS_OF_STORE = 8  # number of rows of out to which one store instruction of a warp writes
RUN_OF_STORE = 8  # number of consecutive elements of a row of out that four lanes store together


def counts(problem: Matmul, config: Config, device: Device) -> CostCounts:
    """Return the cost counts of a valid config."""
    tile_m, tile_n, tile_k = config.integers("tile_m", "tile_n", "tile_k")
    stages, split_k, steps = config.integers("stages", "split_k", "tiles_of_split")
    consumers, in_flight, ping_pong = config.integers("consumer_warpgroups", "in_flight", "ping_pong")
    blocks, launched, store_buffers = config.integers("blocks", "launched_blocks", "store_buffers")
    stream_k = config.integer("stream_k")
    cluster = config.integer("cluster_m"), config.integer("cluster_n")
    if config.integer("tiles_per_block") > 1 and not stream_k:  # persistent blocks: launch no more than can be resident
        launched = min(launched, device.running_sms(math.prod(cluster)) * config.integer("min_blocks"))
    tiles = blocks / launched if stream_k else -(-blocks // launched)  # number of tiles per block
    row = row_of(problem, tile_n)
    element = problem.input_dtype.bytes

    # Each multiplication reads its own rows of a and all columns of b from shared memory. TMA writes both to shared
    # memory once.
    multiplications = tile_m // ROWS * (tile_k // row.k)
    read_bytes = multiplications * element * row.k * (ROWS + tile_n)
    stage_a, stage_b, stage_bytes = config.integers("stage_bytes_a", "stage_bytes_b", "stage_bytes")
    wavefronts = (read_bytes + stage_bytes) / device.shared_bytes_per_cycle
    boxes = sum(stage_bytes_of / box_bytes for stage_bytes_of, box_bytes in _boxes(problem, config))
    copied = {side: counted for side in SIDES if (counted := copying(problem, config, side, device)) is not None}
    wavefronts += sum(counted.wavefronts for counted in copied.values())
    # A warp issues 3 instructions per multiplication: one for each of two descriptors, and the wgmma. Waiting for a
    # stage and advancing the ring take 16 instructions.
    issued = 4 * (3 * multiplications + 16 * consumers) + 2 * boxes + 16
    if problem.scale == "block":  # with block scales, warps scale and accumulate the sums of each k-tile
        issued += tile_m * tile_n / device.warp_size
    issued += sum(counted.issued for counted in copied.values())
    read_bytes_of_a = multiplications * element * row.k * ROWS
    of_loads, wavefronts_of_loads = loading(
        problem, config, multiplications, read_bytes_of_a / device.shared_bytes_per_cycle
    )
    issued += of_loads
    wavefronts += wavefronts_of_loads
    requested = stage_a / config.integer("cluster_n") + stage_b / config.integer("cluster_m")
    sectors = requested + sum(
        (counted.sector_share - 1) * (stage_a if side == "a" else stage_b) for side, counted in copied.items()
    )
    # Copies by threads are signalled as complete only after copies to the next stages have started.
    ahead = max(2, stages - in_flight) if copied else stages

    results = tile_m * tile_n
    finishing = 4.0 * results / device.warp_size
    partial_bytes = 4.0 * results if split_k > 1 else 0.0
    out_bytes = results * problem.out_dtype.bytes
    # Stores by TMA, or by one of two alternating consumers, overlap with the next tile, and add to the traffic of its
    # loads. The stores of the last tile, and all other stores from registers, overlap with nothing.
    stored = float(out_bytes) if store_buffers else out_bytes * max(1.0, SECTOR_BYTES / _run_of_store(problem))
    stored = stored / split_k + partial_bytes
    # Each store instruction of a warp writes several rows of out, and touches one L1 line per row. This takes longer
    # than issuing the instruction.
    lines = 0.0 if store_buffers else results / (device.warp_size * _vector_of_store(problem)) * ROWS_OF_STORE
    draining = max(finishing, device.schedulers_per_sm * lines)
    overlapped = (tiles - 1) * stored if store_buffers or ping_pong else 0.0
    ends = 1 if ping_pong else math.ceil(tiles)
    exchanged = exchanged_bytes(tile_m, tile_n) if stream_k else 0.0
    exposed = 0.0 if ping_pong else exchanged  # with ping-pong, the other consumer multiplies during an epilogue
    dealt = dealt_share(blocks, launched) if stream_k else 0.0
    stored_boxes = _stored_boxes(problem, config)
    staged_whole = store_buffers == stored_boxes
    return CostCounts(
        blocks=launched,
        threads=config.integer("threads"),
        shared_bytes=config.integer("shared_bytes"),
        registers=config.integer("registers"),
        unit=row.unit,
        operand_dtype=row.rated_as,
        flops=2.0 * tile_m * tile_n * tile_k * steps * tiles,
        instructions=(issued * steps + finishing) * tiles + ADDITIONS * exchanged,
        shared_wavefronts=(
            wavefronts * steps + (2.0 * out_bytes / device.shared_bytes_per_cycle if store_buffers else 0.0)
        )
        * tiles
        + lines * (tiles - ends),  # stores take L1 bandwidth from the other consumer
        load_bytes=(sectors * steps + partial_bytes) * tiles + overlapped + 2 * (exchanged - exposed),
        store_bytes=stored * tiles - overlapped + 2 * exposed,
        dram_bytes=dram_bytes(problem, config, device, cluster, dealt) + exchanged * launched,
        iterations=math.ceil(steps * tiles),
        cluster=math.prod(cluster),
        stages=ahead,
        # Without k-tiles in flight, tensor cores are idle once per k-tile if one consumer multiplies at a time. If two
        # consumers multiply, tensor cores are idle only if both finish a k-tile at the same time.
        barriers_per_iteration=0.0 if in_flight else 1.0 if consumers == 1 or ping_pong else BOTH_END,
        run_bytes=float(min(box(problem, config, side).line * element for side in SIDES)),
        multicast_bytes=(stage_bytes - requested) * steps * tiles,
        boxed=ends if store_buffers else 0,
        boxes=1 if staged_whole else stored_boxes,  # one wait is enough if the buffers hold all boxes of a tile
        box_buffers=1 if staged_whole else max(store_buffers, 1),
        copying_cycles=sum(counted.cycles for counted in copied.values()),
        drains=ends,
        round_trips=trips_to_exchange(exchanged, consumers * WARPGROUP)
        if exposed
        else TRIPS_OF_SPLIT
        if split_k > 1
        else 0,
        drain_instructions=(draining + device.schedulers_per_sm * _seeking(config, cluster)) * ends
        + ADDITIONS * exposed,
    )


def _stored_boxes(problem: Matmul, config: Config) -> int:
    """Return the number of boxes of 64 rows that a consumer stores per tile."""
    tile_m, tile_n, consumers = config.integers("tile_m", "tile_n", "consumer_warpgroups")
    fragments = tile_m // (ROWS * (1 if config.integer("ping_pong") else consumers))
    return fragments * (tile_n * problem.out_dtype.bytes // config.integer("store_line"))


def _seeking(config: Config, cluster: tuple[int, int]) -> float:
    """Return the cycles in which a consumer computes the position of its next tile of ``out``."""
    if config.text("raster") != HILBERT:
        return 0.0
    across_m, across_n = (config.integer(f"tiles_{axis}") // of for axis, of in zip("mn", cluster, strict=True))
    return HILBERT_CYCLES * hilbert_rounds(across_m, across_n)


def _vector_of_store(problem: Matmul) -> int:
    """Return the number of consecutive elements of a row of out that a lane stores at a time."""
    return 2 if problem.n % 2 == 0 else 1


def _run_of_store(problem: Matmul) -> int:
    """Return the number of contiguous bytes of ``out`` that four lanes store together."""
    return RUN_OF_STORE * problem.out_dtype.bytes


def _boxes(problem: Matmul, config: Config) -> tuple[tuple[int, int], ...]:
    """Return, for each operand, the bytes that it occupies in a stage, and the bytes of one of its boxes."""
    element = problem.input_dtype.bytes
    return tuple((config.integer(f"stage_bytes_{side}"), box(problem, config, side).size * element) for side in SIDES)
