"""Limits of sorted vectors, for outputs whose elements may be in any order."""

from __future__ import annotations

import numpy as np

from search_spaces.arrays import FloatArray


def sorted_limits(values: FloatArray, bounds: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return limits of a vector's elements after sorting, with NaN last.

    Args:
        values: Expected elements.
        bounds: Largest error of each element; it may be infinite.

    Returns:
        The lower and the upper limit of each position: if each element is within its bound, so are the sorted ones.
    """
    bounded = np.isfinite(bounds)
    error = np.where(bounded, bounds, 0.0)
    known = bounded | np.isnan(values)
    return np.sort(np.where(known, values - error, -np.inf)), np.sort(np.where(known, values + error, np.inf))
