"""Grouped products are correct with offsets, counts or chosen rows. Planted faults are reported."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tile_operator_checks import interpreted, is_found, kernel_of, outcome, sampled, sampled_persistent, sampled_with

from search_spaces.catalogue import problem_from_json
from search_spaces.hardware.devices import device
from search_spaces.hardware.dtypes import BF16
from search_spaces.tile_operators.grouped_matmul import GroupedMatmul
from search_spaces.tile_operators.packed_weights import pack_int4
from search_spaces.tile_operators.tile_template import tile_template

SMALL = GroupedMatmul(m=150, n=72, k=72, groups=5)
CASES = {
    "contiguous": SMALL,
    "chosen rows": replace(SMALL, tokens=40, dtype="f16"),
    "silu and up": replace(SMALL, n=40, activation="silu_up"),
    "all of it, by columns": replace(SMALL, n=40, activation="silu_up", tokens=40, w_order="col"),
    "masked": replace(SMALL, m=70, groups=3, rows="masked"),
    "masked, silu and up": replace(SMALL, m=70, n=40, groups=3, rows="masked", activation="silu_up"),
}
BLOCKS = replace(SMALL, k=272, dtype="e4m3", w_order="col")
OF_BLOCKS = {  # e4m3, which Ampere cannot multiply
    "e4m3": BLOCKS,
    "e4m3, chosen rows": replace(BLOCKS, tokens=40),
    "e4m3, silu and up": replace(BLOCKS, n=128, activation="silu_up"),
    "e4m3, masked": replace(BLOCKS, m=70, groups=3, rows="masked"),
}
INT4 = replace(SMALL, k=256, dtype="f16", w_order="col", weights="int4", scale_group=128)
QUANTISED = {
    "int4": INT4,
    "int4, zero points, bf16": replace(INT4, zero_points=1, dtype="bf16", scale_group=64),
    "int4, groups of 32, packed, chosen rows": replace(
        INT4, k=128, zero_points=1, scale_group=32, layout="fragments", tokens=40
    ),
    "int4, silu and up, packed": replace(
        INT4, n=48, activation="silu_up", zero_points=1, layout="fragments", dtype="bf16"
    ),
    "int8": replace(INT4, weights="int8", scale_group=0),
    "int8, masked, packed": replace(
        INT4, weights="int8", scale_group=64, m=70, groups=3, rows="masked", layout="fragments"
    ),
    "e4m3 weights, silu and up": replace(INT4, weights="e4m3", dtype="bf16", activation="silu_up", n=40),
    "nvf4, bf16": replace(INT4, weights="nvf4", scale_group=16, dtype="bf16", m=100, groups=3),
    "nvf4, masked, packed": replace(
        INT4, weights="nvf4", scale_group=16, m=70, groups=3, rows="masked", layout="fragments"
    ),
}
MODELS = {  # shapes of models with few experts and tokens
    "qwen 3 30B, gate and up": GroupedMatmul(m=160, n=96, k=256, groups=8, tokens=20, activation="silu_up"),
    "deepseek v3, down": GroupedMatmul(m=140, n=128, k=256, groups=4, w_order="col"),
    "deepseek v3, gate and up": GroupedMatmul(
        m=140, n=128, k=384, groups=6, dtype="e4m3", w_order="col", activation="silu_up"
    ),
    "qwen 3 30B of int4, down": replace(INT4, m=160, n=256, k=128, groups=16, dtype="bf16", zero_points=1),
}
EVERY = CASES | OF_BLOCKS | QUANTISED


@pytest.mark.parametrize("name", EVERY)
def test_the_interpreter_agrees_with_numpy(name: str) -> None:
    assert interpreted(EVERY[name], 2)


@pytest.mark.parametrize(
    ("name", "gpu"),
    [
        *((name, "h100") for name in ("all of it, by columns", "masked", "contiguous", "e4m3, silu and up")),
        ("int4, silu and up, packed", "a100"),
        ("int8, masked, packed", "t4"),
        ("nvf4, masked, packed", "b200"),
    ],
)
def test_some_sampled_schedules(name: str, gpu: str) -> None:
    for schedule in sampled(EVERY[name], gpu, 2):
        assert outcome(EVERY[name], kernel_of(EVERY[name], gpu, schedule)) == "ok", schedule


@pytest.mark.parametrize("tokens", [0, 40])  # TMA cannot copy selected rows, so threads fill the ring
def test_quantised_weights_are_operands_of_wgmma(tokens: int) -> None:
    problem = replace(QUANTISED["int4, zero points, bf16"], tokens=tokens)
    (schedule,) = sampled_with(problem, "h100", 1, intrinsic="wgmma_m64k16_bf16")
    assert (schedule["filled_by"] == "threads") == bool(tokens)
    assert outcome(problem, kernel_of(problem, "h100", schedule)) == "ok"


@pytest.mark.nightly
@pytest.mark.parametrize("gpu", ["a100", "h100"])
@pytest.mark.parametrize("name", [*CASES, *MODELS, *OF_BLOCKS])
def test_sampled_schedules(name: str, gpu: str) -> None:
    problem = (CASES | MODELS | OF_BLOCKS)[name]
    if problem.scaled and gpu == "a100":
        assert tile_template(GroupedMatmul).why_not(problem, device(gpu)) is not None
        return
    for schedule in sampled(problem, gpu, 10):
        assert outcome(problem, kernel_of(problem, gpu, schedule)) == "ok", schedule


def test_persistent_blocks() -> None:
    for name, fills in (("contiguous", "warp"), ("int4", "tma")):
        problem = EVERY[name]
        (schedule,) = sampled_persistent(problem, "h100", 1, f"wgmma_m64k16_{problem.dtype}", filled_by=fills)
        assert outcome(problem, kernel_of(problem, "h100", schedule)) == "ok", schedule


@pytest.mark.nightly
@pytest.mark.parametrize("name", [name for name, p in EVERY.items() if p.rows != "masked"])
def test_sampled_persistent_schedules(name: str) -> None:
    problem = EVERY[name]
    cases = [("h100", "mma_m16n8k32_e4m3", {})] if problem.scaled else [("a100", f"mma_m16n8k16_{problem.dtype}", {})]
    if not problem.scaled:
        fills = (
            ("threads",)
            if problem.quantised and problem.gathered
            else ("tma",)
            if problem.gathered
            else ("tma", "warp")
        )
        cases += [("h100", f"wgmma_m64k16_{problem.dtype}", {"filled_by": by}) for by in fills]
    for gpu, intrinsic, values in cases:
        schedules = sampled_persistent(problem, gpu, 3, intrinsic, **values)
        assert len(schedules) == 3
        for schedule in schedules:
            assert outcome(problem, kernel_of(problem, gpu, schedule)) == "ok", schedule


@pytest.mark.nightly
@pytest.mark.parametrize("gpu", ["t4", "a100", "h100", "b200"])
@pytest.mark.parametrize("name", QUANTISED)
def test_sampled_schedules_of_quantised_weights(name: str, gpu: str) -> None:
    problem = QUANTISED[name]
    if gpu == "t4" and problem.dtype == "bf16":
        assert tile_template(GroupedMatmul).why_not(problem, device(gpu)) is not None
        return
    for schedule in sampled(problem, gpu, 10):
        assert outcome(problem, kernel_of(problem, gpu, schedule)) == "ok", schedule


@pytest.mark.nightly
@pytest.mark.parametrize("intrinsic", ["wgmma_m64k16", "tcgen05_m64k16"])
@pytest.mark.parametrize("name", QUANTISED)
def test_sampled_schedules_of_quantised_weights_by_warp_groups(name: str, intrinsic: str) -> None:
    problem, gpu = QUANTISED[name], "h100" if intrinsic.startswith("wgmma") else "b200"
    for schedule in sampled_with(problem, gpu, 3, intrinsic=f"{intrinsic}_{problem.dtype}"):
        assert outcome(problem, kernel_of(problem, gpu, schedule)) == "ok", schedule


@pytest.mark.parametrize("name", ["int4", "nvf4, masked, packed"])
def test_edge_cases_of_quantised_weights(name: str) -> None:
    """A verification's inputs include empty and skewed groups, and extreme numbers, zero points and scales."""
    problem = replace(QUANTISED[name], m=40, n=24, k=128, zero_points=int("int4" in name))
    cases = {case for input_set in problem.stress_inputs(1) for case in input_set.cases}
    expected = {"w: smallest numbers", "w: largest numbers", "w_scale: small and large alternate"}
    assert expected <= cases
    assert ("zeros: 0 and 15 alternate" in cases) == bool(problem.zero_points)
    assert any(case.startswith("ends: ") for case in cases)


def test_empty_and_skewed_groups_of_quantised_weights() -> None:
    kernel = kernel_of(INT4, "h100", sampled(INT4, "h100", 1)[0])
    for ends in ([0, 0, 0, 150, 150, 150], [0, 1, 2, 3, 4, 150]):
        group_inputs = {**INT4.random_inputs(1), "ends": np.array(ends, dtype=np.int32)}
        assert outcome(INT4, kernel, group_inputs) == "ok", ends


def test_empty_and_skewed_groups() -> None:
    kernel = kernel_of(SMALL, "a100", sampled(SMALL, "a100", 1)[0])
    inputs = SMALL.random_inputs(1)
    for ends in ([0, 0, 0, 150, 150, 150], [0, 150, 150, 150, 150, 150], [0, 1, 2, 3, 4, 150]):
        group_inputs = {**inputs, "ends": np.array(ends, dtype=np.int32)}
        assert outcome(SMALL, kernel, group_inputs) == "ok", ends


FAULTS = {
    "the next group's rows are written": ("column), shape), rows_below=end)", "column), shape))", "contiguous"),
    "the matrix of another group": ("p.minimum(number, groups - 1)", "p.minimum(number, 0)", "contiguous"),
    "tiles of a group leave rows out": ("(tile - begun) * bm", "(tile - begun) * (bm + 1)", "contiguous"),
    "rows of x are not selected by token": ("chosen = row if token is None", "chosen = row if token", "chosen rows"),
    "gate and up change places": ("halves = (0, out.shape[-1]) if", "halves = (out.shape[-1], 0) if", "silu and up"),
    "rows after the count are kept": (
        "p.rows(row, shape[0]) < p.rows(end, 1)",
        "p.rows(row, shape[0]) >= 0",
        "masked",
    ),
    "tiles of a group are larger": (
        "find_tile(ends, tile, bm,",
        "find_tile(ends, tile, bm + 1,",
        "groups of a row more",
    ),
    "tiles after the last one of a group": ("find_tile(ends, tile,", "find_tile(ends, tile + 1,", "contiguous"),
    "a group ends where the previous one ends": ("number + at, high=m", "number, high=m", "contiguous"),
    "the first row of a group is left out": ("p.maximum(begin + (tile", "p.maximum(begin + 1 + (tile", "contiguous"),
    "a tile too few": ("(m + groups * (bm - 1), n)", "(m, n)", "contiguous"),
    "columns of x of the first iteration": (
        "left = p.load(p.window(x, (chosen, at)",
        "left = p.load(p.window(x, (chosen, 0)",
        "contiguous",
    ),
    "columns of w of the first tile": ("(at, j + half), (bk, bn)", "(at, half), (bk, bn)", "many columns by rows"),
    "rows of w of the first tile": ("(j + half, at), (bn, bk)", "(half, at), (bn, bk)", "many columns"),
    "up is gate": ("(j + half, at), (bn, bk)", "(j, at), (bn, bk)", "all of it, by columns"),
    "no silu": ("result * p.sigmoid(result) * sums", "result * sums", "silu and up"),
    "silu of up": ("p.sigmoid(result) * sums[1]", "p.sigmoid(sums[1]) * sums[1]", "silu and up"),
    "the counts of the first group": ("p.load_scalar(ends, group,", "p.load_scalar(ends, group * 0,", "masked"),
    "rows of another group": (
        "1), j, x[group], out[group]",
        "1), j, x[group * 0], out[group]",
        "masked",
    ),
    "sums of a turn are lost": ("acc.set(acc + p.mma(left, right) *", "acc.set(p.mma(left, right) *", "e4m3"),
    "scales of the first columns": ("(chosen, at // BLOCK), (bm, 1)", "(chosen, 0), (bm, 1)", "e4m3"),
    "scales of sorted rows": ("p.window(of_x, (chosen,", "p.window(of_x, (row,", "e4m3, chosen rows"),
    "scales of gate for up": ("(j + half) // BLOCK, at", "j // BLOCK, at", "e4m3, silu and up"),
    "scales of the first matrix": ('scales["w_scale"][group]', 'scales["w_scale"][0]', "e4m3"),
    "no scales of w": ("(of_rows * of_block)", "of_rows", "e4m3, masked"),
    "scales of the first rows of w": ("// BLOCK, at // BLOCK\n", "// BLOCK, 0\n", "e4m3"),
}
FAULTS |= {
    "scales of the first group's matrix": ("scales[name][group] for", "scales[name][0] for", "int4"),
    "weights of the first group": ("first_row = group * of.rows", "first_row = 0 * of.rows", "int8"),
    "matrices are as far apart as their columns": (
        'of.rows(scales["w_scale"].shape[-1])',
        'scales["w_scale"].shape[-1]',
        "int8, packed, of 72 columns",
    ),
    "the global scale of the first group": ("(0, self.number), (1, 1)", "(0, 0), (1, 1)", "nvf4, bf16"),
    "another zero point": ("MIDDLE = 8", "MIDDLE = 7", "int4"),
    "zero points of the next row": ("zeros, (row, column)", "zeros, (row + 1, column)", "int4, zero points, bf16"),
    "zero points of the first scale group": (
        "column = here // f.group if",
        "column = 0 if",
        "int4, zero points, bf16",
    ),
    "quantised up is scaled by the scales of gate": (
        "matrix.result(acc, j + half, bn)",
        "matrix.result(acc, j, bn)",
        "int8, silu and up",
    ),
    "quantised up is gate": (
        "matrix.add_products(acc, j + half",
        "matrix.add_products(acc, j",
        "int4, silu and up, packed",
    ),
    "rows of x of sorted rows": (
        "return p.transpose(p.load(p.window(x, (chosen, at)",
        "return p.transpose(p.load(p.window(x, (row, at)",
        "int4, groups of 32, packed, chosen rows",
    ),
    "columns of x of the first scale group": (
        "factors = part(here, depth)",
        "factors = part(at, depth)",
        "int4, groups of 32, packed, chosen rows",
    ),
    "sums of scale groups are lost": ("sums + p.mma(numbers, factors) *", "p.mma(numbers, factors) *", "int4"),
    "words of the first iteration": ("+ row, at // 8), (rows", "+ row, 0), (rows", "int4"),
    "quantised tiles overwrite the next group's rows": ("column), shape), rows_below=end)", "column), shape))", "int4"),
    "the last row of a quantised group is left out": ("rows_below=end)", "rows_below=end - 1)", "int4"),
    "packed quantised weights read as rows": ("w if of.order is None", "w if True", "int8, masked, packed"),
}
MORE = {
    "int8, packed, of 72 columns": replace(INT4, weights="int8", scale_group=0, layout="fragments"),
    "int8, silu and up": replace(INT4, n=40, weights="int8", scale_group=0, activation="silu_up"),
    "groups of a row more": replace(SMALL, m=130, groups=2),
    "many columns": replace(SMALL, n=300, w_order="col"),
    "many columns by rows": replace(SMALL, n=300),
}


@pytest.mark.parametrize(
    "fault",
    [f if i in (0, 4, 21, 26, 28) else pytest.param(f, marks=pytest.mark.nightly) for i, f in enumerate(FAULTS)],
)
def test_planted_faults_are_found(fault: str) -> None:
    old, new, case = FAULTS[fault]
    assert is_found((EVERY | MORE)[case], old, new, "h100" if case in OF_BLOCKS else "a100")


def test_a_large_problem_is_reduced_with_its_schedule() -> None:
    large = GroupedMatmul(m=4096, n=768, k=2048, groups=128, tokens=512, activation="silu_up")
    template = tile_template(GroupedMatmul)
    schedule = sampled(large, "h100", 1)[0]
    assert template.proxy is not None
    small = template.proxy(large, schedule)
    assert small.min_bytes < large.min_bytes / 15
    template.config(small, schedule, device("h100"))


def test_fields_for_quantised_weights_do_not_change_other_identities() -> None:
    assert SMALL.key() == (
        '{"activation":"none","dtype":"bf16","groups":5,"k":72,"m":150,"n":72,"operator":"grouped_matmul",'
        '"rows":"contiguous","tokens":0,"w_order":"row"}'
    )
    assert '"weights":"int4"' in INT4.key() and INT4.key() != replace(INT4, scale_group=64).key()


@pytest.mark.parametrize("name", EVERY)
def test_json_and_calls(name: str) -> None:
    problem = EVERY[name]
    assert problem_from_json(problem.to_json()) == problem
    shapes = {o.name: o.shape for o in problem.operands()}
    types = {o.name: o.dtype.name for o in problem.operands()}
    options = {name: getattr(problem, name) for name in GroupedMatmul.call_options}
    assert GroupedMatmul.of_arrays(shapes, types, **options) == problem


def test_invalid_problems_are_rejected() -> None:
    for wrong in ({"rows": "sorted"}, {"activation": "gelu"}, {"w_order": "x"}, {"groups": 0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            replace(SMALL, **wrong)
    with pytest.raises(ValueError, match="w_order"):
        replace(BLOCKS, w_order="row")
    with pytest.raises(ValueError, match="128"):
        replace(BLOCKS, activation="silu_up")
    with pytest.raises(ValueError, match="tokens"):
        replace(CASES["masked"], tokens=3)
    for wrong in (
        *({"weights": "int2"}, {"w_order": "row"}, {"scale_group": 48}, {"k": 200}, {"dtype": "f32"}),
        *({"zero_points": 2}, {"layout": "columns"}),
    ):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            replace(INT4, **wrong)
    with pytest.raises(ValueError, match="n must"):
        replace(QUANTISED["int4, silu and up, packed"], n=40)
    with pytest.raises(ValueError, match="scale_group"):
        replace(SMALL, scale_group=64)
    with pytest.raises(ValueError, match="w_scale"):
        GroupedMatmul.of_arrays({"x": (4, 64), "w": (2, 8, 8)}, {"x": "f16", "w": "i32"}, w_order="col")


@pytest.mark.parametrize("weights", ["int4", "int8"])
def test_kernels_pack_the_matrices_of_all_groups(weights: str) -> None:
    problem = replace(INT4, weights=weights, scale_group=64, layout="fragments")
    plain = replace(problem, layout="rows")
    inputs = plain.random_inputs(1)
    packed = problem.pack(inputs["w"])
    assert packed.shape == problem.operand("w").shape
    assert np.array_equal(problem.reference(inputs | {"w": packed})["out"], plain.reference(inputs)["out"])
    with pytest.raises(ValueError, match="w must be"):
        problem.pack(inputs["w"][0])
    with pytest.raises(ValueError, match="unpacked"):
        SMALL.pack(SMALL.random_inputs(1)["w"])


def test_quantised_matrices_agree_with_their_dequantised_values() -> None:
    rng = np.random.default_rng(3)
    numbers, zeros = rng.integers(0, 16, (2, 24, 128)), rng.integers(0, 16, (2, 2, 24))
    scale = rng.uniform(0.01, 0.1, (2, 2, 24)).astype(np.float16)
    problem = GroupedMatmul(
        m=9, n=24, k=128, groups=2, dtype="f16", w_order="col", weights="int4", scale_group=64, zero_points=1
    )
    x = rng.standard_normal((9, 128)).astype(np.float16)
    ends = np.array([0, 3, 9], np.int32)
    arrays: dict[str, np.ndarray] = {
        "x": x,
        "w": pack_int4(numbers),
        "ends": ends,
        "w_scale": scale,
        "zeros": zeros.astype(np.uint8),
    }
    along = np.arange(128) // 64
    weights = [(numbers[g].T - zeros[g][along]) * scale[g].astype(np.float64)[along] for g in (0, 1)]
    expected = np.concatenate([x[:3].astype(np.float64) @ weights[0], x[3:].astype(np.float64) @ weights[1]])
    assert np.allclose(problem.reference(arrays)["out"], expected, rtol=1e-12)


def test_sums_that_overflow_in_some_order_are_not_bounded() -> None:
    """With the largest numbers of both signs, some orders of additions give inf - inf. With one sign, none does."""
    problem = GroupedMatmul(m=8, n=64, k=96, groups=2, dtype="bf16", rows="masked")
    largest = float.fromhex("0x1.fep127")
    inputs = problem.random_inputs(1)
    rows = np.full((2, 8, 96), -largest)
    rows[0, 0, 5] = 1e-9 * largest  # much smaller than the other values, but its product with w exceeds f32
    rows[0, 2, ::2] = largest
    inputs |= {
        "x": BF16.store(rows),
        "w": BF16.store(np.full((2, 96, 64), largest)),
        "ends": np.array([8, 8], np.int32),
    }
    values, bounds = problem.expected(inputs)
    assert np.isinf(bounds["out"][0, [0, 2]]).all()
    assert (values["out"][0, 1] == -np.inf).all() and not bounds["out"][0, 1].any()
