"""The interpreter against numpy written out, and against itself with other tile sizes."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.programs.loading import load_program, problem
from search_spaces.hardware.dtypes import BF16, F16, I32
from search_spaces.programs.language import ir
from search_spaces.programs.language.bounded import product, reduced
from search_spaces.programs.language.interpret import interpret, rounded

GEMM, GATED = "examples/programs/gemm_relu.py", "examples/programs/gated_mlp.py"


def test_gemm_is_numpys() -> None:
    p = problem(load_program(GEMM), m=67, n=75, k=40)
    inputs = p.random_inputs(1)
    a, b = F16.load(inputs["a"]), F16.load(inputs["b"])
    values, bounds = p.expected(inputs)
    np.testing.assert_allclose(values["out"], np.maximum(a @ b + inputs["bias"], 0.0), rtol=1e-12, atol=1e-12)
    single = np.maximum(a.astype(np.float32) @ b.astype(np.float32) + inputs["bias"], 0).astype(np.float16)
    assert np.all(np.abs(single - values["out"]) <= bounds["out"])
    assert np.all(bounds["out"] <= 1e-3 * (np.abs(a) @ np.abs(b) + 1))  # it refuses what is wrong


def test_gated_mlp_is_numpys() -> None:
    p = problem(load_program(GATED), m=33, n=40, k=24)
    inputs = p.random_inputs(2)
    x, gate, up = (BF16.load(inputs[name]) for name in ("x", "gate", "up"))
    wanted = x @ gate / (1 + np.exp(-(x @ gate))) * (x @ up)
    np.testing.assert_allclose(p.reference(inputs)["out"], wanted, rtol=1e-12, atol=1e-12)


def test_tile_sizes_do_not_change_the_result() -> None:
    program = load_program(GEMM)
    p = problem(program, m=130, n=70, k=50)
    inputs = p.random_inputs(3)
    results = [
        interpret(program.trace(p.sizes, {"bm": bm, "bn": 64, "bk": bk}), inputs)[0]["out"]
        for bm, bk in ((64, 16), (256, 64))
    ]
    np.testing.assert_allclose(*results, rtol=1e-12, atol=1e-12)


def test_casts_give_an_infinity_only_where_every_kernel_would() -> None:
    values = np.array([0.0, 0.0, 1e5, -1e5, 1e5, 65504.0, np.inf, np.nan])
    bounds = np.array([1e5, np.inf, 1.0, 1.0, 1e5, 1e-3, 0.0, 0.0])
    found, allowed = rounded(F16, (values, bounds))
    np.testing.assert_array_equal(found, [0.0, 0.0, np.inf, -np.inf, 1e5, 65504.0, np.inf, np.nan])
    assert allowed[[2, 3, 6, 7]].tolist() == [0, 0, 0, 0] and np.all(allowed[[0, 1, 4]] >= 1e5)


SOURCE = ir.Source("program.py", 1)


def whole(number: int, shape: ir.Shape) -> ir.Value:
    return ir.Value(number, shape, I32)


@pytest.mark.parametrize(("kind", "bound"), [("add", [2.0, 0.0]), ("maxsi", [1.0, 0.0]), ("mul", [np.inf, 0.0])])
def test_reductions_of_whole_numbers_keep_the_bounds(kind: str, bound: list[float]) -> None:
    """A cast towards zero may be off by one where the number is next to a whole one."""
    operation = ir.ReduceTile(whole(1, (2, 1)), kind, whole(0, (2, 3)), 1, SOURCE)
    parts, errors = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), np.array([[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    np.testing.assert_array_equal(reduced(operation, parts, errors, 1)[1], bound)


def test_products_of_whole_numbers_keep_the_bounds() -> None:
    operation = ir.Mma(whole(3, (2, 1)), whole(0, (2, 2)), whole(1, (2, 1)), None, SOURCE)
    a, b = np.array([[3.0, -2.0], [5.0, 1.0]]), np.array([[10.0], [7.0]])
    off = np.array([[1.0, 0.0], [0.0, 0.0]]), np.array([[0.0], [1.0]])
    zeros = np.zeros((2, 1))
    values, bounds = product(operation, (a, off[0]), (b, off[1]), (zeros, zeros))
    assert values.tolist() == [[16.0], [57.0]] and bounds.tolist() == [[12.0], [1.0]]
