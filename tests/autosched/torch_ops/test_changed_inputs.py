"""Operators of torch that change tensors in place: results, schemas, and ``torch.compile``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'autosched[torch]'")

from tile_operator_calls import called, tensor  # noqa: E402

import autosched  # noqa: E402
import autosched.torch  # noqa: E402
from search_spaces.catalogue import tile_problems  # noqa: E402
from search_spaces.tile_operators.qk_norm_rope_append import QkNormRopeAppend  # noqa: E402

PROBLEM = QkNormRopeAppend(5, 2, 1, 16, length=40, pages=2)


def test_the_schema_marks_changed_inputs() -> None:
    for problem in tile_problems():
        schema = getattr(torch.ops.autosched, problem.operator).default._schema
        marked = [a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write]
        assert marked == list(problem.changed_inputs) and schema.is_mutable == bool(marked)


def appended(*arguments: Any, **keywords: Any) -> tuple[Any, Any, Any]:
    """Call the operator twice, and return both results and the caches.

    The second call stores nothing for slots of -1.
    """
    qkv, positions, table, k, v = arguments
    q = torch.ops.autosched.qk_norm_rope_append(qkv, positions, table, k, v, **keywords)
    again = {**keywords, "slots": torch.full_like(keywords["slots"], -1)}
    return q + torch.ops.autosched.qk_norm_rope_append(qkv, positions, table, k, v, **again), k * 1, v * 1


@pytest.mark.parametrize("compiled", [False, True])
def test_caches_are_changed_in_place(compiled: bool) -> None:
    arguments, keywords = called(PROBLEM)
    inputs = PROBLEM.random_inputs(1)
    expected = PROBLEM.reference(inputs)
    function = torch.compile(appended, backend="aot_eager", fullgraph=True) if compiled else appended
    q, *caches = function(*arguments, **keywords)
    operands = {name: PROBLEM.operand(name) for name in ("out", "k", "v")}
    stored = {name: tensor(operands[name], operands[name].dtype.store(expected[name])) for name in operands}
    assert torch.equal(q, stored["out"] * 2)
    for name, argument, cache in zip("kv", arguments[3:], caches, strict=True):
        assert torch.equal(argument, stored[name]) and torch.equal(cache, stored[name])
        assert not torch.equal(argument, tensor(operands[name], inputs[name]))


def test_the_chosen_kernel_in_the_emulator(tmp_path: Path) -> None:
    database = tmp_path / "best.db"
    autosched.tune(PROBLEM, device="h100", effort="model", database=database, progress=None)
    arguments, keywords = called(PROBLEM)
    same, _ = called(PROBLEM)
    expected = torch.ops.autosched.qk_norm_rope_append(*same, **keywords)
    with autosched.torch.emulated(database, "h100"):
        actual = torch.ops.autosched.qk_norm_rope_append(*arguments, **keywords)
    for one, other in zip((actual, *arguments[3:]), (expected, *same[3:]), strict=True):
        torch.testing.assert_close(one, other, atol=0.05, rtol=0.02)


def test_arrays_that_do_not_fit_together() -> None:
    arguments, keywords = called(PROBLEM)
    operator = torch.ops.autosched.qk_norm_rope_append
    slots = keywords.pop("slots")
    for wrong in ({}, {"slots": slots, "sequence": slots}, {"sequence": slots}):
        with pytest.raises(ValueError, match="slots"):
            operator(*arguments, **keywords, **wrong)
    with pytest.raises(ValueError, match="q_weight"):
        operator(*arguments, slots=slots, q_weight=keywords["q_weight"])
    with pytest.raises(ValueError, match="k_scale"):
        operator(*arguments, **keywords, slots=slots, k_scale=torch.ones(1))
