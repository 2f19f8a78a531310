"""Limits of a vector's elements after sorting, for the comparison of outputs whose elements may be in any order."""

from __future__ import annotations

import numpy as np

from search_spaces.arrays import FloatArray


def sorted_limits(values: FloatArray, bounds: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return limits of a vector's elements after sorting. NaN is sorted last.

    Args:
        values: Expected elements.
        bounds: Maximum error of each element, which may be infinite.

    Returns:
        The lower and the upper limit for each position of the sorted vector. If each element is within its bound, each
        sorted element is within these limits.
    """
    bounded = np.isfinite(bounds)
    error = np.where(bounded, bounds, 0.0)
    known = bounded | np.isnan(values)
    return np.sort(np.where(known, values - error, -np.inf)), np.sort(np.where(known, values + error, np.inf))
