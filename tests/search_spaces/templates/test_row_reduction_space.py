"""The space of row reductions has the right rules, configs, LoweringConfig and reduced problems."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from search_spaces.hardware.devices import device
from search_spaces.operators.row_reduction import LayerNorm, Reduce, RmsNorm, RowProblem, Softmax
from search_spaces.spaces.config import Config
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.row_reduction.counts import counts
from search_spaces.templates.row_reduction.lowering import lower, lowering_config
from search_spaces.templates.row_reduction.proxy import proxy
from search_spaces.templates.row_reduction.space import (
    chunk_length,
    pruning_rules,
    space,
    validity_constraints,
)
from search_spaces.templates.row_reduction.template import ROW_REDUCTION

H200 = device("h200")
PROBLEMS: tuple[RowProblem, ...] = (
    Softmax(4096, 8192),
    Softmax(3, 777, dtype="bf16", out="f32"),
    RmsNorm(1, 10**6),
    LayerNorm(10**6, 1, dtype="f32", out="f32"),
    LayerNorm(1000, 1030),
    Reduce(10**6, 10**3, kind="argmax", out="u32"),
    Reduce(1, 1, dtype="f32", out="f32"),
    Reduce(100, 4096, kind="mean", reduction_size=64),
    Reduce(10**6, 3, axis="column"),
    Reduce(6000, 520, axis="column", kind="max", reduction_size=1000, dtype="bf16"),
)


def name_of(problem: RowProblem) -> str:
    return f"{problem.operator}-{problem.rows}x{problem.columns}-{problem.dtype}"


@pytest.mark.parametrize("problem", PROBLEMS, ids=name_of)
@pytest.mark.parametrize("name", ["h200", "rtx4090"])
def test_sampled_schedules_break_no_rule(problem: RowProblem, name: str) -> None:
    problem_space = space(problem, device(name))
    expected = min(40, problem_space.count())
    schedules = problem_space.sample(expected, seed=5)
    assert expected >= 3
    assert len({s.key() for s in schedules}) == expected
    assert all(not problem_space.explain(s) for s in schedules)


def test_every_rule_rejects_a_schedule_with_a_reason() -> None:
    refused: dict[str, str] = {}
    rng = np.random.default_rng(0)
    # Only huge problems break the rules on the number of blocks (many rows) and on the number of steps (long rows).
    for problem in (*PROBLEMS, Reduce(2**29, 1000, axis="row", reduction_size=1), RmsNorm(1, 2**29)):
        problem_space = space(problem, H200)
        for _ in range(60):
            values = {p.name: p.random(rng) for p in problem_space.parameters}
            for violation in problem_space.explain(values):
                refused.setdefault(violation.rule, violation.reason)
    assert set(refused) == {
        r.name for r in (*validity_constraints(PROBLEMS[0], H200), *pruning_rules(PROBLEMS[0], H200))
    }
    for rule, reason in refused.items():
        assert len(reason) > 20 and "\n" not in reason, rule


def sampled(problem: RowProblem, count: int, seed: int) -> Sequence[Config]:
    problem_space = space(problem, H200)
    return problem_space.configs(problem_space.sample(min(count, problem_space.count()), seed))


@pytest.mark.parametrize("problem", PROBLEMS, ids=name_of)
def test_attributes_agree_with_the_lowering_config(problem: RowProblem) -> None:
    """The attributes that the space computes for many schedules at once agree with the lowering config.

    They are threads, tile, step, loop and accumulators.
    """
    for config in sampled(problem, 100, seed=9):
        lowering = lowering_config(problem, config.schedule)
        tile, step, threads, states = config.integers("parallel_tile", "step", "threads", "states")
        assert lowering.tile() == (tile, step)
        assert lowering.subgroup_basis.size * lowering.lane_basis.size == threads
        layout = lowering.to_nested()
        assert layout.distributed_shape[0] == states
        assert layout.distributed_shape[1] * config.integer("batch") * config.integer("steps") == (
            config.integer("vectors") * lowering.thread[1]
        )
        # In a LoweringConfig every element of a step has its own accumulator. This kernel adds the elements
        # immediately.
        assert lowering.accumulators_per_thread() == states * layout.distributed_shape[1]
        steps = config.integer("steps")
        assert lowering.loop_steps((tile, steps * step)) == steps
        assert (steps - 1) * step < config.integer("chunk") <= steps * step


@pytest.mark.parametrize("problem", PROBLEMS, ids=name_of)
def test_the_kernels_indices_agree_with_the_lowering_config(problem: RowProblem) -> None:
    """Index formulas of row_reduction.cuh, repeated in Python, agree with the NestedLayout of the config."""
    for config in sampled(problem, 12, seed=3):
        lowering = lowering_config(problem, config.schedule)
        tile, step, threads, vector = config.integers("parallel_tile", "step", "threads", "vector_x")
        lanes, subgroups, batch, unroll = config.integers("lanes_k", "subgroups_k", "batch", "unroll")
        contiguous = problem.reduces_contiguous
        parallel_lanes = 32 // lanes
        parallel_vector, reduced_vector = (1, vector) if contiguous else (vector, 1)
        seen = np.zeros((tile, step), dtype=np.int64)
        for thread in range(threads):
            warp, lane = divmod(thread, 32)
            lane_reduced, lane_parallel = (lane % lanes, lane // lanes) if contiguous else divmod(lane, parallel_lanes)
            assert lowering.lane_basis.coordinates(lane).tolist() == [lane_parallel, lane_reduced]
            assert lowering.subgroup_basis.coordinates(warp).tolist() == [warp // subgroups, warp % subgroups]
            parallel = ((warp // subgroups * batch + np.arange(batch)) * parallel_lanes + lane_parallel) * (
                parallel_vector
            )
            reduced = ((warp % subgroups * unroll + np.arange(unroll)) * lanes + lane_reduced) * reduced_vector
            parallel = (parallel[:, None] + np.arange(parallel_vector)).ravel()
            reduced = (reduced[:, None] + np.arange(reduced_vector)).ravel()
            seen[np.ix_(parallel, reduced)] += 1
        assert (seen == 1).all()


@pytest.mark.parametrize("problem", PROBLEMS, ids=name_of)
def test_configs_cover_the_problem_and_fit(problem: RowProblem) -> None:
    for config in sampled(problem, 25, seed=1):
        tile, tiles, split, chunk, vector = config.integers("parallel_tile", "tiles", "split_k", "chunk", "vector_x")
        assert tiles * tile >= problem.parallel_extent > (tiles - 1) * tile
        assert config["blocks"] == tiles * problem.outer * split
        peeled = config["peel"] == "yes"
        assert config["span"] == problem.length + (vector - 1 if peeled else 0)
        assert split * chunk >= config.integer("span")
        assert problem.length > (split - 1) * chunk
        assert peeled or problem.contiguous % vector == 0
        assert not problem.reduces_contiguous or split == 1 or chunk % vector == 0
        combine_at, combine_bytes, staging_at = config.integers("combine_at", "combine_bytes", "staging_at")
        assert combine_at + combine_bytes <= staging_at <= config.integer("shared_bytes") <= H200.shared_per_block
        arguments = lower(problem, config, H200).arguments
        assert [a.name for a in arguments if a.role == "workspace"] == (["partials", "counters"] if split > 1 else [])


@pytest.mark.parametrize("problem", PROBLEMS, ids=name_of)
def test_a_cut_problem_is_small_and_has_the_same_remainders(problem: RowProblem) -> None:
    for config in sampled(problem, 25, seed=2):
        small = proxy(problem, config.schedule)
        tile, step = config.integers("parallel_tile", "step")
        assert small.operator == problem.operator and small.reduces_contiguous == problem.reduces_contiguous
        assert small.length <= problem.length and small.parallel_extent <= problem.parallel_extent
        assert small.length % step == problem.length % step
        assert small.parallel_extent % tile == problem.parallel_extent % tile
        assert not space(small, H200).valid.explain(config.schedule)
        assert small.parallel_extent < 2 * tile and small.outer <= 2
        assert proxy(small, config.schedule) == small


@pytest.mark.parametrize("length", [1, 7, 1000, 10**6])
@pytest.mark.parametrize("split", [1, 2, 8, 128])
def test_parts_of_a_split_row_cover_it_and_begin_aligned(length: int, split: int) -> None:
    for contiguous in (True, False):
        chunk = int(chunk_length(length, contiguous, split))
        assert split * chunk >= length
        assert not contiguous or split == 1 or chunk % 8 == 0 or chunk == length


def test_counts_match_the_traffic_of_the_kernel() -> None:
    for problem in (PROBLEMS[0], PROBLEMS[3], PROBLEMS[9]):
        x_bytes = problem.rows * problem.columns * problem.input_dtype.bytes
        for config in sampled(problem, 25, seed=3):
            counted = counts(problem, config, H200)
            assert counted.dram_bytes >= problem.min_bytes
            assert counted.blocks * counted.load_bytes >= x_bytes
            assert counted.blocks * counted.flops >= problem.flops
            if config["row_staging"] != "reload":
                assert counted.iterations == 1


def test_a_schedule_that_breaks_a_constraint_makes_no_config_and_no_kernel() -> None:
    values: dict[str, int | str] = {
        "lanes_k": 32, "subgroups_k": 1, "subgroups_m": 1, "batch": 1, "vector_x": 2, "peel": "no", "unroll": 1,
        "split_k": 1, "finish": "last_block",
        "row_staging": "reload", "passes": "one", "cache_hint_x": "none", "cache_hint_out": "none", "min_blocks": 1,
    }  # fmt: skip
    schedule = Schedule.from_json("row_reduction", values)
    for refuse in (ROW_REDUCTION.config, ROW_REDUCTION.kernel):
        with pytest.raises(ValueError, match=r"^vector_alignment: .* lines of contiguous memory have 777 elements"):
            refuse(Softmax(3, 777), schedule, H200)
    assert ROW_REDUCTION.config(Softmax(3, 776), schedule, H200).schedule == schedule
