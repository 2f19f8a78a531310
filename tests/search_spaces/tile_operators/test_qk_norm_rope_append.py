"""Kernels that rotate queries and keys and append to a paged cache are correct. Planted faults are reported."""

from __future__ import annotations

import numpy as np
import pytest
from tile_operator_checks import interpreted, is_found, kernel_of, outcome, sampled

from measurements.trials.comparison import check
from search_spaces.catalogue import problem_from_json
from search_spaces.hardware.devices import device
from search_spaces.tile_operators.qk_norm_rope_append import QkNormRopeAppend
from search_spaces.tile_operators.tile_template import tile_template

SLOTS, HEADS, TABLE = "slots", "heads outside, no norm", "block table, e4m3"
CASES = {
    SLOTS: QkNormRopeAppend(5, 4, 2, 32, length=40, pages=4),
    HEADS: QkNormRopeAppend(5, 4, 3, 64, page=64, length=40, norm=0, dtype="f16", order="heads", pages=2),
    TABLE: QkNormRopeAppend(9, 3, 2, 32, sequences=3, entries=2, length=40, cache="e4m3", dtype="f16"),
    "large pages": QkNormRopeAppend(
        6, 3, 2, 16, page=128, sequences=3, entries=2, length=300, cache="e4m3", order="heads"
    ),
}
MODELS = {
    "llama 3 8B, without norm": QkNormRopeAppend(3, 32, 8, 128, page=64, norm=0, length=64),
    "qwen 3 8B": QkNormRopeAppend(3, 32, 8, 128, page=16, length=64, sequences=2, entries=2),
    "qwen 3 8B, e4m3": QkNormRopeAppend(3, 32, 8, 128, page=128, length=64, cache="e4m3", order="heads"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_interpreter_agrees_with_numpy(name: str) -> None:
    assert interpreted(CASES[name], 2)


@pytest.mark.parametrize("name", CASES)
def test_a_sampled_schedule_on_any_bits_of_a_cache(name: str) -> None:
    problem = CASES[name]
    kernel = kernel_of(problem, "h100", sampled(problem, "h100", 1)[0])
    assert outcome(problem, kernel) == "ok"
    any_bits, outside, nothing = (case.inputs for case in problem.cache_cases(1))
    assert [outcome(problem, kernel, inputs) for inputs in (any_bits, outside, nothing)] == ["ok"] * 3
    assert (problem.slots_of(outside) < 0).sum() > (problem.slots_of(any_bits) < 0).sum()
    assert all(mask.all() for mask in problem.unchanged(nothing).values())


@pytest.mark.nightly
@pytest.mark.parametrize("name", [*CASES, *MODELS])
def test_sampled_schedules_and_edge_cases(name: str) -> None:
    problem = (CASES | MODELS)[name]
    for schedule in sampled(problem, "a100", 5):
        assert outcome(problem, kernel_of(problem, "a100", schedule)) == "ok", schedule
    kernel = kernel_of(problem, "h100", sampled(problem, "h100", 1)[0])
    for seed in (1, 2):
        for input_set in problem.stress_inputs(seed):
            assert outcome(problem, kernel, input_set.inputs) == "ok", input_set.cases


@pytest.mark.parametrize("name", CASES)
def test_random_inputs_cross_pages_and_store_each_slot_once(name: str) -> None:
    problem, pages = CASES[name], set()
    for seed in range(8):
        slots = problem.slots_of(problem.random_inputs(seed))
        stored = slots[slots >= 0]
        assert len(set(stored)) == len(stored)
        pages |= {tuple(np.unique(stored // problem.page))}
    assert max(map(len, pages)) > 1


def test_kept_elements_keep_their_bits() -> None:
    """Compare bits instead of values, since NaN and zero have several bit patterns."""
    problem = CASES[SLOTS]
    inputs = problem.cache_cases(1)[0].inputs
    reference = problem.reference(inputs)
    outputs = {o.name: o.dtype.store(reference[o.name]) for o in problem.operands() if o.role != "input"}
    assert "bits" in check(problem, inputs, outputs).reason, "NaN elements were overwritten"
    for name, mask in problem.unchanged(inputs).items():
        outputs[name] = np.where(mask, inputs[name], outputs[name])
    assert check(problem, inputs, outputs).ok
    zero = tuple(np.argwhere(problem.unchanged(inputs)["k"])[0])
    inputs = {**inputs, "k": inputs["k"].copy()}
    inputs["k"][zero], outputs["k"][zero] = 0, 0x8000
    assert not check(problem, inputs, outputs).ok


FAULTS = {
    "slots of the first token": ('p.window(more["slots"], (token, 0)', 'p.window(more["slots"], (0, 0)', SLOTS),
    "eps is left out": (" + o.eps)", ")", SLOTS),
    "slots beyond the cache wrap": ("(slot >= 0) & (slot < k.shape[0] // g)", "slot >= 0", HEADS),
    "not divided by the scale": ("part if divisor is None else part / divisor", "part", TABLE),
    "keys with the weight of queries": ("p.where(head < h, of_q, of_k)", "of_q", SLOTS),
    "one head less is a query's": ("p.where(head < h, of_q, of_k)", "p.where(head < h - 1, of_q, of_k)", SLOTS),
    "a mean of half a head": ("(1.0 / d)", "(2.0 / d)", SLOTS),
    "values are normalised": ("(v, (low, high),", "(v, given,", SLOTS),
    "values are turned": ("(v, (low, high),", "(v, turned,", SLOTS),
    "turned the other way": ("cosines - pair[1] * sines", "cosines + pair[1] * sines", SLOTS),
    "cosines for sines": ("pair[1] * cosines + pair[0] * s", "pair[1] * sines + pair[0] * s", SLOTS),
    "positions of the first token": ("p.window(positions, (token, 0)", "p.window(positions, (0, 0)", SLOTS),
    "stored before the cache": ("(slot >= 0) & (slot < k.shape[0] // g)", "slot < k.shape[0] // g", SLOTS),
    "heads after the values": ("stored & (own >= 0) & (own < g), line", "stored & (own >= 0), line", SLOTS),
    "heads before the keys": ("stored & (own >= 0) & (own < g), line", "stored & (own < g), line", SLOTS),
    "every head in one line": ("line = slot * g + own if", "line = slot * g if", SLOTS),
    "values of the keys": ('"v_scale", h + g)', '"v_scale", h)', SLOTS),
    "the other order of heads": ("((slot // page) * g + own) * page + slot % page", "slot * g + own", HEADS),
    "the first page alone": ("((slot // page) * g + own) * page", "own * page", HEADS),
    "both halves in one": ("zip(parts, halves, strict=True)", "zip(parts, (0, 0), strict=True)", HEADS),
    "halves exchanged": ("zip(turned, halves, strict=True)", "zip(turned, halves[::-1], strict=True)", HEADS),
    "the place in the page is left out": ("number * page + row % page", "number * page", TABLE),
    "entries of twice the page": ("(of, row // page)", "(of, row // (2 * page))", TABLE),
    "pages of the first sequence": ("(of, row // page)", "(of * 0, row // page)", TABLE),
    "pages beyond the cache wrap": (" & (number < k.shape[0] // (g * page))", "", TABLE),
    "pages before the cache wrap": ("(row >= 0) & (number >= 0) &", "(row >= 0) &", TABLE),
    "multiplied by the scale": ("part / divisor", "part * divisor", TABLE),
    "the scale of another head": ("p.where(own < g, own, -1), (b", "p.where(own < g, own * 0, -1), (b", TABLE),
    "values with the scales of keys": ('v, (low, high), "v_scale"', 'v, (low, high), "k_scale"', TABLE),
}  # fmt: skip


@pytest.mark.parametrize(
    "fault", [f if i < 4 else pytest.param(f, marks=pytest.mark.nightly) for i, f in enumerate(FAULTS)]
)
def test_planted_faults_are_found(fault: str) -> None:
    old, new, case = FAULTS[fault]
    assert is_found(CASES[case], old, new)


@pytest.mark.parametrize("name", CASES)
def test_problems_round_trip_as_json(name: str) -> None:
    assert problem_from_json(CASES[name].to_json()) == CASES[name]


def test_the_byte_count_depends_on_the_tokens() -> None:
    """Neither the problem's minimum bytes nor the time model's DRAM bytes grow with the cache."""
    small, large = (QkNormRopeAppend(4, 8, 2, pages=pages) for pages in (2, 5000))
    template, chip = tile_template(QkNormRopeAppend), device("h100")
    (schedule,) = sampled(small, "h100", 1)
    counts = [template.counts(p, template.config(p, schedule, chip), chip).dram_bytes for p in (small, large)]  # type: ignore[misc]
    assert counts[0] == counts[1] >= small.min_bytes
    assert small.min_bytes == large.min_bytes == 2 * 4 * (12 + 2 + 2 + 8) * 128 + 4 * 4 * 128 + 2 * 4 * 4 + 2 * 2 * 128


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"head_size": 24}, "head_size"), ({"page": 24}, "page"), ({"sequences": 2}, "sequences"),
        ({"dtype": "f32"}, "dtype"), ({"cache": "i8"}, "cache"), ({"order": "pages"}, "order"),
        ({"pages": 2**27}, "cache"),
    ],
)  # fmt: skip
def test_invalid_problems_are_rejected(options: dict[str, object], name: str) -> None:
    with pytest.raises(ValueError, match=name):
        QkNormRopeAppend(4, 2, 1, **options)  # type: ignore[arg-type]
