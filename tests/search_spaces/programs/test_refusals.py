"""What a tile program may not say, each by one program: the refusal names the line, the operation and the rule."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from search_spaces.hardware.devices import device
from search_spaces.programs.builder import Builder, Input, Output, program
from search_spaces.programs.ir import Array, ProgramError
from search_spaces.programs.problem import problem_type
from search_spaces.programs.template import template

SIZES = {"m": 32, "n": 32, "k": 32}
ARRAYS = {"a": Input("m k", "f16"), "b": Input("k n", "f16"), "out": Output("m n", "f32")}


def refused(body: Callable[[Builder, Array, Array, Array], None]) -> str:
    made = program(**ARRAYS)(body)
    with pytest.raises(ValueError) as error:
        reason = template(made).why_not(problem_type(made)(**SIZES), device("a100"))
        assert reason is not None, "nothing refused the program"
        raise ProgramError(reason)
    return str(error.value)


def gemm(p: Builder, a: Array, b: Array, end: Callable[..., None], *, first: float = 0.0, by: int = 32) -> None:
    i, j = p.blocks((32, 32), (32, 32))
    x, y = p.window(a, (i, 0), (32, 32)), p.window(b, (0, j), (32, 32))
    acc = p.state(p.full((32, 32), first))
    for _ in p.steps(32, 32):
        acc.set(p.mma(p.load(x), p.load(y), acc))
        x.move(0, by)
        y.move(by, 0)
    end(acc, (i, j))


def test_the_language() -> None:
    def shapes(p: Builder, a: Array, b: Array, out: Array) -> None:
        p.mma(p.zeros((32, 16), "f16"), p.zeros((32, 16), "f16"))

    def types(p: Builder, a: Array, b: Array, out: Array) -> None:
        p.store(p.zeros((32, 32), "f16"), p.window(out, (0, 0), (32, 32)))

    def arithmetic(p: Builder, a: Array, b: Array, out: Array) -> None:
        p.load(p.window(a, (0, 0), (32, 32))) + 1.0

    def branch(p: Builder, a: Array, b: Array, out: Array) -> None:
        if p.zeros((32, 32)):
            pass

    def stretched(p: Builder, a: Array, b: Array, out: Array) -> None:
        p.broadcast(p.zeros((2, 32)), dim=0, size=32)

    def read_output(p: Builder, a: Array, b: Array, out: Array) -> None:
        p.load(p.window(out, (0, 0), (32, 32)))

    def left_early(p: Builder, a: Array, b: Array, out: Array) -> None:
        for _ in p.steps(32, 32):
            break

    assert "test_refusals.py:" in refused(shapes) and "(RFC, tile_mma)" in refused(shapes)
    assert "store: the value is f16, but out is f32" in refused(types)
    assert 'use .cast("f32")' in refused(arithmetic)
    assert "if: a tile has many values" in refused(branch)
    assert "dimension 0 of 2x32 is not 1 (RFC, tile_broadcast)" in refused(stretched)
    assert "out is an output" in refused(read_output)
    assert "do not break out of it" in refused(left_early)


def test_what_is_not_compiled() -> None:
    def whole(p: Builder, out: Array, place: tuple[object, object]) -> object:
        return p.window(out, place, (32, 32))  # type: ignore[arg-type]

    def not_from_zero(p: Builder, a: Array, b: Array, out: Array) -> None:
        gemm(p, a, b, lambda acc, at: p.store(acc, whole(p, out, at)), first=1.0)  # type: ignore[arg-type]

    def wrong_move(p: Builder, a: Array, b: Array, out: Array) -> None:
        gemm(p, a, b, lambda acc, at: p.store(acc, whole(p, out, at)), by=16)  # type: ignore[arg-type]

    def not_stored(p: Builder, a: Array, b: Array, out: Array) -> None:
        gemm(p, a, b, lambda acc, at: None)

    def elsewhere(p: Builder, a: Array, b: Array, out: Array) -> None:
        gemm(p, a, b, lambda acc, at: p.store(acc, whole(p, out, (0, at[1]))))  # type: ignore[arg-type]

    def no_loop(p: Builder, a: Array, b: Array, out: Array) -> None:
        i, j = p.blocks((32, 32), (32, 32))
        p.store(p.zeros((32, 32)), p.window(out, (i, j), (32, 32)))

    assert "begins as p.zeros" in refused(not_from_zero)
    assert "must begin at 0 along k, and move by 32 in each step" in refused(wrong_move)
    assert "the output out is never stored" in refused(not_stored)
    assert "a block stores its whole tile, at its place" in refused(elsewhere)
    assert "one loop of products, not 0" in refused(no_loop)
