"""Gaussian process over schedules: the surrogate model of a search with up to a few hundred measurements.

Coordinates are as in ``cost_models/covariance.py``: NaN for a parameter that a schedule does not have. The formulas are
from Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, chapters 2 and 5.

Length scales, variance and noise are maximum a posteriori estimates. The prior of these hyperparameters suits a few
dozen rows. Without a prior, parameters that have not been varied yet would seem irrelevant.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy

from cost_models.covariance import Grid, Hyperparameters, covariance, squared_distances
from search_spaces.arrays import FloatArray, IntArray

JITTER = 1e-8  # added to the noise variance, to keep matrices positive definite despite rounding errors
# bounds of the hyperparameters' logarithms
_BOUNDS = {"length": (-4.0, 5.0), "variance": (-4.0, 4.0), "noise": (-12.0, 1.0)}


@dataclass(frozen=True)
class Prediction:
    """Predicted mean and standard deviation of the function value of each row, [n], without measurement noise."""

    mean: FloatArray
    deviation: FloatArray


@dataclass(frozen=True)
class GaussianProcessSettings:
    """Priors of the hyperparameters, and settings of their fit.

    Attributes:
        length, variance, noise: Normal priors of three logarithms: of a length scale, of the variance and of the
            noise. Each prior is (mean, standard deviation).
        offset: Prior variance of the mean; not fitted. Use a positive value if rows were not chosen at random, so that
            their mean differs from the mean of all schedules.
        starts: Number of optimiser runs, from the prior's mode and from random points. The best result is used.
        iterations: Maximum iterations of each run.
        refit_iterations: Maximum iterations of a run that starts from the hyperparameters of an earlier fit.
        most_rows: Maximum number of rows for the fit. If there are more rows, the fit uses the best ``most_rows / 2``
            rows, and as many rows spread evenly over the remaining rows.
        seed: Random seed of the starting points.
    """

    length: tuple[float, float] = (math.log(0.7), 1.0)
    variance: tuple[float, float] = (0.0, 1.0)
    noise: tuple[float, float] = (math.log(1e-3), 1.5)
    offset: float = 0.0
    starts: int = 2
    iterations: int = 25
    refit_iterations: int = 10
    most_rows: int = 192
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("starts", "iterations", "refit_iterations", "most_rows"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")

    def mode(self, d: int) -> Hyperparameters:
        """Return the hyperparameters that are most probable under the prior, for ``d`` coordinates."""
        lengths = (math.exp(self.length[0]),) * d
        return Hyperparameters(lengths, math.exp(self.variance[0]), math.exp(self.noise[0]), self.offset)


@dataclass(frozen=True)
class Scale:
    """Shift and factor that bring values to mean 0 and standard deviation 1."""

    mean: float
    deviation: float

    @classmethod
    def of(cls, values: FloatArray) -> Scale:
        """Return the scale of ``values``. Constant values are only shifted."""
        return cls(float(values.mean()), float(values.std()) or 1.0)

    def down(self, values: FloatArray) -> FloatArray:
        """Return ``values`` scaled."""
        scaled: FloatArray = (values - self.mean) / self.deviation
        return scaled


@dataclass(frozen=True)
class Trend:
    """Prior mean that is linear in estimates from another model, such as the time model.

    ``observed`` [count] are the estimates at the observations, and ``points`` the estimates at the pool's points. Both
    are scaled so that ``observed`` has mean 0 and standard deviation 1. The slope of the trend is learned from the
    observed values. Its prior has the mean ``slope`` and the standard deviation ``deviation``. Misleading estimates get
    a slope near 0.
    """

    observed: FloatArray
    points: FloatArray
    slope: float = 0.5
    deviation: float = 0.5


class IncrementalPosterior:
    """Posterior at the points of a fixed pool. Adding an observation to n observations costs O(points x n).

    The posterior deviation depends only on which points were observed, not on the observed values. A pending trial is
    therefore added immediately, with the posterior mean as its value until the value is known (kriging believer).
    Memory is 4 bytes per point and observation. If a ``grid`` of the same points is passed, adding an observation is
    faster until ``replace`` is called.
    """

    def __init__(self, points: npt.NDArray[np.float32], parameters: Hyperparameters, grid: Grid | None = None) -> None:
        self._points = points
        self._grid = grid
        self.hyperparameters = parameters
        count = points.shape[1]
        self._observed = np.zeros((len(points), 0), dtype=np.float32)
        self._factor = np.zeros((0, 0), order="F")  # Fortran order, which LAPACK reads without a copy
        self._solved = np.zeros((0, count), dtype=np.float32)  # factor^-1 covariance(observed, points)
        self._explained = np.zeros(count, dtype=np.float32)
        self._n = 0

    @property
    def count(self) -> int:
        """Number of observations."""
        return self._n

    @property
    def variance(self) -> FloatArray:
        """Posterior variance at every point, without a trend. The variance does not depend on the observed values."""
        variance: FloatArray = self.hyperparameters.total - self._explained.astype(np.float64)
        return variance

    @property
    def points(self) -> npt.NDArray[np.float32]:
        """Coordinates of the pool's points, float32 [d, n]."""
        return self._points

    @property
    def solved(self) -> npt.NDArray[np.float32]:
        """Inverse Cholesky factor of the observations, times the covariance of observations and points."""
        return self._solved[: self._n]

    def observe(self, columns: npt.NDArray[np.float32]) -> None:
        """Append observations at the points with the coordinates ``columns`` [d, k], in this order."""
        k, n = columns.shape[1], self._n
        if not k:
            return
        self._reserve(n + k)
        factor = np.zeros((n + k, n + k), order="F")
        own = covariance(columns, columns, self.hyperparameters).astype(np.float64)
        before = covariance(self._observed[:, :n], columns, self.hyperparameters).astype(np.float64)
        mixed = _solve(self._factor, before)
        corner = _cholesky(own - mixed.T @ mixed, self.hyperparameters.noise)
        factor[:n, :n] = self._factor
        factor[n:, :n] = mixed.T
        factor[n:, n:] = corner
        self._observed[:, n : n + k] = columns
        self._solved[n : n + k] = self._rows(columns, mixed, corner)
        self._explained += (self._solved[n : n + k] ** 2).sum(axis=0)
        self._factor, self._n = factor, n + k

    def replace(self, positions: IntArray, points: npt.NDArray[np.float32]) -> None:
        """Replace points of the pool. ``positions`` are their indices, ``points`` the new coordinates [d, k]."""
        n, self._grid = self._n, None
        self._points[:, positions] = points
        between = covariance(self._observed[:, :n], points, self.hyperparameters).astype(np.float64)
        solved = _solve(self._factor, between)
        self._solved[:n, positions] = solved
        self._explained[positions] = (solved**2).sum(axis=0)

    def predict(self, values: FloatArray, trend: Trend | None = None) -> Prediction:
        """Return the prediction at every point, given the observed ``values`` [count], with NaN for pending trials."""
        n, variance = self._n, self.variance
        if trend is None:
            whitened = _solve(self._factor, self.impute_pending(values)).astype(np.float32)
            mean = (whitened @ self._solved[:n]).astype(np.float64)
        else:
            slope, precision = self._slope(values, trend)
            rest = self.impute_pending(values - slope * trend.observed)
            weights = _solve(self._factor, np.stack([rest, trend.observed], axis=1))
            parts = (weights.T.astype(np.float32) @ self._solved[:n]).astype(np.float64)
            mean = slope * trend.points + parts[0]
            variance = variance + (trend.points - parts[1]) ** 2 / precision
        return Prediction(mean, np.sqrt(np.maximum(variance, 1e-12)))

    def fitted(self, values: FloatArray, trend: Trend | None = None) -> FloatArray:
        """Return the posterior mean, which has no noise, at each observation, [count]."""
        slope = 0.0 if trend is None else self._slope(values, trend)[0]
        line = np.zeros(self._n) if trend is None else slope * trend.observed
        rest = self.impute_pending(values - line)
        noise = self.hyperparameters.noise * scipy.linalg.lapack.dpotrs(self._factor, rest, lower=1)[0]
        fitted: FloatArray = line + rest - noise
        return fitted

    def evidence(self, values: FloatArray, trend: Trend) -> float:
        """Return log(likelihood with the trend / likelihood without the trend) of the known values."""
        guess, value = self._whitened(values, trend)
        scatter = trend.deviation**2
        rest = value - trend.slope * guess
        explained = float(guess @ rest) ** 2 * scatter / (1 + scatter * float(guess @ guess))
        fit = float(value @ value) - float(rest @ rest) + explained
        return 0.5 * (fit - math.log1p(scatter * float(guess @ guess)))

    def _slope(self, values: FloatArray, trend: Trend) -> tuple[float, float]:
        """Return the posterior mean and precision of the slope, given the known values (generalised least squares)."""
        guess, value = self._whitened(values, trend)
        precision = float(guess @ guess) + trend.deviation**-2
        return (float(guess @ value) + trend.slope * trend.deviation**-2) / precision, precision

    def _whitened(self, values: FloatArray, trend: Trend) -> tuple[FloatArray, FloatArray]:
        """Return the estimates and values at the points with known values, both multiplied by the inverse factor."""
        known = ~np.isnan(values)
        factor = self._factor
        if not known.any():
            return np.zeros(0), np.zeros(0)
        both = np.stack([trend.observed[known], values[known]], axis=1)
        if not known.all():
            # Reuse the rows of the Cholesky factor before the first unknown value, and compute the remaining rows
            # again.
            first = int(known.argmin())
            after = first + np.flatnonzero(known[first:])
            leading = _solve(factor[:first, :first], both[:first])
            rest = both[first:] - factor[after, :first] @ leading
            corner = _cholesky(factor[after, first:] @ factor[after, first:].T, 0.0)
            both = np.concatenate([leading, _solve(corner, rest)])
        else:
            both = _solve(factor, both)
        return both[:, 0], both[:, 1]

    def impute_pending(self, values: FloatArray) -> FloatArray:
        """Return ``values`` with NaN replaced by the posterior mean."""
        n = self._n
        unknown = np.isnan(values)
        if not unknown.any():
            return values
        if unknown.all():
            return np.zeros(n)
        whole = np.where(unknown, 0.0, values)
        half = _solve(self._factor, whole)
        # A column of the inverse factor is zero above the diagonal, so rows before the first unknown value contribute
        # nothing.
        first = int(unknown.argmax())
        units = np.eye(n - first)[:, unknown[first:]]
        inverse = _solve(self._factor[first:, first:], units)
        # with the precision P = inverse of the covariance: P_uu E[y_u] = -P_uk y_k
        whole[unknown] = np.linalg.solve(inverse.T @ inverse, -(inverse.T @ half[first:]))
        return whole

    def _rows(self, columns: npt.NDArray[np.float32], mixed: FloatArray, corner: FloatArray) -> npt.NDArray[np.float32]:
        if self._grid is None:
            between = covariance(columns, self._points, self.hyperparameters)
        else:
            between = self._grid.covariance(columns, self.hyperparameters)
        if self._n:
            between -= mixed.T.astype(np.float32) @ self._solved[: self._n]
        if len(corner) == 1:
            between /= np.float32(corner[0, 0])
            return between
        solved: npt.NDArray[np.float32] = scipy.linalg.solve_triangular(corner.astype(np.float32), between, lower=True)
        return solved

    def _reserve(self, n: int) -> None:
        capacity = len(self._solved)
        if n <= capacity:
            return
        capacity = max(n, 2 * capacity, 32)
        solved = np.zeros((capacity, self._points.shape[1]), dtype=np.float32)
        solved[: self._n] = self._solved[: self._n]
        observed = np.zeros((len(self._points), capacity), dtype=np.float32)
        observed[:, : self._n] = self._observed[:, : self._n]
        self._solved, self._observed = solved, observed


def hyperparameters(
    columns: npt.NDArray[np.float32],
    values: FloatArray,
    settings: GaussianProcessSettings | None = None,
    begin: Hyperparameters | None = None,
) -> Hyperparameters:
    """Return the maximum a posteriori hyperparameters for ``values`` [n] at the points ``columns`` [d, n].

    Args:
        columns: Coordinates of the points.
        values: Values of mean 0 and standard deviation 1.
        settings: Priors, and settings of the fit.
        begin: Hyperparameters of an earlier fit. The optimiser starts from them, with at most ``refit_iterations``
            iterations. Default: the starting points of ``settings``.
    """
    settings = settings or GaussianProcessSettings()
    chosen = _informative(values, settings.most_rows)
    likelihood = _Likelihood(columns[:, chosen], values[chosen], settings)
    d = len(columns)
    rng = np.random.default_rng([settings.seed, len(values)])
    centre = np.array([settings.length[0]] * d + [settings.variance[0], settings.noise[0]])
    bounds = [_BOUNDS["length"]] * d + [_BOUNDS["variance"], _BOUNDS["noise"]]
    best, least = centre, math.inf
    for start in range(settings.starts if begin is None else 1):
        theta, iterations = centre.copy(), settings.iterations
        if begin is not None:
            theta = np.log([*begin.lengths, begin.variance, begin.noise])
            iterations = settings.refit_iterations
        elif start:
            theta[:d] += 0.7 * settings.length[1] * rng.normal(size=d)
        optimum = scipy.optimize.minimize(
            likelihood, theta, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": iterations}
        )
        if optimum.fun < least:
            best, least = optimum.x, float(optimum.fun)
    lengths = tuple(np.exp(best[:d]).tolist())
    return Hyperparameters(lengths, math.exp(best[d]), math.exp(best[d + 1]), settings.offset)


class _Likelihood:
    """Negative log posterior density of the hyperparameters' logarithms, up to a constant, with the gradient."""

    def __init__(self, columns: npt.NDArray[np.float32], values: FloatArray, settings: GaussianProcessSettings) -> None:
        d, n = columns.shape
        self._squares = np.stack([s.ravel() for s in squared_distances(columns, columns)]).astype(np.float64)
        self._values, self._n, self._d, self._offset = values, n, d, settings.offset
        self._mean = np.array([settings.length[0]] * d + [settings.variance[0], settings.noise[0]])
        self._deviation = np.array([settings.length[1]] * d + [settings.variance[1], settings.noise[1]])

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        d, n = self._d, self._n
        weights, variance, noise = np.exp(-2 * theta[:d]), math.exp(theta[d]), math.exp(theta[d + 1])
        r = np.sqrt(5.0 * (weights @ self._squares)).reshape(n, n)
        decay = np.exp(-r)
        shape = (1 + r + r * r / 3) * decay
        factor, info = scipy.linalg.lapack.dpotrf(_with_noise(variance * shape + self._offset, noise), lower=1, clean=1)
        if info:
            return 1e10, np.zeros_like(theta)
        alpha = scipy.linalg.lapack.dpotrs(factor, self._values, lower=1)[0]
        inverse = scipy.linalg.lapack.dpotri(factor, lower=1)[0]
        inverse += np.tril(inverse, -1).T
        # d(value) = -1/2 sum(pull * dK), with pull = alpha alpha^T - K^-1
        pull = np.outer(alpha, alpha) - inverse
        slope = pull * (1 + r) * decay
        prior = (theta - self._mean) / self._deviation
        value = 0.5 * self._values @ alpha + np.log(np.diag(factor)).sum() + 0.5 * prior @ prior
        gradient = prior / self._deviation
        gradient[:d] -= (5.0 / 6.0) * variance * weights * (self._squares @ slope.ravel())
        gradient[d] -= 0.5 * variance * float((pull * shape).sum())
        gradient[d + 1] -= 0.5 * noise * float(np.trace(pull))
        return float(value), gradient


def _informative(values: FloatArray, most: int) -> IntArray:
    """Return the rows for the fit: all, or ``most`` rows (half are the best, half are spread over the other rows)."""
    n = len(values)
    if n <= most:
        return np.arange(n, dtype=np.int64)
    order = np.argsort(-values, kind="stable")
    half = most // 2
    rest = np.sort(order[half:])
    even = rest[np.arange(most - half) * len(rest) // (most - half)]
    return np.sort(np.concatenate([order[:half], even])).astype(np.int64)


def _solve(factor: FloatArray, right: FloatArray) -> FloatArray:
    """Return ``inverse(factor) @ right`` for a lower triangular factor. A factor in Fortran order is not copied."""
    if not len(factor):
        return right
    solution: FloatArray = scipy.linalg.lapack.dtrtrs(factor, right, lower=1)[0].reshape(right.shape)
    return solution


def _with_noise(matrix: FloatArray, noise: float) -> FloatArray:
    matrix[np.diag_indices(len(matrix))] += noise + JITTER
    return matrix


def _cholesky(matrix: FloatArray, noise: float) -> FloatArray:
    """Return the lower Cholesky factor of a covariance plus noise. Jitter is added if float32 rounding requires it."""
    for extra in (0.0, 1e-6, 1e-4, 1e-2):
        factor, info = scipy.linalg.lapack.dpotrf(_with_noise(matrix.copy(), noise + extra), lower=1, clean=1)
        if not info:
            lower: FloatArray = factor
            return lower
    raise np.linalg.LinAlgError("the covariance of the observations is not positive definite")
