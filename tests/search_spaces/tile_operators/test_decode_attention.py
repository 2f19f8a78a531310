"""Decode attention over a paged cache is correct, also for extreme lengths and tables. Planted faults are reported."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tile_operator_checks import interpreted, is_found, kernel_of, outcome, sampled

from search_spaces.catalogue import problem_from_json
from search_spaces.hardware.devices import device
from search_spaces.tile_operators.decode_attention import DecodeAttention
from search_spaces.tile_operators.tile_template import tile_template

SMALL = DecodeAttention(batch=2, heads=8, kv_heads=2, head_size=32, entries=3, page=32, pages=7)
CASES = {
    "several queries": replace(SMALL, queries=3),
    "pages of 16": replace(SMALL, page=16, entries=5, pages=11, kv_heads=4),
    "pages of 16, heads outside, bf16": replace(SMALL, page=16, order="heads", dtype="bf16", queries=2),
    "pages of 128, heads outside": replace(SMALL, page=128, order="heads", entries=2, pages=4),
    "e4m3": replace(SMALL, cache="e4m3", dtype="bf16"),
    "e4m3, pages of 16": replace(SMALL, cache="e4m3", page=16, queries=2, heads=4),
    "a group of 7": replace(SMALL, heads=14),
    "a group of 3, 8 queries": replace(SMALL, heads=6, queries=8),
}
MODELS = {  # layers of models, reduced to two groups of heads and few positions
    "llama 3 8B": DecodeAttention(batch=2, heads=8, kv_heads=2, entries=4, page=64),
    "llama 3 70B": DecodeAttention(batch=2, heads=16, kv_heads=2, entries=9, page=16, dtype="bf16"),
    "qwen 3 235B, e4m3": DecodeAttention(batch=1, heads=32, kv_heads=2, entries=3, page=64, cache="e4m3"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_interpreter_agrees_with_numpy(name: str) -> None:
    assert interpreted(CASES[name], 2)


@pytest.mark.parametrize("name", ["several queries", "pages of 16", "e4m3"])
def test_a_sampled_schedule(name: str) -> None:
    for schedule in sampled(CASES[name], "h100", 1):
        assert outcome(CASES[name], kernel_of(CASES[name], "h100", schedule)) == "ok", schedule


@pytest.mark.nightly
@pytest.mark.parametrize("gpu", ["a100", "h100"])
@pytest.mark.parametrize("name", [*CASES, *MODELS])
def test_sampled_schedules(name: str, gpu: str) -> None:
    problem = (CASES | MODELS)[name]
    for schedule in sampled(problem, gpu, 10):
        assert outcome(problem, kernel_of(problem, gpu, schedule)) == "ok", schedule


def test_edges_of_lengths_and_pages() -> None:
    kernel = kernel_of(SMALL, "a100", sampled(SMALL, "a100", 1)[0])
    tried = set()
    for input_set in SMALL.stress_inputs(1):
        if input_set.cases[0].startswith(("lengths", "table")):
            assert outcome(SMALL, kernel, input_set.inputs) == "ok", input_set.cases
            tried.add(input_set.cases[0])
    assert {"lengths: least", "lengths: outside", "table: outside", "lengths: alternating"} <= tried


FAULTS = {
    "queries see the positions after their own": ("(o.queries - 1), 1)", "(o.queries - 2), 1)", "several queries"),
    "keys after the end are seen": ("seen = p.rows(j, bn) < length\n", "seen = p.rows(j, bn) < length + 1\n", ""),
    "parts are added without their maxima": ("one[n] * fades[0] + other[n] * fades[1]", "one[n] + other[n]", ""),
    "sums are not rescaled": ("total * fade + p", "total + p", ""),
    "the table of the first sequence": ("table, sequence, j // page", "table, 0, j // page", ""),
    "values of the first group": ("group * d if wide else 0", "0", ""),
    "a scale of keys is left out": ("z = z * of_keys", "pass", "e4m3"),
    "an empty sequence divides by zero": ("acc / p.where(total == 0.0, 1.0, total)", "acc / total", ""),
    "values are not rescaled": ("e.cast(o.dtype), acc * fade", "e.cast(o.dtype), acc", ""),
}


@pytest.mark.parametrize(
    "fault", [f if i in (0, 2, 4) else pytest.param(f, marks=pytest.mark.nightly) for i, f in enumerate(FAULTS)]
)
def test_planted_faults_are_found(fault: str) -> None:
    old, new, case = FAULTS[fault]
    values = {"parts": 2} if fault.startswith("parts") else {}
    assert is_found(CASES[case] if case else SMALL, old, new, **values)


@pytest.mark.parametrize("name", ["pages of 16", "pages of 16, heads outside, bf16", "several queries"])
def test_entries_with_rows_beyond_32_bits_are_outside_the_cache(name: str) -> None:
    problem = CASES[name]
    inputs = problem.random_inputs(1)
    inputs["lengths"][:] = problem.entries * problem.page
    far = [2**28, 2**28 + 1, 2**27 + 1, 2**31 - 1, -(2**28), problem.pages]
    inputs["table"][...] = np.resize(far, inputs["table"].shape)
    inputs["table"][:, 0] = 0
    assert outcome(problem, kernel_of(problem, "a100", sampled(problem, "a100", 1)[0]), inputs) == "ok"


def test_a_large_problem_is_reduced_with_its_schedule() -> None:
    large = DecodeAttention(batch=16, heads=32, kv_heads=8, entries=128, page=64)
    template, chip = tile_template(DecodeAttention), device("h100")
    schedule = sampled(large, "h100", 1)[0]
    assert template.proxy is not None
    small = template.proxy(large, schedule)
    assert small != large and small.min_bytes < large.min_bytes / 4 and small.group == large.group
    template.config(small, schedule, chip)


def test_json_and_refusals() -> None:
    assert problem_from_json(SMALL.to_json()) == SMALL
    for wrong in ({"kv_heads": 3}, {"page": 24}, {"head_size": 40}, {"queries": 9}, {"dtype": "f32"}, {"batch": 0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            replace(SMALL, **wrong)
    with pytest.raises(ValueError, match=r"2\^31"):
        replace(SMALL, pages=2**26, head_size=16)


def test_a_call_is_a_problem() -> None:
    types = {"q": "f16", "k": "f16", "v": "f16", "table": "i32", "lengths": "i32"}
    shapes = {o.name: o.shape for o in SMALL.operands()}
    assert DecodeAttention.of_arrays(shapes, types) == SMALL
    with pytest.raises(ValueError, match="k_scale"):
        DecodeAttention.of_arrays(shapes, types | {"k": "e4m3"})


def test_queries_without_keys_are_zero() -> None:
    inputs = SMALL.random_inputs(1)
    inputs["lengths"] = np.zeros_like(inputs["lengths"])
    assert not SMALL.reference(inputs)["out"].any()


def test_infinite_keys_need_no_warning() -> None:
    inputs = SMALL.random_inputs(1)
    inputs["k"] = np.full_like(inputs["k"], np.inf)
    inputs["q"] = np.zeros_like(inputs["q"])
    assert np.isnan(SMALL.reference(inputs)["out"]).any()  # 0 times infinity is NaN
