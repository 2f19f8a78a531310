"""Properties that the problems of all operators have."""

import json
from typing import Any

import numpy as np
import pytest
from small_problems import small_problem

from search_spaces.catalogue import operators, problem_from_json
from search_spaces.hardware.dtypes import dtype
from search_spaces.operators.problem import DRAWN, Problem, standard_normal
from search_spaces.tile_operators.tile_problem import TileOperator


def problems() -> list[Problem]:
    return [small_problem(operator) for operator in operators()]


def sizes_of(problem: Problem) -> list[str]:
    """Return the required fields of an operator, all of which are sizes."""
    operator = next(o for o in operators() if o.name == problem.operator)
    return [o.field for o in operator.options if o.default is None]


PROBLEMS = pytest.mark.parametrize("problem", problems(), ids=lambda p: p.operator)


@PROBLEMS
def test_sizes_may_be_integers_of_numpy_and_become_ints(problem: Problem) -> None:
    data = problem.to_json()
    sizes = sizes_of(problem)
    assert sizes
    restored = problem_from_json({**data, **{name: np.int64(data[name]) for name in sizes}})
    assert restored == problem
    assert restored.key() == problem.key()
    assert all(type(getattr(restored, name)) is int for name in sizes)


@PROBLEMS
@pytest.mark.parametrize("value", [True, np.bool_(True), 8.0, np.float32(8), "8", None, -1, [8], np.array([8, 8])])
def test_invalid_sizes_are_rejected_in_one_line(problem: Problem, value: object) -> None:
    data = problem.to_json()
    for name in sizes_of(problem):
        with pytest.raises(ValueError, match=f"{name} must be a whole number") as caught:
            problem_from_json({**data, name: value})
        assert "\n" not in str(caught.value)


@PROBLEMS
def test_expected_computes_the_reference_once(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = problem.random_inputs(0)
    computed = []
    # In matmuls and row reductions, ``reference`` and ``tolerance`` share a function that computes the sums.
    name = next((name for name in ("_results", "_moments") if hasattr(problem, name)), "reference")
    original = getattr(type(problem), name)

    def counted(self: Problem, *arguments: Any) -> Any:
        computed.append(original(self, *arguments))
        return computed[-1]

    monkeypatch.setattr(type(problem), name, counted)
    expected, allowed = problem.expected(inputs)
    assert len(computed) == 1 and (name == "_moments" or isinstance(problem, TileOperator) or expected is computed[0])
    tolerance = problem.tolerance(inputs)
    assert allowed.keys() == tolerance.keys() == expected.keys()
    for name in expected:
        assert np.array_equal(allowed[name], tolerance[name]) and (tolerance[name] >= 0).all()


@PROBLEMS
def test_json_with_other_fields_is_rejected(problem: Problem) -> None:
    data = problem.to_json()
    with pytest.raises(ValueError, match=f"invalid JSON of a {problem.operator} problem: .*sparsity"):
        problem_from_json({**data, "sparsity": 2})
    required = sizes_of(problem)[0]
    with pytest.raises(ValueError, match=required):
        problem_from_json({name: value for name, value in data.items() if name != required})


@pytest.mark.parametrize("text", ["7", "[]", "null", "{}", '{"operator": ["matmul"]}'])
def test_invalid_problem_json_is_rejected(text: str) -> None:
    with pytest.raises(ValueError):
        problem_from_json(json.loads(text))


@pytest.mark.parametrize("name", ["f16", "bf16", "f32"])
def test_random_values_are_standard_normal_and_differ(name: str) -> None:
    few = standard_normal(np.random.default_rng(1), (3, 5), dtype(name))
    assert few.shape == (3, 5)
    assert few.dtype == np.dtype(dtype(name).storage)
    values = dtype(name).load(standard_normal(np.random.default_rng(1), (1000, 1000), dtype(name), scale=2.0))
    assert abs(values.mean()) < 0.02
    assert abs(values.std() - 2.0) < 0.02
    assert len(np.unique(values[0])) > 500


def test_values_of_a_huge_array_repeat_with_a_period_that_no_row_has() -> None:
    values = standard_normal(np.random.default_rng(1), (2**11 + 8, 2**11), dtype("f16"))
    assert np.array_equal(values.ravel()[DRAWN:], values.ravel()[: values.size - DRAWN])
    for step in (1, 2, 16, 2**10):  # a kernel might confuse rows at these distances
        assert np.mean(values[step:] == values[:-step]) < 0.01
    assert all(DRAWN % divisor for divisor in range(2, 2050))
