"""The textbook Gaussian process learns, and the incremental implementation agrees with it."""

from dataclasses import replace

import numpy as np
import pytest
from plain_gaussian_process import GaussianProcess

from cost_models.covariance import Grid, Hyperparameters, coordinates, covariance
from cost_models.gaussian_process import (
    GaussianProcessSettings,
    IncrementalPosterior,
    Trend,
    _Likelihood,
    hyperparameters,
)
from cost_models.pending_variance import PendingVariance
from search_spaces.arrays import FloatArray


def rows(n: int, seed: int = 0) -> FloatArray:
    """Return rows with two ordinals, a category, and a parameter that is missing in some rows."""
    rng = np.random.default_rng(seed)
    last = np.where(rng.random(n) < 0.3, np.nan, rng.integers(0, 3, n) / 2)
    return np.stack([rng.integers(0, 6, n) / 5, rng.integers(0, 4, n) / 3, rng.integers(0, 3, n), last], axis=1)


def values(X: FloatArray) -> FloatArray:
    objective: FloatArray = 2 - (X[:, 0] - 0.4) ** 2 * 3 + 0.3 * (X[:, 2] == 1) + 0.2 * np.nan_to_num(X[:, 3], nan=-1)
    return objective


class TestContract:
    def test_predictions_correlate_with_the_observed_function(self) -> None:
        X, new = rows(60), rows(40, seed=1)
        predicted = GaussianProcess().fit(X, values(X)).predict(new)
        assert predicted.mean.shape == predicted.deviation.shape == (40,)
        assert np.corrcoef(predicted.mean, values(new))[0, 1] > 0.9

    def test_the_deviation_is_smaller_at_observed_points(self) -> None:
        X = rows(30)
        X = X[X[:, 2] != 2]
        posterior = GaussianProcess().fit(X, values(X))
        far = X.copy()
        far[:, 2] = 2
        at_observed, elsewhere = posterior.predict(X).deviation, posterior.predict(far).deviation
        assert (at_observed >= 0).all() and at_observed.mean() < elsewhere.mean()

    def test_the_same_rows_give_the_same_posterior(self) -> None:
        X, new = rows(25), rows(10, seed=2)
        a, b = GaussianProcess().fit(X, values(X)).predict(new), GaussianProcess().fit(X, values(X)).predict(new)
        assert (a.mean == b.mean).all() and (a.deviation == b.deviation).all()

    def test_one_row_and_equal_values_are_enough(self) -> None:
        X = rows(3)
        assert np.isfinite(GaussianProcess().fit(X[:1], [2.5]).predict(X).mean).all()
        assert GaussianProcess().fit(X, [2.5] * 3).predict(X).mean == pytest.approx([2.5] * 3)

    def test_invalid_input_is_rejected_in_one_line(self) -> None:
        X = rows(3)
        for bad, y in ((X, [1.0]), (X[:0], []), (X, [1.0, np.inf, 2.0]), (X + np.inf, [1.0, 2.0, 3.0]), (X[0], [1.0])):
            with pytest.raises(ValueError, match=r"^[^\n]+$"):
                GaussianProcess().fit(bad, y)
        with pytest.raises(ValueError, match="coordinates"):
            GaussianProcess().fit(X, values(X)).predict(X[:, :2])


@pytest.mark.parametrize("offset", (0.0, 1.5))
def test_gradient_of_the_likelihood(offset: float) -> None:
    X = rows(20)
    y = values(X) - values(X).mean()
    likelihood = _Likelihood(coordinates(X), y / y.std(), GaussianProcessSettings(offset=offset))
    for theta in (np.zeros(6), np.array([0.3, -0.5, 1.0, -1.0, 0.4, -3.0])):
        from scipy.optimize import check_grad  # a slow import

        error = check_grad(lambda t: likelihood(t)[0], lambda t: likelihood(t)[1], theta)
        assert error < 1e-3 * np.linalg.norm(likelihood(theta)[1])


def test_parameters_that_matter_get_shorter_lengths() -> None:
    X = np.random.default_rng(0).integers(0, 5, (60, 3)) / 4
    y = np.sin(4 * X[:, 1])
    fitted = hyperparameters(coordinates(X), (y - y.mean()) / y.std())
    assert 2 * fitted.lengths[1] < min(fitted.lengths[0], fitted.lengths[2])


def test_distances_of_ordinals_categories_and_missing_values() -> None:
    parameters = Hyperparameters((1.0,), 1.0, 1e-3)

    def between(a: float, b: float) -> float:
        return float(covariance(coordinates([[a]]), coordinates([[b]]), parameters)[0, 0])

    assert between(0.5, 0.5) == between(np.nan, np.nan) == 1
    assert between(0.0, 1.0) == between(1.0, 3.0) == between(np.nan, 0.2) < between(0.2, 0.4) < 1


def test_a_grid_looks_up_the_same_covariances() -> None:
    X, new = rows(40), rows(500, seed=3)
    many = np.random.default_rng(0).random((500, 5))  # all values are distinct
    parameters = Hyperparameters((0.5, 0.8, 1.0, 0.7), 1.2, 0.01)
    columns, new_columns = coordinates(X), coordinates(new)
    np.testing.assert_allclose(
        Grid(new_columns).covariance(columns, parameters), covariance(columns, new_columns, parameters), rtol=1e-5
    )
    parameters = Hyperparameters((0.5, 0.8, 1.0, 0.7, 2.0), 1.2, 0.01)
    columns, new_columns = coordinates(many[:40]), coordinates(many)
    np.testing.assert_allclose(
        Grid(new_columns).covariance(columns, parameters), covariance(columns, new_columns, parameters), rtol=1e-5
    )


class TestGrowing:
    parameters = Hyperparameters((0.5, 0.8, 1.0, 0.7), 1.2, 0.01)

    def test_incremental_posterior_equals_the_full_posterior(self) -> None:
        X, new = rows(40), rows(30, seed=3)
        y = values(X) - values(X).mean()
        grown = IncrementalPosterior(coordinates(new), self.parameters)
        for part in (slice(0, 1), slice(1, 2), slice(2, 20), slice(20, 40)):
            grown.observe(coordinates(X[part]))
        predicted = grown.predict(y / y.std())
        full = GaussianProcess(fixed=self.parameters).fit(X, y / y.std()).predict(new)
        assert predicted.mean == pytest.approx(full.mean, abs=1e-3)
        assert predicted.deviation == pytest.approx(full.deviation, abs=1e-3)

    def test_pending_points_reduce_the_variance_as_observations_do(self) -> None:
        new = coordinates(rows(30, seed=3))
        grown = IncrementalPosterior(new, self.parameters)
        grown.observe(coordinates(rows(20)))
        before, positions = grown.variance, np.arange(3, 25)
        pending = PendingVariance(grown, positions, 3)
        for i in (4, 0, 9):
            pending.observe(i)
        grown.observe(new[:, positions[[4, 0, 9]]])
        assert pending.reduction == pytest.approx((before - grown.variance)[positions], abs=1e-4)

    def test_an_unknown_value_only_changes_the_deviation(self) -> None:
        X, new = rows(20), rows(30, seed=3)
        y = values(X) - values(X).mean()
        alone, pending = (
            IncrementalPosterior(coordinates(new), self.parameters),
            IncrementalPosterior(coordinates(new), self.parameters),
        )
        known = np.arange(20) % 3 != 1
        alone.observe(coordinates(X[known]))
        pending.observe(coordinates(X))
        a, b = alone.predict(y[known]), pending.predict(np.where(known, y, np.nan))
        assert b.mean == pytest.approx(a.mean, abs=1e-3)
        assert (b.deviation <= a.deviation + 1e-4).all() and b.deviation.sum() < a.deviation.sum()

    def test_points_can_be_replaced(self) -> None:
        X, old, new = rows(20), rows(30, seed=3), rows(5, seed=4)
        y = values(X) - values(X).mean()
        grown, full = (
            IncrementalPosterior(coordinates(old), self.parameters),
            IncrementalPosterior(coordinates(new), self.parameters),
        )
        grown.observe(coordinates(X))
        full.observe(coordinates(X))
        grown.replace(np.array([3, 1, 7, 20, 29]), coordinates(new))
        assert grown.predict(y).mean[[3, 1, 7, 20, 29]] == pytest.approx(full.predict(y).mean, abs=1e-3)
        assert grown.predict(y).deviation[[3, 1, 7, 20, 29]] == pytest.approx(full.predict(y).deviation, abs=1e-3)

    def test_with_an_offset_the_distant_mean_differs_from_that_of_the_values(self) -> None:
        """If the prior mean is uncertain (``offset`` > 0), a cluster of points affects it like one distant point."""
        X = np.zeros((30, 4))
        X[:20, 1:] = 0.01 * np.random.default_rng(0).random((20, 3))
        X[20:, 0] = np.arange(1, 11)  # ten distant observations, each with another category in the first column
        y = np.where(np.arange(30) < 20, 1.0, -2.0)
        far = np.array([[20.0, 0.0, 0.0, 0.0]])
        parameters = Hyperparameters((0.05, 10.0, 10.0, 10.0), 1.0, 0.01)
        means, deviations = [], []
        for offset in (0.0, 100.0):
            grown = IncrementalPosterior(coordinates(far), replace(parameters, offset=offset))
            grown.observe(coordinates(X))
            predicted = grown.predict(y)
            means.append(float(predicted.mean[0]))
            deviations.append(float(predicted.deviation[0]))
            full = GaussianProcess(fixed=replace(parameters, offset=offset)).fit(X, y).predict(far)
            assert full.deviation[0] == pytest.approx(deviations[-1] * y.std(), rel=0.01)
        assert abs(means[0]) < 0.01  # without an offset: the mean of all values
        assert means[1] == pytest.approx((1 - 10 * 2) / 11, abs=0.1)  # the cluster has the weight of one observation
        assert deviations[0] == pytest.approx(1.0, abs=0.01) and 1.0 < deviations[1] < 1.1

    def test_hyperparameters_keep_a_fixed_offset(self) -> None:
        X = rows(20)
        y = (values(X) - values(X).mean()) / values(X).std()
        fitted, fixed = (
            hyperparameters(coordinates(X), y, GaussianProcessSettings(starts=1, offset=o)) for o in (0.0, 2.0)
        )
        assert (fitted.offset, fixed.offset, GaussianProcessSettings(offset=2.0).mode(4).offset) == (0.0, 2.0, 2.0)
        assert fitted.lengths != fixed.lengths

    def test_a_trend_is_followed_as_far_as_the_values_do(self) -> None:
        X, new = rows(30), rows(40, seed=3)
        y = values(X)
        scaled, of_new = (y - y.mean()) / y.std(), (values(new) - y.mean()) / y.std()
        grown = IncrementalPosterior(coordinates(new), self.parameters)
        grown.observe(coordinates(X))
        right = Trend(scaled, of_new)
        noise = np.random.default_rng(0)
        wrong = Trend(noise.normal(size=30), noise.normal(size=40))
        assert grown.evidence(scaled, right) > 5 and grown.evidence(scaled, wrong) < -1
        error = np.abs(grown.predict(scaled).mean - of_new).mean()
        assert np.abs(grown.predict(scaled, right).mean - of_new).mean() < 0.5 * error
        assert np.abs(grown.predict(scaled, wrong).mean - of_new).mean() < 2 * error

    def test_the_evidence_agrees_with_the_covariances(self) -> None:
        from scipy.stats import multivariate_normal  # importing takes half a second

        X = rows(12)
        y, guess = values(X) - values(X).mean(), np.linspace(-1, 1, 12)
        grown = IncrementalPosterior(coordinates(X), self.parameters)
        grown.observe(coordinates(X))
        covariances = covariance(coordinates(X), coordinates(X), self.parameters).astype(np.float64) + 0.01 * np.eye(12)
        trend = Trend(guess, guess, slope=0.3, deviation=0.7)
        with_trend = multivariate_normal(0.3 * guess, covariances + 0.49 * np.outer(guess, guess)).logpdf(y)
        without = multivariate_normal(np.zeros(12), covariances).logpdf(y)
        assert grown.evidence(y, trend) == pytest.approx(with_trend - without, abs=1e-2)
