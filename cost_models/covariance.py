"""Distances and covariances of schedules for the Gaussian process.

A schedule is a point with one coordinate per parameter. Arrays have one column per schedule and one row per parameter.
Coordinates of ordinal parameters are from 0 to 1; coordinates of categorical parameters are whole numbers. Two
different values of a parameter have the distance ``min(|a - b|, 1) + STEP``. A missing value has the distance 1 + STEP
to every other value. Therefore even neighbouring values have a distance of at least STEP, and all categories have the
same distance. Every parameter has a length scale. The covariance is a Matern 5/2 function of the square root of the sum
of all (distance / length scale)^2 (Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, chapter 4).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Columns = npt.NDArray[np.float32]

STEP = 0.2
_MISSING = -8.0  # coordinate of a missing value, which differs from every other coordinate by more than 1
# maximum number of combinations in a group of parameters, so that the group's table fits in the CPU cache
_COMBINATIONS = 256
_BLOCK = 16  # rows of a covariance that are computed at a time, so that they fit in the cache


@dataclass(frozen=True)
class Hyperparameters:
    """Hyperparameters for values scaled to mean 0 and variance 1.

    Attributes:
        lengths: Length scale of each parameter, [d].
        variance: Prior variance of the function.
        noise: Variance of the measurement noise.
        offset: Prior variance of the mean; 0 if the mean is known.
    """

    lengths: tuple[float, ...]
    variance: float
    noise: float
    offset: float = 0.0

    @property
    def total(self) -> float:
        """Prior variance of a value."""
        return self.variance + self.offset


def coordinates(X: npt.ArrayLike) -> Columns:
    """Convert rows [n, d] to float32 columns [d, n]. NaN is a missing coordinate.

    Raises:
        ValueError: A value is infinite, or the array is not two-dimensional.
    """
    matrix = np.asarray(X, dtype=np.float32)
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise ValueError(f"rows must be a two-dimensional array, not of shape {matrix.shape}")
    if np.isinf(matrix).any():
        raise ValueError("coordinates must be finite, or NaN where they are missing")
    return np.ascontiguousarray(np.where(np.isnan(matrix), np.float32(_MISSING), matrix).T)


def squared_distances(a: Columns, b: Columns) -> Iterator[Columns]:
    """Yield, for each parameter, the squared distances [n, m] between the columns of ``a`` [d, n] and ``b`` [d, m]."""
    for left, right in zip(a, b, strict=True):
        yield _squared(np.abs(left[:, None] - right[None, :]))


def _squared(apart: Columns) -> Columns:
    """Convert ``apart``, the differences of coordinates, to squared distances, in place."""
    differs = apart > 0
    np.minimum(apart, 1, out=apart)
    apart += np.float32(STEP) * differs
    apart *= apart
    return apart


def covariance(a: Columns, b: Columns, hyperparameters: Hyperparameters) -> Columns:
    """Return the covariances [n, m] of noise-free values at the columns of ``a`` [d, n] and ``b`` [d, m]."""
    return _matern(_scaled_squares(a, b, hyperparameters.lengths), hyperparameters.variance, hyperparameters.offset)


class Grid:
    """A fixed set of points, [d, m]. ``covariance`` is fast for them if each parameter has few distinct values.

    The distances of a group of parameters are computed once for each combination of values that occurs in the points,
    and then looked up.
    """

    def __init__(self, positions: Columns) -> None:
        self._groups: list[tuple[list[int], Columns, npt.NDArray[np.intp]]] = []
        group: list[int] = []
        codes = np.zeros(positions.shape[1], dtype=np.intp)
        for parameter, values in enumerate(positions):
            own = np.unique(values, return_inverse=True)[1]
            both = np.unique(codes * (int(own.max(initial=0)) + 1) + own, return_inverse=True)[1]
            if group and both.max(initial=0) >= _COMBINATIONS:
                self._close(positions, group, codes)
                group, both = [], own
            group, codes = [*group, parameter], both
        self._close(positions, group, codes)
        self._count = positions.shape[1]

    def _close(self, positions: Columns, group: list[int], codes: npt.NDArray[np.intp]) -> None:
        first = np.unique(codes, return_index=True)[1]
        self._groups.append((group, np.ascontiguousarray(positions[group][:, first]), codes))

    def covariance(self, columns: Columns, hyperparameters: Hyperparameters) -> Columns:
        """Return the covariances [n, m] between function values at ``columns`` [d, n] and those at the fixed points."""
        tables = [
            (_scaled_squares(columns[group], combinations, [hyperparameters.lengths[i] for i in group]), codes)
            for group, combinations, codes in self._groups
        ]
        covariances = np.empty((columns.shape[1], self._count), dtype=np.float32)
        for start in range(0, len(covariances), _BLOCK):
            rows = slice(start, start + _BLOCK)
            squares = sum(table[rows].take(codes, axis=1) for table, codes in tables)
            covariances[rows] = _matern(np.asarray(squares), hyperparameters.variance, hyperparameters.offset)
        return covariances


def _scaled_squares(a: Columns, b: Columns, lengths: tuple[float, ...] | list[float]) -> Columns:
    """Return 5 times the squared distances in units of the length scales, [n, m]."""
    if a.shape[1] == 1:  # for few columns, compute all parameters at once
        scales = np.array([5.0 / length**2 for length in lengths], dtype=np.float32)
        one: Columns = scales[None, :] @ _squared(np.abs(b - a))
        return one
    squares = np.zeros((a.shape[1], b.shape[1]), dtype=np.float32)
    for length, square in zip(lengths, squared_distances(a, b), strict=True):
        square *= np.float32(5.0 / length**2)
        squares += square
    return squares


def _matern(squares: Columns, variance: float, offset: float) -> Columns:
    """Convert 5 times the squared distances to covariances (Matern 5/2 plus ``offset``), in place."""
    r = np.sqrt(squares)
    squares /= 3
    squares += r
    squares += 1
    np.negative(r, out=r)
    squares *= np.exp(r, out=r)
    squares *= np.float32(variance)
    if offset:
        squares += np.float32(offset)
    return squares
