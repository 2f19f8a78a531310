"""The matvec space has the right lowering configs, rules and reduced problems, also for matmuls with few rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from cases import representative
from register_files import execute

from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.matvec import Matvec
from search_spaces.templates.matvec.counts import counts
from search_spaces.templates.matvec.lowering import lower, lowering_config
from search_spaces.templates.matvec.problem import as_matvec
from search_spaces.templates.matvec.proxy import proxy
from search_spaces.templates.matvec.space import (
    FMA,
    MMA_ELEMENTS,
    MMA_LANES_K,
    MMA_LANES_N,
    MMA_ROWS,
    aligned_elements,
    mma_row,
    most_shift,
    pruning_rules,
    row_classes,
    space,
    tiling,
    validity_constraints,
)
from search_spaces.templates.matvec.template import MATVEC

H200 = device("h200")
DOCUMENT = Matvec(4, 6656, 16384, out="f32")
PROBLEMS = [DOCUMENT, Matvec(1, 1, 1), Matvec(16, 1000, 3333, x="bf16"), Matvec(5, 37, 328, x="bf16", out="f32")]


def name_of(problem: Matvec) -> str:
    return f"{problem.m}x{problem.n}x{problem.k}"


def test_the_space_of_the_document_s_problem_holds_the_document_s_config() -> None:
    problem_space = space(DOCUMENT, H200)
    assert problem_space.count() > 10**7
    values = {
        **{"tile_m": 2, "tile_n": 1, "vector_w": 8, "lanes_n": 1, "lanes_k": 32},
        **{"subgroups_n": 1, "subgroups_k": 1, "tile_k": 256, "expand_dims": "no"},
        **{
            "intrinsic": "fma",
            "unroll": 1,
            "split_k": 1,
            "x_operand_source": "global",
            "cache_hint_w": "none",
            "min_blocks": 1,
        },
    }
    assert not problem_space.explain(values)
    assert str(lowering_config(problem_space.config(values))) == (
        "#iree_gpu.lowering_config<{lane_basis = [[1, 1, 32], [0, 1, 2]], partial_reduction = [0, 0, 256], "
        "subgroup_basis = [[1, 1, 1], [0, 1, 2]], thread = [0, 0, 8], workgroup = [2, 1, 0]}>"
    )
    expanded = lowering_config(problem_space.config(values | {"expand_dims": "yes"}))
    assert expanded.partial_reduction == (0, 0, 32, 0) and expanded.expand_dims == (0, 0, 0, 8)


@pytest.mark.parametrize("problem", PROBLEMS, ids=name_of)
@pytest.mark.parametrize("name", representative(["h200", "a100", "rtx4090"], "h200", "a100"))
def test_sampled_schedules_break_no_rule(problem: Matvec, name: str) -> None:
    sampled = space(problem, device(name))
    schedules = sampled.sample(40, seed=5)
    assert len({s.key() for s in schedules}) == 40
    assert sampled.allowed(sampled.columns(schedules)).all()
    assert all(not sampled.explain(s) for s in schedules)


def test_every_rule_rejects_a_schedule_with_a_reason() -> None:
    refused: dict[str, str] = {}
    rng = np.random.default_rng(0)
    old = device("t4")
    for problem, target in [*((p, H200) for p in PROBLEMS), (DOCUMENT, old)]:
        problem_space = space(problem, target)
        for _ in range(200):
            for violation in problem_space.explain({p.name: p.random(rng) for p in problem_space.parameters}):
                refused.setdefault(violation.rule, violation.reason)
    assert set(refused) == {
        rule.name for rule in (*validity_constraints(DOCUMENT, H200), *pruning_rules(DOCUMENT, old))
    }
    for rule, reason in refused.items():
        assert len(reason) > 20 and "\n" not in reason, rule


@pytest.mark.parametrize("problem", PROBLEMS, ids=name_of)
def test_a_schedule_is_its_lowering_config(problem: Matvec) -> None:
    """Space, kernel and lowering config have equal numbers of accumulators. The config's tile fits the threads."""
    problem_space = space(problem, H200)
    for config in problem_space.configs(problem_space.sample(60, seed=1)):
        lowering = lowering_config(config)
        tile_m, tile_n, step = config.integers("tile_m", "tile_n", "tile_k")
        accumulators = lowering.accumulators_per_thread()
        if config["intrinsic"] != FMA:  # rows of x are padded to a multiple of 8, and lanes along k share sums
            padded = -(-tile_m // 8) * 8
            accumulators = accumulators // tile_m * padded // lowering.lane_basis.tile[2]
        assert accumulators == config["accumulators"]
        assert f"static constexpr int accumulators = {accumulators};" in lower(problem, config, H200).source
        assert lowering.lane_basis.size == H200.warp_size
        assert lowering.subgroup_basis.size * H200.warp_size == config["threads"]
        assert lowering.tile()[:2] == (tile_m, tile_n)
        assert lowering.tile()[2] * (lowering.tile()[3] if lowering.appended else 1) == step
        share = lowering.to_nested().distributed_shape
        assert share[:2] == (tile_m, config["rows_n"])
        elements = share[2] * (share[3] if lowering.appended else 1)
        assert elements == config.integer("batches_k") * config.integer("vector_w")


@pytest.mark.parametrize("k", [1, 2, 4, 6, 8, 1000, 12345, 16384])
def test_a_load_is_a_vector_of_at_most_16_bytes_for_every_k(k: int) -> None:
    problem = Matvec(1, 64, k)
    width = aligned_elements(problem)
    assert k % width == 0 and width <= 8
    assert width == 8 or k % (2 * width) != 0
    problem_space = space(problem, H200)
    for config in problem_space.configs(problem_space.sample(20, seed=0)):
        assert config["access"] == min(8, config.integer("vector_w"))


@pytest.mark.parametrize(("n", "k"), [(1, 1), (3, 333), (8, 6), (37, 333), (64, 100), (64, 328)])
def test_rows_of_a_class_have_equal_offsets_from_an_aligned_address(n: int, k: int) -> None:
    problem = Matvec(1, n, k)
    classes, offsets = row_classes(problem), np.arange(n) * k % 8
    for first in range(min(classes, n)):
        assert len(set(offsets[first::classes])) == 1
    assert offsets.max() <= most_shift(problem)
    # the offsets of the classes differ if n is large enough
    assert classes == 1 or len(set(offsets[:classes])) == min(n, classes)
    for config in space(problem, H200).configs(space(problem, H200).sample(10, seed=1)):
        rows = config.integer("tile_n") * config.integer("tiles_n")
        assert classes * rows >= n
        assert config.integer("tiles_k") * config.integer("tile_k") >= k + most_shift(problem)
        kernel = lower(problem, config, H200)
        assert kernel.grid == (config.integer("blocks"), 1, 1)
        assert config["blocks"] == classes * config.integer("tiles_m") * config.integer("tiles_n") * config["split_k"]


@pytest.mark.parametrize("problem", PROBLEMS, ids=name_of)
def test_a_cut_problem_is_small_and_has_the_same_remainders(problem: Matvec) -> None:
    for schedule in space(problem, H200).sample(40, seed=2):
        small = proxy(problem, schedule)
        assert (small.m, small.n, small.k) <= (problem.m, problem.n, problem.k)
        assert aligned_elements(small) == aligned_elements(problem) and row_classes(small) == row_classes(problem)
        assert (problem.n - small.n) % row_classes(problem) == 0 or small.n == row_classes(problem)
        for axis, tile in enumerate(schedule.integer(name) for name in tiling(problem).tiles):
            full_extent, extent = tiling(problem).extents[axis], tiling(small).extents[axis]
            assert extent <= full_extent and extent % tile == full_extent % tile
        full_config, cut = (MATVEC.config(p, schedule, H200) for p in (problem, small))
        unroll, of_split = schedule.integer("unroll"), full_config.integer("tiles_of_split")
        rounds = 2 + ((2 if unroll == 1 else 1) if most_shift(problem) else 0)
        if small.k < problem.k:
            assert cut["tiles_of_split"] == min(of_split, rounds * unroll + of_split % unroll)
        assert small.k < problem.k or of_split < (rounds + 1) * unroll or schedule["tile_k"] < 8
        assert cut["access"] == full_config["access"]
        assert not space(small, H200).valid.explain(schedule)
        assert proxy(small, schedule) == small


def test_counts_match_the_traffic_of_the_kernel() -> None:
    for schedule in space(DOCUMENT, H200).sample(40, seed=3):
        counted = counts(DOCUMENT, MATVEC.config(DOCUMENT, schedule, H200), H200)
        assert counted.blocks * counted.flops >= DOCUMENT.flops
        assert counted.dram_bytes >= DOCUMENT.min_bytes
        w_bytes = 2 * schedule.integer("tile_n") * DOCUMENT.k / schedule.integer("split_k")
        assert counted.load_bytes >= w_bytes
        assert counted.shared_wavefronts * 128 >= w_bytes
        # an instruction executes at most 32 FMAs, or multiplies a fragment of 16 x 8 x 16
        assert counted.instructions * (2 * 16 * 8 * 16 if counted.unit == "mma" else 64) >= counted.flops


def test_fragments_of_contiguous_k_multiply_right() -> None:
    """Lane (g, t) holds 4 adjacent elements along k of rows g and g + 8 of w, and of row g of x.

    The order of k differs from the instruction's order, but in the same way for both operands, so the sums equal w @
    x.T.
    """
    row = mma_row(DOCUMENT)
    assert (row.m, row.k) == (MMA_LANES_N * MMA_ROWS, MMA_LANES_K * MMA_ELEMENTS)
    rng = np.random.default_rng(0)
    w, x = (
        rng.integers(-4, 5, (row.m, row.k)).astype(np.float32),
        rng.integers(-4, 5, (row.n, row.k)).astype(np.float32),
    )
    g, t = np.divmod(np.arange(32)[:, None], MMA_LANES_K)
    first, second = t * MMA_ELEMENTS + np.arange(2), t * MMA_ELEMENTS + 2 + np.arange(2)
    a = np.hstack([w[g, first], w[g + 8, first], w[g, second], w[g + 8, second]])
    b = np.hstack([x[g, first], x[g, second]])
    sums = execute(row, a, b, np.zeros((32, 4), dtype=np.float32))
    assert np.array_equal(row.c.collect(sums), w @ x.T)


FEW_ROWS = Matmul(4, 6656, 16384, out="f32", order_b="col")


def test_a_matmul_of_few_rows_is_a_matvec_of_the_same_memory() -> None:
    assert MATVEC.why_not(FEW_ROWS, H200) is None
    assert as_matvec(FEW_ROWS) == DOCUMENT
    assert space(FEW_ROWS, H200) is space(DOCUMENT, H200)
    for schedule in space(FEW_ROWS, H200).sample(20, seed=4):
        config = MATVEC.config(FEW_ROWS, schedule, H200)
        assert MATVEC.counts is not None
        assert MATVEC.counts(FEW_ROWS, config, H200) == MATVEC.counts(DOCUMENT, config, H200)
        kernel, other = (lower(p, config, H200) for p in (FEW_ROWS, DOCUMENT))
        assert [o.name for o in kernel.arguments[:3]] == ["a", "b", "out"]
        assert [o.bytes for o in kernel.arguments] == [o.bytes for o in other.arguments]
        assert kernel.arguments[3:] == other.arguments[3:]
        assert kernel.source.split("extern")[0] == other.source.split("extern")[0]
        small = proxy(FEW_ROWS, schedule)
        assert isinstance(small, Matmul) and small == replace(FEW_ROWS, m=small.m, n=small.n, k=small.k)
        assert as_matvec(small) == proxy(DOCUMENT, schedule)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"m": 17}, "m is 17"),
        ({"a": "f32", "b": "f32"}, "a and b are f32"),
        ({"order_a": "col"}, "a is column-major"),
        ({"order_b": "row"}, "b is row-major"),
        ({"batch": 2}, "batch is 2"),
        ({"epilogue": "bias+relu"}, r"epilogue bias\+relu"),
        ({"reduction": "row_sum"}, "row_sum"),
    ],
)
def test_other_matmuls_are_rejected_in_one_line(changes: dict[str, int | str], why: str) -> None:
    problem = replace(FEW_ROWS, **changes)  # type: ignore[arg-type]
    reason = MATVEC.why_not(problem, H200)
    assert reason is not None and "\n" not in reason
    with pytest.raises(ValueError, match=why):
        MATVEC.config(problem, space(DOCUMENT, H200).sample(1, seed=0)[0], H200)
