"""The transpose and copy problems reject invalid fields. References are right; results are compared bit by bit."""

from __future__ import annotations

import numpy as np
import pytest

from measurements.trials.comparison import check
from search_spaces.catalogue import operator, problem_from_json
from search_spaces.operators.copy import Copy
from search_spaces.operators.transpose import ELEMENT_BYTES, ArrayMove, Transpose

KINDS = (Transpose, Copy)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"rows": 0}, "rows must be a whole number of at least 1, not 0"),
        ({"columns": -4}, "columns must be"),
        ({"batch": 0}, "batch must be"),
        ({"rows": True}, "rows must be"),
        ({"columns": 2**30}, "columns must be under 2^30"),
        ({"rows": 2**20, "columns": 2**20}, "keep it under 2^40 elements"),
        ({"dtype": "f32"}, "unknown type 'f32': use one of u8, u16, u32, u64, u128"),
    ],
)
def test_invalid_problems_are_rejected_in_one_line(kind: type[ArrayMove], fields: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError) as error:
        kind(**{"rows": 8, "columns": 8, **fields})  # type: ignore[arg-type]
    assert says in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("kind", KINDS)
def test_options_and_json_make_the_problem(kind: type[ArrayMove]) -> None:
    row = operator(kind.operator)
    fields = {option.field: option.default for option in row.options} | {"rows": 3, "columns": 4, "dtype": "u64"}
    problem = kind(3, 4, dtype="u64")
    assert row.make(**fields) == problem
    assert problem_from_json(problem.to_json()) == problem
    assert Copy(3, 4).key() != Transpose(3, 4).key()


@pytest.mark.parametrize("dtype", sorted(ELEMENT_BYTES))
@pytest.mark.parametrize("kind", KINDS)
def test_reference_moves_whole_elements(kind: type[ArrayMove], dtype: str) -> None:
    problem = kind(3, 5, batch=2, dtype=dtype)
    x, out = problem.operands()
    assert x.bytes == out.bytes == 2 * 3 * 5 * ELEMENT_BYTES[dtype] == problem.min_bytes / 2
    inputs = problem.random_inputs(0)
    # the expected result: each element is one numpy scalar
    elements = inputs["x"].view(f"V{ELEMENT_BYTES[dtype]}").reshape(2, 3, 5)
    moved = np.ascontiguousarray(elements.swapaxes(1, 2) if kind is Transpose else elements)
    words = moved.view(np.dtype(out.dtype.storage)).reshape(out.shape)
    assert np.array_equal(problem.reference(inputs)["out"], words)
    assert check(problem, inputs, {"out": words}).ok


@pytest.mark.parametrize("dtype", sorted(ELEMENT_BYTES))
def test_a_single_wrong_bit_of_the_largest_element_is_found(dtype: str) -> None:
    problem = Copy(2, 3, dtype=dtype)
    storage = np.dtype(problem.word.storage)
    x = np.full(problem.operands()[0].shape, np.iinfo(storage).max, dtype=storage)
    mutated = x.copy()
    mutated.flat[-1] ^= storage.type(1)
    assert check(problem, {"x": x}, {"out": x}).ok
    assert not check(problem, {"x": x}, {"out": mutated}).ok


@pytest.mark.parametrize("dtype", sorted(ELEMENT_BYTES))
def test_inputs_never_look_like_unwritten_outputs(dtype: str) -> None:
    x = Copy(300, 400, dtype=dtype).random_inputs(1)["x"]
    assert int(x.max()) < np.iinfo(x.dtype).max
    assert int(x.max()) > np.iinfo(x.dtype).max * 0.98
