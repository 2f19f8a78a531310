"""Operators defined by tile programs are called on arrays of simulated GPUs; memory, results and errors are checked."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import instant_compiler
import pytest
from fake_cupy import FakeCupy

import autosched
from autosched.dispatch import functions, lookup, resolve
from autosched.dispatch.database import NotTuned
from autosched.samplers.first_choices.model_choice import DefaultChoice
from measurements.compiler.pool import CompilePool
from measurements.store.store import Store
from search_spaces.operators.problem import Problem


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeCupy]:
    """Yield a fake GPU. The compiler is fake, the database is empty, and the model chooses an arbitrary schedule."""

    def any_choice(problem: Problem, device: Any, templates: Any) -> DefaultChoice:
        return DefaultChoice(next(iter(templates)).space(problem, device).sample(1, 1)[0], 1e-6)

    instant = partial(CompilePool, worker_module="instant_compiler", python_path=[instant_compiler.HERE])
    monkeypatch.setattr(resolve, "CompilePool", instant)
    monkeypatch.setattr(lookup, "default_choice", any_choice)
    fake = FakeCupy()
    monkeypatch.setitem(sys.modules, "cupy", fake)
    monkeypatch.delenv(functions.VARIABLE, raising=False)
    Store.open(tmp_path / "best.db").close()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotTuned)
        autosched.use(tmp_path / "best.db")
        yield fake
    autosched.use(None)
    functions.forget()


def test_one_result_and_several(cupy: FakeCupy) -> None:
    logits = cupy.zeros((4, 16), "float32")
    weight, expert = autosched.router_topk(logits, top=2)
    assert [(a.shape, a.dtype.name) for a in (weight, expert)] == [((4, 2), "float32"), ((4, 2), "int32")]
    x, positions = cupy.zeros((3, 2, 16), "float16"), cupy.zeros((3,), "int32")
    table, out = cupy.zeros((9, 16), "float32"), cupy.zeros((3, 2, 16), "float16")
    assert autosched.qk_norm_rope(x, positions, table, out) is out
    assert len(cupy.launches) == 2 and len(functions.chosen()) == 2
    autosched.router_topk(logits, top=2)
    assert len(functions.chosen()) == 2, "the kernel is cached"


def test_arrays_changed_in_place_must_not_overlap(cupy: FakeCupy) -> None:
    qkv, positions, table = (
        cupy.zeros(s, t) for s, t in (((3, 4, 16), "float16"), ((3,), "int32"), ((9, 16), "float32"))
    )
    k, v = (cupy.zeros((2, 16, 1, 16), "float16") for _ in range(2))
    actual = autosched.qk_norm_rope_append(qkv, positions, table, k, v, slots=positions)
    assert (actual.shape, actual.dtype.name) == ((3, 2, 16), "float16")
    with pytest.raises(ValueError, match="k overlaps v"):
        autosched.qk_norm_rope_append(qkv, positions, table, k, k, slots=positions)


def test_arrays_of_wrong_shapes_are_rejected(cupy: FakeCupy) -> None:
    x, positions, table = (cupy.zeros(s, t) for s, t in (((3, 2, 16), "float16"), ((3,), "int32"), ((9, 8), "float32")))
    with pytest.raises(ValueError, match=r"table must have the shape \(9, 16\)"):
        autosched.qk_norm_rope(x, positions, table)
    with pytest.raises(ValueError, match="takes logits"):
        autosched.router_topk(cupy.zeros((16,), "float32"))
