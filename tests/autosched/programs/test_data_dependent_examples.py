"""Emulated example programs that access data-dependent positions agree with numpy code."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from cases import representative, spread
from program_outcome import outcome

from autosched.programs.loading import load_program, problem
from search_spaces.arrays import FloatArray
from search_spaces.hardware.devices import device
from search_spaces.programs.language.scalar_inputs import scalar_inputs
from search_spaces.programs.problem import ProgramProblem
from search_spaces.programs.template import template

EXAMPLES = Path(__file__).parents[3] / "examples" / "programs"
SIZES = {
    "decode_attention": {"b": 3, "g": 2, "r": 4, "d": 32, "pages": 7, "page": 32, "entries": 3},
    "decode_small_pages": {"b": 3, "g": 2, "r": 4, "d": 32, "positions": 150, "width": 64, "entries": 7},
    "grouped_matmul": {"m": 200, "k": 72, "n": 72, "e": 5, "ends": 6},
    "moe_matmul": {"t": 50, "k": 72, "n": 72, "e": 4, "rows": 140, "tiles": 3},
    "variable_length_attention": {"h": 4, "g": 2, "total": 190, "d": 32, "ends": 5},
}
Inputs = Mapping[str, FloatArray]


def example_problem(name: str) -> ProgramProblem:
    return problem(load_program(str(EXAMPLES / f"{name}.py")), **SIZES[name])


def loaded(p: ProgramProblem, seed: int) -> dict[str, FloatArray]:
    """Return random inputs as float64."""
    types = {o.name: o.dtype for o in p.operands()}
    return {name: types[name].load(np.asarray(array)) for name, array in p.random_inputs(seed).items()}


def softmax(scores: FloatArray) -> FloatArray:
    exponentials: FloatArray = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def decode_attention(x: Inputs) -> FloatArray:
    out = np.zeros_like(x["q"])
    for b, length in enumerate(x["lengths"].astype(int)):
        pages = x["table"][b].astype(int)
        for g in range(out.shape[1]):
            keys, values = (x[name][pages, g].reshape(-1, out.shape[3])[:length] for name in "kv")
            if length:
                out[b, g] = softmax(x["q"][b, g] @ keys.T / out.shape[3] ** 0.5) @ values
    return out


def decode_small_pages(x: Inputs) -> FloatArray:
    out = np.zeros_like(x["q"])
    d, page = out.shape[3], 16
    for b, length in enumerate(x["lengths"].astype(int)):
        positions = (x["table"][b].astype(int)[:, None] * page + np.arange(page)).reshape(-1)[:length]
        inside = (positions < len(x["k"]))[:, None]  # elements that no page holds are 0
        for g in range(out.shape[1] if length else 0):
            keys, values = (np.where(inside, x[n][positions % len(x[n]), d * g : d * (g + 1)], 0.0) for n in "kv")
            out[b, g] = softmax(x["q"][b, g] @ keys.T / d**0.5) @ values
    return out


def grouped_matmul(x: Inputs) -> FloatArray:
    ends = x["offsets"].astype(int)
    return np.concatenate([x["a"][ends[g] : ends[g + 1]] @ w for g, w in enumerate(x["w"])])


def moe_matmul(x: Inputs) -> FloatArray:
    tokens, experts = x["token"].astype(int), x["expert"].astype(int)
    rows = np.where((tokens >= 0) & (tokens < len(x["x"])), tokens, -1)
    gathered = np.concatenate([x["x"], np.zeros((1, x["x"].shape[1]))])[rows]
    return np.stack([row @ x["w"][experts[i // 64]] for i, row in enumerate(gathered)])


def variable_length_attention(x: Inputs) -> FloatArray:
    out, ends = np.zeros_like(x["q"]), x["offsets"].astype(int)
    shared = len(x["q"]) // len(x["k"])
    for first, end in itertools.pairwise(ends):
        before = np.tril(np.ones((end - first, end - first))) == 0
        for h, query in enumerate(x["q"]):
            keys, values = (x[name][h // shared][first:end] for name in "kv")
            scores = query[first:end] @ keys.T / out.shape[2] ** 0.5
            if end > first:
                out[h, first:end] = softmax(np.where(before, -np.inf, scores)) @ values
    return out


REFERENCES = {
    f.__name__: f for f in (decode_attention, decode_small_pages, grouped_matmul, moe_matmul, variable_length_attention)
}


@pytest.mark.parametrize("name", SIZES)
def test_the_interpreter_matches_numpy(name: str) -> None:
    p = example_problem(name)
    for seed in range(3):
        (values,), (bounds,) = (tuple(of.values()) for of in p.expected(p.random_inputs(seed)))
        assert np.all(np.abs(values - REFERENCES[name](loaded(p, seed))) <= bounds)


@pytest.mark.parametrize(("name", "gpu"), spread(itertools.product(SIZES, ("a100", "h100", "t4", "b200")), 6))
def test_sampled_schedules(name: str, gpu: str, nightly: bool) -> None:
    p, target = example_problem(name), device(gpu)
    kernel_template = template(p.program)
    assert kernel_template.why_not(p, target) is None
    for schedule in kernel_template.space(p, target).sample(3 if nightly else 1, 1):
        assert outcome(p, kernel_template.kernel(p, schedule, target)) == "ok", schedule


OTHER_EXAMPLES = ("argmax", "cumulative_sum", "dropout", "int4_matmul", "quantize_rows", "sliding_window")


@pytest.mark.parametrize("name", [*SIZES, *OTHER_EXAMPLES])
def test_examples_are_short(name: str) -> None:
    lines = (EXAMPLES / f"{name}.py").read_text("utf-8").splitlines()
    assert sum(bool(line.strip()) for line in lines) < 40


@pytest.mark.parametrize("name", representative(SIZES, "decode_small_pages", "variable_length"))
def test_edges_of_lengths_offsets_experts_and_pages(name: str) -> None:
    p, a100 = example_problem(name), device("a100")
    kernel_template, scalars = template(p.program), scalar_inputs(p.usual_trace())
    kernel = kernel_template.kernel(p, kernel_template.space(p, a100).sample(1, 4)[0], a100)
    tried = set[tuple[str, str]]()
    for stress in p.stress_inputs(1):
        array, _, case = stress.cases[0].partition(": ")
        if array not in scalars:
            break  # the remaining cases take long to build
        assert outcome(p, kernel, stress.inputs) == "ok", stress.cases
        tried.add((array, case))
    cases = ("least", "one", "largest", "descending", "alternating")
    assert all({(array, case) for case in cases} & tried for array in scalars)
    assert set(cases) <= {case for _, case in tried}


def test_tokens_that_threads_gather_to_boxes_of_wgmma() -> None:
    made_of = load_program(str(EXAMPLES / "moe_matmul.py"))
    p, h100 = problem(made_of, t=50, k=200, n=264, e=4, rows=140, tiles=3), device("h100")
    kernel_template = template(made_of)
    schedule = next(s for s in kernel_template.space(p, h100).sample(1000, 1) if "wgmma" in s.text("intrinsic"))
    assert outcome(p, kernel_template.kernel(p, schedule, h100)) == "ok"
