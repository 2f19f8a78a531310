"""Pruning rules of matmul reject slow intrinsics, useless split-k, and poor choices for mma.sync."""

from __future__ import annotations

import numpy as np
import pytest
from compiling import compile_many, shared_pool
from needs import needs_nvrtc

from measurements.compiler.pool import Compiled
from search_spaces.hardware.devices import Device, device
from search_spaces.hardware.intrinsics import intrinsic
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.columns import Columns
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.space import Space
from search_spaces.templates.matmul.decisions import attributes, parameters
from search_spaces.templates.matmul.pruning import pruning_rules
from search_spaces.templates.matmul.space import space, validity_constraints
from search_spaces.templates.matmul.template import MATMUL

H200 = device("h200")
# Without the rule ``rounding_registers``, the time model's first choice for f32 of 2048^3 is this schedule.
TWO_ROUNDED_BUFFERS = Schedule.from_json(
    "matmul",
    {
        **{"tile_m": 256, "tile_n": 128, "tile_k": 32, "intrinsic": "mma_m16n8k8_tf32", "subgroups_m": 4},
        **{"subgroups_n": 2, "sg_data_m": 16, "sg_data_n": 64, "layout_a": "pad(4,1)"},
        **{"layout_b": "transpose+swizzle(3,2,3)", "copy_a": "cp.async", "copy_b": "cp.async", "vector_a": 4},
        **{"vector_b": 1, "copy_columns_a": 8, "copy_columns_b": 16, "stages": 4, "unroll": 4},
        **{"fragment_buffers": 2, "epilogue": "shared", "min_blocks": 1, "split_k": 1, "stream_k": 0},
        **{"raster": "row", "batch_mapping": "outer"},
    },
)
TURING = device("t4")  # the T4's tensor cores multiply f16 and i8, but neither bf16 nor tf32


def units(problem: Matmul, target: Device) -> set[str]:
    """Return the units of the intrinsics, except units that rules reject for all values of other parameters."""
    problem_space = space(problem, target)
    (names,) = (p.values for p in problem_space.parameters if p.name == "intrinsic")
    rules = [rule for rule in problem_space.rules if rule.needs == ("intrinsic",)]
    columns = Columns({"intrinsic": range(len(names))}, {"intrinsic": [str(name) for name in names]})
    allowed = np.all([rule.evaluate(columns) for rule in rules], axis=0)
    return {intrinsic(str(name)).unit for name, keep in zip(names, allowed, strict=True) if keep}


@pytest.mark.parametrize(
    ("problem", "target", "expected"),
    [
        (Matmul(64, 64, 64), H200, {"mma"}),
        (Matmul(16, 16, 64), H200, {"mma"}),
        (Matmul(15, 64, 64), H200, {"fma", "wmma", "mma"}),
        (Matmul(64, 15, 64), H200, {"fma", "wmma", "mma"}),
        (Matmul(64, 64, 64, a="f32", b="f32"), H200, {"wmma", "mma"}),
        (Matmul(64, 64, 64, a="f32", b="f32", order_b="col"), H200, {"mma"}),
        (Matmul(64, 64, 64, a="f32", b="f32", precision="ieee"), H200, {"fma"}),
        (Matmul(64, 64, 64), TURING, {"mma"}),
        (Matmul(64, 64, 64, a="bf16", b="bf16"), TURING, {"fma"}),
    ],
    ids=[
        "f16",
        "just wide enough",
        "few rows",
        "few columns",
        "tf32",
        "tf32 as ldmatrix reads it",
        "ieee",
        "sm_75",
        "bf16 on sm_75",
    ],
)
def test_other_instructions_are_searched_if_mma_is_unsuitable(
    problem: Matmul, target: Device, expected: set[str]
) -> None:
    assert units(problem, target) == expected


@pytest.mark.parametrize(
    "problem",
    [Matmul(16, 16, 1), Matmul(31, 257, 3, a="bf16", b="bf16", order_b="col")],
    ids=lambda p: f"{p.m}x{p.n}x{p.k}",
)
def test_awkward_problems_keep_schedules_for_tensor_cores(problem: Matmul) -> None:
    strata = space(problem, H200).strata
    assert {intrinsic(str(s.value)).unit for s in strata} == {"mma"}
    assert all(s.count > 1000 for s in strata)


def test_the_reason_names_a_tensor_instruction_of_the_device() -> None:
    problem_space = space(Matmul(64, 64, 64), H200)
    chosen = {p.name: p.default for p in problem_space.parameters} | {"intrinsic": "fma_m8n4k1"}
    (reason,) = (v.reason for v in problem_space.explain(chosen) if v.rule == "tensor_cores")
    assert reason.startswith("fma_m8n4k1 is slower than mma_m16n8k16_f16, which supports this problem")


GOOD: dict[str, str | int] = {
    "tile_m": 128, "tile_n": 128, "tile_k": 32, "intrinsic": "mma_m16n8k16_f16", "subgroups_m": 2, "subgroups_n": 2,
    "sg_data_m": 64, "sg_data_n": 64, "layout_a": "swizzle(3,3,3)", "layout_b": "swizzle(3,3,4)",
    "copy_a": "cp.async", "copy_b": "cp.async", "vector_a": 8, "vector_b": 8, "copy_columns_a": 4, "copy_columns_b": 16,
    "stages": 3, "unroll": 2, "fragment_buffers": 1, "epilogue": "shared", "min_blocks": 1, "split_k": 1,
    "raster": "grouped_8", "batch_mapping": "outer",
}  # fmt: skip
WARPS_32: dict[str, str | int] = {
    "tile_k": 64, "unroll": 4, "subgroups_m": 8, "subgroups_n": 4, "sg_data_m": 16, "sg_data_n": 32,
    "copy_columns_a": 8,
}  # fmt: skip
NARROW: dict[str, str | int] = {
    "tile_n": 16, "subgroups_n": 1, "sg_data_n": 16, "layout_b": "pad(8,1)", "copy_columns_b": 2,
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"unroll": 1}, "unroll_whole"),
        (WARPS_32, "warp_part"),
        ({"sg_data_n": 8}, "fragment_pairs"),
        ({"tile_m": 32, "sg_data_m": 16}, "tile_waves_m"),
        (NARROW, "tile_waves_n"),
        ({"stages": 1}, "stages_overlap"),
        ({"layout_a": "identity"}, "read_conflicts_a"),
        ({"layout_b": "pad(16,4)"}, "read_conflicts_b"),
        ({"copy_a": "ld.global"}, "copy_whole_a"),
        ({"vector_b": 4, "copy_columns_b": 32}, "copy_whole_b"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_hopeless_schedules_are_pruned_but_still_run(changes: dict[str, str | int], rule: str) -> None:
    problem_space = space(Matmul(4096, 4096, 4096), H200)
    assert problem_space.explain(GOOD) == []
    assert rule in {v.rule for v in problem_space.explain({**GOOD, **changes})}
    assert problem_space.valid.explain({**GOOD, **changes}) == []


def test_small_tiles_are_kept_if_larger_ones_leave_sms_idle() -> None:
    problem_space = space(Matmul(256, 512, 4096), H200)
    small = {**GOOD, "tile_m": 32, "sg_data_m": 16}
    assert not {v.rule for v in problem_space.explain(small)} & {"tile_waves_m", "tile_waves_n"}


def test_narrower_copies_are_kept_for_small_tiles() -> None:
    """128 threads copy 16 x 64 f16 elements in vectors of up to 8, but 16 x 32 in vectors of up to 4."""
    problem_space = space(Matmul(64, 64, 4096, order_a="col"), H200)
    small = {**GOOD, "tile_m": 16, "tile_n": 64, "subgroups_m": 1, "subgroups_n": 4, "sg_data_m": 16, "sg_data_n": 16}
    refused = [
        {v.rule for v in problem_space.explain({**small, "tile_k": tile_k, "unroll": tile_k // 16, "vector_a": 4})}
        for tile_k in (32, 64)
    ]
    assert "copy_whole_a" not in refused[0] and "copy_whole_a" in refused[1]


@pytest.mark.parametrize(
    ("batch", "tile", "split"), [(1, 64, True), (1, 32, True), (1, 16, False), (4, 64, True), (5, 64, False)]
)
def test_k_is_only_split_if_the_tiles_are_under_two_waves(batch: int, tile: int, split: bool) -> None:
    """512 x 512 has 64 tiles of 64 x 64, 256 of 32 x 32, or 1024 of 16 x 16. An H200 has 132 SMs."""
    problem_space = space(Matmul(512, 512, 4096, batch=batch), H200)
    chosen = {p.name: p.default for p in problem_space.parameters} | {"tile_m": tile, "tile_n": tile, "split_k": 4}
    refused = [v.reason for v in problem_space.explain(chosen) if v.rule == "split_k_waves"]
    assert refused == (
        []
        if split
        else [
            f"split_k is 4, but tiles of {tile}x{tile} alone already give each of the 132 SMs of h200 2 blocks or more"
        ]
    )
    assert all(v.rule != "split_k_waves" for v in problem_space.explain({**chosen, "split_k": 1}))


def test_pruned_schedules_are_valid() -> None:
    """Schedules that only pruning rules reject, such as CUDA cores with split-k, still compute the problem."""
    problem = Matmul(512, 512, 4096, order_a="col")
    rules = [r for r in pruning_rules(problem, H200) if r.name not in ("tensor_cores", "split_k_waves")]
    columns, constraints = attributes(problem, H200), validity_constraints(problem, H200)
    unpruned = Space("matmul", parameters(problem, H200), columns, constraints, rules)
    problem_space = space(problem, H200)
    refused = [s for s in unpruned.sample(200, 1) if s not in problem_space]
    assert len(refused) > 100
    assert all(s in problem_space.valid for s in refused)


ROUNDED = Matmul(2048, 2048, 2048, a="f32")
# Two variants of the schedule: with one fragment buffer, and with half as many accumulators.
NEIGHBOURS = (
    TWO_ROUNDED_BUFFERS.replace(fragment_buffers=1),
    TWO_ROUNDED_BUFFERS.replace(tile_n=64, sg_data_n=32),
)


def broken(problem: Matmul, schedule: Schedule) -> set[str]:
    return {violation.rule for violation in space(problem, H200).explain(schedule)}


def test_two_buffers_that_are_rounded_need_more_registers() -> None:
    assert broken(ROUNDED, TWO_ROUNDED_BUFFERS) == {"rounding_registers"}
    for neighbour in NEIGHBOURS:
        assert "rounding_registers" not in broken(ROUNDED, neighbour)


@needs_nvrtc
@pytest.mark.nightly
def test_only_schedules_excluded_by_register_rounding_spill() -> None:
    kernels = [MATMUL.kernel(ROUNDED, schedule, H200) for schedule in (TWO_ROUNDED_BUFFERS, *NEIGHBOURS)]
    results = dict(compile_many(shared_pool(), kernels, H200.arch))
    compiled = [results[i] for i in range(len(kernels))]
    spilled = [c.resources.spill_store_bytes for c in compiled if isinstance(c, Compiled)]
    assert spilled[0] > 0
    assert spilled[1:] == [0, 0]


@pytest.mark.parametrize(
    ("problem", "one_result"),
    [
        (Matmul(4096, 4096, 4096, a="bf16"), False),
        (Matmul(4096, 4096, 4096, a="f32", precision="ieee"), False),
        (Matmul(128, 128, 4096, a="bf16"), True),
        (Matmul(65536, 8, 4096, a="bf16"), True),
    ],
    ids=["bf16", "ieee", "few results", "few columns"],
)
def test_cuda_cores_compute_several_results_per_thread_if_there_are_enough(problem: Matmul, one_result: bool) -> None:
    rows = {str(schedule["intrinsic"]) for schedule in space(problem, TURING).sample(64, seed=0)}
    assert any(intrinsic(name).c.registers == 1 for name in rows) == one_result
    assert any(intrinsic(name).c.registers > 1 for name in rows)
