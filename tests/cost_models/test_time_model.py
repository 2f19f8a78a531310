"""On our own kernels, the analytic model distinguishes schedules that an expert would distinguish."""

from __future__ import annotations

from functools import cache

import pytest

from cost_models.analytic import analyse, predict
from search_spaces.catalogue import template
from search_spaces.hardware.devices import device
from search_spaces.operators.copy import Copy
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.matvec import Matvec
from search_spaces.operators.problem import Problem
from search_spaces.operators.row_reduction import LayerNorm, Reduce, RmsNorm, Softmax
from search_spaces.operators.transpose import Transpose
from search_spaces.spaces.config import Config

H200 = device("h200")
MATMUL = Matmul(4096, 4096, 4096, a="f16")
GOOD: dict[str, int | str] = {
    "tile_m": 128, "tile_n": 128, "tile_k": 32, "intrinsic": "mma_m16n8k16_f16",
    "subgroups_m": 2, "subgroups_n": 2, "sg_data_m": 64, "sg_data_n": 64,
    "layout_a": "swizzle(3,3,3)", "layout_b": "swizzle(3,3,4)", "copy_a": "cp.async", "copy_b": "cp.async",
    "vector_a": 8, "vector_b": 8, "copy_columns_a": 4, "copy_columns_b": 16, "stages": 3, "unroll": 2,
    "fragment_buffers": 1, "epilogue": "registers", "min_blocks": 1, "split_k": 1,
    "raster": "row", "batch_mapping": "outer",
}  # fmt: skip


def matmul_seconds(**changes: int | str) -> float:
    row = template("matmul")
    config = row.space(MATMUL, H200).valid.config({**GOOD, **changes})
    assert row.counts is not None
    return predict(row.counts(MATMUL, config, H200), H200)


@cache
def ranked(name: str, problem: Problem) -> list[tuple[float, Config]]:
    """Return sampled schedules and their predicted seconds, fastest first."""
    row = template(name)
    space = row.space(problem, H200)
    assert row.counts is not None
    configs = space.configs(space.sample(600, seed=3))
    seconds = analyse([row.counts(problem, config, H200) for config in configs], H200).seconds
    return sorted(zip(seconds.tolist(), configs, strict=True), key=lambda pair: pair[0])


def test_short_k_tiles_are_slowed_by_their_barriers() -> None:
    times = [matmul_seconds(tile_k=k, unroll=1, copy_columns_a=k // 8) for k in (16, 32, 64)]
    assert times[0] > 1.2 * times[1] > 1.2 * times[2]


def test_narrow_asynchronous_copies_pay_for_their_requests_and_for_the_way_through_l1() -> None:
    wide, narrow, narrowest = (matmul_seconds(vector_a=v, copy_columns_a=32 // v) for v in (8, 4, 2))
    assert narrow > 1.05 * wide
    assert narrowest > narrow


def test_iterations_of_the_inner_loop_cost_instructions() -> None:
    assert matmul_seconds(unroll=1) > matmul_seconds(unroll=2)


def test_fragments_held_over_the_barrier_save_its_refill() -> None:
    one_block: dict[str, int | str] = {"tile_m": 256, "subgroups_m": 4, "stages": 4}
    once, twice = (matmul_seconds(fragment_buffers=buffers, **one_block) for buffers in (1, 2))
    assert once > 1.03 * twice


def test_blocks_narrower_than_a_sector_are_not_predicted_fastest() -> None:
    problem = Reduce(16384, 16384, axis="column", dtype="f16")
    times = ranked("row_reduction", problem)
    best = times[0][0]
    for seconds, config in times[:40]:
        assert 2 * config.integer("parallel_tile") >= 32, f"{seconds / best:.2f} of the best"
    narrow = [seconds for seconds, config in times if config.integer("parallel_tile") <= 4]
    assert narrow and min(narrow) > 3.0 * best, "4 bytes of each sector of 32 are used"


def test_reloaded_rows_hit_l2_only_if_the_rows_in_flight_fit() -> None:
    problem = Softmax(8192, 32768, dtype="f32")
    row = template("row_reduction")
    assert row.counts is not None
    min_bytes, again = problem.min_bytes, []
    for _, config in ranked("row_reduction", problem):
        if config["row_staging"] == "reload" and config["split_k"] == 1:
            rows_in_flight = config.integer("parallel_tile") * 132
            counted = row.counts(problem, config, H200).dram_bytes
            if rows_in_flight * 32768 * 4 > H200.l2_bytes:
                again.append(counted)
    assert again and min(again) >= 1.4 * min_bytes


def test_transposes_with_short_runs_are_slower() -> None:
    problem = Transpose(8192, 8192, dtype="u32")
    times = ranked("transpose", problem)
    best, median = times[0][0], times[len(times) // 2][0]
    assert median > 1.03 * best
    sides = [4 * min(config.integers("tile_m", "tile_n")) for _, config in times[:40]]
    assert min(sides) > 32


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("matvec", Matvec(4, 6656, 16383)),
        ("matvec", Matvec(16, 8192, 8192)),
        ("row_reduction", Softmax(4096, 1024)),
        ("row_reduction", Softmax(8192, 32768, dtype="f32")),
        ("row_reduction", RmsNorm(4096, 4096)),
        ("row_reduction", LayerNorm(8192, 8192)),
        ("row_reduction", Reduce(4096, 8191)),
        ("row_reduction", Reduce(16384, 16384, axis="column")),
        ("transpose", Transpose(8192, 8192, dtype="u32")),
        ("copy", Copy(16384, 16384)),
    ],
    ids=lambda value: value if isinstance(value, str) else str(value.key()),
)
def test_the_first_choice_keeps_enough_bytes_in_flight(name: str, problem: Problem) -> None:
    """On an H200, 40 KB in flight per SM, including written bytes, hide the latency of a busy DRAM.

    By Little's law, a rate of 4.3 TB/s with a latency of 0.7 to 0.8 us needs 25 KB in flight on each of 132 SMs.
    """
    row = template(name)
    assert row.counts is not None
    for _, config in ranked(name, problem)[:1]:
        counted = row.counts(problem, config, H200)
        assert analyse([counted], H200).in_flight[0] >= 40e3
