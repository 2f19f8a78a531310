"""Error bounds propagate from one program of a pipeline to the next."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from autosched.programs.loading import problem
from search_spaces.programs.builder import Input, Output, Program, program
from search_spaces.tile_operators.tile_pipeline import TilePipeline


def first() -> Program:
    @program(x=Input("m n", "f32"), y=Output("m n", "f16"))
    def rounds(p: Any, x: Any, y: Any) -> None:
        i, j = p.blocks(x.shape, (8, 64))
        p.store(p.load(p.window(x, (i, j), (8, 64))).cast("f16"), p.window(y, (i, j), (8, 64)))

    return Program("rounds", rounds.function, rounds.arguments, "", "")


def second() -> Program:
    @program(y=Input("m n", "f16"), out=Output("m n", "f32"))
    def halves(p: Any, y: Any, out: Any) -> None:
        i, j = p.blocks(y.shape, (8, 64))
        p.store(p.load(p.window(y, (i, j), (8, 64))).cast("f32") * 0.5, p.window(out, (i, j), (8, 64)))

    return Program("halves", halves.function, halves.arguments, "", "")


def test_an_intermediate_value_that_may_overflow_has_no_finite_bound() -> None:
    steps = {"first": problem(first(), m=8, n=64), "second": problem(second(), m=8, n=64)}
    x = np.ones((8, 64), np.float32)
    x[0, :3] = 65400.0, 65513.0, 70000.0  # results of the first program: finite; either finite or infinite; infinite
    pipeline: Any = SimpleNamespace(programs=lambda: steps)
    values, bounds = TilePipeline.interpreted(pipeline, {"x": x})
    assert np.isfinite(values["y"][0, :2]).all() and np.isfinite(bounds["y"]).all()
    assert np.isfinite(bounds["out"][0]).tolist() == [True, False, *[True] * 62]
    assert values["out"][0, 2] == np.inf and bounds["out"][0, 2] == 0.0
