"""Products with weights of 4 and 8 bits are correct for all packings and options. Planted faults are reported."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tile_operator_checks import interpreted, is_found, kernel_of, outcome, sampled, sampled_with

from search_spaces.catalogue import problem_from_json
from search_spaces.tile_operators.packed_weights import int4_from_awq, int4_from_gptq, pack_int4, unpack_int4
from search_spaces.tile_operators.quantized_matmul import QuantizedMatmul

SMALL = QuantizedMatmul(m=5, n=130, k=256)
CASES = {
    "int4": SMALL,
    "zero points, bf16": replace(SMALL, zero_points=1, dtype="bf16"),
    "groups of 32": replace(SMALL, group=32, k=128, zero_points=1),
    "groups of 64": replace(SMALL, group=64, m=20),
    "many rows": replace(SMALL, m=140, group=32, zero_points=1, dtype="bf16"),
    "one scale a column": replace(SMALL, group=0),
    "int8": replace(SMALL, weights="int8", group=0),
    "int8 in groups": replace(SMALL, weights="int8", group=64),
    "e4m3, bf16": replace(SMALL, weights="e4m3", dtype="bf16"),
    "nvf4": replace(SMALL, weights="nvf4", group=16),
    "nvf4, bf16": replace(SMALL, weights="nvf4", group=16, dtype="bf16", m=20),
    "nvf4, packed": replace(SMALL, weights="nvf4", group=16, k=192, layout="fragments"),
    "int4, packed": replace(SMALL, layout="fragments"),
    "zero points, bf16, packed": replace(SMALL, zero_points=1, dtype="bf16", group=64, layout="fragments"),
    "int8, packed": replace(SMALL, weights="int8", group=0, layout="fragments"),
    "e4m3, packed": replace(SMALL, weights="e4m3", group=64, layout="fragments"),
}
MODELS = {  # slices of weight matrices of models' projection layers
    "llama 3 8B, qkv": QuantizedMatmul(m=16, n=192, k=512),
    "llama 3 70B, down": QuantizedMatmul(m=1, n=128, k=1024, group=128, zero_points=1, dtype="bf16"),
    "llama 3 8B, gate, packed": QuantizedMatmul(m=4, n=176, k=512, layout="fragments"),
    "qwen 3, gate": QuantizedMatmul(m=33, n=96, k=256, group=64, zero_points=1),
    "deepseek v3, e4m3": QuantizedMatmul(m=70, n=136, k=384, weights="e4m3", dtype="bf16"),
}


def numbers(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 16, shape)


def test_many_rows_scale_weights_before_they_multiply() -> None:
    problem = CASES["many rows"]
    assert outcome(problem, kernel_of(problem, "a100", sampled(problem, "a100", 1)[0])) == "ok"
    (schedule,) = sampled_with(problem, "h100", 1, intrinsic="wgmma_m64k16_bf16")
    assert outcome(problem, kernel_of(problem, "h100", schedule)) == "ok"
    assert is_found(problem, *FAULTS["weights have the scale of their iteration's first group"][:2])


def test_packing_is_undone() -> None:
    weights = numbers((6, 192))
    assert np.array_equal(unpack_int4(pack_int4(weights)), weights)
    for wrong in (weights[:, :100], weights + 1, weights[0]):
        with pytest.raises(ValueError, match="weights must"):
            pack_int4(wrong)


@pytest.mark.parametrize("name", ["int4, packed", "e4m3, packed"])
def test_fragments_are_the_bytes_of_a_lane(name: str) -> None:
    problem = CASES[name]
    order, shape = problem.format.order, (problem.format.rows(problem.n), problem.format.columns(problem.k))
    assert order is not None
    positions = np.arange(shape[0] * shape[1]).reshape(shape)
    packed = order.pack(positions)
    assert np.array_equal(order.unpack(packed, shape), positions)
    a_lane = 16 // problem.operand("w").dtype.bytes
    rows, columns = packed[0, 37 * a_lane : 38 * a_lane] // shape[1], packed[0, 37 * a_lane : 38 * a_lane]
    assert set(rows.tolist()) == {1, 9}  # lane 5 holds rows g = 1 and g + 8
    assert len(set((columns % shape[1]).tolist())) == a_lane // 2


def test_kernels_pack_weights() -> None:
    problem, rng = CASES["int4, packed"], np.random.default_rng(5)
    w = rng.integers(-(2**31), 2**31, (problem.n, problem.k // 8), dtype=np.int64).astype(np.int32)
    packed = problem.pack(w)
    assert packed.shape == problem.operand("w").shape
    inputs = problem.random_inputs(1) | {"w": packed}
    plain = replace(problem, layout="rows")
    assert np.array_equal(problem.reference(inputs)["out"], plain.reference(inputs | {"w": w})["out"])
    assert np.array_equal(plain.pack(w), w)
    with pytest.raises(ValueError, match="w must be"):
        problem.pack(w[:5])


def words(columns: np.ndarray, order: tuple[int, ...]) -> np.ndarray:
    """Pack eight 4-bit columns into each word (rows, columns / 8). Bits 4 i to 4 i + 3 hold column ``order[i]``."""
    eight = columns.astype(np.uint32).reshape(len(columns), -1, 8)
    packed = sum(eight[:, :, column] << np.uint32(4 * i) for i, column in enumerate(order))
    return np.asarray(packed, dtype=np.uint32).view(np.int32)


@pytest.mark.parametrize("kind", ["awq", "gptq", "gptq_v2"])
def test_checkpoints_are_decoded_as_their_format_specifies(kind: str) -> None:
    k, n, group = 128, 16, 64
    weights, zeros = numbers((k, n)), np.random.default_rng(2).integers(1, 16, (k // group, n))
    scales = np.random.default_rng(3).uniform(0.01, 0.1, (k // group, n)).astype(np.float16)
    if kind == "awq":
        order = (0, 2, 4, 6, 1, 3, 5, 7)
        actual = int4_from_awq(words(weights, order), words(zeros, order), scales)
    else:
        straight, less = tuple(range(8)), 1 if kind == "gptq" else 0
        of_rows = words(weights.T, straight).T
        actual = int4_from_gptq(
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
    out = problem.reference({"x": x, "w": actual[0], "scale": actual[1], "zeros": actual[2]})["out"]
    of_rows = np.arange(k) // group
    expected = x.astype(np.float64) @ ((weights - zeros[of_rows]) * scales.astype(np.float64)[of_rows])
    assert np.allclose(out, expected, rtol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_the_interpreter_agrees_with_numpy(name: str) -> None:
    assert interpreted(CASES[name], 2)


@pytest.mark.parametrize("name", ["zero points, bf16", "groups of 32", "int4, packed", "e4m3, packed", "nvf4, bf16"])
def test_some_sampled_schedules(name: str) -> None:
    for schedule in sampled(CASES[name], "h100", 2):
        assert outcome(CASES[name], kernel_of(CASES[name], "h100", schedule)) == "ok", schedule


@pytest.mark.nightly
@pytest.mark.parametrize("gpu", ["a100", "h100"])
@pytest.mark.parametrize("name", [*CASES, *MODELS])
def test_sampled_schedules(name: str, gpu: str) -> None:
    problem = (CASES | MODELS)[name]
    for schedule in sampled(problem, gpu, 10):
        assert outcome(problem, kernel_of(problem, gpu, schedule)) == "ok", schedule


LONG = {  # so long that each block that shares k has several iterations
    "many turns": replace(SMALL, n=70, k=35 * 64, group=64),
    "many turns, one scale": replace(SMALL, n=70, k=35 * 64, group=0),
}
FAULTS = {
    "another middle": ("MIDDLE = 8", "MIDDLE = 7", "int4"),
    "numbers of another place": (
        "first // DEPTH, (first",
        "0, depth // DEPTH) if first else range(first // DEPTH, (first",
        "groups of 32",
    ),
    "the scale of the first group": (
        "factors) * self.factor(row, rows, here)",
        "factors) * self.factor(row, rows, 0)",
        "int4",
    ),
    "sums of groups are not kept apart": (
        "depth = min(f.sum_group or columns, columns)",
        "depth = columns",
        "groups of 32",
    ),
    "a scale too many": (
        "return sums if self.format.sum_group",
        "return sums if not self.format.sum_group",
        "one scale a column",
    ),
    "zero points of the first group": ("column = here // f.group if f.group else 0", "column = 0", "groups of 32"),
    "scales keep what f16 is times": ("scales * (1 / TIMES)", "scales * 1.0", "int4"),
    "scales of bf16 are divided, too": (
        '"int4" and f.dtype == "f16" else scales',
        '"int4" else scales',
        "zero points, bf16",
    ),
    "packed weights read as rows": ("w if of.order is None", "w if True", "int4, packed"),
    "bytes in the order of words": (
        "FRAGMENT_WORDS if self.in_words else FRAGMENT_BYTES",
        "FRAGMENT_WORDS",
        "e4m3, packed",
    ),
    "words of the next span": ("+ row, at // 8)", "+ row, at // 8 + 8)", "int4"),
    "rows of x of another tile": ("(j, at), (bm, depth)", "(j + 1, at), (bm, depth)", "int4"),
    "columns of x of the first part": ("factors = part(here, depth)", "factors = part(at, depth)", "groups of 32"),
    "sums of a turn are lost": (
        "sums + p.mma(numbers, factors) *",
        "p.mma(numbers, factors) *",
        "many turns",
    ),
    "weights have the scale of their iteration's first group": (
        'numbers.cast("f32") * self.factor(row, rows, here)',
        'numbers.cast("f32") * self.factor(row, rows, at)',
        "many rows",
    ),
    "products of a turn are lost": (
        "p.mma(numbers, factors, sums)",
        "p.mma(numbers, factors)",
        "many turns, one scale",
    ),
    "zero points of another row": ("zeros, (row, column)", "zeros, (row + 1, column)", "zero points, bf16"),
    "scales of another row": ("scale, (row, column)", "scale, (row + 1, column)", "int4"),
    "scales of the next group": ("column = at // f.group if", "column = at // f.group + 1 if", "groups of 64"),
    "a group has twice as many": (
        "column = at // f.group if",
        "column = at // (2 * f.group) if",
        "groups of 64",
    ),
    "weights of the first part": ("+ row, here)", "+ row, 0)", "int8"),
    "the result is transposed": ("(i, j), (bn, bm), turned=True))", "(i + 1, j), (bn, bm), turned=True))", "int8"),
    "half of the columns": ("p.blocks((n, m), (bn, bm))", "p.blocks((n // 2, m), (bn, bm))", "int8"),
    "half of the turns": ("p.split(k, bk,", "p.split(k // 2, bk,", "e4m3, bf16"),
    "zero points are not subtracted": ("zero=zero, times", "zero=MIDDLE, times", "zero points, bf16"),
    "scales of the first sixteen": ("steps = here // FP4_GROUP", "steps = here * 0", "nvf4"),
    "no global scale": ("self.number), (1, 1))) * 2.0", "self.number), (1, 1))) * 0.0 + 2.0", "nvf4, bf16"),
    "no scale without groups": ("else sums * self.factor(row, rows, 0)", "else sums", "one scale a column"),
}


@pytest.mark.parametrize(
    "fault", [f if i in (1, 3, 8) else pytest.param(f, marks=pytest.mark.nightly) for i, f in enumerate(FAULTS)]
)
def test_planted_faults_are_found(fault: str) -> None:
    old, new, case = FAULTS[fault]
    assert is_found((CASES | LONG)[case], old, new)


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


def test_weights_have_the_names_of_types() -> None:
    assert replace(SMALL, weights="nvfp4", group=16) == replace(SMALL, weights="nvf4", group=16)
    assert replace(SMALL, weights="int8", group=0).weights == "int8"
