"""Reduction of the posterior variance by the points that are already chosen for a batch (pending points)."""

from __future__ import annotations

import math

import numpy as np

from cost_models.covariance import covariance
from cost_models.gaussian_process import JITTER, IncrementalPosterior
from search_spaces.arrays import FloatArray, IntArray


class PendingVariance:
    """Reduction of the posterior variance at some candidate points, caused by candidates that are pending.

    A pending point reduces the variance like an observation. The ``IncrementalPosterior`` is not changed.

    Args:
        posterior: Posterior at all points of the pool.
        positions: Indices in the pool of the n candidate points.
        most: Maximum number of pending points.

    Attributes:
        reduction: Reduction of the variance at each candidate point, [n].
    """

    def __init__(self, posterior: IncrementalPosterior, positions: IntArray, most: int) -> None:
        self._hyperparameters = posterior.hyperparameters
        self._points = posterior.points[:, positions]
        self._count = posterior.count
        self._solved = np.empty((self._count + most, len(positions)), dtype=np.float32)
        self._solved[: self._count] = posterior.solved[:, positions]
        self.reduction: FloatArray = np.zeros(len(positions))

    def observe(self, i: int) -> None:
        """Mark candidate ``i``, from 0 to n - 1, as pending."""
        solved = self._solved[: self._count]
        row = covariance(self._points[:, i : i + 1], self._points, self._hyperparameters)[0] - solved[:, i] @ solved
        row /= math.sqrt(max(float(row[i]), 0.0) + self._hyperparameters.noise + JITTER)
        self._solved[self._count] = row
        self._count += 1
        self.reduction += row.astype(np.float64) ** 2
