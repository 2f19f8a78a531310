"""Weights of 4 and 8 bits: packing, checkpoints, options and planted faults."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tile_operator_checks import interpreted, is_found, kernel_of, outcome, sampled

from search_spaces.catalogue import problem_from_json
from search_spaces.tile_operators.packed_weights import int4_from_awq, int4_from_gptq, pack_int4, unpack_int4
from search_spaces.tile_operators.quantized_matmul import QuantizedMatmul

SMALL = QuantizedMatmul(m=5, n=130, k=256)
CASES = {
    "int4": SMALL,
    "zero points, bf16": replace(SMALL, zero_points=1, dtype="bf16"),
    "groups of 32": replace(SMALL, group=32, k=128, zero_points=1),
    "groups of 64": replace(SMALL, group=64, m=20),
    "one scale a column": replace(SMALL, group=0),
    "int8": replace(SMALL, weights="int8", group=0),
    "int8 in groups": replace(SMALL, weights="int8", group=64),
    "e4m3, bf16": replace(SMALL, weights="e4m3", dtype="bf16"),
}
MODELS = {  # slices of projections
    "llama 3 8B, qkv": QuantizedMatmul(m=16, n=192, k=512),
    "llama 3 70B, down": QuantizedMatmul(m=1, n=128, k=1024, group=128, zero_points=1, dtype="bf16"),
    "qwen 3, gate": QuantizedMatmul(m=33, n=96, k=256, group=64, zero_points=1),
    "deepseek v3, e4m3": QuantizedMatmul(m=70, n=136, k=384, weights="e4m3", dtype="bf16"),
}


def numbers(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 16, shape)


def test_packing_is_undone() -> None:
    weights = numbers((6, 192))
    assert np.array_equal(unpack_int4(pack_int4(weights)), weights)
    for wrong in (weights[:, :100], weights + 1, weights[0]):
        with pytest.raises(ValueError, match="weights must"):
            pack_int4(wrong)


def words(columns: np.ndarray, order: tuple[int, ...]) -> np.ndarray:
    """Return (rows, columns / 8) words with column ``order[i]`` of eight at bits 4 i on."""
    eight = columns.astype(np.uint32).reshape(len(columns), -1, 8)
    found = sum(eight[:, :, column] << np.uint32(4 * i) for i, column in enumerate(order))
    return np.asarray(found, dtype=np.uint32).view(np.int32)


@pytest.mark.parametrize("kind", ["awq", "gptq", "gptq_v2"])
def test_checkpoints_compute_what_their_format_says(kind: str) -> None:
    k, n, group = 128, 16, 64
    weights, zeros = numbers((k, n)), np.random.default_rng(2).integers(1, 16, (k // group, n))
    scales = np.random.default_rng(3).uniform(0.01, 0.1, (k // group, n)).astype(np.float16)
    if kind == "awq":
        order = (0, 2, 4, 6, 1, 3, 5, 7)
        found = int4_from_awq(words(weights, order), words(zeros, order), scales)
    else:
        straight, less = tuple(range(8)), 1 if kind == "gptq" else 0
        of_rows = words(weights.T, straight).T
        found = int4_from_gptq(
            np.ascontiguousarray(of_rows),
            words(zeros - less, straight),
            scales,
            np.arange(k) // group,
            stored_zero=less,
        )
        with pytest.raises(ValueError, match="g_idx"):
            int4_from_gptq(of_rows, words(zeros, straight), scales, np.arange(k)[::-1] // group)
    problem = QuantizedMatmul(m=3, n=n, k=k, group=group, zero_points=1)
    x = np.random.default_rng(4).standard_normal((3, k)).astype(np.float16)
    out = problem.reference({"x": x, "w": found[0], "scale": found[1], "zeros": found[2]})["out"]
    of_rows = np.arange(k) // group
    wanted = x.astype(np.float64) @ ((weights - zeros[of_rows]) * scales.astype(np.float64)[of_rows])
    assert np.allclose(out, wanted, rtol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_the_interpreter_agrees_with_numpy(name: str) -> None:
    assert interpreted(CASES[name], 2)


@pytest.mark.parametrize("name", ["zero points, bf16", "groups of 32", "e4m3, bf16"])
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


FAULTS = {
    "another middle": ("MIDDLE = 8", "MIDDLE = 7", "int4"),
    "numbers of another place": ("p.nibbles(words, e,", "p.nibbles(words, e ^ 1,", "int4"),
    "the scale of the first group": ("return sums * factor(at)", "return sums * factor(0)", "int4"),
    "sums of groups are not kept apart": ("(e * DEPTH) % o.group == 0", "e == 0", "groups of 32"),
    "a scale too many": ("result = acc if o.group", "result = acc if not o.group", "one scale a column"),
    "zero points of the first group": ("column = here // o.group if o.group else 0", "column = 0", "groups of 32"),
}  # fmt: skip


@pytest.mark.parametrize(
    "fault", [f if i in (1, 3) else pytest.param(f, marks=pytest.mark.nightly) for i, f in enumerate(FAULTS)]
)
def test_planted_faults_are_found(fault: str) -> None:
    old, new, case = FAULTS[fault]
    assert is_found(CASES[case], old, new)


def test_json_and_refusals() -> None:
    assert problem_from_json(SMALL.to_json()) == SMALL
    for wrong in ({"k": 200}, {"group": 48}, {"weights": "int2"}, {"dtype": "f32"}, {"m": 0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            replace(SMALL, **wrong)
    with pytest.raises(ValueError, match="zero_points"):
        replace(SMALL, weights="int8", group=0, zero_points=1)


@pytest.mark.parametrize("name", CASES)
def test_a_call_is_a_problem(name: str) -> None:
    problem = CASES[name]
    shapes, types = ({o.name: getattr(o, of) for o in problem.operands()} for of in ("shape", "dtype"))
    assert QuantizedMatmul.of_arrays(shapes, {n: t.name for n, t in types.items()}) == problem
