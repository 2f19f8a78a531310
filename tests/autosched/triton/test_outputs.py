"""Comparison of tensors: infinity in place of the largest number, tolerances of huge values, and 64-bit integers."""

# mypy: ignore-errors
from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'autosched[torch]'")
pytest.importorskip("triton", reason="Triton is not installed: pip install 'autosched[triton]'")

from autosched.triton.tensor_errors import dtype_of, numbers_of  # noqa: E402
from autosched.triton.tuning.outputs import Expected, largest_error  # noqa: E402

LARGEST = {torch.float16: 65504.0, torch.bfloat16: 3.3895e38, torch.float8_e5m2: 57344.0, torch.float32: 3.4028235e38}


def error(
    dtype: torch.dtype, actual: float, expected_value: float, reference: torch.dtype, more: tuple[float, ...] = ()
) -> float:
    """Return an element's error divided by its tolerance. The elements ``more`` are appended to both tensors."""
    tensors = [
        torch.tensor([x, *more], dtype=torch.float64).to(t) for x, t in ((actual, dtype), (expected_value, reference))
    ]
    values = numbers_of(tensors[1])
    expected = Expected(values, np.ones(values.shape, np.bool_), rounded_to=dtype_of(reference))
    return largest_error(dtype, numbers_of(tensors[0]), expected, None)[0]


@pytest.mark.parametrize("dtype", LARGEST, ids=str)
def test_a_rounded_result_may_be_either_next_to_the_largest_number(dtype: torch.dtype) -> None:
    largest = LARGEST[dtype]
    for sign in (1.0, -1.0):
        assert error(dtype, sign * largest, sign * math.inf, dtype) <= 1
        assert error(dtype, sign * math.inf, sign * largest, dtype) <= 1
        assert error(dtype, -sign * largest, sign * math.inf, dtype) > 1
        assert error(dtype, sign * largest / 2, sign * math.inf, dtype) > 1
        assert error(dtype, sign * math.inf, sign * largest / 2, dtype) > 1
    assert error(dtype, largest, math.nan, dtype) > 1
    assert error(dtype, math.nan, math.inf, dtype) > 1


def test_a_reference_of_a_wider_type_decides_which_results_are_infinite() -> None:
    assert error(torch.float16, math.inf, 65521.0, torch.float64) <= 1
    assert error(torch.float16, 65504.0, 65521.0, torch.float64) <= 1
    assert error(torch.float16, 65504.0, 1e6, torch.float64) > 1
    assert error(torch.float16, 65504.0, math.inf, torch.float64) > 1
    assert error(torch.float16, 65504.0, math.inf, torch.float32) > 1


def test_values_whose_squares_overflow_have_a_finite_tolerance() -> None:
    assert error(torch.float64, 1.0, 2.0, torch.float64, (1e200,)) <= 1  # 1e-9 of the root mean square is allowed
    assert error(torch.float64, 1e195, 2.0, torch.float64, (1e200,)) > 1


def test_integers_of_64_bits_are_compared_exactly() -> None:
    actual, expected = (numbers_of(torch.tensor([5, 2**53 + more])) for more in (1, 0))
    assert largest_error(torch.int64, actual, Expected(expected, np.array([True, True])), None) == (math.inf, (1,))
    assert largest_error(torch.int64, actual, Expected(expected, np.array([True, False])), None)[0] == 0
