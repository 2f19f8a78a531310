"""Count the work of a schedule of a tile program, from which the time model estimates a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, lru_cache

from search_spaces.hardware.costs.cost_counts import CostCounts
from search_spaces.hardware.devices import Device, occupancy
from search_spaces.hardware.fragments import WARP
from search_spaces.programs.inference.inference import Inference
from search_spaces.programs.language import ir
from search_spaces.programs.language.layout_distributions import transposed_distribution
from search_spaces.programs.planning.block_order import (
    blocks_per_tile,
    imbalance,
    order_of,
    share_of_parts,
    uneven,
)
from search_spaces.programs.planning.boxes import BoxedNumbers, has_copying_warp
from search_spaces.programs.planning.choices import choices_of
from search_spaces.programs.planning.distributions import Distributions, distributions_of
from search_spaces.programs.planning.exchange import wavefronts
from search_spaces.programs.planning.instructions import WARPS, fragments, is_boxed
from search_spaces.programs.planning.memory import EARLY_COPIES, exchange_layout, stages_of
from search_spaces.programs.planning.persistent import launched_blocks, waits_between_tiles
from search_spaces.programs.planning.ping_pong import alternates
from search_spaces.programs.planning.products_ahead import exposed_products, runs_ahead
from search_spaces.programs.planning.scratch import exchanges
from search_spaces.programs.planning.splits import Split, combining_loop, split_of
from search_spaces.programs.planning.staging import StagedNumbers, in_shared
from search_spaces.programs.planning.unrolling import unroll_of
from search_spaces.programs.problem import ProgramProblem
from search_spaces.programs.schedules.work import (
    LINE_BYTES,
    BlockWork,
    average_iterations,
    operand_plan,
    work_of_block,
    work_of_values,
)
from search_spaces.spaces.config import Config
from search_spaces.templates.common.compiled_registers import compiled_registers
from search_spaces.templates.common.matmul_traffic import L2_SHARE, wave_shape
from search_spaces.templates.common.stream_k import ADDITIONS, TRIPS_OF_SPLIT, trips_to_exchange

# Assumed fraction of iterations in which both warpgroups wait for a barrier, as in templates/wgmma_matmul.
BOTH_END = 0.125
MANY_UNSTAGED = 0.125  # assumption: if unstaged loads exceed this fraction of loaded bytes, their latency is exposed
ROWS_OF_STORE = 8  # rows of a result to which a warp stores at a time, if it stores accumulators directly
MORE_REGISTERS = 22  # registers added to the lower bound, as in templates/matmul


@lru_cache(maxsize=2**10)
def _arrays(problem: ProgramProblem) -> tuple[int, int]:
    """Return the bytes of all inputs, and the bytes of all arrays."""
    return sum(o.bytes for o in problem.operands() if o.role == "input"), problem.min_bytes


@cache
def _chained(inference: Inference, number: int) -> bool:
    """Return True if an operand of a product depends on another product of the same iteration."""
    multiplied: set[int] = set()
    for operation in inference.loops[number].body:
        if not isinstance(operation, ir.Computing):
            continue
        of_product = any(value.id in multiplied for value in ir.inputs(operation))
        if isinstance(operation, ir.Mma) and {operation.a.id, operation.b.id} & multiplied:
            return True
        if of_product or isinstance(operation, ir.Mma):
            multiplied.add(operation.result.id)
    return False


@cache
def _longest(inference: Inference, number: int, each: int = 0, parts_of_tile: float = 1.0) -> float:
    """Return the largest number of iterations of a block relative to the average.

    The largest number is assumed to occur in the first or the last block.

    Args:
        inference: Inference of the program.
        number: Number of the loop.
        each: Most iterations of a block if only long tiles are shared by several blocks; otherwise 0.
        parts_of_tile: Average number of blocks per tile.
    """
    trace, loop = inference.trace, inference.loops[number]
    zero = {n: 0 for n in trace.iterations()}
    most = max(
        loop.iterations(block, zero) for block in (tuple(0 for _ in trace.blocks), tuple(b - 1 for b in trace.blocks))
    )
    mean = max(average_iterations(inference, number), 1.0)
    return max(1.0, each * parts_of_tile / mean if each else most / mean)


def counts(problem: ProgramProblem, config: Config, device: Device) -> CostCounts:
    """Return the cost counts of a valid config."""
    inference = choices_of(problem).inference(config)
    distributions = distributions_of(inference, config)
    work, split, staged = (
        work_of_block(inference, config, distributions),
        split_of(inference, config),
        in_shared(inference, config),
    )
    blocks, threads = config.integers("blocks", "threads")
    streamed = split.launched if split is not None else 0
    parts_of_tile = 1.0 if split is None or streamed else blocks_per_tile(inference, split)
    if split is not None and not streamed:
        blocks = round(blocks * parts_of_tile)
        registers = sum(distributions.of(inference.states[state]).registers for state in split.states)
        results = registers * distributions.warps * WARP * share_of_parts(inference, split)
        if split.keeps_last:  # only one of two blocks stores its partial result, and the other block loads it
            results /= 2
        work += BlockWork(store_bytes=4.0 * results, load_bytes=4.0 * results, instructions=5.0 * results / WARP)
    stages = stages_of(inference, config)
    if work_of_values(inference, config, distributions).unstaged_bytes > MANY_UNSTAGED * work.load_bytes:
        stages = dict.fromkeys(stages, 1)  # rings cannot hide the latency of unstaged loads
    main = max(stages, key=lambda n: average_iterations(inference, n), default=None)
    row = fragments(config.text("intrinsic")) if inference.products else None
    boxed = bool(inference.products) and is_boxed(config.text("intrinsic"))
    ending = _ending(inference, distributions, config) if boxed else 0.0
    trips = 0.0 if split is None else _trips_to_combine(inference, split, config)
    if split is not None and split.launches == 1:
        # With keeps_last, a block increments its tile's counter before the loop, so it does not wait for the increment
        # after the loop.
        trips += TRIPS_OF_SPLIT - 1 if split.keeps_last else TRIPS_OF_SPLIT
    # True if blocks wait at the end of a tile before they load operands of the next tile
    waits = streamed > 0 and not config.get(EARLY_COPIES, 0)
    tiles, ends, exchanged, dram = 1.0, int(boxed), 0.0, _dram_bytes(problem, config, device, work.load_bytes, blocks)
    if split is not None and streamed:
        # The end of a tile and the exchange of sums do not overlap with other work of the block.
        tiles, results = (
            blocks / streamed,
            sum(distributions.of(inference.states[s]).registers for s in split.states) * threads,
        )
        ends, exchanged = math.ceil(tiles), 4.0 * results
        trips = trips_to_exchange(exchanged, threads)
        ending = 4.0 * results / WARP * ends + ADDITIONS * exchanged
        work = work.times(tiles) + BlockWork(instructions=ADDITIONS * exchanged, store_bytes=2 * exchanged)
        dram += exchanged * streamed
        blocks = streamed
    elif split is not None:
        # bytes of partial results: written to DRAM, and read from DRAM unless they fit in L2
        parts = 4.0 * results * blocks
        dram += parts if parts <= L2_SHARE * device.l2_bytes else 2 * parts
    launched = launched_blocks(config)
    if launched and main is not None:
        # Blocks skip tiles that have no iterations. The numbers of other tiles of two blocks differ by at most one.
        longest = _longest(inference, main)
        ends = math.ceil(blocks / longest / launched)
        tiles, ending, blocks = ends * longest, ending * ends, launched
        work = work.times(tiles)
        waits = waits_between_tiles(config, exchanges(inference, config))
    stretch = 1.0 if streamed or launched else _stretch(inference, config, device, split)
    work = work.times(stretch)
    each = split.each_if_long if split is not None and split.loop.number == main else 0
    return CostCounts(
        blocks=blocks,
        threads=threads,
        shared_bytes=config.integer("shared_bytes"),
        registers=compiled_registers(config, device, more=MORE_REGISTERS),
        unit=config.text("intrinsic").partition("_")[0] if boxed else row.unit if row is not None else "fma",
        operand_dtype=row.rated_as if row is not None else "f32",
        flops=work.flops or 1.0,
        instructions=work.instructions,
        shared_wavefronts=work.wavefronts,
        load_bytes=work.load_bytes,
        store_bytes=work.store_bytes,
        dram_bytes=dram,
        iterations=1
        if main is None
        else max(1, math.ceil(average_iterations(inference, main) * tiles))
        if streamed or launched
        else max(1, round(average_iterations(inference, main) * stretch / parts_of_tile)),
        stages=1 if main is None else stages[main],
        refills=config.get("fragment_buffers", 1) == 1,
        special=work.special,
        barriers_per_iteration=_barriers(config, distributions, stages[main], boxed) if main is not None else 0,
        restarts=max(ends - 1, 0) if waits else 0,
        drains=ends,
        launches=1 if split is None else split.launches,
        round_trips=trips,
        drain_instructions=ending,
        chained=main is not None and _chained(inference, main),
        exposed_products=exposed_products(inference) if runs_ahead(config) else 1.0,
        ping_pong=alternates(config),
        longest=1.0 if main is None or launched else max(1.0, _longest(inference, main, each, parts_of_tile) / stretch),
        run_bytes=_run_bytes([operand_plan(inference, s, config, distributions) for s in staged.values()]),
    )


def _stretch(inference: Inference, config: Config, device: Device, split: Split | None) -> float:
    """Return the factor by which uneven numbers of iterations of the blocks lengthen the launch.

    Blocks that share the loop of one tile have equal numbers of iterations.
    """
    if uneven(inference) is None:
        return 1.0
    threads, registers, shared_bytes = config.integers("threads", "registers", "shared_bytes")
    resident = occupancy(device, threads, min(registers, device.max_registers_per_thread), shared_bytes)
    raster, parts = str(config.get("raster", "row")), 1 if split is None else split.count
    each = split.each_if_long if split is not None else 0
    return imbalance(inference, order_of(config), raster, device.sm_count, max(1, resident), parts, each)


def _trips_to_combine(inference: Inference, split: Split, config: Config) -> float:
    """Return how many times the last block of a tile waits for loads of partial results.

    The combining loop loads as many partial results at a time as its unroll factor. If the program has no such loop, or
    a block loads only one partial result, all these loads overlap.
    """
    joins = combining_loop(inference)
    if joins is None or split.keeps_last:
        return 0.0
    return float(math.ceil((split.count - 1) / (unroll_of(inference, config, joins) or 1)))


def _barriers(config: Config, distributions: Distributions, stages: int, boxed: bool) -> float:
    """Return the cost of an iteration's barriers, as the equivalent number of barriers of all threads.

    With a producer warp, each warpgroup waits separately, and only for full stages.
    """
    if boxed and config.get("in_flight", 0):
        return 0.0
    if boxed and has_copying_warp(config):
        return 1.0 if distributions.warps == WARPS else BOTH_END
    return 1.0 if stages > 1 else 2.0


def _ending(inference: Inference, distributions: Distributions, config: Config) -> float:
    """Return the cost of the epilogue in warp instructions. During the epilogue, tensor cores are idle.

    One instruction per scheduler is assumed for each cycle in which stores occupy the memory units.
    """
    exchange = str(config.get("exchange", "identity"))
    cycles = 0.0
    for number, store in enumerate(inference.stores):
        results = math.prod(store.value.shape)
        if config.get(f"store_{number + 1}", "direct") == "turned":
            stored = _turned_cycles(inference, distributions, number, exchange)
        else:
            stored = results / (2 * WARP) * ROWS_OF_STORE
        cycles += max(float(results) / WARP, stored)
    return 4.0 * cycles


@lru_cache(maxsize=2**10)
def _turned_cycles(inference: Inference, distributions: Distributions, number: int, exchange: str) -> float:
    """Return the cycles for storing a tile transposed: exchange it through shared memory, then write whole lines."""
    window = inference.stores[number].window
    target, warps = transposed_distribution(window, distributions.warps), distributions.warps
    tile = exchange_layout(exchange, target.shape)
    exchanged = wavefronts(distributions.of(inference.stored[number]), tile, warps, True)
    exchanged += wavefronts(target, tile, warps, False)
    return exchanged + math.prod(window.shape) * window.array.dtype.bytes / LINE_BYTES


def _run_bytes(tiles: Sequence[StagedNumbers | BoxedNumbers]) -> float:
    """Return the contiguous bytes per row of copied tiles: a harmonic mean over operands, weighted by bytes."""
    if not tiles:
        return 128.0
    runs = [(n.bytes, n.swizzle if isinstance(n, BoxedNumbers) else _line_bytes(n)) for n in tiles]
    return sum(bytes_ for bytes_, _ in runs) / sum(bytes_ / run for bytes_, run in runs)


def _line_bytes(n: StagedNumbers) -> int:
    return n.copy.region.line * n.copy.region.element_bytes


def _dram_bytes(problem: ProgramProblem, config: Config, device: Device, load_bytes: float, blocks: int) -> float:
    """Return the DRAM traffic in bytes. Inputs are read once if they fit in L2, else once per wave of blocks."""
    read, least = _arrays(problem)
    if read <= L2_SHARE * device.l2_bytes:
        return float(least)
    threads, registers, shared_bytes = config.integers("threads", "registers", "shared_bytes")
    resident = max(1, occupancy(device, threads, min(registers, device.max_registers_per_thread), shared_bytes))
    wave = min(resident * device.sm_count, blocks)
    if "grid_rows" not in config:
        return float(least)
    tiles_m, tiles_n = config.integers("grid_rows", "grid_columns")
    rows, columns = wave_shape(config.text("raster"), min(wave, tiles_m * tiles_n), tiles_m, tiles_n)
    # fraction of loaded bytes that no other block of the wave has loaded
    shared = (rows + columns) / (2.0 * rows * columns)
    return max(float(least), blocks * load_bytes * shared + least - read)
