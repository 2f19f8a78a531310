"""Element-wise functions at the limits of their range agree on the device and in the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.programs.loading import problem
from measurements.emulator import emulate
from measurements.trials.comparison import check
from search_spaces.hardware.devices import Device, device
from search_spaces.programs.builder import Builder, Input, Output, program
from search_spaces.programs.language.functions import FUNCTIONS
from search_spaces.programs.language.ir import Array
from search_spaces.programs.template import template

ENDS = (0.0, 1e-30, 0.37, 1.0, 5.5, 17.0, 88.0, 104.0, 3e4, 3e38, np.inf)


@program(x=Input("m n", "f32"), out=Output("m n", "f32"))
def sigmoids(p: Builder, x: Array, out: Array) -> None:
    i, j = p.blocks(out.shape, (4, 64))
    p.store(p.sigmoid(p.load(p.window(x, (i, j), (4, 64)))), p.window(out, (i, j), (4, 64)))


@program(x=Input("m n", "f32"), y=Input("m n", "f32"), out=Output("m n", "f32"), half=Output("m n", "f32"))
def quotients(p: Builder, x: Array, y: Array, out: Array, half: Array) -> None:
    i, j = p.blocks(out.shape, (4, 64))
    a = p.load(p.window(x, (i, j), (4, 64)))
    p.store(a / p.load(p.window(y, (i, j), (4, 64))), p.window(out, (i, j), (4, 64)))
    p.store(a / 4.0, p.window(half, (i, j), (4, 64)))


def numbers(seed: int) -> np.ndarray:
    ends = np.array([*ENDS, *(-e for e in ENDS)], dtype=np.float32)
    values = np.random.default_rng(seed).normal(scale=8.0, size=(4, 64)).astype(np.float32)
    values.flat[: len(ends)] = ends
    return values


@pytest.mark.parametrize("where", [device("a100"), device("t4")], ids=lambda d: d.name)
def test_sigmoid(where: Device) -> None:
    p = problem(sigmoids, m=4, n=64)
    (schedule,) = template(sigmoids).space(p, where).sample(1, 1)
    x = numbers(1)
    run = emulate(template(sigmoids).kernel(p, schedule, where), {"x": x}, time_limit=60.0)
    assert run.status == "ok", run.reason
    with np.errstate(over="ignore"):
        expected = 1.0 / (1.0 + np.exp(-x.astype(np.float64)))
    assert np.all(np.abs(run.outputs["out"] - expected) <= 8 * 2.0**-24)


@pytest.mark.parametrize("where", [device("a100"), device("t4")], ids=lambda d: d.name)
def test_division(where: Device) -> None:
    p = problem(quotients, m=4, n=64)
    (schedule,) = template(quotients).space(p, where).sample(1, 1)
    x, y = numbers(2), np.roll(numbers(3), 7)
    run = emulate(template(quotients).kernel(p, schedule, where), {"x": x, "y": y}, time_limit=60.0)
    assert run.status == "ok", run.reason
    with np.errstate(all="ignore"):
        expected = (x.astype(np.float64) / y.astype(np.float64)).astype(np.float32).astype(np.float64)
    actual = run.outputs["out"].astype(np.float64)
    same = (actual == expected) | (np.isnan(actual) & np.isnan(expected))
    with np.errstate(invalid="ignore"):
        near = np.abs(actual - expected) <= 4 * 2.0**-24 * np.abs(expected) + 2.0**-149
    assert np.all(same | near)
    assert np.array_equal(run.outputs["half"], x / np.float32(4.0))  # exact, since x / 4 is compiled as x * 0.25


@program(
    x=Input("m n", "i32"), quotient=Output("m n", "i32"), remainder=Output("m n", "i32"), shifted=Output("m n", "i32")
)
def whole_quotients(p: Builder, x: Array, quotient: Array, remainder: Array, shifted: Array) -> None:
    i, j = p.blocks(x.shape, (4, 64))
    a = p.load(p.window(x, (i, j), (4, 64)))
    p.store(a // 7, p.window(quotient, (i, j), (4, 64)))
    p.store(a % 7, p.window(remainder, (i, j), (4, 64)))
    p.store(p.columns(j, 64) % 7 + (p.rows(i, 4) - 2) % 3 + a * 0, p.window(shifted, (i, j), (4, 64)))


def test_remainders_of_negative_numbers_are_pythons() -> None:
    p, where = problem(whole_quotients, m=4, n=64), device("a100")
    (schedule,) = template(whole_quotients).space(p, where).sample(1, 1)
    x = np.arange(-128, 128, dtype=np.int32).reshape(4, 64)
    x[0, :2] = np.iinfo(np.int32).min, np.iinfo(np.int32).max
    run = emulate(template(whole_quotients).kernel(p, schedule, where), {"x": x}, time_limit=60.0)
    assert run.status == "ok", run.reason
    assert np.array_equal(run.outputs["quotient"], x // 7)
    assert np.array_equal(run.outputs["remainder"], x % 7)
    expected = np.arange(64)[None, :] % 7 + (np.arange(4)[:, None] - 2) % 3
    assert np.array_equal(run.outputs["shifted"], expected)


@program(x=Input("m k", "f16"), ids=Input("r", "i32"), w=Input("k n", "f16"), out=Output("r n", "f32"))
def rows_in_a_circle(p: Builder, x: Array, ids: Array, w: Array, out: Array) -> None:
    i, j = p.blocks(out.shape, (32, 32))
    rows = (p.load(p.window(ids, (i, 0), (32, 1), column=True)) - 40) % x.full[0]
    acc = p.state(p.zeros((32, 32)))
    for at in p.steps(x.shape[1], 32):
        acc.set(p.mma(p.load(p.window(x, (rows, at), (32, 32))), p.load(p.window(w, (at, j), (32, 32))), acc))
    p.store(acc, p.window(out, (i, j), (32, 32)))


def test_copies_compute_the_same_remainders() -> None:
    p, where = problem(rows_in_a_circle, m=50, k=64, r=32, n=32), device("a100")
    kernel_template = template(rows_in_a_circle)
    kernel = kernel_template.kernel(p, kernel_template.space(p, where).sample(1, 1)[0], where)
    inputs = p.random_inputs(1)
    run = emulate(kernel, inputs, time_limit=60.0)
    assert run.status == "ok", run.reason
    assert check(p, inputs, run.outputs).ok


@program(x=Input("m n", "f32"), half=Output("m n", "f32"), short=Output("m n", "f32"))
def casts(p: Builder, x: Array, half: Array, short: Array) -> None:
    i, j = p.blocks(half.shape, (4, 64))
    a = p.load(p.window(x, (i, j), (4, 64)))
    p.store(a.cast("f16").cast("f32"), p.window(half, (i, j), (4, 64)))
    p.store(a.cast("bf16").cast("f32"), p.window(short, (i, j), (4, 64)))


def test_casts_beyond_the_largest_number() -> None:
    p, where = problem(casts, m=4, n=64), device("a100")
    (schedule,) = template(casts).space(p, where).sample(1, 1)
    x = np.float32(2.0) ** np.arange(-128, 128, dtype=np.float32).reshape(4, 64) * np.float32(-1.9999)
    run = emulate(template(casts).kernel(p, schedule, where), {"x": x}, time_limit=60.0)
    assert run.status == "ok", run.reason
    with np.errstate(over="ignore"):
        assert np.array_equal(run.outputs["half"], x.astype(np.float16).astype(np.float32))
    assert check(p, {"x": x}, run.outputs).ok
    outputs = {"half": x, "short": x}
    assert check(p, {"x": x}, outputs).reason.startswith("half"), "values beyond f16's largest number are wrong in f16"


def test_random_bits_agree_with_philox() -> None:
    """Compare with the result that Philox's authors publish for counter 0 and key 0."""
    zero = np.zeros(1)
    words = [int(FUNCTIONS["philox"].on_numpy(zero, zero, np.full(1, w))[0]) & 0xFFFFFFFF for w in range(4)]
    assert words == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


@program(seed=Input("one", "i32"), out=Output("m n", "f32"), bits=Output("m n", "i32"))
def random_numbers(p: Builder, seed: Array, out: Array, bits: Array) -> None:
    i, j = p.blocks(out.shape, (4, 32))
    counter = p.rows(i, 4) * out.shape[1] + p.columns(j, 32)
    key = p.load(p.window(seed, (0, 0), (1, 1)))
    p.store(p.random(counter, key), p.window(out, (i, j), (4, 32)))
    p.store(p.random_bits(counter, key, word=3), p.window(bits, (i, j), (4, 32)))


@pytest.mark.parametrize("where", [device("a100"), device("t4")], ids=lambda d: d.name)
def test_random_numbers(where: Device) -> None:
    p = problem(random_numbers, m=9, n=50, one=1)
    (schedule,) = template(random_numbers).space(p, where).sample(1, 1)
    inputs = {"seed": np.array([-3], np.int32)}
    run = emulate(template(random_numbers).kernel(p, schedule, where), inputs, time_limit=60.0)
    assert run.status == "ok", run.reason
    assert check(p, inputs, run.outputs).ok
    numbers = run.outputs["out"]
    assert numbers.min() >= 0.0 and numbers.max() < 1.0 and abs(numbers.mean() - 0.5) < 0.05
    assert np.unique(run.outputs["bits"]).size == 450
