"""Grouped products: offsets, counts, chosen rows, and planted faults."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tile_operator_checks import interpreted, is_found, kernel_of, outcome, sampled

from search_spaces.catalogue import problem_from_json
from search_spaces.hardware.devices import device
from search_spaces.hardware.dtypes import BF16
from search_spaces.tile_operators.grouped_matmul import GroupedMatmul
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
OF_BLOCKS = {  # which Ampere does not multiply
    "e4m3": BLOCKS,
    "e4m3, chosen rows": replace(BLOCKS, tokens=40),
    "e4m3, silu and up": replace(BLOCKS, n=128, activation="silu_up"),
    "e4m3, masked": replace(BLOCKS, m=70, groups=3, rows="masked"),
}
MODELS = {  # few experts and tokens
    "qwen 3 30B, gate and up": GroupedMatmul(m=160, n=96, k=256, groups=8, tokens=20, activation="silu_up"),
    "deepseek v3, down": GroupedMatmul(m=140, n=128, k=256, groups=4, w_order="col"),
    "deepseek v3, gate and up": GroupedMatmul(
        m=140, n=128, k=384, groups=6, dtype="e4m3", w_order="col", activation="silu_up"
    ),
}


@pytest.mark.parametrize("name", [*CASES, *OF_BLOCKS])
def test_the_interpreter_agrees_with_numpy(name: str) -> None:
    assert interpreted((CASES | OF_BLOCKS)[name], 2)


@pytest.mark.parametrize("name", ["all of it, by columns", "masked", "contiguous", "e4m3, silu and up"])
def test_some_sampled_schedules(name: str) -> None:
    problem = (CASES | OF_BLOCKS)[name]
    for schedule in sampled(problem, "h100", 2):
        assert outcome(problem, kernel_of(problem, "h100", schedule)) == "ok", schedule


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


def test_empty_and_skewed_groups() -> None:
    kernel = kernel_of(SMALL, "a100", sampled(SMALL, "a100", 1)[0])
    inputs = SMALL.random_inputs(1)
    for ends in ([0, 0, 0, 150, 150, 150], [0, 150, 150, 150, 150, 150], [0, 1, 2, 3, 4, 150]):
        given = {**inputs, "ends": np.array(ends, dtype=np.int32)}
        assert outcome(SMALL, kernel, given) == "ok", ends


FAULTS = {
    "the next group's rows are written": ("(bm, bn)), rows_below=end)", "(bm, bn)))", "contiguous"),
    "the matrix of another group": ("p.minimum(number, groups - 1)", "p.minimum(number, 0)", "contiguous"),
    "tiles of a group overlap": ("(tile - begun) * bm", "(tile - begun) * (bm - 1)", "contiguous"),
    "rows of x instead of chosen ones": ("chosen = row if token is None", "chosen = row if token", "chosen rows"),
    "gate and up change places": ("halves = (0, n) if", "halves = (n, 0) if", "silu and up"),
    "rows behind the count are kept": ("p.rows(row, bm) < p.rows(end, 1)", "p.rows(row, bm) >= 0", "masked"),
    "groups end a row early": ("last - first + (bm - 1)", "last - first + (bm - 2)", "groups of a row more"),
    "groups before the last one are counted alone": (
        "p.rows(0, c) <= p.columns",
        "p.rows(0, c) < p.columns",
        "contiguous",
    ),
    "tiles behind the last one of a group": ("done = upto <= tile", "done = upto < tile", "contiguous"),
    "the end of the group before": ("number + at, high=m", "number, high=m", "contiguous"),
    "the first row of a group is left out": ("p.maximum(begin + (tile", "p.maximum(begin + 1 + (tile", "contiguous"),
    "a tile too few": ("(m + groups * (bm - 1), n)", "(m, n)", "contiguous"),
    "columns of x of the first turn": ("p.window(x, (chosen, at)", "p.window(x, (chosen, 0)", "contiguous"),
    "columns of w of the first tile": ("(at, j + half), (bk, bn)", "(at, half), (bk, bn)", "many columns by rows"),
    "rows of w of the first tile": ("(j + half, at), (bn, bk)", "(half, at), (bn, bk)", "many columns"),
    "up is gate": ("(j + half, at), (bn, bk)", "(j, at), (bn, bk)", "all of it, by columns"),
    "no silu": ("result * p.sigmoid(result) * sums", "result * sums", "silu and up"),
    "silu of up": ("p.sigmoid(result) * sums[1].read()", "p.sigmoid(sums[1].read()) * sums[1].read()", "silu and up"),
    "the counts of the first group": ("p.load_scalar(ends, group,", "p.load_scalar(ends, group * 0,", "masked"),
    "rows of another group": (
        "end, x, out, chosen_group = i, count, x[group]",
        "end, x, out, chosen_group = i, count, x[group * 0]",
        "masked",
    ),
    "sums of a turn are lost": ("acc.set(acc + p.mma(left, right) *", "acc.set(p.mma(left, right) *", "e4m3"),
    "scales of the first columns": ("(chosen, at // BLOCK), (bm, 1)", "(chosen, 0), (bm, 1)", "e4m3"),
    "scales of sorted rows": ('scales["x_scale"], (chosen,', 'scales["x_scale"], (row,', "e4m3, chosen rows"),
    "scales of gate for up": ("(j + half) // BLOCK, at", "j // BLOCK, at", "e4m3, silu and up"),
    "scales of the first matrix": ('scales["w_scale"][chosen_group]', 'scales["w_scale"][0]', "e4m3"),
    "no scales of w": ("(of_rows * of_block)", "of_rows", "e4m3, masked"),
    "scales of the first rows of w": ("// BLOCK, at // BLOCK\n", "// BLOCK, 0\n", "e4m3"),
}
MORE = {
    "groups of a row more": replace(SMALL, m=130, groups=2),
    "many columns": replace(SMALL, n=300, w_order="col"),
    "many columns by rows": replace(SMALL, n=300),
}


@pytest.mark.parametrize(
    "fault", [f if i in (0, 4, 22) else pytest.param(f, marks=pytest.mark.nightly) for i, f in enumerate(FAULTS)]
)
def test_planted_faults_are_found(fault: str) -> None:
    old, new, case = FAULTS[fault]
    assert is_found((CASES | OF_BLOCKS | MORE)[case], old, new, "h100" if case in OF_BLOCKS else "a100")


def test_a_large_problem_is_reduced_with_its_schedule() -> None:
    large = GroupedMatmul(m=4096, n=768, k=2048, groups=128, tokens=512, activation="silu_up")
    template = tile_template(GroupedMatmul)
    schedule = sampled(large, "h100", 1)[0]
    assert template.proxy is not None
    small = template.proxy(large, schedule)
    assert small.min_bytes < large.min_bytes / 15
    template.config(small, schedule, device("h100"))


@pytest.mark.parametrize("name", [*CASES, *OF_BLOCKS])
def test_json_and_calls(name: str) -> None:
    problem = (CASES | OF_BLOCKS)[name]
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


def test_sums_that_overflow_in_some_order_are_not_bounded() -> None:
    """The largest numbers of both signs give inf - inf in one order; with one sign every order gives infinity."""
    problem = GroupedMatmul(m=8, n=64, k=96, groups=2, dtype="bf16", rows="masked")
    largest = float.fromhex("0x1.fep127")
    inputs = problem.random_inputs(1)
    rows = np.full((2, 8, 96), -largest)
    rows[0, 0, 5] = 1e-9 * largest  # far less than the others, and beyond f32 once it is multiplied
    rows[0, 2, ::2] = largest
    inputs |= {
        "x": BF16.store(rows),
        "w": BF16.store(np.full((2, 96, 64), largest)),
        "ends": np.array([8, 8], np.int32),
    }
    values, bounds = problem.expected(inputs)
    assert np.isinf(bounds["out"][0, [0, 2]]).all()
    assert (values["out"][0, 1] == -np.inf).all() and not bounds["out"][0, 1].any()
