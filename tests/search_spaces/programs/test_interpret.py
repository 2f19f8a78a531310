"""The interpreter agrees with explicit numpy code, and with itself for other tile sizes."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.programs.loading import load_program, problem
from search_spaces.hardware.dtypes import BF16, F16, F32, I32, dtype_of
from search_spaces.programs.builder import Builder, InOut, Input, program
from search_spaces.programs.language import ir
from search_spaces.programs.language.bounded import applied, cast, certain, product, reduced, scanned
from search_spaces.programs.language.functions import FUNCTIONS
from search_spaces.programs.language.interpret import interpret, rounded

GEMM, GATED = "examples/programs/gemm_relu.py", "examples/programs/gated_mlp.py"


def test_gemm_agrees_with_numpy() -> None:
    p = problem(load_program(GEMM), m=67, n=75, k=40)
    inputs = p.random_inputs(1)
    a, b = F16.load(inputs["a"]), F16.load(inputs["b"])
    values, bounds = p.expected(inputs)
    np.testing.assert_allclose(values["out"], np.maximum(a @ b + inputs["bias"], 0.0), rtol=1e-12, atol=1e-12)
    single = np.maximum(a.astype(np.float32) @ b.astype(np.float32) + inputs["bias"], 0).astype(np.float16)
    assert np.all(np.abs(single - values["out"]) <= bounds["out"])
    assert np.all(bounds["out"] <= 1e-3 * (np.abs(a) @ np.abs(b) + 1))  # the bounds are tight


def test_gated_mlp_agrees_with_numpy() -> None:
    p = problem(load_program(GATED), m=33, n=40, k=24)
    inputs = p.random_inputs(2)
    x, gate, up = (BF16.load(inputs[name]) for name in ("x", "gate", "up"))
    expected = x @ gate / (1 + np.exp(-(x @ gate))) * (x @ up)
    np.testing.assert_allclose(p.reference(inputs)["out"], expected, rtol=1e-12, atol=1e-12)


def test_tile_sizes_do_not_change_the_result() -> None:
    program = load_program(GEMM)
    p = problem(program, m=130, n=70, k=50)
    inputs = p.random_inputs(3)
    results = [
        interpret(program.trace(p.sizes, {"bm": bm, "bn": 64, "bk": bk}), inputs)[0]["out"]
        for bm, bk in ((64, 16), (256, 64))
    ]
    np.testing.assert_allclose(*results, rtol=1e-12, atol=1e-12)


def test_casts_give_infinity_only_if_every_kernel_does() -> None:
    values = np.array([0.0, 0.0, 1e5, -1e5, 1e5, 65504.0, np.inf, np.nan])
    bounds = np.array([1e5, np.inf, 1.0, 1.0, 1e5, 1e-3, 0.0, 0.0])
    actual, allowed = rounded(F16, (values, bounds))
    np.testing.assert_array_equal(actual, [0.0, 0.0, np.inf, -np.inf, 1e5, 65504.0, np.inf, np.nan])
    assert allowed[[2, 3, 6, 7]].tolist() == [0, 0, 0, 0] and np.all(allowed[[0, 1, 4]] >= 1e5)


SOURCE = ir.Source("program.py", 1)


def integer_tile(number: int, shape: ir.Shape) -> ir.Value:
    return ir.Value(number, shape, I32)


@pytest.mark.parametrize(("kind", "bound"), [("add", [2.0, 0.0]), ("maxsi", [1.0, 0.0]), ("mul", [np.inf, 0.0])])
def test_reductions_of_whole_numbers_keep_the_bounds(kind: str, bound: list[float]) -> None:
    """A truncating cast may be off by one if the number is close to an integer."""
    operation = ir.ReduceTile(integer_tile(1, (2, 1)), kind, integer_tile(0, (2, 3)), 1, SOURCE)
    parts, errors = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), np.array([[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    np.testing.assert_array_equal(reduced(operation, parts, errors, 1)[1], bound)


def test_products_of_whole_numbers_keep_the_bounds() -> None:
    operation = ir.Mma(integer_tile(3, (2, 1)), integer_tile(0, (2, 2)), integer_tile(1, (2, 1)), None, SOURCE)
    a, b = np.array([[3.0, -2.0], [5.0, 1.0]]), np.array([[10.0], [7.0]])
    off = np.array([[1.0, 0.0], [0.0, 0.0]]), np.array([[0.0], [1.0]])
    zeros = np.zeros((2, 1))
    values, bounds = product(operation, (a, off[0]), (b, off[1]), (zeros, zeros))
    assert values.tolist() == [[16.0], [57.0]] and bounds.tolist() == [[12.0], [1.0]]


LARGE = float(np.finfo(np.float32).max)


def real(number: int, shape: ir.Shape) -> ir.Value:
    return ir.Value(number, shape, F32)


@pytest.mark.parametrize(
    "factors",
    [(2.0 - 2.0**-23, 1.0 + 2.0**-10 - 2.0**-23), (1.0 + 2.0**-10 - 2.0**-23,) * 2, (2.0**-136 - 2.0**-149, 2.0**120)],
)
def test_bounds_of_tf32_allow_that_bits_are_dropped(factors: tuple[float, float]) -> None:
    """tcgen05 truncates factors to tf32. Subnormal factors become multiples of 2^-136."""
    x, y = (np.array([factors], np.float32).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)[0].tolist()
    mma = ir.Mma(real(3, (1, 1)), real(0, (1, 1)), real(1, (1, 1)), None, SOURCE, True)
    (left, right), zero = ((np.array([[factor]]), np.zeros((1, 1))) for factor in factors), (np.zeros((1, 1)),) * 2
    values, bounds = product(mma, left, right, zero)
    assert abs(x * y - values.item()) <= bounds.item() < abs(values.item()) * 1.01
    assert product(mma, zero, right, zero)[1].item() == 0.0


@pytest.mark.parametrize(
    ("terms", "value", "bound"),
    [
        ((1e77, 1e77), np.inf, 0.0),
        ((-1e77, -1e77), -np.inf, 0.0),
        ((-1e77, 1e60), None, np.inf),  # both products overflow to inf - inf, although the exact sum is negative
        ((-0.9 * LARGE, -0.9 * LARGE, 0.9 * LARGE, 0.0), None, np.inf),  # may be -inf or finite
        ((-0.9 * LARGE, -0.9 * LARGE, -0.9 * LARGE, 0.9 * LARGE), -np.inf, 0.0),
        ((-np.inf, 1e60), None, np.inf),
        ((-np.inf, -1e60), -np.inf, 0.0),
        ((-np.inf, np.inf), np.nan, 0.0),
    ],
)
def test_sums_that_may_overflow_have_no_bound(terms: tuple[float, ...], value: float | None, bound: float) -> None:
    row, ones = np.array([terms]), np.ones((len(terms), 1))
    zeros = np.zeros((1, 1))
    shape = row.shape
    mma = ir.Mma(real(3, (1, 1)), real(0, shape), real(1, ones.shape), None, SOURCE)
    total = ir.ReduceTile(real(1, (1, 1)), "add", real(0, shape), 1, SOURCE)
    upto = ir.Scan(real(1, shape), "add", real(0, shape), 1, False, False, SOURCE)
    with np.errstate(all="ignore"):
        results = [
            product(mma, (row, 0 * ones.T), (ones, 0 * ones), (zeros, zeros)),
            reduced(total, row, np.zeros(shape), 1),
            tuple(x[:, -1:] for x in scanned(upto, (row, np.zeros(shape)))),
        ]
    for values, bounds in results:
        assert bounds.item() == bound
        assert value is None or np.array_equal(values.item(), value, equal_nan=True)


@pytest.mark.parametrize("to", ["bf16", "f32"])
def test_casts_of_infinite_sums_that_some_kernels_do_not_have_remain_without_a_bound(to: str) -> None:
    values, bounds = cast(dtype_of(to), (np.array([-np.inf, -np.inf, np.nan]), np.array([np.inf, 0.0, 0.0])))
    assert values[:2].tolist() == [-np.inf, -np.inf] and bounds.tolist() == [np.inf, 0.0, 0.0]


def test_bounds_of_loop_sums_include_the_size_of_terms() -> None:
    """A schedule that splits the loop may add the first and the last terms before the second term."""
    one = np.ones((1, 1))
    mma = ir.Mma(real(3, (1, 1)), real(0, (1, 1)), real(1, (1, 1)), real(2, (1, 1)), SOURCE)
    by_product = by_sum = (0 * one, 0 * one)
    for term in (-0.9, 0.9, -0.9):
        term_ = np.full((1, 1), term * LARGE)
        by_product = product(mma, (term_, 0 * one), (one, 0 * one), by_product)
        total = reduced(
            ir.ReduceTile(real(1, (1, 1)), "add", real(0, (1, 1)), 1, SOURCE), term_[None], 0 * term_[None], 2
        )
        by_sum = applied(FUNCTIONS["add"], F32, [by_sum, total])
    assert by_product[1].item() == by_sum[1].item() == np.inf


@pytest.mark.parametrize(
    ("factors", "bound"),
    [((1e30, 1e30, 1e-30), np.inf), ((1e30, 1e30, 2.0), 0.0), ((1e30, 1e30, 0.0), np.inf), ((np.inf, 2.0), 0.0)],
)
def test_products_that_may_overflow_have_no_bound(factors: tuple[float, ...], bound: float) -> None:
    row = np.array([factors])
    operation = ir.ReduceTile(real(1, (1, 1)), "mul", real(0, row.shape), 1, SOURCE)
    with np.errstate(all="ignore"):
        assert reduced(operation, row, np.zeros(row.shape), 1)[1].item() == bound


def test_atomic_sums_that_may_overflow_in_some_order_have_no_bound() -> None:
    @program(x=Input("n", "f32"), total=InOut("one", "f32"))
    def summed(p: Builder, x: ir.Array, total: ir.Array) -> None:
        (i,) = p.blocks(x.shape, (1,))
        p.atomic_add(p.load(p.window(x, (0, i), (1, 1))), p.window(total, (0, 0), (1, 1)))

    p, zero = problem(summed, n=4, one=1), np.zeros(1, dtype=np.float32)
    for terms, bound in (((0.9, -0.9, 0.9, -0.9), np.inf), ((0.1, 0.2, 0.1, 0.1), None)):
        _, bounds = p.expected({"x": np.float32(np.array(terms) * LARGE), "total": zero})
        assert bounds["total"].item() == bound if bound else np.isfinite(bounds["total"].item())


@pytest.mark.parametrize("narrow", ["e4m3", "e5m2"])
def test_known_values_that_a_type_holds_are_not_rounded(narrow: str) -> None:
    values = dtype_of(narrow).load(np.arange(256, dtype=np.uint8))
    values = values[np.isfinite(values)]
    for to in (F16, BF16):
        actual, bounds = rounded(to, (values, np.zeros(len(values))))
        assert np.array_equal(actual, values) and not bounds.any()
    _, bounds = rounded(F16, (np.array([1.0, 1.0 + 2.0**-20]), np.array([2.0**-30, 0.0])))
    assert np.all(bounds > 0.0)


@pytest.mark.filterwarnings("error")
def test_infinite_values_without_a_bound_stay_next_to_overflows() -> None:
    values, bounds = certain(F16, np.array([np.inf, 7e4, 1.0]), np.array([np.nan, 0.0, 0.5]), np.array([False] * 3))
    np.testing.assert_array_equal(values, [np.inf, np.inf, 1.0])
    np.testing.assert_array_equal(bounds, [np.inf, 0.0, 0.5])
