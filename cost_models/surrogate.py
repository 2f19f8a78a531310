"""What a search asks of a learned model: for every candidate a mean and how far off it may be.

A surrogate is a recipe without state: ``fit`` learns from rows and gives a posterior. Higher values are better.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy.typing as npt

from search_spaces.arrays import FloatArray


@dataclass(frozen=True)
class Prediction:
    """``mean`` and ``deviation`` [n] of the value of each row; the deviation is that of the value itself, without the
    noise of measuring it."""

    mean: FloatArray
    deviation: FloatArray


class Posterior(Protocol):
    """What a surrogate has learned. The same rows give the same prediction, whatever was asked before."""

    def predict(self, X: npt.ArrayLike) -> Prediction:
        """The values of X, float [n, d]. Raises ValueError for another number of columns."""


class Surrogate(Protocol):
    """Learns values [n] of rows X, float [n, d]; NaN is a missing coordinate. The contract, checked by one test class:

    - The same rows, in the same order, and the same seed give the same posterior.
    - The deviation is at least 0, and smaller at the rows that were learned than far away from them.
    - No value, far from any row, is predicted beyond the reach of the learned ones by more than its deviation says.
    """

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike) -> Posterior:
        """Raises ValueError for no rows, infinite values, or shapes that do not match."""
