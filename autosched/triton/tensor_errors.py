"""Compare tensors with expected values, in the same way as ``measurements.trials.comparison`` compares arrays."""

from __future__ import annotations

import numpy as np
import torch

from measurements.trials.comparison import Errors, errors
from search_spaces.arrays import FloatArray
from search_spaces.hardware.dtype_names import canonical
from search_spaces.hardware.dtypes import EIGHT_BIT_DTYPES, SCALAR_DTYPES, DType

_DTYPES = SCALAR_DTYPES | EIGHT_BIT_DTYPES


def dtype_of(dtype: torch.dtype) -> DType:
    """Return the type of a tensor's elements; f64, which holds all values, for an unknown type."""
    return _DTYPES.get(canonical(dtype), SCALAR_DTYPES["f64"])


def numbers_of(tensor: torch.Tensor) -> FloatArray:
    """Return the elements as float64; 64-bit integers are unchanged."""
    is_exact = tensor.dtype in (torch.int64, torch.uint64)
    numbers: FloatArray = (tensor if is_exact else tensor.double()).numpy()
    return numbers


def tensor_errors(
    dtype: torch.dtype,
    actual: FloatArray,
    wanted: FloatArray,
    allowed: FloatArray,
    *,
    rounded_to: DType | None = None,
) -> Errors:
    """Compare elements of a tensor with their expected values.

    Args:
        dtype: Type of the tensor.
        actual: The tensor's elements, as returned by ``numbers_of``, in one dimension.
        wanted: Expected values.
        allowed: Absolute tolerances.
        rounded_to: Type to which the expected values were rounded; None if they are exact.

    Returns:
        The ratios of errors to tolerances, which exceed 1 for wrong elements, and a mask of the wrong elements.
    """
    type_ = dtype_of(dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        stored = type_.store(actual)
    ratio, wrong = errors(type_, stored, wanted, allowed, rounded_to=rounded_to)
    return Errors(np.where(wrong & ~(ratio > 1), np.inf, ratio), wrong)
