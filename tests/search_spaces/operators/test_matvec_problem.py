"""The matvec problem rejects invalid fields. Its reference is right, and its tolerance is tight."""

from __future__ import annotations

import numpy as np
import pytest

from search_spaces.catalogue import operator, problem_from_json
from search_spaces.hardware.dtypes import FLOAT_DTYPES
from search_spaces.operators.matvec import Matvec


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"m": 0}, "m must be a whole number of at least 1"),
        ({"n": -4}, "n must be a whole number"),
        ({"k": 2.0}, "k must be a whole number"),
        ({"k": True}, "k must be a whole number"),
        ({"m": 17}, "m must be at most 16, not 17: use matmul"),
        ({"n": 2**30}, "n must be under 2^30"),
        ({"n": 2**25, "k": 2**25}, "w is too large"),
        ({"x": "f32"}, "x must be f16 or bf16"),
        ({"out": "i8"}, "unknown type 'i8'"),
    ],
)
def test_invalid_problems_are_rejected_in_one_line(fields: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError) as error:
        Matvec(**{"m": 4, "n": 8, "k": 8, **fields})  # type: ignore[arg-type]
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_options_and_json_make_the_problem() -> None:
    matvec = operator("matvec")
    assert {option.name: option.field for option in matvec.options}["dtype"] == "x"
    fields = {option.field: option.default for option in matvec.options} | {"m": 3, "n": 4, "k": 5, "x": "bf16"}
    assert matvec.make(**fields) == Matvec(3, 4, 5, x="bf16", out="bf16") == Matvec(3, 4, 5, x="bf16")
    problem = matvec.make(**fields | {"out": "f32"})
    assert problem == Matvec(3, 4, 5, x="bf16", out="f32")
    assert problem_from_json(problem.to_json()) == problem


def test_reference_is_the_definition_element_by_element() -> None:
    problem = Matvec(3, 4, 5, x="bf16", out="f32")
    inputs = problem.random_inputs(0)
    x, w = (FLOAT_DTYPES["bf16"].load(inputs[name]) for name in "xw")
    out = problem.reference(inputs)["out"]
    assert out.shape == (3, 4)
    for m, n in np.ndindex(3, 4):
        assert out[m, n] == pytest.approx(sum(x[m, k] * w[n, k] for k in range(5)), rel=1e-12)


def test_reference_keeps_nan_and_infinity() -> None:
    inputs = {"x": np.array([[np.nan, 1], [np.inf, 1]], "f2"), "w": np.array([[1, 1], [-1, 1], [0, 1]], "f2")}
    out = Matvec(2, 3, 2, out="f32").reference(inputs)["out"]
    assert np.isnan(out[0]).all()
    assert out[1, 0] == np.inf and out[1, 1] == -np.inf and np.isnan(out[1, 2])


@pytest.mark.parametrize("x", ["f16", "bf16"])
@pytest.mark.parametrize("k", [1, 64, 4096, 16384])
def test_tolerance_admits_the_worst_order_and_rejects_a_missing_product(x: str, k: int) -> None:
    problem = Matvec(4, 24, k, x=x, out="f32")
    inputs = problem.random_inputs(1)
    reference, tolerance = problem.reference(inputs)["out"], problem.tolerance(inputs)["out"]
    values = {name: FLOAT_DTYPES[x].load(inputs[name]) for name in "xw"}
    one_chain = np.zeros((4, 24), np.float32)  # sums with one accumulator, which have the largest error
    for i in range(k):
        one_chain += (values["x"][:, i, None] * values["w"][None, :, i]).astype(np.float32)
    assert (np.abs(one_chain - reference) <= tolerance).all()
    without_last = values["x"][:, : k - 1] @ values["w"][:, : k - 1].T
    assert (np.abs(without_last - reference) > tolerance).mean() > 0.7
