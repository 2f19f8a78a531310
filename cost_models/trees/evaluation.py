"""Quality of predictions. For a search, the correct order of the fastest schedules matters more than exact times.

Every function takes ``predicted`` (any number that grows with time) and measured ``seconds``, both of shape [n]. Rows
with equal predictions are ordered slowest first, so that a model does not benefit from the order of rows. All functions
raise ValueError if inputs are empty, differ in length, or contain NaN or infinity, or if times are not positive.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from search_spaces.arrays import FloatArray


def rank_correlation(predicted: npt.ArrayLike, seconds: npt.ArrayLike) -> float:
    """Return Spearman's rho, from -1 to 1, with average ranks for ties; 0 if predictions or times are constant."""
    p, s = _checked(predicted, seconds)
    x, y = _ranks(p), _ranks(s)
    x, y = x - x.mean(), y - y.mean()
    scale = float(np.sqrt((x * x).sum() * (y * y).sum()))
    return float((x * y).sum()) / scale if scale > 0 else 0.0


def top_k_recall(predicted: npt.ArrayLike, seconds: npt.ArrayLike, k: int) -> float:
    """Return the best time of all schedules, divided by the best time among the k schedules predicted to be fastest.

    The result is at most 1.
    """
    p, s = _checked(predicted, seconds)
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    fastest = np.lexsort((-s, p))[:k]
    return float(s.min() / s[fastest].min())


def regret(predicted: npt.ArrayLike, seconds: npt.ArrayLike, k: int = 1) -> float:
    """Return the relative slowdown from choosing among the k schedules that are predicted to be fastest: 0.05 is 5%.

    It compares the best of these k schedules with the best of all schedules.
    """
    return 1.0 / top_k_recall(predicted, seconds, k) - 1.0


def group_codes(groups: Sequence[Any] | npt.NDArray[Any] | None, rows: int) -> npt.NDArray[np.int64]:
    """Number the groups in order of first appearance, and return each row's number; all 0 without groups.

    Raises:
        ValueError: The length of ``groups`` is not ``rows``.
    """
    if groups is None:
        return np.zeros(rows, dtype=np.int64)
    if len(groups) != rows:
        raise ValueError(f"groups must have one name for each of {rows} rows, not {len(groups)} names")
    seen: dict[Any, int] = {}
    return np.array([seen.setdefault(g, len(seen)) for g in groups], dtype=np.int64)


def _checked(predicted: npt.ArrayLike, seconds: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    p, s = np.asarray(predicted, dtype=np.float64), np.asarray(seconds, dtype=np.float64)
    if p.ndim != 1 or p.shape != s.shape or len(p) == 0:
        raise ValueError(
            f"predictions and times must be one-dimensional, not empty and of equal length, not of shapes {p.shape} "
            f"and {s.shape}"
        )
    if not np.isfinite(p).all():
        raise ValueError("predictions must be finite")
    if not (np.isfinite(s) & (s > 0)).all():
        raise ValueError("times must be positive and finite: leave failed trials out")
    return p, s


def _ranks(values: FloatArray) -> FloatArray:
    """Return ranks that start at 0; equal values get their average rank."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    middle: FloatArray = (last - counts + last - 1) / 2.0
    return middle[inverse]
