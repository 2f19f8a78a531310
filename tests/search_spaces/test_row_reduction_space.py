"""The space of row reductions: its rules one by one, its LoweringConfig, its plans and their cuts."""

from __future__ import annotations

import numpy as np
import pytest

from search_spaces.hardware.devices import device
from search_spaces.operators.row_reduction import LayerNorm, Reduce, RmsNorm, RowProblem, Softmax
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.row_reduction.counts import counts
from search_spaces.templates.row_reduction.lowering import lower, lowering_config, plan
from search_spaces.templates.row_reduction.proxy import proxy
from search_spaces.templates.row_reduction.space import (
    chunk_length,
    pruning_rules,
    row_span,
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
    sampled = space(problem, device(name))
    wanted = min(40, sampled.count())
    schedules = sampled.sample(wanted, seed=5)
    assert wanted >= 3
    assert len({s.key() for s in schedules}) == wanted
    assert all(not sampled.explain(s) for s in schedules)


def test_every_rule_refuses_something_somewhere_and_says_why() -> None:
    refused: dict[str, str] = {}
    rng = np.random.default_rng(0)
    # A launch has too many blocks only where there are 2^30 rows; long rows have too many steps.
    for problem in (*PROBLEMS, Reduce(2**29, 1000, axis="row", reduction_size=1), RmsNorm(1, 2**29)):
        whole = space(problem, H200)
        for _ in range(60):
            values = {p.name: p.random(rng) for p in whole.parameters}
            for violation in whole.explain(values):
                refused.setdefault(violation.rule, violation.reason)
    assert set(refused) == {
        r.name for r in (*validity_constraints(PROBLEMS[0], H200), *pruning_rules(PROBLEMS[0], H200))
    }
    for rule, reason in refused.items():
        assert len(reason) > 20 and "\n" not in reason, rule


@pytest.mark.parametrize("problem", PROBLEMS, ids=name_of)
def test_the_kernel_s_indices_are_those_of_the_lowering_config(problem: RowProblem) -> None:
    """The index formulas of row_reduction.cuh, spelled again, against the NestedLayout of the config."""
    sampled = space(problem, H200)
    for config in sampled.configs(sampled.sample(min(12, sampled.count()), seed=3)):
        p = plan(problem, config)
        lowering = lowering_config(problem, config)
        assert lowering.tile() == (p.kept_tile, p.step)
        assert lowering.accumulators_per_workgroup() // p.step == p.kept_tile
        layout = lowering.to_nested()
        assert layout.subgroup_tile[0] * layout.subgroup_tile[1] * 32 == p.threads
        lanes, subgroups, batch, unroll = config.integers("lanes", "subgroups", "batch", "unroll")
        kept_lanes = 32 // lanes
        kept_vector, reduced_vector = (1, p.vector) if problem.along else (p.vector, 1)
        seen = np.zeros((p.kept_tile, p.step), dtype=np.int64)
        for thread in range(p.threads):
            warp, lane = divmod(thread, 32)
            lane_reduced, lane_kept = (lane % lanes, lane // lanes) if problem.along else divmod(lane, kept_lanes)
            assert lowering.lane_basis.coordinates(lane).tolist() == [lane_kept, lane_reduced]
            assert lowering.subgroup_basis.coordinates(warp).tolist() == [warp // subgroups, warp % subgroups]
            kept = ((warp // subgroups * batch + np.arange(batch)) * kept_lanes + lane_kept) * kept_vector
            reduced = ((warp % subgroups * unroll + np.arange(unroll)) * lanes + lane_reduced) * reduced_vector
            kept = (kept[:, None] + np.arange(kept_vector)).ravel()
            reduced = (reduced[:, None] + np.arange(reduced_vector)).ravel()
            seen[np.ix_(kept, reduced)] += 1
        assert (seen == 1).all()


@pytest.mark.parametrize("problem", PROBLEMS, ids=name_of)
def test_plans_cover_the_problem_and_fit(problem: RowProblem) -> None:
    whole = space(problem, H200)
    for config in whole.configs(whole.sample(min(25, whole.count()), seed=1)):
        p = plan(problem, config)
        assert p.tiles * p.kept_tile >= problem.kept_extent > (p.tiles - 1) * p.kept_tile
        assert p.blocks == p.tiles * problem.outer * p.split
        assert p.split * p.chunk >= row_span(problem, p.vector, p.peeled)
        assert problem.length > (p.split - 1) * p.chunk
        assert p.steps * p.step >= p.chunk
        assert p.peeled or problem.contiguous % p.vector == 0
        assert not problem.along or p.split == 1 or p.chunk % p.vector == 0
        assert p.combine_at + p.combine_bytes <= p.keep_at <= p.shared_bytes <= H200.shared_per_block
        arguments = lower(problem, config, H200).arguments
        assert [a.name for a in arguments if a.role == "workspace"] == (["partials", "counters"] if p.split > 1 else [])


@pytest.mark.parametrize("problem", PROBLEMS, ids=name_of)
def test_a_cut_problem_is_small_and_has_the_same_remainders(problem: RowProblem) -> None:
    for schedule in space(problem, H200).sample(min(25, space(problem, H200).count()), seed=2):
        small, p = proxy(problem, schedule), plan(problem, ROW_REDUCTION.config(problem, schedule, H200))
        assert small.operator == problem.operator and small.along == problem.along
        assert small.length <= problem.length and small.kept_extent <= problem.kept_extent
        assert small.length % p.step == problem.length % p.step
        assert small.kept_extent % p.kept_tile == problem.kept_extent % p.kept_tile
        assert not space(small, H200).valid.explain(schedule)
        assert small.kept_extent < 2 * p.kept_tile and small.outer <= 2
        assert proxy(small, schedule) == small


@pytest.mark.parametrize("length", [1, 7, 1000, 10**6])
@pytest.mark.parametrize("split", [1, 2, 8, 128])
def test_parts_of_a_split_row_cover_it_and_begin_aligned(length: int, split: int) -> None:
    for along in (True, False):
        chunk = int(chunk_length(length, along, split))
        assert split * chunk >= length
        assert not along or split == 1 or chunk % 8 == 0 or chunk == length


def test_work_counts_what_is_moved() -> None:
    for problem in (PROBLEMS[0], PROBLEMS[3], PROBLEMS[9]):
        x_bytes = problem.rows * problem.columns * problem.input_dtype.bytes
        whole = space(problem, H200)
        for config in whole.configs(whole.sample(25, seed=3)):
            counted, p = counts(problem, config, H200), plan(problem, config)
            assert counted.dram_bytes >= problem.min_bytes
            assert counted.blocks * counted.load_bytes >= x_bytes
            assert counted.blocks * counted.flops >= problem.flops
            if p.keep != "reload":
                assert counted.iterations == 1


def test_a_schedule_that_breaks_a_constraint_makes_no_config_and_no_kernel() -> None:
    values: dict[str, int | str] = {
        "lanes": 32, "subgroups": 1, "kept_subgroups": 1, "batch": 1, "vector": 2, "peel": "no", "unroll": 1,
        "split": 1, "finish": "last_block",
        "keep": "reload", "passes": "one", "x_cache": "none", "out_cache": "none", "min_blocks": 1,
    }  # fmt: skip
    schedule = Schedule.from_json("row_reduction", values)
    for refuse in (ROW_REDUCTION.config, ROW_REDUCTION.kernel):
        with pytest.raises(ValueError, match=r"^vector_alignment: .* lines of contiguous memory have 777 elements"):
            refuse(Softmax(3, 777), schedule, H200)
    assert ROW_REDUCTION.config(Softmax(3, 776), schedule, H200).schedule == schedule
