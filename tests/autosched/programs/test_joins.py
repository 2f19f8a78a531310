"""Arg-reductions and scans: emulated results, ties, NaN, and associativity."""

from __future__ import annotations

import random

import numpy as np
import pytest
from program_outputs import outputs
from random_joins import random_joins, shape_of

from autosched.programs.loading import problem
from search_spaces.hardware.devices import device
from search_spaces.programs.builder import Builder, Input, Output, program
from search_spaces.programs.language.ir import Array
from search_spaces.programs.template import template

DEVICES = ("t4", "a100", "h100", "b200")
INFINITY = float("inf")


def check_joins(seed: int, lowered: int) -> None:
    """Lower some schedules of a random program, and run one of them."""
    rng, program, (rows, columns) = random.Random(-seed), random_joins(seed), shape_of(seed)
    sizes, gpu = {"m": 2 * rows, "n": 2 * columns, "fixed": 64}, rng.choice(DEVICES)
    p, kernel_template = problem(program, **sizes), template(program)
    for schedule in kernel_template.space(p, device(gpu)).sample(lowered, seed):
        kernel_template.kernel(p, schedule, device(gpu))
    numbers = np.random.default_rng(seed).integers(-4, 5, (2 * rows, 2 * columns)).astype(np.int32)
    outputs(program, gpu, {**p.random_inputs(seed), "a": numbers}, seed, **sizes)


@pytest.mark.parametrize("seed", range(20))
def test_random_joins(seed: int) -> None:
    check_joins(seed, 10)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(1000, 2000))
def test_many_random_joins(seed: int) -> None:
    check_joins(seed, 50)


@program(
    x=Input("m n", "f32"), largest=Output("m", "i32"), smallest=Output("m", "i32"), value=Output("m", "f32"),
    second=Output("m", "i32"),
)  # fmt: skip
def picks(p: Builder, x: Array, largest: Array, smallest: Array, value: Array, second: Array) -> None:
    (i,) = p.blocks((x.shape[0],), (4,))
    n = p.cover(x.shape[1])
    tile = p.load(p.window(x, (i, 0), (4, n)), padding=-INFINITY)
    best, at = p.max_with_index(tile, 1)
    p.store(at, p.window(largest, (i, 0), (4, 1), column=True))
    p.store(best, p.window(value, (i, 0), (4, 1), column=True))
    upper = p.load(p.window(x, (i, 0), (4, n)), padding=INFINITY)
    p.store(p.argmin(upper, 1), p.window(smallest, (i, 0), (4, 1), column=True))
    p.store(p.top_k(tile, 2, 1)[1][1], p.window(second, (i, 0), (4, 1), column=True))


@pytest.mark.parametrize("where", DEVICES)
def test_ties_and_nan_agree_with_numpy(where: str) -> None:
    x = np.random.default_rng(0).integers(-3, 4, (10, 40)).astype(np.float32)
    x[1], x[2, 7:], x[3, 30], x[4, [9, 22]] = -INFINITY, INFINITY, INFINITY, np.nan
    x[5], x[6, 5], x[6, 8] = 0.0, -0.0, 0.0
    actual = outputs(picks, where, {"x": x}, DEVICES.index(where), m=10, n=40)
    assert np.array_equal(actual["largest"], np.argmax(x, 1))
    assert np.array_equal(actual["smallest"], np.argmin(x, 1))
    assert np.array_equal(actual["value"], np.max(x, 1), equal_nan=True)
    order = np.stack([np.lexsort((np.arange(40), -row, ~np.isnan(row))) for row in x])
    assert np.array_equal(actual["second"], order[:, 1])


@program(x=Input("m n", "f32"), out=Output("m n", "f32"), down=Output("m n", "i32"))
def running(p: Builder, x: Array, out: Array, down: Array) -> None:
    """Compute prefix sums of long rows, and running maxima of columns from the bottom."""
    i, j = p.blocks(x.shape, (8, 512))
    tile = p.load(p.window(x, (i, j), (8, 512)))
    p.store(p.cumsum(tile, 1), p.window(out, (i, j), (8, 512)))
    p.store(p.scan("maxsi", tile.cast("i32"), 0, reverse=True), p.window(down, (i, j), (8, 512)))


@pytest.mark.parametrize("seed", range(3))
def test_running_sums_and_maxima(seed: int) -> None:
    x = np.random.default_rng(seed).integers(-3, 4, (16, 512)).astype(np.float32)
    actual = outputs(running, "a100", {"x": x}, seed, m=16, n=512)
    assert np.array_equal(actual["out"], np.cumsum(x, 1))
    tiles = x.reshape(2, 8, 512)[:, ::-1]
    assert np.array_equal(actual["down"], np.maximum.accumulate(tiles, axis=1)[:, ::-1].reshape(16, 512))


def test_rounding_may_change_the_chosen_element() -> None:
    """If two sums differ by less than their error bounds, argmax may return either of them, but no other element."""

    def body(p: Builder, x: Array, out: Array) -> None:
        p.blocks((1,), (1,))
        tile = p.load(p.window(x, (0, 0), (1, 4)))
        p.store(p.argmax(p.cumsum(tile, 1), 1), p.window(out, (0, 0), (1, 1)))

    tile_program = program(x=Input("one four", "f32"), out=Output("one one", "i32"))(body)
    p = problem(tile_program, one=1, four=4)
    for row, bound in (([1.0, 1e-9, -1.0, 0.5], 1.0), ([1.0, 1.0, -1.0, -1.0], 0.0)):
        expected, allowed = p.expected({"x": np.array([row], dtype=np.float32)})
        assert (expected["out"].item(), allowed["out"].item()) == (1.0, bound)


@pytest.mark.parametrize(
    ("line", "token"),
    [
        (lambda p, t: p.argmax(t.cast("f16"), 1), "f32 and i32"),
        (lambda p, t: p.argmin(t, 2), "argmin: .*0 or 1"),
        (lambda p, t: p.argmax(t, 1, size=3), "argmax: .*size 3"),
        (lambda p, t: p.top_k(t, 17, 1), "1 to 16"),
        (lambda p, t: p.scan("median", t, 1), "maximumf"),
        (lambda p, t: p.scan("maxsi", t, 1), "i32"),
        (lambda p, t: p.cumsum(t, -1), "scan: .*0 or 1"),
        (lambda p, t: p.cumsum(3.0, 1), "a tile"),
        (lambda p, t: p.argmax(t, 1, first=1.5), "whole number"),
    ],
)
def test_mistakes_name_the_line(line, token: str) -> None:  # type: ignore[no-untyped-def]
    def body(p: Builder, x: Array, out: Array) -> None:
        p.blocks((8,), (8,))
        line(p, p.load(p.window(x, (0, 0), (8, 16))))

    with pytest.raises(ValueError, match=rf"test_joins\.py:\d+: .*{token}"):
        problem(program(x=Input("m n", "f32"), out=Output("m n", "f32"))(body), m=8, n=16)


@pytest.mark.parametrize("reverse", [False, True])
def test_padding_after_the_end_changes_reversed_sums_only(reverse: bool) -> None:
    def body(p: Builder, x: Array, out: Array) -> None:
        (i,) = p.blocks((x.shape[0],), (8,))
        tile = p.load(p.window(x, (i, 0), (8, 16)), padding=1.0)
        p.store(p.cumsum(tile, 1, reverse=reverse), p.window(out, (i, 0), (8, 16)))

    tile_program = program(x=Input("m n", "f32"), out=Output("m n", "f32"))(body)
    reason = template(tile_program).why_not(problem(tile_program, m=8, n=13), device("a100"))
    assert ("scan" in (reason or "")) == reverse
