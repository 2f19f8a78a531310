"""A part of a matmul problem has the same results as the whole problem at the same positions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np
import pytest

from measurements.trials.comparison import check
from search_spaces.operators import input_cases
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.problem import ProblemPart

SCALED = Matmul(37, 300, 330, batch=2, a="e4m3", scale="block", epilogue="bias+relu")
REDUCED = Matmul(40, 24, 48, batch=2, a="f16", reduction="row_max", epilogue="bias", order_a="col")


@cache
def inputs_of(problem: Matmul, seed: int) -> Mapping[str, np.ndarray]:
    return problem.random_inputs(seed)


def computed(problem: Matmul, part: ProblemPart, seed: int) -> dict[str, np.ndarray]:
    inputs = inputs_of(problem, seed)
    part_inputs = {name: inputs[name].reshape(-1)[indices] for name, indices in part.inputs.items()}
    shapes = {o.name: o.shape for o in part.problem.operands()}
    return dict(part.problem.reference({name: x.reshape(shapes[name]) for name, x in part_inputs.items()}))


def test_parts_with_block_scales_agree_with_the_whole() -> None:
    rng = np.random.default_rng(3)
    positions = np.unique(rng.integers(0, 2 * 37 * 300, 900))
    full_output = SCALED.reference(SCALED.random_inputs(1))["out"].reshape(-1)
    seen = []
    for part in SCALED.parts(positions):
        actual = computed(SCALED, part, 1)["out"].reshape(-1)
        np.testing.assert_allclose(actual, full_output[part.outputs["out"].reshape(-1)], rtol=1e-12)
        seen.append(part.outputs["out"].reshape(-1))
    assert set(positions) <= set(np.concatenate(seen))


@pytest.mark.parametrize("reduction", ["row_sum", "row_max", "column_sum"])
def test_parts_of_a_reduction_have_the_whole_rows_or_columns(reduction: str) -> None:
    problem = Matmul(**{**REDUCED.__dict__, "reduction": reduction})
    full_output = problem.reference(problem.random_inputs(2))["reduced"].reshape(-1)
    positions = np.array([0, 3, 5, full_output.size - 2, full_output.size - 1])
    seen = []
    for part in problem.further_parts("reduced", positions):
        actual = computed(problem, part, 2)["reduced"].reshape(-1)
        np.testing.assert_allclose(actual, full_output[part.outputs["reduced"].reshape(-1)], rtol=1e-12)
        seen += part.outputs["reduced"].reshape(-1).tolist()
    assert seen == positions.tolist()


@pytest.mark.parametrize(
    "problem",
    [*(Matmul(64, 32, 80, a=name) for name in ("e4m3", "e5m2", "i8")), Matmul(64, 32, 80, a="e5m2", scale="block")],
    ids=str,
)
def test_every_pattern_of_8_bits_is_an_input(problem: Matmul) -> None:
    patterns = next(x for x in problem.stress_inputs(0) if input_cases.PATTERNS in x.cases)
    assert set(patterns.inputs["a"].view(np.uint8).reshape(-1).tolist()) == set(range(256))
    reference, tolerance = problem.expected(patterns.inputs)
    assert np.isfinite(reference["out"]).any() and np.isfinite(tolerance["out"]).any()


def test_nan_of_both_signs_is_an_input() -> None:
    for name in ("f16", "bf16", "e4m3"):
        problem = Matmul(64, 32, 80, a=name)
        stored = next(x for x in problem.stress_inputs(0) if "nan" in x.cases).inputs["a"]
        nan = np.isnan(problem.input_dtype.load(stored))
        signs = stored.view(f"u{stored.dtype.itemsize}")[nan] >> (8 * stored.dtype.itemsize - 1)
        assert set(signs.tolist()) == {0, 1}, name


def test_sums_of_the_largest_integers_leave_f32() -> None:
    problem = Matmul(8, 8, 2048, a="i8")
    largest = next(x for x in problem.stress_inputs(0) if input_cases.ALL_LARGEST in x.cases)
    assert problem.reference(largest.inputs)["out"].min() > 2**24


def test_the_sign_of_zero_counts_on_request() -> None:
    problem = Matmul(2, 2, 2, a="f32", out="f32", epilogue="relu")
    inputs = {"a": -np.ones((1, 2, 2), "f4"), "b": np.ones((1, 2, 2), "f4")}
    right, negative_zeros = np.zeros((1, 2, 2), "f4"), np.full((1, 2, 2), -0.0, "f4")
    assert problem.signed_zeros and check(problem, inputs, {"out": right}, signed_zeros=True).ok
    assert not check(problem, inputs, {"out": negative_zeros}, signed_zeros=True).ok
    assert check(problem, inputs, {"out": negative_zeros}).ok
