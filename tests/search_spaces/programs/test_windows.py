"""Windows that start before their array or lie outside of it, and clipped starts of loops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from program_outcome import outcome

from autosched.programs.loading import load_program, problem
from measurements.emulator import emulate
from search_spaces.hardware.devices import device
from search_spaces.programs.builder import Input, Output, Program, program
from search_spaces.programs.language.index import Index, minimum
from search_spaces.programs.planning.choices import choices_of
from search_spaces.programs.planning.verify import notes
from search_spaces.programs.problem import ProgramProblem
from search_spaces.programs.template import template

A100 = device("a100")
EXAMPLES = Path(__file__).parents[3] / "examples" / "programs"


def verified(p: ProgramProblem, schedules: int = 2) -> None:
    own = template(p.program)
    assert own.why_not(p, A100) is None
    for schedule in own.space(p, A100).sample(schedules, 1):
        assert outcome(p, own.kernel(p, schedule, A100)) == "ok", schedule


@program(x=Input("m n", "f32"), out=Output("m n", "f32"))
def causal_taps(p: Any, x: Any, out: Any) -> None:
    """Return a weighted sum of each column and the three columns before it. Columns before the first are 0."""
    i, j = p.blocks(x.shape, (8, 32))
    taps = [p.load(p.window(x, (i, j - tap), (8, 32))) * (tap + 1.0) for tap in range(4)]
    p.store(taps[0] + taps[1] + taps[2] + taps[3], p.window(out, (i, j), (8, 32)))


def test_padding_fills_positions_before_an_array() -> None:
    p = problem(causal_taps, m=11, n=70)
    verified(p)
    x = np.random.default_rng(1).standard_normal((11, 70)).astype(np.float32)
    own = template(causal_taps)
    actual = emulate(own.kernel(p, own.space(p, A100).sample(1, 2)[0], A100), {"x": x}, time_limit=60.0).outputs["out"]
    padded = np.pad(x, ((0, 0), (3, 0)))
    expected = sum((tap + 1.0) * padded[:, 3 - tap : 73 - tap] for tap in range(4))
    assert np.allclose(actual, expected, rtol=1e-5, atol=1e-5)


def maximum_of_a_window(begun: bool, ended: bool) -> Program:
    @program(x=Input("m n", "f32"), out=Output("m", "f32"))
    def largest(p: Any, x: Any, out: Any) -> None:
        (i,) = p.blocks((x.shape[0],), (8,))
        columns, tile = p.columns(-3, 32), p.load(p.window(x, (i, -3), (8, 32)))
        masks = [columns >= 0] * begun + [columns < x.shape[1]] * ended
        for mask in [masks[0] & masks[1]] if len(masks) == 2 else masks:
            tile = p.where(mask, tile, -np.inf)
        p.store(p.reduction("maximumf", tile, dim=1), p.window(out, (i, 0), (8, 1), column=True))

    return Program(f"largest_{begun}_{ended}", largest.function, largest.arguments, f"{begun} {ended}", "")


@pytest.mark.parametrize(("begun", "ended"), [(False, False), (True, False), (False, True)])
def test_a_reduction_sees_padding_on_both_sides(begun: bool, ended: bool) -> None:
    tile_program = maximum_of_a_window(begun, ended)
    assert "in columns" in (template(tile_program).why_not(problem(tile_program, m=9, n=20), A100) or "")


def test_masks_of_both_sides_cover_padding() -> None:
    verified(problem(maximum_of_a_window(True, True), m=9, n=20))


def starting(first: Any) -> Program:
    @program(x=Input("m n", "f32"), out=Output("m", "f32"))
    def summed(p: Any, x: Any, out: Any) -> None:
        m, n = x.shape
        (i,) = p.blocks((m,), (8,))
        total = p.state(p.zeros((8, 1)))
        for j in p.steps(p.minimum(n, i + 8), 8, first=first(p, i)):
            total.set(total + p.reduction("add", p.load(p.window(x, (i, j), (8, 8))), dim=1))
        p.store(total, p.window(out, (i, 0), (8, 1), column=True))

    return summed


@pytest.mark.parametrize(
    "first",
    [
        lambda p, i: p.maximum(i - 16, 0),
        lambda p, i: i - p.minimum(i, 16),
        lambda p, i: (i - p.minimum(i, 16)) // 16 * 16,
    ],
)
def test_loops_may_begin_at_a_clipped_position(first: Any) -> None:
    verified(problem(starting(first), m=61, n=61), 1)


def test_a_quotient_of_a_possibly_negative_value_is_rejected() -> None:
    tile_program = starting(lambda p, i: (i - 16) // 16 * 16)
    assert "p.maximum" in (template(tile_program).why_not(problem(tile_program, m=61, n=61), A100) or "")


def test_a_difference_to_a_minimum_is_not_negative() -> None:
    i = Index("block", 0) * 8
    assert (i - minimum(i, 16)).interval((5,), {}) == (0, 16)


def test_a_window_outside_the_array_is_noted() -> None:
    @program(x=Input("m n", "f32"), out=Output("m n", "f32"))
    def beyond(p: Any, x: Any, out: Any) -> None:
        i, j = p.blocks(x.shape, (8, 32))
        own, other = p.load(p.window(x, (i, j), (8, 32))), p.load(p.window(x, (i, j + 4096), (8, 32)))
        p.store(own + other, p.window(out, (i, j), (8, 32)))

    p = problem(beyond, m=16, n=64)
    (note,) = notes(choices_of(p).first)
    assert note.startswith("test_windows.py:") and "4096" in note
    assert not notes(choices_of(problem(causal_taps, m=11, n=70)).first)


def test_sliding_window_skips_blocks_of_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    example = load_program(str(EXAMPLES / "sliding_window.py"))
    monkeypatch.setitem(example.function.__globals__, "WINDOW", 40)
    p = problem(example, h=1, s=200, d=32)
    verified(p, 1)
    inputs = p.random_inputs(1)
    q, k, v = (inputs[name].astype(np.float64)[0] for name in "qkv")
    scores, apart = q @ k.T / 32**0.5, np.arange(200)[:, None] - np.arange(200)[None, :]
    scores = np.where((apart >= 0) & (apart < 40), scores, -np.inf)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    expected = weights / weights.sum(1, keepdims=True) @ v
    assert np.allclose(p.expected(inputs)[0]["o"][0], expected, atol=2e-3)
