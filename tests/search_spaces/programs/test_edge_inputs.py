"""Edge-case inputs of tile programs: all cases occur, and correct kernels pass."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cases import representative

from autosched.programs.loading import load_program, problem
from measurements.emulator import emulate
from measurements.trials.comparison import check
from search_spaces.hardware.devices import device
from search_spaces.hardware.dtypes import F16, F32
from search_spaces.programs.builder import Builder, Input, Output, program
from search_spaces.programs.language.bounded import applied, certain
from search_spaces.programs.language.functions import FUNCTIONS
from search_spaces.programs.language.ir import Array
from search_spaces.programs.problem import ProgramProblem
from search_spaces.programs.template import template

EXAMPLES = Path(__file__).parents[3] / "examples" / "programs"
H100 = device("h100")


def example(program_path: str, **sizes: int) -> ProgramProblem:
    return problem(load_program(str(EXAMPLES / program_path)), **sizes)


@program(x=Input("m n", "f32"), out=Output("m", "f32"))
def row_sums(p: Builder, x: Array, out: Array) -> None:
    bn = p.choose(bn=(32, 64))
    (i,) = p.blocks((x.shape[0],), (16,))
    total = p.state(p.zeros((16, 1)))
    for j in p.steps(x.shape[1], bn):  # type: ignore[arg-type]
        total.set(total + p.reduction("add", p.load(p.window(x, (i, j), (16, bn))), dim=1))  # type: ignore[arg-type]
    p.store(total, p.window(out, (i, 0), (16, 1), column=True))


def test_lines_with_separate_results_contain_every_case() -> None:
    names = {name for input_set in problem(row_sums, m=40, n=70).stress_inputs(0) for name in input_set.cases}
    assert {"negative", "minus infinity", "nan", "infinity", "rising", "shifted", "one huge element"} <= names


def test_infinities_are_omitted_if_results_depend_on_tile_sizes() -> None:
    """Infinity times a weight of zero is NaN, unless a tile of zero weights is skipped. Such inputs are omitted."""
    p = example("attention.py:causal_attention", h=1, g=1, s=100, d=32)
    of_values = [
        input_set for input_set in p.stress_inputs(0) if not np.isfinite(F16.load(input_set.inputs["v"])).all()
    ]
    assert not of_values


def test_all_other_arrays_are_positive() -> None:
    p = example("attention.py:full_attention", h=1, g=1, s=40, d=32)
    for input_set in p.stress_inputs(0):
        positive = [(F16.load(values) > 0).all() for values in input_set.inputs.values()]
        assert sum(positive) >= len(positive) - 1


def test_each_array_is_varied_once() -> None:
    p = example("gated_mlp.py:gated_mlp", m=33, n=40, k=48)
    assert len(list(p.stress_inputs(0))) == len([o for o in p.operands() if o.role == "input"])


@pytest.mark.parametrize("seed", representative(range(2), "0"))
@pytest.mark.parametrize(
    ("program_path", "sizes"),
    [
        ("attention.py:causal_attention", {"h": 1, "g": 1, "s": 70, "d": 32}),
        ("softmax_rows.py:row_softmax", {"m": 21, "n": 90}),
        ("cross_entropy.py:loss_of_rows", {"m": 21, "n": 130}),
        ("layernorm_matmul.py", {"m": 40, "n": 40, "k": 72}),
        ("gemm_relu.py", {"m": 40, "n": 40, "k": 72}),
    ],
)
def test_right_kernels_answer_edge_inputs(program_path: str, sizes: dict[str, int], seed: int) -> None:
    p = example(program_path, **sizes)
    own = template(p.program)
    kernel = own.kernel(p, own.space(p, H100).sample(1, seed)[0], H100)
    for input_set in p.stress_inputs(seed):
        run = emulate(kernel, input_set.inputs, time_limit=60.0)
        assert run.status == "ok", run.reason
        outcome = check(p, input_set.inputs, run.outputs)
        assert outcome.ok, (outcome.reason, input_set.cases)


@pytest.mark.parametrize(
    ("function", "numbers", "errors", "value", "bound"),
    [
        ("exp", [200.0], [0.0], np.inf, 0.0),  # the exact result exceeds the range of f32
        ("exp", [88.72], [1.0], None, np.inf),  # within the argument's error, the result may exceed the range of f32
        ("log2", [0.0], [0.0], -np.inf, 0.0),
        ("log2", [0.0], [1e-9], None, np.inf),  # within the argument's error, the result may be NaN or finite
        ("multiply", [np.inf, 0.0], [0.0, 0.0], np.nan, 0.0),
        ("multiply", [np.inf, 0.0], [0.0, 0.1], None, np.inf),
        ("add", [np.inf, 1.0], [0.0, 0.1], np.inf, 0.0),
        ("sqrt", [0.0], [1e-9], None, np.inf),
    ],
)
def test_bounds_are_zero_for_results_common_to_all_kernels(
    function: str, numbers: list[float], errors: list[float], value: float | None, bound: float
) -> None:
    arguments = [(np.array([n]), np.array([e])) for n, e in zip(numbers, errors, strict=True)]
    with np.errstate(all="ignore"):
        values, bounds = applied(FUNCTIONS[function], F32, arguments)
    assert bounds[0] == bound
    assert value is None or values[0] == value or (np.isnan(values[0]) and np.isnan(value))


def test_a_cast_beyond_the_type_is_infinite() -> None:
    values, bounds = certain(F16, np.array([7e4, 65519.0, 1.0]), np.array([1.0, 2.0, 0.0]))
    assert np.isinf(values[0]) and bounds[0] == 0.0
    assert np.isfinite(values[1]) and np.isinf(bounds[1])
    assert bounds[2] == 0.0
