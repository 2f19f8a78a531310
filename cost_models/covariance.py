"""Distances and covariances of schedules given by coordinates, for the Gaussian process.

Coordinates are columns, one row per parameter: an ordinal parameter from 0 to 1, a categorical one by whole numbers.
Two values of a parameter are ``min(|a - b|, 1) + STEP`` apart if they differ, a missing one from any other 1 + STEP:
steps between neighbouring values have a size of their own, and categories are all equally far apart. With a length for
every parameter, the covariance is Matern 5/2 of the root of the sum of (distance / length)^2 (Rasmussen and Williams,
Gaussian Processes for Machine Learning, 2006, chapter 4).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Columns = npt.NDArray[np.float32]

STEP = 0.2
_MISSING = -8.0  # farther than 1 from every coordinate
_COMBINATIONS = 256  # of a group of parameters: a table of them stays in the cache
_BLOCK = 16  # rows of a covariance at a time, for the same reason


@dataclass(frozen=True)
class Hyperparameters:
    """``lengths`` [d] per parameter; ``variance`` of the function and of the ``noise``, for values scaled to mean 0 and
    variance 1. ``offset``: the variance of a constant that all values have in common; with 0 their mean counts as
    known."""

    lengths: tuple[float, ...]
    variance: float
    noise: float
    offset: float = 0.0

    @property
    def total(self) -> float:
        """The variance of a value before anything is known."""
        return self.variance + self.offset


def coordinates(X: npt.ArrayLike) -> Columns:
    """X [n, d], NaN for a missing coordinate, as columns float32 [d, n]. Raises ValueError for infinite values."""
    matrix = np.asarray(X, dtype=np.float32)
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise ValueError(f"rows must be a table of rows and columns, not of shape {matrix.shape}")
    if np.isinf(matrix).any():
        raise ValueError("coordinates must be finite, or NaN where they are missing")
    return np.ascontiguousarray(np.where(np.isnan(matrix), np.float32(_MISSING), matrix).T)


def squared_distances(a: Columns, b: Columns) -> Iterator[Columns]:
    """Yield the square of the distance between every column of ``a`` [d, n] and of ``b`` [d, m], [n, m] per
    parameter."""
    for left, right in zip(a, b, strict=True):
        apart = np.abs(left[:, None] - right[None, :])
        differs = apart > 0
        np.minimum(apart, 1, out=apart)
        apart += np.float32(STEP) * differs
        apart *= apart
        yield apart


def covariance(a: Columns, b: Columns, given: Hyperparameters) -> Columns:
    """Between the values at every column of ``a`` [d, n] and of ``b`` [d, m], without noise: [n, m]."""
    return _matern(_scaled_squares(a, b, given.lengths), given.variance, given.offset)


class Grid:
    """Fixed points [d, m], to which ``covariance`` is fast if parameters have few values.

    The distances of a group of parameters are computed once for each combination that occurs, and then looked up.
    """

    def __init__(self, places: Columns) -> None:
        self._groups: list[tuple[list[int], Columns, npt.NDArray[np.intp]]] = []
        group: list[int] = []
        codes = np.zeros(places.shape[1], dtype=np.intp)
        for parameter, values in enumerate(places):
            own = np.unique(values, return_inverse=True)[1]
            both = np.unique(codes * (int(own.max(initial=0)) + 1) + own, return_inverse=True)[1]
            if group and both.max(initial=0) >= _COMBINATIONS:
                self._close(places, group, codes)
                group, both = [], own
            group, codes = [*group, parameter], both
        self._close(places, group, codes)
        self._count = places.shape[1]

    def _close(self, places: Columns, group: list[int], codes: npt.NDArray[np.intp]) -> None:
        first = np.unique(codes, return_index=True)[1]
        self._groups.append((group, np.ascontiguousarray(places[group][:, first]), codes))

    def covariance(self, columns: Columns, given: Hyperparameters) -> Columns:
        """Between the values at every one of ``columns`` [d, n] and at every place: [n, m]."""
        tables = [
            (_scaled_squares(columns[group], combinations, [given.lengths[i] for i in group]), codes)
            for group, combinations, codes in self._groups
        ]
        found = np.empty((columns.shape[1], self._count), dtype=np.float32)
        for start in range(0, len(found), _BLOCK):
            rows = slice(start, start + _BLOCK)
            squares = sum(table[rows].take(codes, axis=1) for table, codes in tables)
            found[rows] = _matern(np.asarray(squares), given.variance, given.offset)
        return found


def _scaled_squares(a: Columns, b: Columns, lengths: tuple[float, ...] | list[float]) -> Columns:
    """5 times the square of the distance, in units of the lengths: [n, m]."""
    squares = np.zeros((a.shape[1], b.shape[1]), dtype=np.float32)
    for length, square in zip(lengths, squared_distances(a, b), strict=True):
        square *= np.float32(5.0 / length**2)
        squares += square
    return squares


def _matern(squares: Columns, variance: float, offset: float) -> Columns:
    """Matern 5/2 of 5 times the squared distance, in place, and a constant."""
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
