"""Operators of language models are compared with torch. These tests use CPU tensors, and a plan without a GPU."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from needs import needs_nvrtc

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'autosched[torch]'")

from benchmarks.gpu.plan import device_child, torch_calls  # noqa: E402
from benchmarks.gpu.plan.prepared import prepare  # noqa: E402
from benchmarks.gpu.plan.problems import LANGUAGE, NextToTorch  # noqa: E402
from benchmarks.gpu.plan.results import Results  # noqa: E402
from benchmarks.gpu.plan.run import main  # noqa: E402
from measurements.compiler.pool import CompilePool  # noqa: E402
from search_spaces.hardware.devices import device  # noqa: E402
from search_spaces.operators.problem import Problem  # noqa: E402

SMALL = {
    "attention": {"heads": 4, "kv_heads": 2, "queries": 40, "keys": 40, "head_size": 16, "value_size": 32},
    "attention_backward": {"heads": 4, "kv_heads": 2, "queries": 40, "keys": 40, "head_size": 16},
    "decode_attention": {"batch": 2, "heads": 4, "kv_heads": 2, "entries": 2, "pages": 4, "head_size": 16},
    "int4_matmul": {"m": 4, "n": 32, "k": 256},
    "int8_matmul": {"m": 4, "n": 32, "k": 256},
    "scaled_matmul": {"m": 32, "n": 32, "k": 64},
    "grouped_matmul": {"m": 64, "n": 32, "k": 32, "groups": 4},
    "rms_norm": {"rows": 4, "columns": 64},
    "residual_rms_norm": {"rows": 4, "columns": 64},
    "cross_entropy": {"rows": 4, "columns": 50},
    "cross_entropy_backward": {"rows": 4, "columns": 50},
    "linear_cross_entropy": {"rows": 4, "columns": 50, "k": 32},
    "router_topk": {"tokens": 5, "experts": 16},
}
ON_GPUS_ALONE = {"int4_matmul"}


def entry(name: str) -> NextToTorch:
    return next(each for each in LANGUAGE if each.torch_call == name)


def small(name: str) -> Problem:
    return replace(entry(name).problem, **SMALL[name])  # type: ignore[arg-type]


def test_every_call_is_in_the_plan() -> None:
    assert {each.torch_call for each in LANGUAGE} - {""} == set(torch_calls.LANGUAGE) == set(SMALL)
    assert all(each.torch_computes for each in LANGUAGE)


@pytest.mark.parametrize("name", sorted(set(SMALL) - ON_GPUS_ALONE))
def test_results_have_the_shapes_of_the_operator(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_calls, "DEVICE", "cpu")
    monkeypatch.setattr(torch_calls, "COLD_BYTES", 10_000)
    seen: list[Any] = []

    def microseconds(call: Any, copies: int) -> float:
        seen.extend(call(i) for i in range(copies))
        return 2.0

    monkeypatch.setattr(device_child, "_microseconds", microseconds)
    problem = small(name)
    assert device_child._torch_time(name, problem.to_json()) == {"torch": 2.0}
    sizes = [o.size for o in problem.operands() if o.role == "output"]
    for result in seen:
        results = list(result) if isinstance(result, tuple | list) else [result]
        element_counts = [array.numel() for array in results]
        assert element_counts == sizes[: len(element_counts)] or (
            name == "residual_rms_norm" and element_counts == [sizes[1]]
        )
    assert len(seen) >= 1


@needs_nvrtc
def test_the_part_runs_over_a_simulated_gpu(tmp_path: Path) -> None:
    """Results state why torch has no times: it sees no GPU in this test, and has no operator for a paged cache."""
    append = next(each for each in LANGUAGE if each.problem.operator == "qk_norm_rope_append")
    chosen = [append, entry("router_topk")]
    with CompilePool() as pool:
        prepare(tmp_path, device("h200"), pool, print, problems=(), language=chosen, per_problem=2)
    out = tmp_path / "out"
    assert main(["--plan", str(tmp_path), "--out", str(out), "--simulated", "--part", "language"]) == 0
    rows = Results(out).of("language")
    assert set(rows) == {each.key for each in chosen}
    for each in chosen:
        assert rows[each.key]["ours"]["autosched"] > 0
        assert rows[each.key]["reason"]
    assert "paged cache" in rows[chosen[0].key]["reason"]
    page = (out / "table.md").read_text()
    assert all(each.key in page and each.torch_computes in page for each in chosen)
