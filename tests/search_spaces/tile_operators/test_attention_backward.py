"""Gradients of attention agree with finite differences. Schedules are correct, and planted faults are reported."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from tile_operator_checks import interpreted, is_found, kernel_of, outcome, sampled, sampled_with

from cost_models.analytic import busy, predict
from search_spaces.catalogue import problem_from_json
from search_spaces.hardware.devices import device
from search_spaces.tile_operators.attention_backward import AttentionBackward
from search_spaces.tile_operators.tile_template import tile_template

SMALL = AttentionBackward(batch=2, heads=4, kv_heads=2, queries=100, head_size=32, dtype="f16")
CASES = {
    "heads of their own": replace(SMALL, kv_heads=4),
    "groups": SMALL,
    "causal": replace(SMALL, causal=1),
    "window after a prefix": replace(SMALL, causal=1, window=33, keys=130),
    "more queries than keys": replace(SMALL, causal=1, keys=60),
    "fewer keys, full": replace(SMALL, keys=60, scale=0.4),
    "one query": replace(SMALL, queries=1, keys=70, causal=1),
    "soft cap": replace(SMALL, soft_cap=1.5, keys=60),
    "slopes": replace(SMALL, alibi=1, causal=1, keys=130),
    "packed": replace(SMALL, packed=1, batch=3, causal=1),
    "packed, all options": replace(
        SMALL, packed=1, batch=3, queries=80, keys=80, kv_heads=1, causal=1, window=30, soft_cap=2.0, alibi=1
    ),
}
MODELS = {  # shapes of models, reduced to one group of heads and few positions
    "llama 3 8B": AttentionBackward(batch=1, heads=4, kv_heads=1, queries=200, causal=1),
    "heads of 64": AttentionBackward(batch=1, heads=2, kv_heads=2, queries=150, head_size=64),
}


@pytest.mark.parametrize("name", CASES)
def test_the_interpreter_agrees_with_numpy(name: str) -> None:
    assert interpreted(CASES[name], 2)


@pytest.mark.parametrize("name", ["causal", "window after a prefix", "fewer keys, full", "packed, all options"])
def test_the_reference_is_the_gradient_of_attention(name: str) -> None:
    """Compare with central differences of the forward reference along random directions, in float64."""
    keys = 9 if CASES[name].packed else 11 if CASES[name].causal else 7
    problem = replace(CASES[name], batch=1, queries=9, keys=keys, dtype="f16", head_size=16)
    problem = replace(problem, window=min(problem.window, 4))
    inputs = problem.random_inputs(3)
    gradients, rng, step = problem.reference(inputs), np.random.default_rng(4), 2.0**-6
    gradient = np.asarray(problem.operand("do").dtype.load(inputs["do"]), dtype=np.float64)
    exact = problem.loaded(inputs)
    forward = replace(problem.forward, dtype="f16")

    def loss(moved: dict[str, np.ndarray]) -> float:
        with pytest.MonkeyPatch.context() as patch:  # keep float64, since the problem's type would round
            patch.setattr(type(forward), "loaded", lambda _, values: values)
            return float((forward.reference(moved)["out"] * gradient).sum())

    for name, of in (("q", "dq"), ("k", "dk"), ("v", "dv")):
        direction = rng.standard_normal(exact[name].shape)
        ahead, back = ({**exact, name: exact[name] + sign * step * direction} for sign in (1, -1))
        numeric = (loss(ahead) - loss(back)) / (2 * step)
        exact_slope = float((gradients[of] * direction).sum())
        # errors: rounding of o and lse, and the finite difference
        assert numeric == pytest.approx(exact_slope, rel=0.02, abs=0.02)


SAMPLED = 4  # schedules for each GPU by default; 200 nightly
# Several tests share this problem, since counting its schedules takes longer than running a few of them.
SAMPLED_PROBLEM = replace(CASES["window after a prefix"], batch=1, heads=2, kv_heads=1)
WGMMA = {"queries_intrinsic": "wgmma_m64k16_f16", "keys_intrinsic": "wgmma_m64k16_f16"}


@pytest.mark.parametrize("gpu", ["a100", "h100"])
def test_some_sampled_schedules(gpu: str) -> None:
    problem = SAMPLED_PROBLEM
    schedules = sampled(problem, gpu, SAMPLED)
    if gpu == "h100":
        schedules[SAMPLED // 2 :] = sampled_with(problem, gpu, SAMPLED - SAMPLED // 2, **WGMMA)
    for schedule in schedules:
        assert outcome(problem, kernel_of(problem, gpu, schedule)) == "ok", schedule


def test_a_sampled_schedule_of_packed_sequences() -> None:
    problem = replace(CASES["packed, all options"], heads=1)
    assert outcome(problem, kernel_of(problem, "a100", sampled(problem, "a100", 1)[0])) == "ok"


@pytest.mark.nightly
@pytest.mark.parametrize("gpu", ["a100", "h100"])
@pytest.mark.parametrize("name", [*CASES, *MODELS])
def test_sampled_schedules(name: str, gpu: str) -> None:
    problem, count = (CASES | MODELS)[name], 11 if gpu == "a100" else 6
    schedules = sampled(problem, gpu, count)
    if gpu == "h100":
        way = f"wgmma_m64k16_{problem.dtype}"
        schedules += sampled_with(problem, gpu, count, **dict.fromkeys(WGMMA, way))
    for schedule in schedules:
        assert outcome(problem, kernel_of(problem, gpu, schedule)) == "ok", schedule


def test_a_pipeline_is_two_launches_with_costs_of_both() -> None:
    problem, chip, template = SAMPLED_PROBLEM, device("h100"), tile_template(AttentionBackward)
    schedule = next(s for s in sampled_with(problem, "h100", 50, **WGMMA) if s.values["keys_filled_by"] == "warp")
    kernel = kernel_of(problem, "h100", schedule)
    assert [step.name for step in kernel.steps] == [
        "autosched_attention_backward_queries",
        "autosched_attention_backward_keys",
    ]
    assert {o.name: o.role for o in kernel.operands}["delta"] == "workspace"
    assert outcome(problem, kernel) == "ok"
    assert template.counts is not None
    counts = template.counts(problem, template.config(problem, schedule, chip), chip)
    first, (second,) = replace(counts, then=()), counts.then
    assert predict(counts, chip) == pytest.approx(predict(first, chip) + predict(second, chip))
    one, other = busy(first, chip), busy(second, chip)
    assert all(min(one[n], other[n]) <= part <= max(one[n], other[n]) for n, part in busy(counts, chip).items())


def test_a_reduced_problem_has_the_schedule() -> None:
    problem = replace(SMALL, batch=4, heads=32, kv_heads=8, queries=2000, keys=0, causal=1)
    template = tile_template(AttentionBackward)
    for schedule in sampled(CASES["causal"], "a100", 3):
        assert template.proxy is not None
        smaller = template.proxy(problem, schedule)
        assert (smaller.batch, smaller.heads, smaller.kv_heads) == (2, 4, 2)
        assert smaller.queries % 16 == problem.queries % 16
        assert smaller.queries < 1000
        template.space(smaller, device("a100")).valid.validate(schedule)


def test_edge_cases_follow_from_attention() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        input_sets = list(replace(SMALL, queries=20, batch=1, causal=1).stress_inputs(1))
    assert len(input_sets) > 3
    assert all(set(case.inputs) == {"q", "k", "v", "o", "lse", "do"} for case in input_sets)


OF_CASES = {  # text of the program, and its replacement
    "causal": {
        "keys see the query before": (
            "p.rows(j, bt) <= p.columns(i + offset, bs)",
            "p.rows(j, bt) <= p.columns(i + offset + 1, bs)",
        ),
        "queries see the next key": (
            "(columns <= rows)",
            "(columns <= rows + 1)",
        ),
        "early queries are left out": (
            "p.maximum(j - begin - offset, 0) // bs if",
            "(p.maximum(j - begin - offset, 0) // bs + 1) if",
        ),
        "the last keys are left out": (
            "i + (bm + offset)) if",
            "i + offset) if",
        ),
    },
    "window after a prefix": {
        "the window is one too long": (
            "offset - options.window), bm)",
            "offset - options.window - 1), bm)",
        ),
        "the window is one too short for keys": (
            "j + options.window, bt)",
            "j + options.window - 1, bt)",
        ),
        "the last queries are left out": (
            "bs - 2 - offset), 0)",
            "bs - 2 - offset - bs), 0)",
        ),
    },
    "groups": {
        "gradients without the sums": (
            "e * (change - of_result) if bend is None else e * (change - of_result) * bend\n        acc",
            "e * change\n        acc",
        ),
        "sums are added": (
            "e * (change - of_result) if bend is None else e * (change - of_result) * bend\n        sum_of_values",
            "e * (change + of_result)\n        sum_of_values",
        ),
        "dq without the scale": (
            "p.store((acc * (options.scale or d**-0.5))",
            "p.store((acc * 1.0)",
        ),
        "dk without the scale": (
            "((sum_of_keys * scale, dk)",
            "((sum_of_keys * 1.0, dk)",
        ),
        "dv with the scale": (
            "(sum_of_values, dv)",
            "(sum_of_values * scale, dv)",
        ),
        "one head of the group": (
            "stop * group, 1, first=first * group",
            "stop, 1, first=first",
        ),
        "heads of another group": (
            "kv_head * group + iteration % group",
            "kv_head + iteration % group",
        ),
        "keys of another group": (
            "head // (h // g), span.at",
            "head % g, span.at",
        ),
        "queries walk too slowly": (
            "iteration // group * bs",
            "iteration // (group + 1) * bs",
        ),
        "sums of products with q": (
            'gradient.cast("f32") * result.cast("f32")',
            'gradient.cast("f32") * query.cast("f32")',
        ),
        "delta of another head": (
            "p.window(of_delta, (head, i), (1, bs))",
            "p.window(of_delta, (0, i), (1, bs))",
        ),
        "delta is stored for one head": (
            "p.window(of_delta, (i, head), (bm, 1), turned=True)",
            "p.window(of_delta, (i, 0), (bm, 1), turned=True)",
        ),
        "logarithms of another head": (
            "p.window(of_sequence, (head, i), (1, bs)), padding=inf)",
            "p.window(of_sequence, (0, i), (1, bs)), padding=inf)",
        ),
        "logarithms to another base": (
            "(1, bs)), padding=inf) * LOG2_E",
            "(1, bs)), padding=inf)",
        ),
        "exponents to another base": (
            "return scores * (scale * LOG2_E), None",
            "return scores * scale, None",
        ),
        "dv of slopes": (
            "p.mma(e.cast(options.dtype), gradient, sum_of_values)",
            "p.mma(e.cast(options.dtype), query, sum_of_values)",
        ),
        "dq of values": (
            "p.mma(slope.cast(options.dtype), keys, acc)",
            "p.mma(slope.cast(options.dtype), values, acc)",
        ),
        "dk of the first tile alone": (
            "sum_of_keys.set(p.mma(slope.cast(options.dtype), query, sum_of_keys))",
            "sum_of_keys.set(p.mma(slope.cast(options.dtype), query))",
        ),
    },
    "soft cap": {
        "the derivative of the cap is left out": (
            "e * (change - of_result) if bend is None else e * (change - of_result) * bend\n        acc",
            "e * (change - of_result)\n        acc",
        ),
        "the derivative of the cap is left out for keys": (
            "e * (change - of_result) if bend is None else e * (change - of_result) * bend\n        sum_of_values",
            "e * (change - of_result)\n        sum_of_values",
        ),
        "the derivative of another function": ("1.0 - share * share", "1.0 - share"),
        "scores are not scaled before the cap": ("scores * (scale / o.soft_cap)", "scores * (1.0 / o.soft_cap)"),
    },
    "slopes": {
        "distances the other way": (
            "p.rows(j, bt) - p.columns(i + offset, bs), slopes",
            "p.columns(i + offset, bs) - p.rows(j, bt), slopes",
        ),
        "distances from the first query": (
            "p.rows(j, bt) - p.columns(i + offset, bs), slopes",
            "p.rows(j, bt) - p.columns(i, bs), slopes",
        ),
        "the slope of the first head": (
            "(0, head), (1, 1))) if options.alibi else None\n    acc",
            "(0, 0), (1, 1))) if options.alibi else None\n    acc",
        ),
    },
    "packed": {
        "the next sequence's queries count": ("p.columns(i, bs) < p.rows(last, 1)", "p.columns(i, bs) < s"),
        "dq of the next sequence is overwritten": ("of_queries(dq), **span.below)", "of_queries(dq))"),
        "dk of the next sequence is overwritten": ("of_keys(to), **span.below)", "of_keys(to))"),
        "tiles begin at the first sequence": ("p.minimum(begin + tile, queries)", "p.minimum(tile, queries)"),
        "the first queries of all": ("begin + iteration // group * bs", "iteration // group * bs"),
    },
}
FAULTS = {name: (*texts, case) for case, faults in OF_CASES.items() for name, texts in faults.items()}


@pytest.mark.nightly
@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_found(fault: str) -> None:
    old, new, case = FAULTS[fault]
    assert is_found(CASES[case], old, new)


@pytest.mark.parametrize("fault", ["delta of another head", "early queries are left out", "dk without the scale"])
def test_some_planted_faults_are_found(fault: str) -> None:
    old, new, case = FAULTS[fault]
    assert is_found(CASES[case], old, new)


def test_edge_cases_agree_with_kernels() -> None:
    problem = replace(SMALL, batch=1, heads=1, kv_heads=1, queries=40, causal=1)
    kernel = kernel_of(problem, "a100", sampled(problem, "a100", 1)[0])
    for case in problem.stress_inputs(1):
        assert outcome(problem, kernel, case.inputs) == "ok", case.cases


@pytest.mark.parametrize("name", CASES)
def test_json_and_calls(name: str) -> None:
    problem = CASES[name]
    assert problem_from_json(problem.to_json()) == problem
    inputs = [o for o in problem.operands() if o.role == "input"]
    options = {name: getattr(problem, name) for name in AttentionBackward.call_options}
    shapes, types = {o.name: o.shape for o in inputs}, {o.name: o.dtype.name for o in inputs}
    assert AttentionBackward.of_arrays(shapes, types, **options) == problem


def test_invalid_problems_are_rejected() -> None:
    for wrong in (
        {"kv_heads": 3},
        {"head_size": 136},
        {"head_size": 40},
        {"dtype": "f32"},
        {"window": 3},
        {"causal": 2},
        {"soft_cap": -1.0},
        {"keys": 5, "packed": 1},
    ):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            replace(SMALL, **wrong)
