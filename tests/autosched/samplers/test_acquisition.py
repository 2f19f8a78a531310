"""The acquisition function."""

import math

import numpy as np
import pytest

from autosched.samplers.bayes.acquisition import (
    LEAST_GAIN,
    RESOLUTION,
    expected_improvement,
    likely_optimum,
    log_probability_to_reach,
)
from cost_models.gaussian_process import Prediction

RNG = np.random.default_rng(0)
PREDICTED = Prediction(RNG.normal(-1.0, 0.5, 400), RNG.uniform(0.2, 0.8, 400))


def test_the_expected_improvement_is_the_mean_of_positive_improvements() -> None:
    samples = RNG.normal(PREDICTED.mean[:5], PREDICTED.deviation[:5], (200_000, 5))
    expected = np.maximum(samples + 0.5, 0.0).mean(axis=0)
    assert expected_improvement(PREDICTED, -0.5)[:5] == pytest.approx(expected, abs=3e-3)


def test_the_likely_optimum_is_the_median_of_the_largest_value() -> None:
    samples = RNG.normal(PREDICTED.mean, PREDICTED.deviation, (4_000, 400)).max(axis=1)
    optimum = likely_optimum(PREDICTED, -1.0, np.ones(400))
    assert optimum == pytest.approx(float(np.median(samples)), abs=0.03)
    # A likely failure lowers the acquisition.
    assert likely_optimum(PREDICTED, -1.0, np.full(400, 0.1)) < optimum - 0.1
    assert likely_optimum(PREDICTED, 5.0, np.ones(400)) == pytest.approx(5.0 + LEAST_GAIN, abs=RESOLUTION)
    assert likely_optimum(PREDICTED, 5.0, np.zeros(400)) == 5.0 + LEAST_GAIN
    certain = Prediction(np.array([1.0, 0.0]), np.array([0.0, 0.5]))
    assert likely_optimum(certain, 0.0, np.ones(2)) == pytest.approx(1.1, abs=0.2)


def test_a_probability_to_reach_far_values_still_orders() -> None:
    ahead = log_probability_to_reach(60.0, PREDICTED)
    assert np.isfinite(ahead).all() and len(np.unique(ahead)) == 400
    assert ahead.argmax() == ((PREDICTED.mean - 60.0) / PREDICTED.deviation).argmax()
    assert log_probability_to_reach(0.0, Prediction(np.zeros(1), np.ones(1)))[0] == pytest.approx(math.log(0.5))
