"""The matmul problem rejects invalid fields. Its reference is right, and its tolerance detects a missing product."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from search_spaces.catalogue import operator, problem_from_json
from search_spaces.hardware.dtypes import FLOAT_DTYPES
from search_spaces.operators.matmul import EPILOGUES, REDUCTIONS, Matmul


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"m": 0}, "m must be a whole number of at least 1"),
        ({"n": -4}, "n must be"),
        ({"k": True}, "k must be"),
        ({"batch": 0}, "batch must be"),
        ({"m": 2**31}, "m"),
        ({"a": "f64", "b": "f64"}, "unknown type 'f64': use one of f16, bf16, f32"),
        ({"a": "bf16", "b": "f16"}, "same type"),
        (
            {"a": "bf16", "acc": "f16"},
            "acc must be f32 for bf16, not 'f16': only f16 products can be accumulated in f16",
        ),
        ({"a": "e4m3", "acc": "f16"}, "acc must be f32 for e4m3"),
        ({"a": "i8", "acc": "f16"}, "acc must be i32 for i8"),
        ({"acc": "i32"}, "acc must be f32 or f16 for f16, not 'i32': f16 has no other accumulator"),
        ({"out": "i8"}, "unknown type"),
        ({"order_a": "blocked"}, "order_a must be row or col"),
        ({"epilogue": "tanh"}, "unknown epilogue 'tanh': use one of"),
        ({"reduction": "sum"}, "unknown reduction 'sum': use one of none, row_sum"),
        ({"precision": "exact"}, "precision must be"),
        ({"precision": "ieee"}, "only affects f32 inputs"),
    ],
)
def test_invalid_problems_are_rejected_in_one_line(fields: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError) as error:
        Matmul(**{"m": 8, "n": 8, "k": 8, **fields})  # type: ignore[arg-type]
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_options_of_the_command_line_make_the_problem() -> None:
    matmul = operator("matmul")
    flags = {option.name: option.field for option in matmul.options}
    assert flags["dtype"] == "a"
    fields = {option.field: option.default for option in matmul.options} | {"m": 3, "n": 4, "k": 5, "a": "bf16"}
    assert matmul.make(**fields) == Matmul(3, 4, 5, a="bf16", b="bf16", out="bf16")
    assert matmul.make(**fields | {"out": "f32"}) == Matmul(3, 4, 5, a="bf16", b="bf16", out="f32")


def test_b_and_out_have_by_default_the_type_of_a() -> None:
    assert Matmul(3, 4, 5, a="bf16") == Matmul(3, 4, 5, a="bf16", b="bf16", out="bf16")
    assert Matmul(3, 4, 5, a="f32", out="f16") == Matmul(3, 4, 5, a="f32", b="f32", out="f16")
    assert Matmul(3, 4, 5) == Matmul(3, 4, 5, a="f16", b="f16", out="f16")
    assert Matmul(3, 4, 5, a="bf16").key() == Matmul(3, 4, 5, a="bf16", b="bf16", out="bf16").key()


def test_problem_survives_json_and_equal_problems_have_equal_keys() -> None:
    problem = Matmul(3, 4, 5, batch=2, a="f32", b="f32", out="f16", order_b="col", epilogue="bias+gelu")
    assert problem_from_json(problem.to_json()) == problem
    assert problem_from_json(problem.to_json()).key() == problem.key()
    assert Matmul(3, 4, 6).key() != Matmul(3, 4, 5).key()


@pytest.mark.parametrize(
    ("order_a", "order_b", "epilogue"),
    [*itertools.product(("row", "col"), ("row", "col"), ("none",)), *(("row", "col", e) for e in EPILOGUES)],
)
def test_reference_is_the_definition_element_by_element(order_a: str, order_b: str, epilogue: str) -> None:
    problem = Matmul(3, 4, 5, batch=2, a="f32", b="f32", out="f32", order_a=order_a, order_b=order_b, epilogue=epilogue)
    inputs = problem.random_inputs(0)
    assert {name: array.shape for name, array in inputs.items()} == {
        o.name: o.shape for o in problem.operands() if o.role == "input"
    }
    out = problem.reference(inputs)["out"]
    assert out.shape == (2, 3, 4)
    for batch, i, j in np.ndindex(2, 3, 4):
        total = float(inputs["bias"][j]) if problem.has_bias else 0.0
        for k in range(5):
            a = inputs["a"][batch, i, k] if order_a == "row" else inputs["a"][batch, k, i]
            b = inputs["b"][batch, k, j] if order_b == "row" else inputs["b"][batch, j, k]
            total += float(a) * float(b)
        expected = {
            "relu": max(total, 0.0),
            "gelu": 0.5 * total * (1 + math.erf(total / math.sqrt(2))),
            "silu": total / (1 + math.exp(-total)),
        }.get(problem.activation, total)
        assert out[batch, i, j] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("dtype", sorted(FLOAT_DTYPES))
@pytest.mark.parametrize("k", [1, 64, 4096])
def test_tolerance_admits_rounding_and_rejects_a_missing_product(dtype: str, k: int) -> None:
    problem = Matmul(8, 24, k, a=dtype, b=dtype, out=dtype)
    inputs = problem.random_inputs(1)
    reference, tolerance = problem.reference(inputs)["out"], problem.tolerance(inputs)["out"]
    out_type = FLOAT_DTYPES[dtype]

    a, b = (out_type.load(inputs[name])[0] for name in "ab")
    single = np.zeros((8, 24), np.float32)
    for i in range(k):
        single += (a[:, i, None] * b[None, i]).astype(np.float32)
    rounded = out_type.load(out_type.store(single))
    assert (np.abs(rounded - reference[0]) <= tolerance[0]).all()

    without_last = a[:, : k - 1] @ b[: k - 1]
    off = np.abs(out_type.load(out_type.store(without_last)) - reference[0]) > tolerance[0]
    assert off.mean() > 0.3  # for every k, a missing product is detected in many elements


def _in_f16(a: np.ndarray, b: np.ndarray, products: int) -> np.ndarray:
    """Return a @ b, where the sum is rounded to f16 after every ``products`` products."""
    sums = np.zeros((a.shape[0], b.shape[1]), np.float16)
    with np.errstate(over="ignore"):
        for i in range(0, a.shape[1], products):
            here = slice(i, i + products)
            sums = (sums.astype(np.float64) + a[:, here] @ b[here]).astype(np.float16)
    return sums.astype(np.float64)


@pytest.mark.parametrize("products", [8, 16])
@pytest.mark.parametrize("k", [1, 64, 512, 4096])
def test_tolerance_of_sums_in_f16(k: int, products: int) -> None:
    """The tolerance allows one rounding per 8 products. A missing product in a sum of a few hundred is detected."""
    problem = Matmul(32, 48, k, acc="f16", out="f32")
    inputs = problem.random_inputs(1)
    reference, tolerance = problem.reference(inputs)["out"][0], problem.tolerance(inputs)["out"][0]
    a, b = (inputs[name][0].astype(np.float64) for name in "ab")
    share = np.abs(_in_f16(a, b, products) - reference) / tolerance
    assert share.max() <= (1.0 if k == 1 else 0.7)
    off = np.abs(_in_f16(a[:, : k - 1], b[: k - 1], products) - reference) > tolerance
    assert off.mean() > {1: 0.9, 64: 0.6, 512: 0.25, 4096: -1.0}[k]
    if k < 4096:  # at these sizes the tolerance of f32 sums would reject f16 sums
        assert k == 1 or (share.max() * tolerance).max() > Matmul(32, 48, k, out="f32").tolerance(inputs)["out"].min()


@pytest.mark.parametrize("k", [24, 1365, 1366, 9000])
def test_stress_sums_in_f16_overflow_as_intended(k: int) -> None:
    problem = Matmul(40, 24, k, acc="f16", out="f32")
    infinite = {}
    for stress in problem.stress_inputs(3):
        a, b = (stress.inputs[name][0].astype(np.float64) for name in "ab")
        out, allowed = (f(stress.inputs)["out"][0] for f in (problem.reference, problem.tolerance))
        with np.errstate(invalid="ignore"):
            sums = _in_f16(a, b, 8)
            same = np.isnan(out) & np.isnan(sums) | (out == sums) | (np.abs(out - sums) <= allowed)
            finite = np.isfinite(a).all(-1)[:, None] & np.isfinite(b).all(0)
        assert same.all()
        of_huge = (np.abs(a) == 60000).any(-1)
        infinite[stress.cases] = (np.isinf(out) & finite & of_huge[:, None]).sum()
        assert not (np.isinf(out) & finite & ~of_huge[:, None]).any()
    assert sum(infinite.values()) > 0 or k > 3000


@pytest.mark.parametrize(("reduction", "axis"), [(r, -1 if r.startswith("row") else -2) for r in REDUCTIONS[1:]])
def test_a_reduction_uses_the_final_result(reduction: str, axis: int) -> None:
    problem = Matmul(3, 4, 5, batch=2, epilogue="bias+relu", reduction=reduction)
    inputs = problem.random_inputs(0)
    both = problem.reference(inputs)
    reduce = np.sum if reduction.endswith("sum") else np.max
    assert np.array_equal(both["reduced"], reduce(both["out"], axis=axis))
    (operand,) = (o for o in problem.operands() if o.name == "reduced")
    assert operand.shape == both["reduced"].shape and operand.dtype.name == "f32"
    assert set(problem.tolerance(inputs)) == {"out", "reduced"}


@pytest.mark.parametrize("dtype", sorted(FLOAT_DTYPES))
@pytest.mark.parametrize(("n", "k"), [(24, 64), (2048, 64), (64, 2048)])
def test_tolerance_of_a_sum_admits_rounding_and_rejects_a_missing_element(dtype: str, n: int, k: int) -> None:
    problem = Matmul(64, n, k, a=dtype, b=dtype, out="f32", reduction="row_sum")
    inputs = problem.random_inputs(1)
    reference, tolerance = problem.reference(inputs), problem.tolerance(inputs)["reduced"][0]
    a, b = (FLOAT_DTYPES[dtype].load(inputs[name])[0].astype(np.float32) for name in "ab")
    single = (a @ b).sum(axis=-1, dtype=np.float32)
    assert (np.abs(single - reference["reduced"][0]) <= tolerance).all()
    off = np.abs(reference["out"][0, :, -1]) > tolerance  # a sum without its last element has this error
    assert off.mean() > 0.1


@pytest.mark.parametrize("reduction", ["row_sum", "row_max"])
def test_tolerance_of_a_reduction_covers_gelus_loss_of_subnormal_bits(reduction: str) -> None:
    """GELU halves x, so an odd multiple of 2^-149 loses its last bit."""
    problem = Matmul(16, 64, 1, a="f32", precision="ieee", epilogue="gelu", reduction=reduction)
    a = (np.arange(1, 17) * 2.0**-149).astype(np.float32).reshape(1, 16, 1)
    inputs = {"a": a, "b": np.ones((1, 1, 64), np.float32)}
    halved = np.float32(0.5) * (a @ inputs["b"])
    reduced = halved.sum(-1, dtype=np.float32) if reduction == "row_sum" else halved.max(-1)
    error = np.abs(reduced.astype(np.float64) - problem.reference(inputs)["reduced"])
    assert error.max() > 0 and (error <= problem.tolerance(inputs)["reduced"]).all()


def test_reference_keeps_nan_and_infinity() -> None:
    problem = Matmul(2, 2, 2, a="f32", b="f32", out="f32", epilogue="relu")
    inputs = {"a": np.array([[[np.nan, 0], [1, 1]]], "f4"), "b": np.array([[[1, 1], [np.inf, 1]]], "f4")}
    out = problem.reference(inputs)["out"][0]
    assert np.isnan(out[0]).all()
    assert out[1, 0] == np.inf and out[1, 1] == 2
