"""Conversions of 8-bit types agree with the types' definition, and matmuls of these types have sound tolerances."""

from __future__ import annotations

import math

import numpy as np
import pytest

from search_spaces.hardware.dtypes import DTYPES, I8, round_to_tf32
from search_spaces.operators import input_cases
from search_spaces.operators.matmul import FP8, Matmul

MANTISSA = {"e4m3": 3, "e5m2": 2}


def number(code: int, name: str) -> float:
    """Return the value of a code according to the OCP 8-bit Floating Point Specification, revision 1.0, table 1."""
    bits = MANTISSA[name]
    bias = 2 ** (6 - bits) - 1
    exponent, fraction = code >> bits & 2 ** (7 - bits) - 1, code & 2**bits - 1
    sign = -1.0 if code >= 128 else 1.0
    if name == "e5m2" and exponent == 31:
        return sign * math.inf if fraction == 0 else math.nan
    if name == "e4m3" and code & 127 == 127:
        return math.nan
    return sign * math.ldexp(fraction + (2**bits if exponent else 0), max(exponent, 1) - bias - bits)


@pytest.mark.parametrize("name", FP8)
def test_codes_are_the_numbers_of_the_specification(name: str) -> None:
    expected = np.array([number(code, name) for code in range(256)])
    codes = np.arange(256, dtype=np.uint8)
    values = DTYPES[name].load(codes)
    np.testing.assert_array_equal(values, expected)
    back = DTYPES[name].store(values)
    known = ~np.isnan(values)
    np.testing.assert_array_equal(back[known], codes[known])
    assert np.isnan(DTYPES[name].load(back[~known])).all()


@pytest.mark.parametrize("name", FP8)
def test_rounding_goes_to_the_nearest_code_and_ties_to_even(name: str) -> None:
    kind = DTYPES[name]
    finite = np.unique(kind.load(np.arange(256, dtype=np.uint8)))
    finite = finite[np.isfinite(finite)]
    rng = np.random.default_rng(0)
    x = rng.standard_normal(500) * 2.0 ** rng.integers(-20, 8, 500)
    nearest = np.abs(x[:, None] - finite).min(axis=1)
    np.testing.assert_array_equal(np.abs(kind.load(kind.store(x)) - x), nearest)
    middle = (finite[1:] + finite[:-1]) / 2
    assert (kind.store(middle[middle != 0]) % 2 == 0).all()
    largest, step = finite[-1], finite[-1] - finite[-2]
    beyond = kind.load(kind.store([largest + 0.49 * step, largest + step, np.inf]))
    assert beyond[0] == largest
    assert np.isnan(beyond[1:]).all() if name == "e4m3" else np.isinf(beyond[1:]).all()


def test_i8_takes_the_nearest_whole_number_that_it_has() -> None:
    np.testing.assert_array_equal(I8.store([-200.0, -1.5, 0.4, 2.6, 127.4, 300.0]), [-128, -2, 0, 3, 127, 127])


def test_defaults_suit_tensor_cores_and_libraries() -> None:
    fp8, i8 = Matmul(8, 8, 8, a="e4m3"), Matmul(8, 8, 8, a="i8")
    assert (fp8.b, fp8.acc, fp8.out, fp8.order_a, fp8.order_b) == ("e4m3", "f32", "bf16", "row", "col")
    assert (i8.b, i8.acc, i8.out, i8.order_b) == ("i8", "i32", "i32", "col")
    assert Matmul(8, 8, 8, a="e5m2", order_b="row", out="f32").order_b == "row"
    assert Matmul.from_json(fp8.to_json()) == fp8


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"a": "e4m3", "out": "e4m3"}, "unknown type 'e4m3': use one of f16, bf16, f32, i32"),
        ({"a": "e4m3", "out": "i32"}, "out i32 needs i8 inputs, not e4m3"),
        ({"a": "e4m3", "b": "e5m2"}, "same type"),
        ({"a": "i8", "acc": "f32"}, "acc must be i32 for i8"),
        ({"a": "i8", "epilogue": "bias"}, "epilogue bias needs a float type of out"),
        ({"a": "i8", "reduction": "row_sum"}, "reduction row_sum needs a float type of out"),
        ({"a": "i8", "k": 2**17}, "k must be under 2^17 for i8"),
    ],
)
def test_unsupported_problems_are_rejected(fields: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says.replace("^", r"\^")):
        Matmul(**{"m": 8, "n": 8, "k": 8, **fields})  # type: ignore[arg-type]


def test_sums_of_i8_are_exact() -> None:
    problem = Matmul(4, 6, 2048, a="i8")
    inputs = problem.random_inputs(0)
    assert inputs["a"].min() == -128 and inputs["a"].max() == 127
    out = problem.reference(inputs)["out"][0]
    a, b = (inputs[name][0].astype(np.int64) for name in "ab")
    np.testing.assert_array_equal(out, a @ b.T)
    assert (problem.tolerance(inputs)["out"] == 0).all()
    rounded = Matmul(4, 6, 2048, a="i8", out="f32")
    assert (rounded.tolerance(inputs)["out"][0] >= np.abs(out.astype(np.float32) - out)).all()


def fourteen_bits(x: np.ndarray) -> np.ndarray:
    """Truncate sums to 14 significant bits, as tensor cores do for 8-bit floats."""
    fraction, exponent = np.frexp(x)
    return np.ldexp(np.trunc(np.ldexp(fraction, 14)), exponent - 14)


@pytest.mark.parametrize("name", FP8)
@pytest.mark.parametrize("k", [32, 256, 4096])
def test_tolerance_admits_sums_of_fourteen_bits(name: str, k: int) -> None:
    problem = Matmul(32, 64, k, a=name, out="f32")
    inputs = problem.random_inputs(1)
    a, b = DTYPES[name].load(inputs["a"][0]), DTYPES[name].load(inputs["b"][0]).T
    total = np.zeros((32, 64))
    for first in range(0, k, 32):
        total = fourteen_bits(total + a[:, first : first + 32] @ b[first : first + 32])
    error, allowed = np.abs(total - problem.reference(inputs)["out"][0]), problem.tolerance(inputs)["out"][0]
    assert (error <= allowed).all()
    if k <= 256:  # for a short k, the tolerance detects a missing product
        missing = a[:, : k - 1] @ b[: k - 1]
        assert (np.abs(missing - problem.reference(inputs)["out"][0]) > allowed).mean() > 0.3


def test_tolerance_admits_tf32_that_lost_bits() -> None:
    problem = Matmul(32, 64, 512, a="f32")
    inputs = problem.random_inputs(1)
    cut = [
        (inputs[name][0].view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64) for name in "ab"
    ]
    assert not np.array_equal(cut[0], round_to_tf32(inputs["a"][0]))
    error = np.abs(cut[0] @ cut[1] - problem.reference(inputs)["out"][0])
    assert (error <= problem.tolerance(inputs)["out"][0]).all()


@pytest.mark.parametrize("name", [*FP8, "i8"])
def test_stress_inputs_are_stored_and_their_results_known(name: str) -> None:
    problem = Matmul(9, 5, 40, a=name, out="f32")
    seen = set()
    for stress in problem.stress_inputs(3):
        seen.update(stress.cases)
        for operand in problem.operands()[:2]:
            array = stress.inputs[operand.name]
            assert (array.shape, array.dtype) == (operand.shape, np.dtype(operand.dtype.storage))
        reference = problem.reference(stress.inputs)["out"]
        allowed = problem.tolerance(stress.inputs)["out"]
        assert (np.isfinite(allowed) | ~np.isfinite(reference)).all()
    of_bits = {input_cases.PATTERNS} | ({input_cases.ALL_LARGEST} if name == "i8" else set())
    assert {case.name for case in problem.input_cases()} | of_bits == seen and "integers" in seen


@pytest.mark.parametrize("scale", ["tensor", "row_column"])
def test_scales_multiply_the_product_and_not_the_bias(scale: str) -> None:
    problem = Matmul(3, 4, 64, batch=2, a="e4m3", out="f32", scale=scale, epilogue="bias")
    inputs = problem.random_inputs(0)
    a, b = DTYPES["e4m3"].load(inputs["a"]), DTYPES["e4m3"].load(inputs["b"])
    of_a, of_b = inputs["scale_a"].astype(np.float64), inputs["scale_b"].astype(np.float64)
    out = problem.reference(inputs)["out"]
    for batch, i, j in np.ndindex(2, 3, 4):
        factor = of_a[0] * of_b[0] if scale == "tensor" else of_a[batch, i] * of_b[batch, j]
        assert out[batch, i, j] == pytest.approx(factor * (a[batch, i] @ b[batch, j]) + inputs["bias"][j], rel=1e-12)
    for name in ("scale_a", "scale_b"):  # a product that is wrong by an eighth is detected
        wrong = problem.reference({**inputs, name: inputs[name] * np.float32(1.125)})["out"]
        assert (np.abs(wrong - out) > problem.tolerance(inputs)["out"]).mean() > 0.8


def test_scales_of_blocks_multiply_the_sums_of_128_products() -> None:
    problem = Matmul(3, 260, 300, batch=2, a="e5m2", out="f32", scale="block", order_a="col")
    inputs = problem.random_inputs(0)
    assert (inputs["scale_a"].shape, inputs["scale_b"].shape) == ((2, 3, 3), (2, 3, 3))
    inputs["scale_b"] *= np.arange(1, 19, dtype=np.float32).reshape(2, 3, 3)
    a, b = DTYPES["e5m2"].load(inputs["a"]), DTYPES["e5m2"].load(inputs["b"])
    out = problem.reference(inputs)["out"]
    for batch, i, j in ((0, 0, 0), (1, 2, 127), (0, 1, 128), (1, 0, 259)):
        total = 0.0
        for block in range(3):
            inside = slice(128 * block, 128 * (block + 1))
            total += (a[batch, inside, i] @ b[batch, j, inside]) * (
                float(inputs["scale_a"][batch, i, block]) * float(inputs["scale_b"][batch, j // 128, block])
            )
        assert out[batch, i, j] == pytest.approx(total, rel=1e-12)
    with pytest.raises(ValueError, match="type i8 for scale=block"):
        Matmul(8, 8, 8, a="i8", scale="block")


@pytest.mark.parametrize("k", [128, 2048])
def test_tolerance_admits_blocks_of_fourteen_bits(k: int) -> None:
    problem = Matmul(32, 64, k, a="e4m3", out="f32", scale="block")
    inputs = problem.random_inputs(1)
    a, b = DTYPES["e4m3"].load(inputs["a"][0]), DTYPES["e4m3"].load(inputs["b"][0]).T
    total = np.zeros((32, 64))
    for block in range(k // 128):
        partial = np.zeros((32, 64))
        for first in range(128 * block, 128 * (block + 1), 32):
            partial = fourteen_bits(partial + a[:, first : first + 32] @ b[first : first + 32])
        total += partial * inputs["scale_a"][0, :, block, None] * inputs["scale_b"][0, 0, block]
    error, allowed = np.abs(total - problem.reference(inputs)["out"][0]), problem.tolerance(inputs)["out"][0]
    assert (error <= allowed).all() and error.max() > 0.02 * allowed.max()


def test_scales_are_for_8_bit_types_and_floats() -> None:
    assert Matmul(8, 8, 8, a="i8", scale="tensor").out == "bf16"
    with pytest.raises(ValueError, match=r"type f16 for scale=tensor"):
        Matmul(8, 8, 8, scale="tensor")
    with pytest.raises(ValueError, match="scale tensor needs a float type of out"):
        Matmul(8, 8, 8, a="i8", out="i32", scale="tensor")
    with pytest.raises(ValueError, match="unknown scale 'rows': use one of none, tensor, row_column, block"):
        Matmul(8, 8, 8, a="e4m3", scale="rows")


def test_problems_without_scales_keep_their_stored_keys() -> None:
    assert "scale" not in Matmul(8, 8, 8).to_json()
    scaled = Matmul(8, 8, 8, a="e4m3", scale="tensor")
    assert scaled.to_json()["scale"] == "tensor" and Matmul.from_json(scaled.to_json()) == scaled


def test_parts_of_a_scaled_problem_take_the_scales_of_their_lines() -> None:
    problem = Matmul(6, 5, 32, batch=2, a="e4m3", out="f32", scale="row_column")
    inputs = problem.random_inputs(0)
    full_output = problem.reference(inputs)["out"].ravel()
    seen = 0
    for part in problem.parts(np.arange(17, 52, 3)):
        own = {name: inputs[name].ravel()[indices] for name, indices in part.inputs.items()}
        np.testing.assert_allclose(part.problem.reference(own)["out"], full_output[part.outputs["out"]])
        seen += part.outputs["out"].size
    assert seen >= 12
