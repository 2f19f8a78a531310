"""Fused operators on rows, such as norms, routers and cross entropy, are correct. Planted faults are reported."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tile_operator_checks import interpreted, is_found, kernel_of, outcome, sampled

from search_spaces.catalogue import problem_from_json
from search_spaces.tile_operators.cross_entropy import CrossEntropy, CrossEntropyBackward
from search_spaces.tile_operators.linear_cross_entropy import LinearCrossEntropy, LinearCrossEntropyDlogits
from search_spaces.tile_operators.qk_norm_rope import QkNormRope
from search_spaces.tile_operators.rmsnorm_quantize import RmsNormQuantize
from search_spaces.tile_operators.router_topk import RouterTopK
from search_spaces.tile_operators.tile_problem import TileProblem

CASES: dict[str, TileProblem] = {
    "norm and quantisation": RmsNormQuantize(6, 200),
    "norm and rotary positions": QkNormRope(3, 5, 32, length=20),
    "rotary positions": QkNormRope(3, 8, 64, length=20, norm=0, dtype="f16"),
    "router": RouterTopK(9, 60, top=6),
    "router, parts of all": RouterTopK(9, 64, top=3, renormalize=0, dtype="bf16"),
    "cross entropy": CrossEntropy(5, 1300),
    "its gradient": CrossEntropyBackward(5, 1300),
    "a linear layer and cross entropy": LinearCrossEntropy(70, 1200, 40),
    "the gradient of its logits": LinearCrossEntropyDlogits(70, 150, 72, dtype="f16"),
}
MODELS: dict[str, TileProblem] = {  # shapes of models, with few tokens
    "llama 3 8B, norm": RmsNormQuantize(3, 4096),
    "qwen 3, norm and rotary positions": QkNormRope(3, 8, 128, length=64),
    "qwen 3 30B, router": RouterTopK(5, 128, top=8, dtype="bf16"),
    "deepseek v3, router": RouterTopK(3, 256, top=8),
    "llama 3, cross entropy": CrossEntropy(2, 16032),
    "llama 3, gradient of cross entropy": CrossEntropyBackward(2, 16032, dtype="f32"),
    "llama 3, linear layer and cross entropy": LinearCrossEntropy(66, 1000, 256),
    "llama 3, gradient of its logits": LinearCrossEntropyDlogits(66, 500, 256),
}


@pytest.mark.parametrize("name", CASES)
def test_the_interpreter_agrees_with_numpy(name: str) -> None:
    assert interpreted(CASES[name], 2)


SAMPLED = [
    "norm and quantisation", "norm and rotary positions", "router", "cross entropy", "its gradient",
    "a linear layer and cross entropy", "the gradient of its logits",
]  # fmt: skip


@pytest.mark.parametrize("name", SAMPLED)
def test_a_sampled_schedule(name: str) -> None:
    for schedule in sampled(CASES[name], "h100", 1):
        assert outcome(CASES[name], kernel_of(CASES[name], "h100", schedule)) == "ok", schedule


@pytest.mark.parametrize("name", ["norm and quantisation", "norm and rotary positions"])
def test_one_kernel_serves_every_eps(name: str) -> None:
    """Kernels for other values of eps differ only in their launch, since eps is passed by value."""
    problem = CASES[name]
    (schedule,) = sampled(problem, "h100", 1)
    other = replace(problem, eps=0.75)  # type: ignore[call-arg]
    kernel = kernel_of(other, "h100", schedule)
    assert kernel.source == kernel_of(problem, "h100", schedule).source
    assert outcome(other, kernel) == "ok"


@pytest.mark.nightly
@pytest.mark.parametrize("name", [*CASES, *MODELS])
def test_sampled_schedules_and_edge_cases(name: str) -> None:
    problem = (CASES | MODELS)[name]
    for schedule in sampled(problem, "a100", 5):
        assert outcome(problem, kernel_of(problem, "a100", schedule)) == "ok", schedule
    kernel = kernel_of(problem, "h100", sampled(problem, "h100", 1)[0])
    for input_set in problem.stress_inputs(1):
        assert outcome(problem, kernel, input_set.inputs) == "ok", input_set.cases


LINEAR = "a linear layer and cross entropy"
FAULTS = {
    "the scale of a wrong type": ("1.0 / LARGEST), LEAST", "1.0 / 240.0), LEAST", "norm and quantisation"),
    "padding counts in the mean": ("(1.0 / n)", "(1.0 / width)", "norm and quantisation"),
    "the residual is left out": ("added = both[0] + both[1]", "added = both[0] + both[0]", "norm and quantisation"),
    "turned the other way": ("cosines - high * sines).cast", "cosines + high * sines).cast", "rotary positions"),
    "the first token's position": ("p.window(positions, (token, 0)", "p.window(positions, (0, 0)", "rotary positions"),
    "a mean of half a head": ("(1.0 / d)", "(2.0 / d)", "norm and rotary positions"),
    "the last of equal logits": ('"minsi", p.where((left == most) & (columns < n), columns, NONE)',
                                 '"maxsi", p.where((left == most) & (columns < n), columns, -NONE)', "router"),
    "weights of all": ("if not o.renormalize", "if o.renormalize", "router"),
    "ignored labels count": ("p.where(counts, sums - own, 0.0)", "sums - own", "cross entropy"),
    "sums are not rescaled": ("total * fade + p", "total + p", "cross entropy"),
    "the label keeps its share": (" == wanted, 1.0, 0.0)", " == wanted, 0.0, 0.0)", "its gradient"),
    "ignored rows have gradients": ("p.where(counts, (p.exp2", "p.where(counts | True, (p.exp2", "its gradient"),
    "columns after the last count": ("logits = p.where(columns < n, _product(p, x, w, (i, j), (bm, PART, bk)), -inf)",
                                      "logits = _product(p, x, w, (i, j), (bm, PART, bk))", LINEAR),
    "parts are not rescaled": ('"add", totals * p.exp2((tops - centre) * LOG2_E)', '"add", totals', LINEAR),
    "earlier parts are not rescaled": ("total.set(total * fade +", "total.set(total +", LINEAR),
    "the label's logit is that of the last part": ("own.set(own + p.red", "own.set(p.red", LINEAR),
    "every part at one place": ("(i, j // PART), (bm, 1), turned", "(i, 0), (bm, 1), turned", LINEAR),
    "labels of all parts": ("(columns == wanted) & (columns < n)",
                            "(columns % PART == wanted % PART) & (columns < n)", LINEAR),
    "a stale maximum": ("        top.set(peak)\n", "", LINEAR),
    "natural powers": ("p.exp2((_product(p, x, w, (i, j), (bm, bn, bk)) - sums) * LOG2_E)",
                       "p.exp2(_product(p, x, w, (i, j), (bm, bn, bk)) - sums)", "the gradient of its logits"),
    "the losses' gradients are left out": ("- own) * scale, 0.0)", "- own) * 1.0, 0.0)", "the gradient of its logits"),
    "the square of the sum of both": ("added * added", "both[0] * both[0]", "norm and quantisation"),
    "a sum for the mean": ("dim=1) * (1.0 / n)", "dim=1) * 1.0", "norm and quantisation"),
    "the norm without eps": ("p.rsqrt(mean + o.eps)", "p.rsqrt(mean)", "norm and quantisation"),
    "the norm without weight": (
        ' * p.load(p.window(weight, (0, 0), (1, width))).cast("f32")',
        "", "norm and quantisation",
    ),
    "the scale of signed numbers": ("p.absolute(norm)", "norm", "norm and quantisation"),
    "the total before the residual": (
        "p.store(added.cast(o.dtype)",
        "p.store(both[0].cast(o.dtype)", "norm and quantisation",
    ),
    "the scale of half": ("(1.0 / LARGEST), LEAST", "(0.5 / LARGEST), LEAST", "norm and quantisation"),
    "a scale of 0": (", LEAST_SCALE)\n        p.store(most", ", 0.0)\n        p.store(most", "norm and quantisation"),
    "the norm is not divided": ("(norm / most).cast", "norm.cast", "norm and quantisation"),
    "the norm is multiplied": ("(norm / most).cast", "(norm * most).cast", "norm and quantisation"),
    "the sum is divided": ("(norm / most).cast", "(added / most).cast", "norm and quantisation"),
    "rows of another block": ("p.window(scale, (i, 0)", "p.window(scale, (0, 0)", "norm and quantisation"),
    "the sum of the largest": (
        'p.reduction("maximumf", sizes, dim=1)',
        'p.reduction("add", p.where(sizes < 0.0, 0.0, sizes), dim=1)', "norm and quantisation",
    ),
    "a root of the norm": (
        "p.rsqrt(squares * (1.0 / d) + o.eps)",
        "1.0 / (squares * (1.0 / d) + o.eps)", "norm and rotary positions",
    ),
    "one half's squares": ("low * low + high * high", "low * low + low * low", "norm and rotary positions"),
    "the norm without its eps": (" + o.eps)", ")", "norm and rotary positions"),
    "one half's weight": (
        "p.window(weight, (0, at), (1, half))",
        "p.window(weight, (0, 0), (1, half))", "norm and rotary positions",
    ),
    "heads of the first block": ("p.window(x[token], (i, at)", "p.window(x[token], (0, at)", "rotary positions"),
    "the first token alone": ("p.window(x[token], (i, at)", "p.window(x[0], (i, at)", "rotary positions"),
    "cosines for sines": (
        "(high * cosines + low * sines).cast",
        "(high * sines + low * cosines).cast", "rotary positions",
    ),
    "the halves exchanged": (
        "p.window(out[token], (i, half), (bh, half))",
        "p.window(out[token], (i, 0), (bh, half))", "rotary positions",
    ),
    "angles of the next position": ("padding=-1)", "padding=-1) + 1", "rotary positions"),
    "cosines of both": (
        "for at in (0, half))\n        p.store",
        "for at in (0, 0))\n        p.store", "rotary positions",
    ),
    "the first row of angles": ("p.window(table, (row, at)", "p.window(table, (row * 0, at)", "rotary positions"),
    "padding is chosen": ("(left == most) & (columns < n)", "left == most", "router"),
    "an expert is chosen again": (
        "left = p.where(columns == at, -inf, left)",
        "left = p.where(columns == at, left, left)", "router",
    ),
    "all equal logits leave": (
        "left = p.where(columns == at, -inf, left)",
        "left = p.where(left == most, -inf, left)", "router",
    ),
    "the least is chosen": (
        'most = p.reduction("maximumf", left, dim=1)',
        'most = p.reduction("minimumf", left, dim=1)', "router",
    ),
    "natural powers of logits": ("p.exp2((most - peak) * LOG2_E)", "p.exp2(most - peak)", "router"),
    "weights without the maximum": ("p.exp2((most - peak) * LOG2_E)", "p.exp2(most * LOG2_E)", "router"),
    "weights add up one less": ("total + chosen[-1]", "total", "router"),
    "weights in the first place": ("p.window(weight, (i, n_th)", "p.window(weight, (i, 0)", "router"),
    "experts in reverse": ("p.window(expert, (i, n_th)", "p.window(expert, (i, o.top - 1 - n_th)", "router"),
    "padding of zeros": ("padding=-inf", "padding=0.0", "router"),
    "all logits to the base 2": ("p.exp2((row - peak) * LOG2_E)", "p.exp2(row - peak)", "router, parts of all"),
    "a stale maximum of rows": ("            top.set(peak)\n", "", "cross entropy"),
    "the fade to another base": (
        "fade = p.exp2((top - centre) * LOG2_E)",
        "fade = p.exp2(top - centre)", "cross entropy",
    ),
    "padding of zeros counts": ("(bm, width)), padding=-inf)", "(bm, width)), padding=0.0)", "cross entropy"),
    "a maximum of -infinity": ("centre = p.where(peak == -inf, 0.0, peak)", "centre = peak", "cross entropy"),
    "the label of the tile": (
        "(p.columns(j, width) == wanted) &",
        "(p.columns(0, width) == wanted) &", "cross entropy",
    ),
    "the logarithm without the maximum": (" + p.where(top == -inf, 0.0, top)", "", "cross entropy"),
    "logarithms to the base 2": ("p.log2(total) * (1.0 / LOG2_E)", "p.log2(total)", "cross entropy"),
    "the loss is negative": ("sums - own, 0.0)", "own - sums, 0.0)", "cross entropy"),
    "the last label's logit": ("own.set(own + p.reduction", "own.set(p.reduction", "cross entropy"),
    "a column too many": ("for j in p.steps(n, width)", "for j in p.steps(n - width, width)", "cross entropy"),
    "shares to another base": (
        "(p.exp2((tile - sums) * LOG2_E) - own)",
        "(p.exp2(tile - sums) - own)", "its gradient",
    ),
    "the gradient of the losses is left out": (" - own) * scale, 0.0)", " - own) * 1.0, 0.0)", "its gradient"),
    "the label of the first tile": (
        "p.where(p.columns(j, width) == wanted, 1.0",
        "p.where(p.columns(0, width) == wanted, 1.0", "its gradient",
    ),
    "1 is added for the label": ("* LOG2_E) - own) * scale", "* LOG2_E) + own) * scale", "its gradient"),
    "all rows have the first gradient": (
        "p.load(p.window(array, (i, 0), (bm, 1), column=True)) for array in (lse, dloss)",
        "p.load(p.window(array, (0, 0), (bm, 1), column=True)) for array in (lse, dloss)", "its gradient",
    ),
    "sums and gradients exchanged": ("for array in (lse, dloss)", "for array in (dloss, lse)", "its gradient"),
    "columns of the first tile": (
        "p.window(logits, (i, j), (bm, width))).cast",
        "p.window(logits, (i, 0), (bm, width))).cast", "its gradient",
    ),
    "the label of the first columns": (
        "p.where(p.columns(j, bn) == wanted",
        "p.where(p.columns(0, bn) == wanted", "the gradient of its logits",
    ),
    "1 is added to the label's share": (
        "(shares - own) * scale",
        "(shares + own) * scale", "the gradient of its logits",
    ),
    "rows without a label count": (
        "p.where(counts, (shares",
        "p.where(counts | True, (shares", "the gradient of its logits",
    ),
    "columns in the first tile": (
        "p.window(dlogits, (i, j), (bm, bn))",
        "p.window(dlogits, (i, 0), (bm, bn))", "the gradient of its logits",
    ),
    "the sums are not subtracted": (
        "(bm, bn, bk)) - sums) * LOG2_E)",
        "(bm, bn, bk))) * LOG2_E)", "the gradient of its logits",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "fault", [f if i in (1, 6, 14) else pytest.param(f, marks=pytest.mark.nightly) for i, f in enumerate(FAULTS)]
)
def test_planted_faults_are_found(fault: str) -> None:
    old, new, case = FAULTS[fault]
    assert is_found(CASES[case], old, new)


@pytest.mark.parametrize("name", CASES)
def test_problems_round_trip_as_json(name: str) -> None:
    assert problem_from_json(CASES[name].to_json()) == CASES[name]


def test_equal_logits_choose_the_first() -> None:
    outputs = RouterTopK(1, 6, top=3).reference({"logits": np.array([[1, 3, 3, 0, 3, 2]], dtype=np.float32)})
    assert outputs["expert"].tolist() == [[1, 2, 4]]


@pytest.mark.parametrize(("name", "output"), [("cross entropy", "lse"), ("norm and quantisation", "scale")])
def test_rows_of_several_outputs_are_parts(name: str, output: str) -> None:
    problem, rows = CASES[name], np.array([1, 3])
    inputs = problem.random_inputs(1)
    (part,) = problem.further_parts(output, rows)
    assert part.outputs[output].tolist() == rows.tolist()
    values, bounds = part.problem.expected({n: inputs[n].reshape(-1)[at] for n, at in part.inputs.items()})
    assert (np.abs(values[output] - problem.reference(inputs)[output][rows]) <= bounds[output]).all()


def test_edge_cases_have_indices_and_labels_at_the_ends_of_their_ranges() -> None:
    rope, loss = CASES["rotary positions"], CASES["cross entropy"]
    positions = np.concatenate([input_set.inputs["positions"] for input_set in rope.stress_inputs(1)])
    labels = np.concatenate([input_set.inputs["label"] for input_set in loss.stress_inputs(1)])
    assert {-1, 0, 19, 20} <= set(positions.tolist()) and {-1, 0, 1299, 1300} <= set(labels.tolist())


def test_invalid_problems_are_rejected() -> None:
    for make, name in (
        (lambda: RmsNormQuantize(2, 20000), "columns"),
        (lambda: QkNormRope(2, 2, 24), "head_size"),
        (lambda: RouterTopK(2, 8, top=9), "top"),
        (lambda: RouterTopK(2, 600), "experts"),
        (lambda: CrossEntropy(2, 8, dtype="i8"), "dtype"),
    ):
        with pytest.raises(ValueError, match=name):
            make()


def test_some_rows_are_minus_infinity_up_to_their_last_elements() -> None:
    sets = CrossEntropy(rows=32, columns=3000).stress_inputs(0)
    assert "one finite" in {case for input_set in sets for case in input_set.cases}
