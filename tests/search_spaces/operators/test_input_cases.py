"""Edge-case inputs: each case occurs and has its stated property. The rounded reference always passes."""

from __future__ import annotations

import numpy as np
import pytest

from search_spaces.arrays import FloatArray
from search_spaces.hardware.dtypes import BF16, F16, F32, FLOAT_DTYPES, DType
from search_spaces.operators import input_cases
from search_spaces.operators.input_cases import InputCase, StressInputs, mixed, positions
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.matvec import Matvec
from search_spaces.operators.problem import Problem, sum_growth
from search_spaces.operators.row_reduction import LayerNorm, Reduce, RmsNorm, Softmax

PROBLEMS = (
    *(Reduce(3, 70, kind=kind, dtype="bf16") for kind in ("sum", "max", "mean", "sumsq", "argmax")),
    Reduce(24, 10, kind="max", axis="column", dtype="f32", reduction_size=8),
    *(Softmax(2, 300, dtype=dtype) for dtype in FLOAT_DTYPES),
    *(RmsNorm(30, 70, dtype=dtype) for dtype in FLOAT_DTYPES),
    *(LayerNorm(30, 70, dtype=dtype) for dtype in FLOAT_DTYPES),
    LayerNorm(5, 33, eps=0.0),
    Matvec(3, 20, 65, out="f32"),
    *(Matmul(9, 12, 40, epilogue=f"bias+{a}", a="bf16", order_b="col") for a in ("relu", "gelu", "silu")),
    *(Matmul(9, 12, 40, batch=2, a="f32", reduction=r) for r in ("row_max", "row_sum", "column_max", "column_sum")),
)


def sets_of(problem: Problem) -> list[StressInputs]:
    return list(problem.stress_inputs(4))


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_every_case_of_an_operator_occurs_in_inputs_of_its_form(problem: Problem) -> None:
    sets = sets_of(problem)
    assert [name for input_set in sets for name in input_set.cases] == [case.name for case in problem.input_cases()]
    for input_set in sets:
        for operand in (o for o in problem.operands() if o.role == "input"):
            array = input_set.inputs[operand.name]
            assert array.shape == operand.shape and array.dtype == np.dtype(operand.dtype.storage)


def test_a_case_for_all_lines_has_its_own_set() -> None:
    problem = Softmax(4, 40)
    (alone,) = (input_set for input_set in problem.stress_inputs(0) if input_cases.APART.name in input_set.cases)
    x = problem.input_dtype.load(alone.inputs["x"])
    assert alone.cases == (input_cases.APART.name,)
    assert (np.ptp(x.max(-1)) > 200) and (np.isin(x.argmax(-1), (0, 39))).all()


def test_the_same_seed_gives_the_same_inputs() -> None:
    first, again, other = (next(Softmax(9, 40).stress_inputs(seed)).inputs["x"] for seed in (1, 1, 2))
    assert first.tobytes() == again.tobytes() != other.tobytes()


def lines_of(case: input_cases.InputCase, dtype: DType = F32, length: int = 200) -> FloatArray:
    return case.lines(np.random.default_rng(0), 6, length, dtype)


@pytest.mark.parametrize("dtype", [F16, BF16, F32], ids=lambda d: d.name)
def test_cases_match_their_names(dtype: DType) -> None:
    assert (lines_of(input_cases.NEGATIVE, dtype) < 0).all()
    assert input_cases.whole_lines(lines_of(input_cases.INTEGERS, dtype)).all()
    assert np.isnan(lines_of(input_cases.NAN, dtype)).any(-1).all()
    assert np.isinf(lines_of(input_cases.INFINITY, dtype)).any(-1).all()
    one = lines_of(input_cases.ONE_FINITE, dtype)
    assert (np.isfinite(one).sum(-1) == 1).all() and (one[~np.isfinite(one)] == -np.inf).all()
    for case in (input_cases.LARGEST, input_cases.SUBNORMAL, input_cases.FAR, input_cases.HUGE, input_cases.SHIFTED):
        assert np.isfinite(dtype.load(dtype.store(lines_of(case, dtype)))).all(), case.name
    stored = dtype.load(dtype.store(lines_of(input_cases.SUBNORMAL, dtype)))
    assert (stored == lines_of(input_cases.SUBNORMAL, dtype)).all() and (stored != 0).all()
    far = dtype.load(dtype.store(lines_of(input_cases.FAR, dtype)))
    assert (far == lines_of(input_cases.FAR, dtype)).all()
    assert (far.std(-1) > 0).all() and (np.abs(far.mean(-1)) > 500 * far.std(-1)).all()


@pytest.mark.parametrize(("count", "length"), [(1, 1), (2, 5), (7, 100), (40, 2000)])
def test_positions_include_the_edges_of_the_line(count: int, length: int) -> None:
    chosen = positions(np.random.default_rng(0), count, length)
    assert chosen.shape == (count,) and chosen.min() >= 0 and chosen.max() < length
    assert set(positions(np.random.default_rng(0), 100, length)) >= {0, length - 1, min(31, length - 1)}


def test_cases_are_split_into_several_sets_if_needed() -> None:
    three = (input_cases.ZERO, input_cases.NEGATIVE, input_cases.NAN)
    sets = list(mixed(three, np.random.default_rng(0), 2, 8, F16))
    assert [names for names, _ in sets] == [("zero", "negative"), ("nan",)]
    assert {bool((line == 0).all()) for line in sets[0][1]} == {True, False}
    assert np.isnan(sets[1][1]).any(-1).all()


@pytest.mark.parametrize("dtype", FLOAT_DTYPES.values(), ids=lambda d: d.name)
@pytest.mark.parametrize("case", [input_cases.SHIFTED, input_cases.RISING], ids=lambda case: str(case.name))
def test_a_long_sum_of_exponentials_in_f32_is_within_its_bound(case: InputCase, dtype: DType) -> None:
    # If a row has few different values, rounding errors do not cancel. Two lanes add up each row.
    length = 2**18
    lines = dtype.load(dtype.store(case.lines(np.random.default_rng(2), 4, length, dtype)))
    terms = np.exp(lines - lines.max(-1, keepdims=True)).reshape(4, -1, 2)
    ones = np.add.accumulate(terms.astype(np.float32), axis=1, dtype=np.float32)[:, -1]
    error = np.abs(ones.sum(-1, dtype=np.float64) / terms.sum((1, 2)) - 1)
    assert error.max() <= sum_growth(length) * F32.unit_roundoff
