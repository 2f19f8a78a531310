"""Row reduction kernels: sampled schedules emulated and compiled, extreme inputs, determinism, rules."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from cases import representative, spread
from compiling import compile_many, shared_pool
from kernels import generate
from static_asserts import asserted_rules

from autosched.verify.schedules import verify_one
from measurements.compiler.pool import CompileFailure
from measurements.emulator import emulate
from measurements.trials.comparison import check
from search_spaces.arrays import Array, FloatArray
from search_spaces.hardware.devices import device
from search_spaces.hardware.dtypes import FLOAT_DTYPES
from search_spaces.operators.row_reduction import LayerNorm, Reduce, RmsNorm, RowProblem, Softmax
from search_spaces.spaces.parameters import Value
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.row_reduction.space import space, validity_constraints
from search_spaces.templates.row_reduction.template import ROW_REDUCTION

H200 = device("h200")
SAMPLED: tuple[RowProblem, ...] = (
    Softmax(37, 1000),
    Softmax(3, 777, dtype="bf16", out="f32"),
    RmsNorm(5, 2056, dtype="bf16", out="f16"),
    LayerNorm(9, 516, dtype="f32", out="f16"),
    Reduce(30, 512, kind="argmax", out="u32", dtype="bf16"),
    Reduce(7, 5000, kind="sumsq", dtype="f32", out="f32"),
    Reduce(10, 640, kind="mean", reduction_size=64),
    Reduce(301, 77, kind="sum", axis="column", dtype="bf16", out="f32"),
    Reduce(400, 72, kind="max", axis="column", reduction_size=50),
    Reduce(10**6, 1, kind="max"),
    Reduce(1, 10**6, kind="sum", dtype="f32", out="f32"),
    Reduce(1, 1),
)
BASE: dict[str, Value] = {
    "lanes_k": 32, "subgroups_k": 2, "subgroups_m": 1, "batch": 1, "vector_x": 1, "peel": "no", "unroll": 2,
    "split_k": 1, "finish": "last_block",
    "row_staging": "reload", "passes": "one", "cache_hint_x": "none", "cache_hint_out": "none", "min_blocks": 1,
}  # fmt: skip


def name_of(problem: RowProblem) -> str:
    return f"{problem.operator}-{problem.rows}x{problem.columns}-{problem.dtype}"


# Kernels in which the blocks of a cluster share a row. The cases differ in the number of passes, the row's staging in
# registers or shared memory, the words of the reduction's state (one to three), the row length, and the rows per block.
CLUSTERS: dict[str, tuple[RowProblem, dict[str, Value]]] = {
    "softmax": (Softmax(3, 8192, dtype="f32"), {"vector_x": 4, "split_k": 4, "row_staging": "registers"}),
    "softmax, two passes": (Softmax(5, 4096), {"vector_x": 8, "split_k": 2, "passes": "two", "row_staging": "shared"}),
    "rmsnorm, peeled": (RmsNorm(7, 5001, dtype="bf16"), {"vector_x": 8, "peel": "yes", "split_k": 8}),
    "layernorm, a lane a row": (
        LayerNorm(70, 96, dtype="f32"),
        {"lanes_k": 1, "subgroups_k": 1, "unroll": 4, "split_k": 4, "row_staging": "shared"}
    ),
    "layernorm, two passes": (
        LayerNorm(9, 2000), {"lanes_k": 8, "subgroups_m": 2, "passes": "two", "vector_x": 2, "split_k": 2, "batch": 2}
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CLUSTERS)
def test_blocks_of_a_cluster_share_rows(case: str) -> None:
    problem, changes = CLUSTERS[case]
    values: dict[str, Value] = {**BASE, "finish": "cluster", "unroll": 1, "row_staging": "registers", **changes}
    schedule = Schedule("row_reduction", tuple(values.items()))
    kernel = generate(problem, schedule, H200)
    assert kernel.cluster == (changes["split_k"], 1, 1)
    assert not any(argument.name == "partials" for argument in kernel.arguments)
    outcome = verify_one(ROW_REDUCTION, problem, schedule, H200, seed=4)
    assert outcome.ok, outcome.reason


@pytest.mark.parametrize(
    "problem",
    representative(SAMPLED, "softmax-37", "rmsnorm", "layernorm", "reduce-30x512", "reduce-1x1000000", ids=name_of),
    ids=name_of,
)
def test_sampled_schedules_are_right(problem: RowProblem, nightly: bool) -> None:
    sampled = space(problem, H200)
    for schedule in sampled.sample(min(12 if nightly else 3, sampled.count()), seed=11):
        outcome = verify_one(ROW_REDUCTION, problem, schedule, H200, seed=4)
        assert outcome.ok, (schedule.values, outcome.reason)


def run(problem: RowProblem, changes: dict[str, Value], inputs: dict[str, Array]) -> FloatArray:
    schedule = Schedule.from_json("row_reduction", {**BASE, **changes})
    result = emulate(generate(problem, schedule, H200), inputs)
    assert result.status == "ok", result.reason
    return problem.out_dtype.load(result.outputs["out"])


ROUTES: list[dict[str, Value]] = [
    {},
    {"passes": "two"},
    {"row_staging": "registers", "unroll": 1},
    {"row_staging": "shared", "vector_x": 4, "passes": "two"},
    {"lanes_k": 4, "vector_x": 4, "unroll": 1},
    {"split_k": 4},
    {"split_k": 4, "finish": "second_launch"},
    {"vector_x": 4, "peel": "yes"},
    {"vector_x": 4, "peel": "yes", "split_k": 2, "unroll": 1},
    {"vector_x": 4, "peel": "yes", "row_staging": "shared", "passes": "two"},
    {"vector_x": 4, "peel": "yes", "row_staging": "registers", "unroll": 1, "batch": 2},
]


@pytest.mark.parametrize("finish", ["last_block", "second_launch"])
def test_repeated_calls_on_the_same_memory_match_the_reference(finish: str) -> None:
    """Each call overwrites the outputs and resets the kernel's counter. A kernel of two launches counts as one call."""
    problem = Softmax(3, 2000, dtype="f32", out="f32")
    schedule = Schedule.from_json("row_reduction", {**BASE, "split_k": 4, "finish": finish})
    kernel, inputs = generate(problem, schedule, H200), problem.random_inputs(0)
    assert kernel.launches == (2 if finish == "second_launch" else 1)
    for calls in (2, 3):
        emulation = emulate(kernel, inputs, calls=calls)
        assert emulation.ok and check(problem, inputs, emulation.outputs).ok, emulation.reason


@pytest.mark.parametrize(
    ("changes", "dtype"),
    spread(itertools.product(ROUTES, ["f16", "bf16", "f32"]), 10),
    ids=lambda c: c if isinstance(c, str) else "-".join(f"{k}={v}" for k, v in c.items()) or "plain",
)
def test_softmax_at_the_ends_of_the_number_line(dtype: str, changes: dict[str, Value]) -> None:
    """Inputs of 1e4 do not overflow; infinities and NaN at every position give the same results as numpy's formula."""
    columns = 261 if changes.get("peel") == "yes" else 260
    x = np.random.default_rng(0).standard_normal((12, columns)).astype(np.float32)
    x[0] = 1e4
    x[1] = np.linspace(-1e4, 1e4, columns)
    x[2] = -np.inf
    x[3, :-1] = -np.inf  # one finite element after elements of -infinity
    x[4, 1:] = -np.inf
    x[5, 100] = np.inf
    x[6, columns - 1] = np.nan
    x[7, 0] = np.nan
    x[8, 100:] = -np.inf
    x[9, 3] = -np.inf
    x[10] = -6e4
    problem = Softmax(12, columns, dtype=dtype, out="f32")
    inputs = {"x": problem.input_dtype.store(x)}
    expected, allowed = problem.reference(inputs)["out"], problem.tolerance(inputs)["out"]
    actual = run(problem, changes, inputs)
    assert (np.isnan(actual) == np.isnan(expected)).all()
    is_number = ~np.isnan(expected)
    assert (np.abs(actual - expected)[is_number] <= allowed[is_number]).all()
    assert np.isnan(expected).all(axis=1).tolist() == [i in (2, 5, 6, 7) for i in range(12)]


@pytest.mark.parametrize(
    ("kind", "axis"),
    representative(
        itertools.product(["sum", "mean", "sumsq", "max", "argmax"], ["row", "column"]),
        "sum-row",
        "sumsq-column",
        "max-row",
        "max-column",
        "argmax",
    ),
)
def test_reductions_propagate_nan_and_infinity_like_numpy(kind: str, axis: str) -> None:
    """An argmax returns the first of equal elements, NaN wins every maximum, and rows of -infinity have an argmax."""
    length = 130
    x = np.random.default_rng(1).standard_normal((10, length)).astype(np.float32)
    x[0, [7, 99]] = np.nan
    x[1] = -np.inf
    x[2, 129] = np.inf
    x[3, [5, 6]] = np.inf, -np.inf
    x[4] = 3.0
    x[5, [40, 41, 80]] = 50.0
    x[6, :64] = -np.inf
    x[7, 129] = np.nan
    x[8] = -0.0
    x[9, [0, 1]] = 1e4
    x = x if axis == "row" else np.ascontiguousarray(x.T)
    problem = Reduce(*x.shape, dtype="f32", out="u32" if kind == "argmax" else "f32", kind=kind, axis=axis)
    expected, allowed = problem.reference({"x": x})["out"], problem.tolerance({"x": x})["out"]
    routes = ({}, {"lanes_k": 4, "subgroups_k": 4, "vector_x": 2}, {"split_k": 4, "unroll": 1}, {"batch": 2})
    for changes in (
        *routes,
        *(({"vector_x": 4, "peel": "yes", "split_k": s} for s in (1, 2)) if axis == "row" else ()),
    ):
        actual = run(problem, changes, {"x": x})  # type: ignore[arg-type]
        finite = np.isfinite(expected)
        assert np.array_equal(actual[~finite], expected[~finite], equal_nan=True), changes
        assert (np.abs(actual[finite] - expected[finite]) <= allowed[finite]).all(), changes


def routes_of(problem: RowProblem) -> list[dict[str, Value]]:
    """Return the ROUTES that fit a problem.

    Routes with peeling fit rows whose length is not a multiple of 4. The other routes fit rows whose length is a
    multiple of 4. Routes with two passes fit if the operator has two passes.
    """
    peel = "yes" if problem.columns % 4 else "no"
    return [c for c in ROUTES if c.get("peel", "no") == peel and ("passes" not in c or len(problem.passes) == 2)]


@pytest.mark.parametrize("columns", [96, 97])
@pytest.mark.parametrize("kind", [RmsNorm, LayerNorm])
def test_normalizations_spread_nan_only_over_its_row(kind: type[RowProblem], columns: int) -> None:
    problem = kind(4, columns, dtype="f32", out="f32")
    inputs = problem.random_inputs(0)
    inputs["x"] = inputs["x"].copy()
    inputs["x"][1, columns - 1] = np.nan
    inputs["x"][2, 0] = np.inf
    expected = problem.reference(inputs)["out"]
    for changes in routes_of(problem):
        actual = run(problem, changes, inputs)
        assert (np.isnan(actual) == np.isnan(expected)).all()
        assert np.isnan(actual[1]).all() and not np.isnan(actual[[0, 3]]).any()


@pytest.mark.parametrize("columns", [640, 641])
def test_layernorm_of_values_far_from_zero_keeps_its_digits(columns: int) -> None:
    """If the mean is 3000 standard deviations, the mean of squares minus the squared mean would be noise in f32."""
    problem = LayerNorm(3, columns, dtype="f32", out="f32")
    inputs = problem.random_inputs(5)
    inputs["x"] = inputs["x"] + np.float32(3000.0)
    expected, allowed = problem.reference(inputs)["out"], problem.tolerance(inputs)["out"]
    for changes in routes_of(problem):
        actual = run(problem, changes, inputs)
        assert (np.abs(actual - expected) <= np.maximum(allowed, 2e-3)).all(), changes


def test_peeled_rows_ask_for_fewer_vectors_of_no_more_sectors() -> None:
    """A row of 777 f16 spans 98 or 99 vectors of eight. Only the first and the last are read element by element."""
    problem = Softmax(8, 777)
    inputs = problem.random_inputs(0)

    def loads(changes: dict[str, Value]) -> tuple[int, int]:
        result = emulate(generate(problem, Schedule.from_json("row_reduction", {**BASE, **changes}), H200), inputs)
        sites = [s for s in result.global_sites if s.instruction.startswith("ld")]
        return sum(s.requests for s in sites), sum(s.sectors for s in sites)

    plain = loads({"row_staging": "registers", "unroll": 1})
    peeled = loads({"row_staging": "registers", "unroll": 1, "vector_x": 8, "peel": "yes"})
    assert peeled[0] < 0.7 * plain[0] and peeled[1] <= plain[1]


def test_split_rows_add_up_the_same_way_every_time() -> None:
    problem = Reduce(2, 4000, dtype="f32", out="f32")
    inputs = problem.random_inputs(3)
    first, second = (run(problem, {"split_k": 8}, inputs) for _ in range(2))
    assert (first == second).all()


BROKEN: list[tuple[RowProblem, dict[str, Value], str, tuple[str, str]]] = [
    (Softmax(8, 77), {"vector_x": 2}, "vector_alignment", ("int vector_x = 1;", "int vector_x = 2;")),
    (
        Softmax(8, 77),
        {"row_staging": "shared"},
        "staging_width",
        ('row_staging = "reload"', 'row_staging = "shared"'),
    ),
    (
        Softmax(8, 77),
        {"row_staging": "registers", "split_k": 2},
        "split_staging",
        ("int split_k = 1;", "int split_k = 2;"),
    ),
    (Softmax(8, 77), {"split_k": 128}, "split_filled", ("int split_k = 1;", "int split_k = 128;")),
    (
        Softmax(8, 77),
        {"subgroups_k": 32, "subgroups_m": 2},
        "threads",
        ("int subgroups_k = 2;", "int subgroups_k = 64;"),
    ),
]


@pytest.mark.parametrize(("problem", "changes", "rule", "edit"), BROKEN, ids=[b[2] for b in BROKEN])
def test_the_rule_and_the_static_assert_agree(
    problem: RowProblem, changes: dict[str, Value], rule: str, edit: tuple[str, str]
) -> None:
    with pytest.raises(ValueError, match=f"^{rule}: "):
        generate(problem, Schedule.from_json("row_reduction", {**BASE, **changes}), H200)
    base: dict[str, Value] = {"row_staging": "registers", "unroll": 1} if rule == "split_staging" else {}
    kernel = generate(problem, Schedule.from_json("row_reduction", {**BASE, **base}), H200)
    assert edit[0] in kernel.source
    source = kernel.source.replace(*edit).replace(
        "int chunk = 77;", "int chunk = 40;" if "split_k" in rule else "int chunk = 77;"
    )
    result = shared_pool().compile(dataclasses.replace(kernel, source=source), H200.arch)
    assert isinstance(result, CompileFailure)
    assert f"rule {rule}" in result.log


def test_every_static_assert_names_a_constraint_or_a_derived_constant() -> None:
    attributes = {attribute.name for attribute in space(SAMPLED[0], H200).attributes}
    derived = {*attributes, "vector_width", "reduces_contiguous", "parts"}
    names = {rule.name for rule in validity_constraints(SAMPLED[0], H200)}
    assert asserted_rules("autosched/kernels/row_reduction.cuh") - derived <= names


@pytest.mark.parametrize("target", ["a100", "h200"])
def test_sampled_schedules_compile(target: str, nightly: bool) -> None:
    row = device(target)
    kernels = [
        generate(problem, schedule, row)
        for problem in (SAMPLED[:9] if nightly else SAMPLED[target == "h200" : 9 : 2])
        for schedule in space(problem, row).sample(6 if nightly else 1, seed=7)
    ]
    assert len(kernels) >= 4
    results = dict(compile_many(shared_pool(), kernels, row.arch))
    failures = [r for r in results.values() if isinstance(r, CompileFailure)]
    assert not failures, failures[0].reason


def test_the_kernel_uses_the_types_of_the_problem() -> None:
    for dtype in FLOAT_DTYPES:
        source = generate(
            Softmax(8, 64, dtype=dtype, out="f32"), Schedule.from_json("row_reduction", BASE), H200
        ).source
        assert f"using T = {FLOAT_DTYPES[dtype].c_name};" in source and "using Out = float;" in source
