"""Schedules of mma.sync matmuls with stream-K: the work of each block, legality, pruning, and cost counts."""

from __future__ import annotations

import math
from functools import cache

from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.columns import Columns
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.common.stream_k import LEAST_IDLE
from search_spaces.templates.matmul.counts import counts
from search_spaces.templates.matmul.lowering import lower
from search_spaces.templates.matmul.proxy import LEAST_TILES, proxy
from search_spaces.templates.matmul.space import space
from search_spaces.templates.matmul.stream_k import KEPT_BYTES, streams, workers

A100 = device("a100")
PROBLEM = Matmul(2048, 2048, 2048)


@cache
def samples() -> list[Schedule]:
    return [s for s in space(PROBLEM, A100).sample(60, seed=1) if s["stream_k"]]


def test_candidates_have_a_partial_wave_after_whole_ones() -> None:
    assert samples()
    for schedule in samples():
        config = space(PROBLEM, A100).config(schedule)
        tiles, launched = config.integers("blocks", "launched_blocks")
        assert launched == A100.sm_count * schedule.integer("min_blocks") < tiles
        assert tiles / (math.ceil(tiles / launched) * launched) <= 1 - LEAST_IDLE
        assert schedule["split_k"] == 1


def test_a_small_problem_has_whole_waves_and_a_partial_wave() -> None:
    for tiles in range(2, 40):
        few = int(workers(108, tiles))
        assert few < tiles
        assert streams(tiles) == (tiles % few != 0)
        if streams(tiles):
            assert tiles >= 2 * few + 1 >= LEAST_TILES
    old = {name: value for name, value in samples()[0].to_json().items() if name != "stream_k"}
    assert proxy(PROBLEM, Schedule.from_json("matmul", old)).m < 2 * samples()[0].integer("tile_m")
    for schedule in samples()[:8]:
        small = proxy(PROBLEM, schedule)
        tiles, launched = space(small, A100).valid.config(schedule).integers("blocks", "launched_blocks")
        assert 1 < launched < tiles and tiles % launched


def test_few_matrices_of_many_are_enough() -> None:
    many = Matmul(32, 32, 256, batch=500)
    schedule = next(s for s in space(many, A100).sample(200, seed=0) if s["stream_k"])
    small = proxy(many, schedule)
    assert small.batch < 10
    assert not space(small, A100).valid.explain(schedule)


def test_neighbours_have_memory_for_their_partial_sums() -> None:
    schedule = samples()[0]
    config = space(PROBLEM, A100).config(schedule)
    kernel = lower(PROBLEM, config, A100)
    launched, accumulators, threads = config.integers("launched_blocks", "accumulators", "threads")
    shapes = {operand.name: operand.shape for operand in kernel.operands}
    assert kernel.grid == (launched, 1, 1) and kernel.cooperating[0] == 1 and kernel.chained
    assert shapes["partials"] == (launched - 1, accumulators, threads)
    assert shapes["counters"] == (launched - 1, 2)
    undivided = space(PROBLEM, A100).valid.config(schedule.replace(stream_k=0))
    assert config.integer("shared_bytes") == undivided.integer("shared_bytes") + KEPT_BYTES


def test_counts_include_all_tiles_and_the_exchange() -> None:
    for schedule in samples()[:8]:
        valid = space(PROBLEM, A100).valid
        dealt, unsplit = (counts(PROBLEM, valid.config(s), A100) for s in (schedule, schedule.replace(stream_k=0)))
        assert math.isclose(dealt.blocks * dealt.flops, unsplit.blocks * unsplit.flops)
        assert dealt.blocks * dealt.store_bytes > unsplit.blocks * unsplit.store_bytes
        assert dealt.instructions * dealt.blocks > unsplit.instructions * unsplit.blocks
        assert dealt.dram_bytes > unsplit.dram_bytes
        assert dealt.drains > 0 == unsplit.drains


def test_first_copies_are_hidden_if_results_leave_a_free_stage() -> None:
    valid = space(PROBLEM, A100).valid
    seen = set()
    for schedule in samples():
        for changed in (schedule, schedule.replace(stages=1, fragment_buffers=1), schedule.replace(stream_k=0)):
            if changed not in valid:
                continue
            config, counted = valid.config(changed), counts(PROBLEM, valid.config(changed), A100)
            early = config.integer("early_copies")
            fits = config["epilogue"] == "registers" or config.integer("epilogue_bytes") <= config.integer(
                "stage_bytes"
            )
            assert early == (config.integer("stream_k") == 1 and config.integer("stages") > 1 and fits)
            hidden = early or config.integer("stream_k") == 0
            assert counted.restarts == (0 if hidden else counted.drains - 1)
            seen.add((early, config.integer("stream_k")))
    assert seen == {(0, 0), (0, 1), (1, 1)}


def test_a_reduction_has_no_stream_k() -> None:
    sums = Matmul(2048, 2048, 2048, reduction="row_sum")
    assert {p.name: p.values for p in space(sums, A100).parameters}["stream_k"] == (0,)


def test_stream_k_runs_as_many_blocks_on_an_sm_as_fit() -> None:
    """An A100's SM has space for two blocks with 128x128 tiles, a tile_k of 32 and three stages.

    With a tile_k of 64 and five stages, one block fills shared memory. With tiles of 256x128, one block fills the
    registers.
    """
    names = {"tile_m": 128, "tile_n": 128, "tile_k": 32, "stages": 3, "min_blocks": 1, "stream_k": 1}
    (rule,) = (rule for rule in space(PROBLEM, A100).rules if rule.name == "stream_k_resident")

    def tried(**changes: int) -> bool:
        values = {**names, **changes}
        return bool(rule.evaluate(Columns({name: [value] for name, value in values.items()}, {}))[0])

    assert not tried() and tried(min_blocks=2) and tried(stream_k=0)
    assert tried(tile_k=64, stages=5) and tried(tile_m=256)
    assert not tried(tile_m=64, tile_n=64, min_blocks=3) and tried(tile_m=64, tile_n=64, min_blocks=4)
