"""A check accepts rounding errors, and rejects all other differences."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from measurements.trials.comparison import Check, check, compare, errors, magnitudes
from search_spaces.hardware.dtypes import BF16, F16, F32, SCALAR_DTYPES, DType
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.matvec import Matvec
from search_spaces.operators.row_reduction import LayerNorm, Reduce, Softmax

PROBLEM = Matmul(m=17, n=33, k=20, batch=2, out="f32")
INPUTS = PROBLEM.random_inputs(7)


def right_output(problem=PROBLEM, inputs=INPUTS):
    return {"out": problem.out_dtype.store(problem.reference(inputs)["out"])}


@pytest.mark.parametrize("out", ["f16", "bf16", "f32"])
@pytest.mark.parametrize("order", ["row", "col"])
def test_the_rounded_reference_passes(out, order):
    problem = Matmul(m=17, n=33, k=20, out=out, order_a=order, order_b=order)
    inputs = problem.random_inputs(3)
    result = check(problem, inputs, right_output(problem, inputs))
    assert result.ok
    assert 0 <= result.worst <= 1
    assert result.reason == ""


@settings(max_examples=50)
@given(st.integers(0, 2 * 17 * 33 - 1), st.sampled_from([math.nan, math.inf, -math.inf, 1e6]))
def test_one_wrong_element_anywhere_is_found_and_named(index, value):
    outputs = right_output()
    outputs["out"].reshape(-1)[index] = value
    result = check(PROBLEM, INPUTS, outputs)
    where = [int(i) for i in np.unravel_index(index, outputs["out"].shape)]
    assert not result.ok
    assert result.worst > 1
    assert result.reason.startswith(f"out{where} is ")
    assert "1 of 1122 elements are wrong" in result.reason


def test_the_border_is_the_tolerance_itself():
    expected, allowed = np.array([1.0, 2.0]), np.array([0.5, 0.5])
    assert compare("x", F32, np.float32([1.5, 1.5]), expected, allowed) == Check(True, 1.0)
    result = compare("x", F32, np.float32([1.5, 2.625]), expected, allowed)
    assert (result.ok, result.worst) == (False, 1.25)
    assert result.reason.startswith("x[1] is 2.625, should be 2 within 0.5")


def test_an_exact_result_may_have_no_tolerance():
    zero = np.zeros(2)
    assert compare("x", F32, np.float32([0, 0]), zero, zero) == Check(True, 0.0)
    assert compare("x", F32, np.float32([0, 1e-30]), zero, zero).worst == math.inf


def test_a_tolerance_without_a_bound_is_named():
    result = compare("x", F32, np.float32([0, 2]), np.zeros(2), np.full(2, math.inf))
    assert not result.ok and "no finite bound" in result.reason


def test_a_rounded_reference_passes_without_a_bound():
    expected, vague = np.array([-65501.9, -65513.8, 65530.0, 1.0003]), np.full(4, math.inf)
    assert compare("x", F16, np.float16([-65504, -65504, np.inf, 1]), expected, vague) == Check(True, 0.0)
    for at, value in ((0, -65472), (1, -np.inf), (1, np.nan), (2, 65504), (3, 1.001)):
        stored = np.float16([-65504, -65504, np.inf, 1])
        stored[at] = value
        assert not compare("x", F16, stored, expected, vague).ok, (at, value)


@pytest.mark.parametrize(("dtype", "poison"), [(F16, np.uint16(0xFFFF).view(np.float16)), (BF16, np.uint16(0xFFFF))])
def test_an_element_that_was_never_written_is_wrong(dtype, poison):
    stored = dtype.store(np.ones(5))
    stored[3] = poison
    result = compare("x", dtype, stored, np.ones(5), np.full(5, 1e9))
    assert (result.ok, result.worst) == (False, math.inf)
    assert result.reason.startswith("x[3] is nan")


def test_arrays_longer_than_a_chunk_are_checked_to_the_end():
    stored = np.ones((3, 1_000_003), dtype=np.float32)
    assert compare("x", F32, stored, np.ones(1), np.zeros(1)).ok
    stored[2, 1_000_002] = 2
    assert compare("x", F32, stored, np.ones(1), np.full(1, 0.5)).reason.startswith("x[2, 1000002] is 2")


@pytest.mark.parametrize(
    "outputs",
    [{}, {"out": np.zeros((2, 33, 17), np.float32)}, {"out": np.zeros((2, 17, 33), np.float16)}],
)
def test_an_output_of_another_form_is_rejected(outputs):
    with pytest.raises(ValueError, match="output out"):
        check(PROBLEM, INPUTS, outputs)


def test_reference_and_tolerance_may_be_given():
    zeros = {"out": np.zeros((2, 17, 33))}
    outputs = {"out": np.full((2, 17, 33), 0.5, np.float32)}
    assert check(PROBLEM, INPUTS, outputs, reference=zeros, tolerance={"out": np.full((2, 17, 33), 0.5)}).worst == 1.0


def test_non_finite_values_must_be_equal():
    expected, allowed = np.array([np.nan, np.inf, -np.inf, 0.0]), np.array([np.nan, np.inf, np.nan, np.inf])
    assert compare("x", F32, np.float32([np.nan, np.inf, -np.inf, 0]), expected, allowed) == Check(True, 0.0)
    for position, value in ((0, 1.0), (0, np.inf), (1, -np.inf), (1, 3e38), (2, np.nan), (3, 1e-30)):
        stored = np.float32([np.nan, np.inf, -np.inf, 0])
        stored[position] = value
        result = compare("x", F32, stored, expected, allowed)
        assert not result.ok and result.reason.startswith(f"x[{position}] is "), (position, value)


def test_values_that_round_to_infinity_may_be_infinite():
    expected = np.array([70000.0, -1e30, 65500.0])
    assert compare("x", F16, np.float16([np.inf, -np.inf, 65504]), expected, np.full(3, 8.0)).ok
    assert not compare("x", F16, np.float16([np.inf, -np.inf, np.inf]), expected, np.full(3, 8.0)).ok
    assert not compare("x", F16, np.float16([-np.inf, -np.inf, 65504]), expected, np.full(3, 8.0)).ok


@pytest.mark.parametrize(("dtype", "largest"), [(F16, 65504.0), (BF16, 3.38953139e38), (F32, 3.4028235e38)])
def test_an_infinity_of_a_rounded_reference_may_be_any_number_that_rounds_to_it(dtype: DType, largest: float) -> None:
    stored = dtype.store([largest, largest, 0.9 * largest, largest, -largest, np.inf, -np.inf, np.nan])
    expected = np.array([np.inf, -np.inf, np.inf, np.inf, -np.inf, np.inf, np.inf, np.inf])
    allowed = 4e-3 * magnitudes(expected, dtype)
    allowed[3] = 0.0
    element_errors = errors(dtype, stored, expected, allowed, rounded_to=dtype)
    assert element_errors.wrong.tolist() == [False, True, True, True, False, False, True, True]
    assert 0 < element_errors.ratio[0] < 1 and element_errors.ratio[5] == 0
    assert errors(dtype, stored, expected, allowed).wrong.tolist() == [True] * 5 + [False, True, True]
    # if the reference was rounded only to f64, an infinite element is beyond the range of every smaller type
    assert errors(dtype, stored, expected, allowed, rounded_to=SCALAR_DTYPES["f64"]).wrong[:2].all()


@pytest.mark.parametrize(
    "problem",
    [
        Matmul(m=17, n=33, k=20, epilogue="bias+silu", reduction="row_max", out="bf16"),
        Reduce(5, 90, kind="sumsq"),
        Reduce(5, 90, kind="mean", dtype="f32", out="bf16"),
        Softmax(3, 90),
        LayerNorm(3, 90),
        Matvec(2, 10, 50),
    ],
    ids=lambda p: p.operator,
)
def test_the_rounded_reference_passes_on_stress_inputs(problem):
    for input_set in problem.stress_inputs(1):
        reference = problem.reference(input_set.inputs)
        with np.errstate(over="ignore"):
            outputs = {o.name: o.dtype.store(reference[o.name]) for o in problem.operands() if o.role == "output"}
        assert check(problem, input_set.inputs, outputs).ok


@pytest.mark.parametrize(
    ("problem", "operand", "term"),
    [
        (Matmul(m=40, n=20, k=300, out="f32"), "a", -1),
        (Reduce(40, 3000, dtype="f32"), "x", -1),
        (Matvec(2, 40, 3000, out="f32"), "w", 0),
    ],
    ids=lambda p: getattr(p, "operator", ""),
)
def test_a_missing_term_of_a_sum_of_integers_shows(problem, operand, term):
    """The term is less than 0.1% of the sum. Rounding errors would hide it in a sum of random numbers."""
    full = next(iter(problem.stress_inputs(0))).inputs
    cut = {name: array.copy() for name, array in full.items()}
    cut[operand][..., term] = 0
    outputs = {"out": problem.out_dtype.store(problem.reference(cut)["out"])}
    assert not check(problem, full, outputs).ok
