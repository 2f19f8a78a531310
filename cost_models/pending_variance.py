"""Posterior variance while a batch of points is chosen, whose values are pending."""

from __future__ import annotations

import math

import numpy as np

from cost_models.covariance import covariance
from cost_models.gaussian_process import JITTER, IncrementalPosterior
from search_spaces.arrays import FloatArray, IntArray


class PendingVariance:
    """Reduction of the posterior variance at some points by those of them that are pending.

    A pending point counts as observed, as in ``IncrementalPosterior``, which remains unchanged.

    Args:
        posterior: Posterior of all points.
        positions: Positions of n of its points.
        most: Maximum number of pending points.

    Attributes:
        reduction: Reduction of the variance at each of the n points.
    """

    def __init__(self, posterior: IncrementalPosterior, positions: IntArray, most: int) -> None:
        self._hyperparameters = posterior.hyperparameters
        self._points = posterior.points[:, positions]
        self._count = posterior.count
        self._solved = np.empty((self._count + most, len(positions)), dtype=np.float32)
        self._solved[: self._count] = posterior.solved[:, positions]
        self.reduction: FloatArray = np.zeros(len(positions))

    def observe(self, i: int) -> None:
        """Make the point with this number, from 0 to n - 1, pending."""
        solved = self._solved[: self._count]
        row = covariance(self._points[:, i : i + 1], self._points, self._hyperparameters)[0] - solved[:, i] @ solved
        row /= math.sqrt(max(float(row[i]), 0.0) + self._hyperparameters.noise + JITTER)
        self._solved[self._count] = row
        self._count += 1
        self.reduction += row.astype(np.float64) ** 2
