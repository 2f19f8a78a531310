"""Programs may slice tiles, join slices to a tile, and reshape tiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from program_outcome import outcome

from autosched.programs.loading import problem
from search_spaces.hardware.devices import device
from search_spaces.programs.builder import Input, Output, Program, program
from search_spaces.programs.inference.inference import Spread
from search_spaces.programs.language.ir import ProgramError
from search_spaces.programs.language.layout_distributions import blocked
from search_spaces.programs.problem import ProgramProblem
from search_spaces.programs.template import template

A100 = device("a100")


def verified(p: ProgramProblem, gpu: str = "a100", schedules: int = 4) -> None:
    own, target = template(p.program), device(gpu)
    assert own.why_not(p, target) is None
    for schedule in own.space(p, target).sample(schedules, 1):
        assert outcome(p, own.kernel(p, schedule, target)) == "ok", schedule


@program(x=Input("m n", "f32"), angle=Input("half", "f32"), out=Output("m n", "f32"), pairs=Output("m n", "f32"))
def rotary(p: Any, x: Any, angle: Any, out: Any, pairs: Any) -> None:
    """Rotate each row by angles: as two halves (out), and as adjacent pairs (pairs). Load each row once."""
    (m, n), half = x.shape, angle.shape[0]
    bm = p.choose(bm=(4, 16))
    (i,) = p.blocks((m,), (bm,))
    tile, phase = p.load(p.window(x, (i, 0), (bm, n))), p.load(p.window(angle, (0, 0), (1, half)))
    sine, cosine = p.sine(phase), p.cosine(phase)

    def rotated(one: Any, other: Any) -> Any:
        return one * cosine - other * sine, one * sine + other * cosine

    halves = rotated(tile[:, :half], tile[:, half:])
    neighbours = rotated(tile[:, 0::2], tile[:, 1::2])
    p.store(p.join(halves, dim=1), p.window(out, (i, 0), (bm, n)))
    p.store(p.join(neighbours, dim=1, interleaved=True), p.window(pairs, (i, 0), (bm, n)))


def test_rotary_halves_and_pairs() -> None:
    p = problem(rotary, m=21, n=64, half=32)
    verified(p)
    rng = np.random.default_rng(0)
    x, phase = rng.standard_normal((21, 64)).astype(np.float32), rng.standard_normal(32).astype(np.float32)
    actual, _ = p.expected({"x": x, "angle": phase})
    sine, cosine = np.sin(phase), np.cos(phase)
    for name, one, other in (("out", x[:, :32], x[:, 32:]), ("pairs", x[:, 0::2], x[:, 1::2])):
        both = one * cosine - other * sine, one * sine + other * cosine
        expected = np.concatenate(both, 1) if name == "out" else np.stack(both, 2).reshape(21, 64)
        assert np.allclose(actual[name], expected, atol=1e-5)


@program(a=Input("m k", "f16"), b=Input("k n", "f16"), out=Output("m n", "f32"))
def transposed_product(p: Any, a: Any, b: Any, out: Any) -> None:
    """Swap the halves of each row of a product and negate one, as in rotary embedding."""
    (m, n), k = out.shape, a.shape[1]
    (i,) = p.blocks((m,), (32,))
    acc = p.state(p.zeros((32, n)))
    for at in p.steps(k, 32):
        acc.set(p.mma(p.load(p.window(a, (i, at), (32, 32))), p.load(p.window(b, (at, 0), (32, n))), acc))
    x = acc.read()
    low, high = x[:, : n // 2], x[:, n // 2 :]
    p.store(p.join((0.0 - high, low), dim=1), p.window(out, (i, 0), (32, n)))


@pytest.mark.parametrize("gpu", ["a100", "t4"])
def test_halves_of_a_product(gpu: str) -> None:
    verified(problem(transposed_product, m=40, n=64, k=72), gpu, 3)


@program(x=Input("m n", "i32"), out=Output("m n", "i32"), rows=Output("m n", "i32"), line=Output("k", "i32"))
def transposed_parts(p: Any, x: Any, out: Any, rows: Any, line: Any) -> None:
    """Reverse the order of a row's quarters (out) and of a column's halves (rows). Join every third row (line)."""
    m, n = x.shape
    p.blocks((1,), (1,))
    tile = p.load(p.window(x, (0, 0), (m, n)))
    quarters = [tile[:, n // 4 * q : n // 4 * (q + 1)] for q in range(4)]
    p.store(p.join(quarters[::-1], dim=1), p.window(out, (0, 0), (m, n)))
    halves = tile[: m // 2, :], tile[m // 2 :, :]
    p.store(p.join(halves[::-1], dim=0), p.window(rows, (0, 0), (m, n)))
    thirds = tile[1::3, :]
    p.store(p.reshape(thirds, (1, m // 3 * n)), p.window(line, (0, 0), (1, m // 3 * n)))


def test_parts_of_rows_and_columns() -> None:
    p = problem(transposed_parts, m=12, n=16, k=64)
    verified(p)
    x = np.arange(12 * 16, dtype=np.int32).reshape(12, 16)
    actual, _ = p.expected({"x": x})
    assert np.array_equal(actual["out"], np.concatenate(np.split(x, 4, 1)[::-1], 1))
    assert np.array_equal(actual["rows"], np.concatenate([x[6:], x[:6]]))
    assert np.array_equal(actual["line"], x[1::3].reshape(-1))


def test_a_part_of_infinities_and_nan_is_exact() -> None:
    @program(x=Input("m n", "f32"), out=Output("m half", "f32"))
    def second(p: Any, x: Any, out: Any) -> None:
        m, n = x.shape
        p.blocks((1,), (1,))
        p.store(p.load(p.window(x, (0, 0), (m, n)))[:, n // 2 :], p.window(out, (0, 0), (m, n // 2)))

    p, own = problem(second, m=4, n=16, half=8), template(second)
    x = np.zeros((4, 16), dtype=np.float32)
    x[:, 8:11], x[:, :3] = (np.inf, -np.inf, np.nan), np.nan
    kernel = own.kernel(p, own.space(p, A100).sample(1, 1)[0], A100)
    assert outcome(p, kernel, {"x": x}) == "ok"


def test_reshape_moves_digits_between_dimensions() -> None:
    of = blocked((8, 64), 4, 1, 8, 1, 4)
    cut = of.reshape(16)
    assert cut.shape == (16, 32)
    assert np.array_equal(cut.elements(4), of.elements(4))
    assert cut.reshape(8).same(of, 4)
    spread = Spread("blocked", (8, 64), 1)
    assert spread.reshape((16, 32)).reshape((8, 64)) == spread
    with pytest.raises(ValueError, match="cannot be divided evenly"):
        blocked((4, 24), 1, 1, 8, 1, 1).reshape(8)


def refused(use: Any) -> str:
    def body(p: Any, x: Any, out: Any) -> None:
        (i,) = p.blocks((40,), (8,))
        tile = p.load(p.window(x, (i, 0), (8, 32)))
        p.store(use(p, tile), p.window(out, (i, 0), (8, 32)))

    arrays = {"x": Input("m n", "f32"), "out": Output("m n", "f32")}
    tile_program = Program("refused", body, tuple(arrays.items()), "refused", "")
    try:
        p = problem(tile_program, m=40, n=30)
    except (ProgramError, ValueError) as error:
        return str(error)
    return template(tile_program).why_not(p, A100) or ""


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda p, x: x[0], "two slices"),
        (lambda p, x: x[:, 3:5], "equal parts of 32"),
        (lambda p, x: x[:, 3::2], "start::step"),
        (lambda p, x: x[:, 0.0:16], "whole numbers"),
        (lambda p, x: x.cast("f16")[:, :16], "f16"),
        (lambda p, x: p.reshape(x, (6, 32)), "6x32"),
        (lambda p, x: p.reshape(x, (256, 0)), "(256, 0)"),
        (lambda p, x: p.join((x,), dim=1), "two or more tiles"),
        (lambda p, x: p.join((x, x.cast("i32")), dim=1), "8x32 i32"),
        (lambda p, x: p.join((x, x), dim=2), "dim=2"),
        (lambda p, x: p.reduction("one_of_group", x, dim=1), "unknown kind"),
        (lambda p, x: p.join((x[:, :16], x[:, 16:]), dim=1), "columns"),
    ],
)
def test_refusals_of_parts_name_the_line(use: Any, message: str) -> None:
    text = refused(use)
    assert text.startswith("test_slices.py:")
    assert message in text
