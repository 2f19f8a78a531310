"""Operators defined by tile programs, as ``torch.ops.autosched`` and as functions of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'autosched[torch]'")

from tile_operator_calls import PROBLEMS, TYPES, called, outputs  # noqa: E402

import autosched  # noqa: E402
from autosched.torch import tile_ops  # noqa: E402
from autosched.torch.cpu import _stack  # noqa: E402
from search_spaces.catalogue import tile_problems  # noqa: E402
from search_spaces.tile_operators.grouped_matmul import GroupedMatmul  # noqa: E402
from search_spaces.tile_operators.qk_norm_rope_append import QkNormRopeAppend  # noqa: E402
from search_spaces.tile_operators.quantized_matmul import QuantizedMatmul  # noqa: E402

CASES = PROBLEMS | {
    "grouped_matmul of e4m3": GroupedMatmul(m=40, n=16, k=160, groups=3, tokens=10, dtype="e4m3", w_order="col"),
    "grouped_matmul of int4": GroupedMatmul(
        m=40, n=16, k=128, groups=3, tokens=10, w_order="col", weights="int4", scale_group=64, zero_points=1
    ),
    "grouped_matmul of nvf4": GroupedMatmul(
        m=20, n=16, k=64, groups=3, rows="masked", w_order="col", weights="nvf4", scale_group=16
    ),
    "grouped_matmul of int8, packed": GroupedMatmul(
        m=40, n=24, k=128, groups=3, w_order="col", weights="int8", layout="fragments", dtype="f16"
    ),
    "quantized_matmul of nvf4": QuantizedMatmul(m=3, n=24, k=128, weights="nvf4", group=16, dtype="bf16"),
    "qk_norm_rope_append with a block table": QkNormRopeAppend(
        5, 2, 1, 16, sequences=2, entries=2, cache="e4m3", dtype="f16", length=40
    ),
    "quantized_matmul, packed": QuantizedMatmul(m=3, n=24, k=128, layout="fragments"),
}


def test_every_operator_is_tried() -> None:
    assert set(PROBLEMS) == {p.operator for p in tile_problems()}


@pytest.mark.parametrize("name", CASES)
def test_cpu_tensors_use_the_reference_and_fake_tensors_have_shapes(name: str) -> None:
    problem, operator = CASES[name], getattr(torch.ops.autosched, CASES[name].operator)
    arguments, keywords = called(problem)
    assert not _stack
    actual, reference_values = outputs(operator(*arguments, **keywords)), problem.reference(problem.random_inputs(1))
    of_outputs = [o for o in problem.operands() if o.role == "output"]
    for o, result in zip(of_outputs, actual, strict=True):
        assert (tuple(result.shape), result.dtype) == (o.shape, TYPES[o.dtype.name])
        expected = o.dtype.load(o.dtype.store(reference_values[o.name]))
        assert np.array_equal(result.to(torch.float64).numpy(), expected, equal_nan=True)
    fakes = [t.to("meta") for t in arguments], {k: t.to("meta") if hasattr(t, "to") else t for k, t in keywords.items()}
    for result, fake in zip(actual, outputs(operator(*fakes[0], **fakes[1])), strict=True):
        assert (result.shape, result.dtype) == (fake.shape, fake.dtype)


@pytest.mark.parametrize("name", CASES)
def test_arrays_that_do_not_fit(name: str) -> None:
    arguments, keywords = called(CASES[name])
    operator = getattr(torch.ops.autosched, CASES[name].operator)
    with pytest.raises((ValueError, RuntimeError), match=r"must|takes"):
        operator(arguments[0].reshape(-1), *arguments[1:], **keywords)


@pytest.mark.parametrize("name", CASES)
def test_a_gpu_call_runs_our_function(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    monkeypatch.setattr(autosched, CASES[name].operator, lambda *arrays, **options: calls.append((arrays, options)))
    arguments, keywords = called(CASES[name])
    tile_ops.on_gpu(type(CASES[name]), *arguments, **keywords)
    ((arrays, options),) = calls
    assert all(a is b for a, b in zip(arrays, arguments, strict=True))
    assert all(options[k] is v for k, v in keywords.items())
