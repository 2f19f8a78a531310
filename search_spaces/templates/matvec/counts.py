"""What one matvec schedule asks of the machine: counts that follow from the plan, none of them a time."""

from __future__ import annotations

from search_spaces.hardware.cost_counts import CostCounts
from search_spaces.hardware.data_movement import SECTOR_BYTES
from search_spaces.hardware.devices import Device
from search_spaces.operators.matvec import Matvec
from search_spaces.spaces.config import Config
from search_spaces.templates.matvec.lowering import MatvecPlan, plan
from search_spaces.templates.matvec.space import mma_row


def counts(problem: Matvec, config: Config, device: Device) -> CostCounts:
    """The cost counts of a valid config."""
    p = plan(problem, config)
    tile_m, tile_n, step = p.tile
    element = problem.input_dtype.bytes
    warps = p.threads // device.warp_size
    thread = config.integer("thread")
    x_shared = config["x_source"] == "shared"
    vectors = p.rows_n * p.batches_k  # of w, for a thread and a step
    columns = mma_row(problem).n
    rows_m = -(-tile_m // columns) * columns if p.mma else tile_m  # that are multiplied
    x_vectors = rows_m * p.batches_k // (columns if p.mma else 1)

    # Instructions of a warp for a step: an FMA for each product and a conversion for each element, or an mma.sync for
    # 16 x 8 x 16 of them; loads, addresses.
    x_width = min(thread, 16 // element) if x_shared else p.access
    loads = vectors * (thread // p.access) + x_vectors * -(-thread // x_width)
    conversions = 0 if p.mma else (vectors + x_vectors) * thread
    step_instructions = p.multiplies + conversions + 2 * loads + 6
    results = tile_m * tile_n
    shuffles = 0 if p.mma else 4 * (config.integer("lane_basis_k").bit_length() - 1)
    reduction = p.accumulators // p.batches_k if p.mma else tile_m * p.rows_n

    # L1 and shared memory are one array that serves 128 bytes a cycle. Lanes with the same k share what they read of
    # x, but for the columns of a fragment, which lie in different rows (and, in shared memory, in different banks).
    rows_of_x = columns if p.mma else 1
    w_wavefronts = vectors * _wavefronts(p, p.access, config.integer("lane_basis_n"), 1, device)
    x_wavefronts = x_vectors * _wavefronts(p, x_width, rows_of_x, rows_of_x if x_shared else 1, device)
    slab_bytes = tile_m * step * p.steps_of_split * element
    sums_bytes = 4 * results * (config.integer("subgroup_basis_k") if p.shared_bytes else 0)
    copies = (slab_bytes if x_shared else 0) + 2 * sums_bytes
    partial_bytes = 4.0 * results if p.split_k > 1 else 0.0
    rounds = -(-p.steps_of_split // config.integer("k_unroll"))
    return CostCounts(
        blocks=p.blocks,
        threads=p.threads,
        shared_bytes=p.shared_bytes,
        registers=p.registers,
        unit=mma_row(problem).unit if p.mma else "fma",
        operand_dtype=mma_row(problem).type_a if p.mma else "f32",
        flops=2.0 * rows_m * tile_n * step * p.steps_of_split,
        instructions=warps * float(step_instructions * p.steps_of_split + reduction * (shuffles + 4))
        + copies / (16.0 * device.warp_size) * 3,
        shared_wavefronts=(w_wavefronts + x_wavefronts) * warps * p.steps_of_split
        + copies / device.shared_bytes_per_cycle,
        load_bytes=float(tile_n * _line_bytes(p, element) + slab_bytes) + partial_bytes,
        store_bytes=results * problem.out_dtype.bytes / p.split_k + partial_bytes,
        dram_bytes=float(problem.min_bytes) + 2.0 * partial_bytes * p.blocks,
        iterations=rounds,
        stages=1,
        barriers_per_iteration=0,
    )


def _wavefronts(p: MatvecPlan, width: int, rows: int, rows_at_once: int, device: Device) -> int:
    """Cycles of the 128-byte-wide L1 in which a warp loads one vector for each thread, ``width`` elements at a time,
    from ``rows`` rows, of which ``rows_at_once`` may be served together."""
    element = p.problem.input_dtype.bytes
    thread = p.config.integer("thread")
    lanes_k = p.config.integer("lane_basis_k")
    # Loads narrower than the vector leave gaps between lanes, so each touches all the lines of the vectors.
    lines = max(1, lanes_k * thread * element // device.shared_bytes_per_cycle) * rows // rows_at_once
    least = -(-lanes_k * rows * width * element // device.shared_bytes_per_cycle)
    return int(max(lines, least) * -(-thread // width))


def _line_bytes(p: MatvecPlan, element: int) -> int:
    """Bytes of one row of w, over the k of a split, in whole sectors."""
    elements = p.tile[2] * p.steps_of_split
    aligned = p.problem.k * element % SECTOR_BYTES == 0 and elements * element % SECTOR_BYTES == 0
    return (-(-elements * element // SECTOR_BYTES) + (0 if aligned else 1)) * SECTOR_BYTES
