"""Schedules of tma_matmul with stream-K: pruning, positions of results and partial sums, and cost counts."""

from __future__ import annotations

import math
from functools import cache

from search_spaces.hardware.devices import device, register_limit
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.common.stream_k import LEAST_IDLE
from search_spaces.templates.tma_matmul.counts import counts
from search_spaces.templates.tma_matmul.lowering import lower
from search_spaces.templates.tma_matmul.proxy import proxy
from search_spaces.templates.tma_matmul.space import BARRIER_BYTES, FLAG_BYTES, WALK_REGISTERS, space

RTX5090 = device("rtx5090")
PROBLEM = Matmul(4096, 4096, 4096, a="bf16", order_b="col")


@cache
def samples() -> list[Schedule]:
    return [s for s in space(PROBLEM, RTX5090).sample(60, seed=1) if s["stream_k"]]


def test_candidates_have_a_partial_wave_after_whole_ones() -> None:
    assert samples()
    for schedule in samples():
        tiles, launched = space(PROBLEM, RTX5090).config(schedule).integers("blocks", "launched_blocks")
        assert launched == RTX5090.sm_count * schedule.integer("min_blocks") < tiles
        assert tiles / (math.ceil(tiles / launched) * launched) <= 1 - LEAST_IDLE
        assert schedule["split_k"] == 1


def test_a_reduced_problem_has_whole_waves_and_a_partial_wave() -> None:
    for schedule in samples()[:8]:
        small = proxy(PROBLEM, schedule)
        tiles, launched = space(small, RTX5090).valid.config(schedule).integers("blocks", "launched_blocks")
        assert small.k < PROBLEM.k and 1 < launched < tiles < 100 and tiles % launched


def test_results_have_memory_in_addition_to_the_stages() -> None:
    seen = set()
    for schedule in samples():
        config = space(PROBLEM, RTX5090).config(schedule)
        stages, stage_bytes, shared = config.integers("stages", "stage_bytes", "shared_bytes")
        results = config.integer("epilogue_bytes") if config["epilogue"] == "shared" else FLAG_BYTES
        assert shared == stages * (stage_bytes + BARRIER_BYTES) + results
        seen.add(config["epilogue"])
    assert seen == {"registers", "shared"}


def test_neighbours_have_memory_for_their_partial_sums() -> None:
    config = space(PROBLEM, RTX5090).config(samples()[0])
    kernel = lower(PROBLEM, config, RTX5090)
    launched, accumulators, threads = config.integers("launched_blocks", "accumulators", "multiplying_threads")
    shapes = {operand.name: operand.shape for operand in kernel.operands}
    assert kernel.grid == (launched, 1, 1) and kernel.chained
    assert shapes["partials"] == (launched - 1, accumulators, threads)
    assert shapes["counters"] == (launched - 1, 2)


def test_counts_include_all_tiles_and_the_exchange() -> None:
    valid = space(PROBLEM, RTX5090).valid
    for schedule in samples()[:8]:
        dealt, unsplit = (counts(PROBLEM, valid.config(s), RTX5090) for s in (schedule, schedule.replace(stream_k=0)))
        assert math.isclose(dealt.blocks * dealt.flops, unsplit.blocks * unsplit.flops)
        assert dealt.blocks * dealt.store_bytes > unsplit.blocks * unsplit.store_bytes
        assert dealt.instructions * dealt.blocks > unsplit.instructions * unsplit.blocks
        assert dealt.drains > unsplit.drains == 0 == dealt.restarts


def test_registers_for_the_tile_order_are_reserved() -> None:
    for schedule in samples():
        config = space(PROBLEM, RTX5090).config(schedule)
        limit = register_limit(RTX5090, config.integer("threads"), config.integer("min_blocks"))
        assert config.integer("registers") + WALK_REGISTERS <= limit
