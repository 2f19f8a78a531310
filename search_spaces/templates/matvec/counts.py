"""Cost counts of a matvec schedule."""

from __future__ import annotations

from search_spaces.hardware.costs.cost_counts import CostCounts
from search_spaces.hardware.costs.transactions import SECTOR_BYTES
from search_spaces.hardware.devices import Device
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.matvec import Matvec
from search_spaces.spaces.config import Config
from search_spaces.templates.common.compiled_registers import compiled_registers
from search_spaces.templates.common.stream_k import TRIPS_OF_SPLIT
from search_spaces.templates.matvec.problem import as_matvec
from search_spaces.templates.matvec.space import FMA, aligned_elements, mma_row

REGISTER_SCALE = 1.7  # ratio of compiled to estimated registers, in 20 sampled kernels (sm_90a, NVRTC 13.5, 2026-11-22)


def counts(problem: Matvec | Matmul, config: Config, device: Device) -> CostCounts:
    """Return the cost counts of a valid config."""
    matvec = as_matvec(problem)
    tile_m, tile_n, step = config.integers("tile_m", "tile_n", "tile_k")
    threads, thread, access, steps = config.integers("threads", "vector_w", "access", "tiles_of_split")
    rows_x, rows_n, vectors, batches_k = config.integers("rows_x", "rows_n", "vectors", "batches_k")
    split_k, lanes_n, lanes_k = config.integers("split_k", "lanes_n", "lanes_k")
    element, mma = matvec.input_dtype.bytes, config["intrinsic"] != FMA
    x_shared = config["x_operand_source"] == "shared"
    warps = threads // device.warp_size
    row = mma_row(matvec)
    # number of rows of x that lanes read at the same time: the columns of an mma.sync fragment
    columns = row.n if mma else 1
    x_vectors = rows_x * batches_k

    # Warp instructions per step: with FMA, one per product and one per converted element; with mma.sync, one per 16 x 8
    # x 16 products. Loads and address computations are added in both cases. An unaligned vector of x in global memory
    # takes two loads and is assembled in registers; the second load of a lane reads the same address as the first load
    # of the next lane.
    realign = _realign_instructions(access, aligned_elements(matvec), element)
    x_width = min(thread, 16 // element) if x_shared else access
    x_loads = x_vectors * -(-thread // x_width)
    loads_of_x = 1 if x_shared or not realign else 2
    loads = vectors * (thread // access) + loads_of_x * x_loads
    conversions = 0 if mma else (vectors + x_vectors) * thread
    realigned = (loads_of_x - 1) * x_loads * realign
    step_instructions = config.integer("multiplies") + conversions + 2 * loads + realigned + 6
    results = tile_m * tile_n
    shuffles = 0 if mma else 4 * (lanes_k.bit_length() - 1)
    reduction = config.integer("accumulators") // batches_k if mma else tile_m * rows_n

    def wavefronts(width: int, parts: int, rows: int, rows_at_once: int) -> int:
        """Return the number of L1 cycles (of 128 bytes) to load one vector per thread of a warp.

        A load has ``width`` elements, and each lane executes ``parts`` adjacent loads. The loads of a warp are from
        ``rows`` rows; L1 may serve ``rows_at_once`` of these rows together.
        """
        # If a lane's loads are adjacent in memory, there are gaps between the addresses that the lanes of a warp access
        # with one load. So each load touches the cache lines of all ``parts`` loads.
        lines = max(1, lanes_k * width * parts * element // device.shared_bytes_per_cycle) * rows // rows_at_once
        least = -(-lanes_k * rows * width * element // device.shared_bytes_per_cycle)
        return int(max(lines, least) * -(-thread // width))

    # L1 and shared memory are one array that serves 128 bytes per cycle. Lanes with the same k read the same elements
    # of x. Lanes read different rows of x only for different columns of a fragment; in shared memory, these rows are in
    # different banks. A long vector is loaded in parts. In global memory, the parts of one lane alternate with the
    # parts of other lanes. In shared memory, the parts of a lane are contiguous.
    w_wavefronts = vectors * wavefronts(access, 1, lanes_n, 1)
    x_wavefronts = (
        loads_of_x
        * x_vectors
        * wavefronts(x_width, thread // x_width if x_shared else 1, columns, columns if x_shared else 1)
    )
    slab_bytes = tile_m * config.integer("split_elements") * element
    copies = (slab_bytes if x_shared else 0) + 2 * config.integer("sums_bytes")
    realigned_copies = slab_bytes / (access * element) * (realign + 3) if x_shared and realign else 0.0
    partial_bytes = 4.0 * results if split_k > 1 else 0.0
    return CostCounts(
        blocks=config.integer("blocks"),
        threads=threads,
        shared_bytes=config.integer("shared_bytes"),
        registers=compiled_registers(config, device, scale=REGISTER_SCALE),
        unit=row.unit if mma else "fma",
        operand_dtype=row.type_a if mma else "f32",
        flops=2.0 * rows_x * columns * tile_n * step * steps,
        instructions=warps * float(step_instructions * steps + reduction * (shuffles + 4))
        + (copies / 16.0 * 3 + realigned_copies) / device.warp_size,
        shared_wavefronts=(w_wavefronts + x_wavefronts) * warps * steps + copies / device.shared_bytes_per_cycle,
        load_bytes=float(tile_n * _line_bytes(matvec, config.integer("split_elements")) + slab_bytes) + partial_bytes,
        store_bytes=results * matvec.out_dtype.bytes / split_k + partial_bytes,
        dram_bytes=float(problem.min_bytes) + 2.0 * partial_bytes * config.integer("blocks"),
        iterations=-(-steps // config.integer("unroll")),
        stages=1,
        barriers_per_iteration=0,
        round_trips=TRIPS_OF_SPLIT if split_k > 1 else 0,
        run_bytes=float(lanes_k * thread * element),
    )


def _realign_instructions(access: int, unit: int, element: int) -> int:
    """Return how many instructions assemble an unaligned vector of ``access`` elements from two aligned vectors.

    The vector begins at a multiple of ``unit`` (autosched/common/realign.cuh). The instructions move words by distances
    that are powers of two. If ``unit`` is less than a word, each word also needs a funnel shift. An aligned vector
    needs no instructions.
    """
    if access <= unit:
        return 0
    words, unit_bytes = access * element // 4, unit * element
    moves = [1 << i for i in range(words.bit_length() - 1) if 4 << i >= unit_bytes]
    return sum(words + by for by in moves) + (words if unit_bytes < 4 else 0)


def _line_bytes(matvec: Matvec, elements: int) -> int:
    """Return the bytes of a row of w that a split loads, in whole sectors.

    The split has ``elements`` elements of the row.
    """
    line = elements * matvec.input_dtype.bytes
    aligned = matvec.k * matvec.input_dtype.bytes % SECTOR_BYTES == 0 and line % SECTOR_BYTES == 0
    return (-(-line // SECTOR_BYTES) + (0 if aligned else 1)) * SECTOR_BYTES
