"""The model predicts the probability that a schedule works."""

import numpy as np

from cost_models import feasibility
from cost_models.covariance import coordinates
from cost_models.gaussian_process import IncrementalPosterior

X = np.random.default_rng(0).integers(0, 5, (120, 3)) / 4
WORKS = (X[:, 0] + X[:, 1] <= 1.25).astype(np.float64)


def test_failing_schedules_are_separated_from_working_ones() -> None:
    observed, new = slice(0, 60), slice(60, 120)
    columns = coordinates(X[observed])
    hyperparameters = feasibility.hyperparameters(columns, WORKS[observed])
    assert hyperparameters.lengths[2] > 2 * max(hyperparameters.lengths[:2])  # the third parameter has no effect
    posterior = IncrementalPosterior(coordinates(X[new]), hyperparameters)
    posterior.observe(columns)
    probabilities = feasibility.probability(posterior, WORKS[observed])
    assert ((probabilities > 0.5) == (WORKS[new] == 1)).mean() > 0.9
    assert (probabilities >= 0).all() and (probabilities <= 1).all()


def test_a_pending_trial_does_not_change_the_probability() -> None:
    columns = coordinates(X[:30])
    hyperparameters = feasibility.hyperparameters(columns, WORKS[:30])
    alone, waiting = (IncrementalPosterior(coordinates(X[60:]), hyperparameters) for _ in range(2))
    alone.observe(columns)
    waiting.observe(columns)
    waiting.observe(coordinates(X[30:31]))
    with_one = feasibility.probability(waiting, np.append(WORKS[:30], np.nan))
    assert np.abs(with_one - feasibility.probability(alone, WORKS[:30])).mean() < 0.05
