"""Casts to narrow and integer types are bit-exact. Functions agree with numpy and the standard library."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from autosched.programs.loading import problem
from measurements.emulator import emulate
from measurements.trials.comparison import check
from search_spaces.hardware.devices import device
from search_spaces.hardware.dtypes import DTYPES, E4M3, E5M2, SMALLEST, DType
from search_spaces.programs.builder import Input, Output, Program, program
from search_spaces.programs.template import template

A100 = device("a100")


def run(tile_program: Program, x: Any) -> Any:
    p = problem(tile_program, m=x.shape[0], n=x.shape[1])
    own = template(tile_program)
    done = emulate(own.kernel(p, own.space(p, A100).sample(1, 1)[0], A100), {"x": x}, time_limit=60.0)
    assert done.status == "ok", done.reason
    return done.outputs["out"]


def casting(name: str, stored: str, to: str) -> Program:
    @program(x=Input("m n", stored), out=Output("m n", to))
    def casts(p: Any, x: Any, out: Any) -> None:
        i, j = p.blocks(x.shape, (8, 64))
        p.store(p.load(p.window(x, (i, j), (8, 64))).cast(to), p.window(out, (i, j), (8, 64)))

    return Program(name, casts.function, casts.arguments, name, "")


@pytest.mark.parametrize("to", [E4M3, E5M2], ids=lambda t: t.name)
def test_eight_bit_floats_are_rounded_to_nearest_and_saturate(to: DType) -> None:
    every = to.load(np.arange(256, dtype=np.uint8))
    numbers = np.sort(every[np.isfinite(every)])
    middles = (numbers[1:] + numbers[:-1]) / 2
    near = np.concatenate([np.nextafter(middles.astype(np.float32), s, dtype=np.float32) for s in (-np.inf, np.inf)])
    values = np.concatenate([numbers, middles, near, [np.inf, -np.inf, np.nan, 1e9, -1e9, 1e-9]]).astype(np.float32)
    x = np.resize(values, (-(-values.size // 64), 64))
    actual = run(casting(f"to_{to.name}", "f32", to.name), x)
    largest = numbers[-1]
    expected = to.store(np.clip(x.astype(np.float64), -largest, largest))
    assert np.array_equal(to.load(actual), to.load(expected), equal_nan=True)


@pytest.mark.parametrize("to", ["bf16", "e4m3"])
def test_a_result_is_rounded_once(to: str) -> None:
    """The result is cast to the type in which it is stored, so its error bound allows only one rounding."""
    x = np.linspace(1.0, 1.9, 8 * 64, dtype=np.float32).reshape(8, 64)
    values, bounds = problem(casting(f"once_{to}", "f32", to), m=8, n=64).expected({"x": x})
    assert np.array_equal(values["out"], x)
    assert (bounds["out"] <= 1.01 * DTYPES[to].unit_roundoff * x + SMALLEST[to]).all()


def transposing(to: str) -> Program:
    @program(x=Input("m n", "f32"), out=Output("n m", to))
    def iterations(p: Any, x: Any, out: Any) -> None:
        i, j = p.blocks(x.shape, (64, 64))
        p.store(p.transpose(p.load(p.window(x, (i, j), (64, 64))).cast(to)), p.window(out, (j, i), (64, 64)))

    return Program(f"turned_{to}", iterations.function, iterations.arguments, "", "")


@pytest.mark.parametrize("form", ["as loaded", "transposed"])
@pytest.mark.parametrize(("to", "last"), [("f16", 65504.0), ("bf16", float.fromhex("0x1.fep127"))])
def test_results_on_either_side_of_the_largest_number(to: str, last: float, form: str) -> None:
    """If only some kernels round a result to infinity, both infinity and the largest number are accepted."""
    cast_program = casting(f"largest_{to}", "f32", to) if form == "as loaded" else transposing(to)
    type_, step = DTYPES[to], last * DTYPES[to].unit_roundoff
    x = np.full((64, 64), 1.0, np.float32)
    x[0, :6] = [last - 3 * step, last - 0.1 * step, last, last + 0.3 * step, -last - 0.3 * step, last + 0.75 * step]
    p = problem(cast_program, m=64, n=64)

    def accepts(column: int, value: float) -> bool:
        out = x.astype(np.float64)
        out[0, column] = value
        with np.errstate(over="ignore"):
            return check(p, {"x": x}, {"out": type_.store(out if form == "as loaded" else out.T)}).ok

    below = last - 2 * step  # the second largest number of the type
    assert accepts(0, x[0, 0])
    assert [accepts(3, value) for value in (last, np.inf, below - 2 * step, -last, -np.inf, np.nan)] == [
        True, True, False, False, False, False,
    ]  # fmt: skip
    assert [accepts(4, value) for value in (-last, -np.inf, last, np.inf)] == [True, True, False, False]
    assert [accepts(0, value) for value in (last, np.inf)] == [False, False]
    assert [accepts(5, value) for value in (np.inf, last, -np.inf)] == [True, False, False]


@pytest.mark.parametrize(("stored", "to"), [("f32", "i8"), ("f32", "u8"), ("f32", "i32"), ("i32", "i8"), ("i32", "u8")])
def test_whole_numbers_are_cut_towards_zero_and_saturate(stored: str, to: str) -> None:
    values = np.array([0.9, -0.9, 1.5, -1.5, 127.4, 127.9, 128, -128.9, -129, 255.9, 256, 3e9, -3e9, 70000, -70000])
    values = values if stored == "f32" else np.clip(np.trunc(values), -(2**31), 2**31 - 1)
    x = np.resize(values, (8, 64)).astype(np.float32 if stored == "f32" else np.int32)
    limits = np.iinfo({"i8": np.int8, "u8": np.uint8, "i32": np.int32}[to])
    expected = np.clip(np.trunc(x.astype(np.float64)), limits.min, limits.max)
    assert np.array_equal(run(casting(f"{stored}_to_{to}", stored, to), x).astype(np.float64), expected)


FUNCTIONS = {
    "erf": (lambda p, t: p.erf(t), np.vectorize(math.erf)),
    "log": (lambda p, t: p.log(p.absolute(t) + 0.01), lambda x: np.log(np.abs(x) + 0.01)),
    "tanh": (lambda p, t: p.tanh(t), np.tanh),
    "square": (lambda p, t: t**2, np.square),
    "power": (lambda p, t: (p.absolute(t) + 0.01) ** 1.7, lambda x: (np.abs(x) + 0.01) ** 1.7),
    "floor": (lambda p, t: p.floor(t), np.floor),
    "ceil": (lambda p, t: p.ceil(t), np.ceil),
    "round": (lambda p, t: p.round(t * 2.0), lambda x: np.rint(x * 2.0)),
    "truncate": (lambda p, t: p.truncate(t), np.trunc),
    "floor_divide": (lambda p, t: (t.cast("i32") // 3).cast("f32"), lambda x: np.floor(np.trunc(x) / 3)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    of_tile, on_numpy = FUNCTIONS[name]

    @program(x=Input("m n", "f32"), out=Output("m n", "f32"))
    def applied(p: Any, x: Any, out: Any) -> None:
        i, j = p.blocks(x.shape, (8, 64))
        p.store(of_tile(p, p.load(p.window(x, (i, j), (8, 64)))), p.window(out, (i, j), (8, 64)))

    x = np.resize(np.concatenate([np.linspace(-9, 9, 301), [0.5, 1.5, -0.5, -2.5]]), (8, 64)).astype(np.float32)
    function_program = Program(f"function_{name}", applied.function, applied.arguments, name, "")
    actual = run(function_program, x)
    (expected,), (bound,) = (of.values() for of in problem(function_program, m=8, n=64).expected({"x": x}))
    assert np.allclose(expected, on_numpy(x.astype(np.float64)), rtol=1e-6, atol=1e-6)
    assert (np.abs(actual - expected) <= bound).all()
