"""Textbook Gaussian process that is refitted from scratch, as a reference for the incremental implementation."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy

from cost_models.covariance import Hyperparameters, coordinates, covariance
from cost_models.gaussian_process import GaussianProcessSettings, Prediction, Scale, _cholesky, hyperparameters
from search_spaces.arrays import FloatArray


class GaussianProcess:
    """Gaussian process that learns one value for each row: rows X, float [n, d], and values y, float [n].

    Hyper-parameters ``fixed`` are used unchanged; by default they are fitted to the rows.
    """

    def __init__(self, settings: GaussianProcessSettings | None = None, fixed: Hyperparameters | None = None) -> None:
        self._settings = settings or GaussianProcessSettings()
        self._fixed = fixed

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike) -> GaussianPosterior:
        """Return the posterior of the rows.

        Raises:
            ValueError: There are no rows, values are infinite, or shapes do not match.
        """
        columns, values = coordinates(X), np.asarray(y, dtype=np.float64)
        if values.shape != (columns.shape[1],) or not len(values):
            raise ValueError(f"values have shape {values.shape}: give one value for each row, and at least one row")
        if not np.isfinite(values).all():
            raise ValueError("values must be finite: leave failed trials out")
        scale = Scale.of(values)
        fitted = self._fixed or hyperparameters(columns, scale.down(values), self._settings)
        return GaussianPosterior(columns, scale.down(values), fitted, scale)


class GaussianPosterior:
    """The posterior of scaled ``values`` [n] at ``columns`` [d, n]."""

    def __init__(
        self, columns: npt.NDArray[np.float32], values: FloatArray, parameters: Hyperparameters, scale: Scale
    ) -> None:
        self.hyperparameters = parameters
        self._columns = columns
        self._scale = scale
        self._factor = _cholesky(covariance(columns, columns, parameters).astype(np.float64), parameters.noise)
        self._weights: FloatArray = scipy.linalg.lapack.dpotrs(self._factor, values, lower=1)[0]

    def predict(self, X: npt.ArrayLike) -> Prediction:
        """Return the predictions for X, float [n, d].

        Raises:
            ValueError: X has another number of columns.
        """
        rows = coordinates(X)
        if len(rows) != len(self._columns):
            raise ValueError(f"the model knows {len(self._columns)} coordinates, the rows have {len(rows)}")
        between = covariance(self._columns, rows, self.hyperparameters).astype(np.float64)
        explained = (scipy.linalg.solve_triangular(self._factor, between, lower=True) ** 2).sum(axis=0)
        mean = between.T @ self._weights * self._scale.deviation + self._scale.mean
        variance = np.maximum(self.hyperparameters.total - explained, 0.0)
        return Prediction(mean, np.sqrt(variance) * self._scale.deviation)
