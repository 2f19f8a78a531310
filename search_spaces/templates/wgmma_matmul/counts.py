"""What one wgmma schedule demands of the machine: counts that follow from the config, not times."""

from __future__ import annotations

from search_spaces.hardware.cost_counts import CostCounts
from search_spaces.hardware.data_movement import SECTOR_BYTES
from search_spaces.hardware.devices import Device
from search_spaces.hardware.wgmma import ROWS, wgmma_row
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.config import Config
from search_spaces.templates.common.matmul_traffic import dram_bytes
from search_spaces.templates.wgmma_matmul.lowering import box
from search_spaces.templates.wgmma_matmul.problem import SIDES

RUN_OF_STORE = 8  # neighbours of a row of out that four lanes store at a time


def counts(problem: Matmul, config: Config, device: Device) -> CostCounts:
    """The cost counts of a valid config."""
    tile_m, tile_n, tile_k = config.integers("tile_m", "tile_n", "tile_k")
    stages, split_k, steps = config.integers("stages", "split_k", "tiles_of_split")
    consumers, in_flight, stage_bytes = config.integers("consumers", "in_flight", "stage_bytes")
    row = wgmma_row(problem.multiplied_as, tile_n)
    element = problem.input_dtype.bytes

    # Each multiplication reads its own rows of a and all columns of b from shared memory, which TMA has written once.
    multiplications = tile_m // ROWS * (tile_k // row.k)
    read_bytes = multiplications * element * row.k * (ROWS + tile_n)
    wavefronts = (read_bytes + stage_bytes) / device.shared_bytes_per_cycle
    boxes = sum(stage_bytes_of / box_bytes for stage_bytes_of, box_bytes in _boxes(problem, config))
    # A warp issues a multiplication and the two descriptors of it; waiting and the walk of the ring take the rest.
    issued = 4 * (3 * multiplications + 16 * consumers) + 2 * boxes + 16

    results = tile_m * tile_n
    partial_bytes = 4.0 * results if split_k > 1 else 0.0
    run = RUN_OF_STORE * problem.out_dtype.bytes
    return CostCounts(
        blocks=config.integer("blocks"),
        threads=config.integer("threads"),
        shared_bytes=config.integer("shared_bytes"),
        registers=config.integer("registers"),
        unit=row.unit,
        operand_dtype=row.type_a,
        flops=2.0 * tile_m * tile_n * tile_k * steps,
        instructions=issued * steps + 4.0 * results / device.warp_size,
        shared_wavefronts=wavefronts * steps,
        load_bytes=float(stage_bytes) * steps + partial_bytes,
        store_bytes=results * problem.out_dtype.bytes * max(1.0, SECTOR_BYTES / run) / split_k + partial_bytes,
        dram_bytes=dram_bytes(problem, config, device),
        iterations=steps,
        stages=stages,
        # With nothing in flight a lone consumer's tensor cores run dry once a k-tile.
        barriers_per_iteration=1 if in_flight == 0 and consumers == 1 else 0,
        run_bytes=float(min(box(problem, config, side).line * element for side in SIDES)),
    )


def _boxes(problem: Matmul, config: Config) -> tuple[tuple[int, int], ...]:
    """Bytes of each operand's stage, and of one of its boxes."""
    element = problem.input_dtype.bytes
    return tuple((config.integer(f"stage_bytes_{side}"), box(problem, config, side).size * element) for side in SIDES)
