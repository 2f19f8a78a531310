"""Row reductions and normalizations reject invalid fields. Their references are right, and tolerances are tight."""

from __future__ import annotations

import numpy as np
import pytest

from search_spaces.catalogue import operator, problem_from_json
from search_spaces.hardware.dtypes import FLOAT_DTYPES
from search_spaces.operators.row_reduction import KINDS, LayerNorm, Reduce, RmsNorm, RowProblem, Softmax

NORMALIZATIONS = (Softmax, RmsNorm, LayerNorm)


@pytest.mark.parametrize("kind", [Reduce, *NORMALIZATIONS])
@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"rows": 0}, "rows must be a whole number of at least 1"),
        ({"columns": -3}, "columns must be a whole number of at least 1"),
        ({"rows": True}, "rows must be"),
        ({"columns": 2.0}, "columns must be"),
        ({"columns": 2**30}, "columns must be under 2^30"),
        ({"rows": 2**29, "columns": 2**12}, "the array is too large"),
        ({"dtype": "f64"}, "unknown type 'f64': use one of f16, bf16, f32"),
        ({"out": "i8"}, "unknown type"),
    ],
)
def test_invalid_sizes_and_types_are_rejected_in_one_line(
    kind: type[RowProblem], fields: dict[str, object], says: str
) -> None:
    with pytest.raises(ValueError) as error:
        kind(**{"rows": 8, "columns": 8, **fields})  # type: ignore[arg-type]
    assert says in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"kind": "median"}, "unknown kind 'median': use one of sum"),
        ({"axis": "diagonal"}, "axis must be row or column"),
        ({"reduction_size": -1}, "reduction_size must be a whole number"),
        ({"reduction_size": 5}, "does not divide the 8 elements of a row"),
        ({"reduction_size": 3, "axis": "column"}, "does not divide the 8 elements of a column"),
        ({"kind": "argmax", "out": "f16"}, "out must be u32 for argmax"),
        ({"kind": "sum", "out": "u32"}, "unknown type 'u32'"),
    ],
)
def test_invalid_reductions_are_rejected(fields: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError) as error:
        Reduce(**{"rows": 8, "columns": 8, **fields})  # type: ignore[arg-type]
    assert says in str(error.value)


@pytest.mark.parametrize("eps", [-1.0, 1e-46, 1e31, float("nan"), float("inf"), True, "1"])
def test_invalid_eps_is_rejected(eps: object) -> None:
    with pytest.raises(ValueError, match="eps must be"):
        RmsNorm(8, 8, eps=eps)  # type: ignore[arg-type]


def test_a_single_column_has_no_variance() -> None:
    with pytest.raises(ValueError, match="eps must be positive if a row has one column"):
        LayerNorm(3, 1, eps=0.0)
    assert np.isfinite(LayerNorm(3, 1).reference(LayerNorm(3, 1).random_inputs(0))["out"]).all()


def test_options_of_the_command_line_make_the_problems() -> None:
    def problem_of(name: str, **options: object) -> object:
        row = operator(name)
        return row.make(**{o.field: o.default for o in row.options} | {"rows": 3, "columns": 4} | options)

    assert problem_of("softmax", dtype="bf16") == Softmax(3, 4, dtype="bf16", out="bf16") == Softmax(3, 4, dtype="bf16")
    assert problem_of("softmax", out="f32") == Softmax(3, 4, out="f32")
    assert problem_of("rmsnorm", eps=1e-6) == RmsNorm(3, 4, eps=1e-6)
    assert problem_of("layernorm") == LayerNorm(3, 4, eps=1e-5)
    assert problem_of("reduce", kind="argmax", dtype="f32") == Reduce(3, 4, dtype="f32", out="u32", kind="argmax")
    assert Reduce(3, 4, kind="argmax").out == "u32"
    assert problem_of("reduce", axis="column", reduction_size=3) == Reduce(3, 4, axis="column", reduction_size=3)
    with pytest.raises(ValueError, match="eps must be a number, not 'small'"):
        problem_of("rmsnorm", eps="small")


@pytest.mark.parametrize(
    "problem",
    [
        Softmax(3, 5, dtype="bf16"),
        RmsNorm(3, 5, eps=1e-6),
        LayerNorm(3, 5),
        Reduce(6, 8, kind="argmax", out="u32", axis="column", reduction_size=2),
    ],
)
def test_problems_survive_json(problem: RowProblem) -> None:
    assert problem_from_json(problem.to_json()) == problem
    assert problem_from_json(problem.to_json()).key() == problem.key()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("axis", "size", "shape"),
    [("row", 0, (6,)), ("row", 4, (6, 3)), ("column", 0, (12,)), ("column", 2, (3, 12))],
)
def test_reductions_are_the_definition_element_by_element(
    kind: str, axis: str, size: int, shape: tuple[int, ...]
) -> None:
    out = "u32" if kind == "argmax" else "f32"
    problem = Reduce(6, 12, dtype="f32", out=out, kind=kind, axis=axis, reduction_size=size)
    inputs = problem.random_inputs(0)
    actual = problem.reference(inputs)["out"]
    assert actual.shape == shape == problem.operands()[-1].shape
    x = inputs["x"].astype(np.float64)
    for index in np.ndindex(*shape):
        line = x[index[0]] if axis == "row" else x[:, index[-1]]
        part = index[-1] if axis == "row" else index[0]
        values = line if not size else line[part * size : (part + 1) * size]
        expected = {
            "sum": float(sum(values)),
            "mean": float(sum(values)) / len(values),
            "sumsq": float(sum(v * v for v in values)),
            "max": float(max(values)),
            "argmax": float(list(values).index(max(values))),
        }[kind]
        assert actual[index] == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_normalizations_are_the_definition() -> None:
    softmax, rms, layer = (kind(4, 7, dtype="f32", out="f32") for kind in NORMALIZATIONS)
    x = softmax.random_inputs(1)["x"].astype(np.float64)
    e = np.exp(x)
    assert softmax.reference(softmax.random_inputs(1))["out"] == pytest.approx(e / e.sum(1)[:, None], rel=1e-12)
    inputs = layer.random_inputs(1)
    x, w, b = (inputs[name].astype(np.float64) for name in ("x", "weight", "bias"))
    assert rms.reference(inputs)["out"] == pytest.approx(w * x / np.sqrt((x**2).sum(1)[:, None] / 7 + 1e-5), rel=1e-12)
    assert layer.reference(inputs)["out"] == pytest.approx(
        b + w * (x - x.mean(1)[:, None]) / np.sqrt(x.var(1)[:, None] + 1e-5), rel=1e-12
    )


def test_softmax_does_not_overflow_and_follows_numpy_at_the_ends() -> None:
    x = np.array([[1e4, 1e4 - 1, -1e4], [-np.inf] * 3, [np.inf, 0, 1], [np.nan, 0, 1], [-np.inf, 0, 0]], "f4")
    out = Softmax(5, 3, dtype="f32", out="f32").reference({"x": x})["out"]
    assert out[0] == pytest.approx([1 / (1 + np.exp(-1.0)), 1 / (1 + np.exp(1.0)), 0.0])
    assert np.isnan(out[1:4]).all()
    assert out[4] == pytest.approx([0, 0.5, 0.5])


@pytest.mark.parametrize("dtype", sorted(FLOAT_DTYPES))
@pytest.mark.parametrize("columns", [1, 64, 4096])
@pytest.mark.parametrize("kind", ["sum", "mean", "sumsq"])
def test_tolerance_admits_sequential_f32_sums_and_rejects_a_missing_element(
    dtype: str, columns: int, kind: str
) -> None:
    problem = Reduce(200, columns, dtype=dtype, out="f32", kind=kind)
    inputs = problem.random_inputs(1)
    reference, tolerance = problem.reference(inputs)["out"], problem.tolerance(inputs)["out"]
    x = FLOAT_DTYPES[dtype].load(inputs["x"]).astype(np.float32)
    terms = x * x if kind == "sumsq" else x
    totals = np.cumsum(terms, axis=1, dtype=np.float32)
    divisor = np.float32(columns if kind == "mean" else 1)
    assert (np.abs(totals[:, -1] / divisor - reference) <= tolerance).all()
    without_last = np.float64(totals[:, -1] - terms[:, -1]) / divisor
    assert (np.abs(without_last - reference) > tolerance).mean() > 0.6  # the missing element may be small


@pytest.mark.parametrize("dtype", ["bf16", "f32"])
def test_tolerance_admits_equal_rounding_errors_of_equal_terms(dtype: str) -> None:
    problem = Softmax(1, 262_502, dtype=dtype, out="f32")
    rng = np.random.default_rng(2)
    inputs = {"x": FLOAT_DTYPES[dtype].store(2.0 * rng.standard_normal((1, problem.columns)) - 200.0)}
    x = FLOAT_DTYPES[dtype].load(inputs["x"])[0]
    assert (np.unique(x).size < 32) is (dtype == "bf16"), "bf16 rounds these values to integers"
    reference, tolerance = problem.reference(inputs)["out"][0], problem.tolerance(inputs)["out"][0]
    terms = np.exp(x - x.max()).astype(np.float32)

    def result(terms: np.ndarray) -> np.ndarray:
        """Return the softmax of x if four threads add the terms one after another."""
        of_threads = terms[: terms.size // 4 * 4].reshape(-1, 4).cumsum(axis=0, dtype=np.float32)[-1]
        return np.exp(x - x.max()) / of_threads.sum(dtype=np.float64)

    assert (np.abs(result(terms) - reference) <= tolerance).all()
    without_chunk = np.abs(result(terms[: terms.size * 31 // 32]) - reference)
    assert (without_chunk > tolerance).mean() > 0.9, "a thirty-second of the row is missing"


@pytest.mark.parametrize("kind", NORMALIZATIONS)
@pytest.mark.parametrize("columns", [2, 1024])
def test_tolerance_of_normalizations_admits_f32_and_rejects_a_missing_element(
    kind: type[RowProblem], columns: int
) -> None:
    problem = kind(100, columns, dtype="f32", out="f32")
    inputs = problem.random_inputs(2)
    reference, tolerance = problem.reference(inputs)["out"], problem.tolerance(inputs)["out"]

    def single(x: np.ndarray) -> np.ndarray:
        if kind is Softmax:
            e = np.exp(inputs["x"] - x.max(1, keepdims=True))
            return e / np.exp(x - x.max(1, keepdims=True)).sum(1, keepdims=True)
        mean = x.mean(1, keepdims=True) if kind is LayerNorm else np.float32(0)
        scale = 1 / np.sqrt(np.square(x - mean).sum(1, keepdims=True) / np.float32(columns) + np.float32(1e-5))
        return (inputs["x"] - mean) * scale * inputs["weight"] + (inputs["bias"] if kind is LayerNorm else 0)

    x = inputs["x"]
    assert (np.abs(single(x) - reference) <= tolerance).all()
    assert (np.abs(single(x[:, :-1]) - reference) > tolerance).any(axis=1).mean() > 0.9


@pytest.mark.parametrize("kind", [RmsNorm, LayerNorm])
@pytest.mark.parametrize("out", ["f32", "bf16"])
def test_tolerance_of_normalizations_admits_two_roundings_of_subnormal_products(
    kind: type[RowProblem], out: str
) -> None:
    """The product x * scale is rounded to a multiple of 2^-149, and then multiplied by a possibly large weight."""
    problem = kind(64, 64, dtype="f32", out=out)
    rng = np.random.default_rng(3)
    inputs = {o.name: np.zeros(o.shape, np.float32) for o in problem.operands() if o.role == "input"}
    inputs["x"] = (rng.integers(-20000, 20001, (64, 64)) * 2.0**-149).astype(np.float32)
    inputs["weight"] = (300 * rng.standard_normal(64)).astype(np.float32)
    allowed, expected = problem.tolerance(inputs)["out"], problem.reference(inputs)["out"]
    mean = inputs["x"].mean(1, keepdims=True, dtype=np.float32) if kind is LayerNorm else np.float32(0)
    scaled = (inputs["x"] - mean) * np.float32(1 / np.sqrt(np.float32(1e-5)))
    actual = (scaled * inputs["weight"]).astype(np.float64)
    assert (np.abs(actual - expected) > 2.0**-149).any()
    assert (np.abs(actual - expected) <= allowed).all()
    if out == "f32":  # flushing subnormal inputs to zero is wrong
        assert (np.abs(expected) > allowed).mean() > 0.5


def test_maxima_are_exact_and_sums_of_squares_stay_inside_f16() -> None:
    problem = Reduce(20, 50, kind="max")
    assert (problem.tolerance(problem.random_inputs(0))["out"] == 0).all()
    problem = Reduce(1, 10**6, kind="sumsq")
    assert np.isfinite(problem.reference(problem.random_inputs(0))["out"]).all()
    assert (problem.reference(problem.random_inputs(0))["out"] < 65504).all()
