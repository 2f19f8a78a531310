"""Cost counts of a row-reduction schedule."""

from __future__ import annotations

from search_spaces.hardware.costs.cost_counts import CostCounts
from search_spaces.hardware.costs.transactions import PHASE_BYTES, SECTOR_BYTES
from search_spaces.hardware.devices import Device, occupancy
from search_spaces.hardware.fragments import WARP
from search_spaces.operators.row_reduction import RowProblem
from search_spaces.spaces.config import Config
from search_spaces.templates.common.compiled_registers import compiled_registers

L2_SHARE = 0.5  # fraction of L2 that is available to rows that are read again; other data uses the remaining L2
# ratio of compiled to estimated registers, in 14 sampled softmax kernels (sm_90a, NVRTC 13.5, 2026-11-22)
REGISTER_SCALE = 1.6
INSTRUCTIONS_PER_FLOP = 1.5  # instructions per counted operation, including conversions and rounding


def counts(problem: RowProblem, config: Config, device: Device) -> CostCounts:
    """Return the cost counts of a valid config."""
    threads, split, vector, tile, chunk = config.integers("threads", "split_k", "vector_x", "parallel_tile", "chunk")
    steps, states, blocks, combine_bytes = config.integers("steps", "states", "blocks", "combine_bytes")
    staging = config["row_staging"]
    state_words = problem.state_words(config.text("passes"))
    element = problem.input_dtype.bytes
    warps = threads // device.warp_size
    # If several blocks share a row, it is finished by the last of these blocks, by all blocks in a second launch, or by
    # the cluster. The counts below are for an average block. While the last block finishes the last row, no other block
    # works.
    writes = problem.normalizes
    second_launch, in_cluster = config["finish"] == "second_launch", config["finish"] == "cluster"
    alone = split > 1 and writes and config["finish"] == "last_block"
    elements = tile * chunk
    passes = len(state_words) + (1 if writes else 0)
    reads = passes if staging == "reload" else 1
    vectors = elements / vector / device.warp_size
    load_sectors, lines = _sector_bytes(problem, element, tile), _lines(problem, config)

    shuffles = states * sum(state_words) * 5.0 * warps
    combined = combine_bytes / device.shared_bytes_per_cycle
    staged = passes * elements * element / device.shared_bytes_per_cycle if staging == "shared" else 0.0
    results = tile / split
    partial_bytes = 4.0 * state_words[0] * tile if split > 1 and not in_cluster else 0.0
    stored = elements * problem.out_dtype.bytes if writes else results * problem.out_dtype.bytes
    weights = (problem.has_weight + problem.has_bias) * chunk * element
    # In a peeled row, the vectors that are aligned in x are misaligned in weight and bias. Therefore weight and bias
    # are read element by element.
    peeled = config["peel"] == "yes"
    by_element = (problem.has_weight + problem.has_bias) * elements / device.warp_size if peeled else 0.0
    arithmetic = problem.flops_per_element * elements * INSTRUCTIONS_PER_FLOP / device.warp_size
    return CostCounts(
        blocks=blocks,
        threads=threads,
        shared_bytes=config.integer("shared_bytes"),
        registers=compiled_registers(config, device, scale=REGISTER_SCALE),
        unit="fma",
        operand_dtype="f32",
        flops=problem.flops_per_element * elements,
        instructions=arithmetic + by_element + 4.0 * vectors * passes + shuffles + 4.0 * states * warps,
        shared_wavefronts=2.0 * combined + 2.0 * staged + shuffles + vectors * reads * lines,
        load_bytes=elements * element * reads * load_sectors + weights + partial_bytes,
        store_bytes=float(stored + partial_bytes),
        dram_bytes=_dram_bytes(problem, config, reads, blocks * partial_bytes * 2.0, device),
        iterations=steps * reads if staging == "reload" else 1,
        stages=1,
        cluster=split if in_cluster else 1,
        barriers_per_iteration=1 if combine_bytes or split > 1 else 0,
        launches=2 if second_launch else 1,
        # Each block of a cluster reads the states of the other blocks from the shared memory of other SMs, with about
        # the latency of L2.
        round_trips=float(len(state_words)) if in_cluster else 0.0,
        alone_bytes=float(tile * problem.length * (element + problem.out_dtype.bytes)) if alone else 0.0,
        alone_trips=tile * problem.length / (threads * vector) if alone else 0.0,
        run_bytes=float((chunk if problem.reduces_contiguous else tile) * element),
    )


def _sector_bytes(problem: RowProblem, element: int, tile: int) -> float:
    """Return how many bytes are fetched for each byte that is used.

    If a line does not start at a sector boundary, it touches one more sector. A block with fewer columns than a sector
    still fetches whole sectors.
    """
    line = problem.contiguous * element
    narrow = 1.0 if problem.reduces_contiguous else max(1.0, SECTOR_BYTES / (tile * element))
    return narrow * (1.0 if line % SECTOR_BYTES == 0 else 1.0 + min(1.0, SECTOR_BYTES / line))


def _lines(problem: RowProblem, config: Config) -> int:
    """Return the number of 128-byte lines that a warp's load touches; each line takes a cycle of L1.

    Lanes that are adjacent along the contiguous axis access the same lines.
    """
    lanes, vector = config.integers("lanes_k", "vector_x")
    together = lanes if problem.reduces_contiguous else WARP // lanes
    return WARP // together * -(-together * vector * problem.input_dtype.bytes // PHASE_BYTES)


def _dram_bytes(problem: RowProblem, config: Config, reads: int, partial_bytes: float, device: Device) -> float:
    """Return the DRAM traffic: each operand once, and x once more for every further pass that L2 cannot serve."""
    x = float(problem.rows * problem.columns * problem.input_dtype.bytes)
    again = 0.0
    threads, registers, shared = config.integers("threads", "registers", "shared_bytes")
    tile, chunk = config.integers("parallel_tile", "chunk")
    resident = max(1, occupancy(device, threads, min(registers, device.max_registers_per_thread), shared))
    in_flight = min(x, float(resident * device.sm_count * tile * chunk * problem.input_dtype.bytes))
    # the first launch reads all of x before the second launch reads x again
    if config["finish"] == "second_launch" and config.integer("split_k") > 1:
        in_flight = x
    if reads > 1 and in_flight > L2_SHARE * device.l2_bytes:
        again = (reads - 1) * x
    return problem.min_bytes + again + partial_bytes
