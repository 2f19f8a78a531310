"""Estimates of a recorded problem are scaled so that the winner's estimate is at least the winner's recorded time."""

import pytest

from autosched.samplers.first_choices.model_choice import predicted_seconds
from autosched.tuning.backends.estimators import AnalyticEstimator
from autosched.tuning.backends.recorded_times import scale_of_estimates, winner
from measurements.runners.base import Candidate
from measurements.trials.measurement import Resources
from search_spaces.catalogue import templates_for
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.problem import Problem
from search_spaces.operators.row_reduction import Softmax

H100 = device("h100")
LARGE = Matmul(8192, 8192, 8192, a="bf16")


@pytest.mark.parametrize("problem", [LARGE, Softmax(4096, 65536, dtype="f16", out="f16")], ids=["matmul", "softmax"])
def test_the_estimate_of_the_recorded_winner_is_at_least_its_time(problem: Problem) -> None:
    best = winner(problem, H100)
    assert best is not None
    schedule, seconds = best
    (estimated,) = predicted_seconds(templates_for(problem, H100), problem, [schedule], H100)
    scaled = estimated * scale_of_estimates(problem, H100)
    assert scaled == pytest.approx(seconds) and estimated < seconds


def test_only_estimates_of_the_recorded_device_are_scaled() -> None:
    assert scale_of_estimates(LARGE, H100) > 1.0
    assert scale_of_estimates(LARGE, device("h200")) == 1.0
    assert scale_of_estimates(Matmul(8192, 8192, 4096, a="bf16"), H100) == 1.0


def test_a_search_estimates_sustained_times() -> None:
    best = winner(LARGE, H100)
    assert best is not None
    schedule, seconds = best
    templates = templates_for(LARGE, H100)
    candidate = Candidate(LARGE, schedule, templates.kernel(LARGE, schedule, H100))
    assert AnalyticEstimator(H100, templates)(candidate, Resources(168, 0, 0, 0, 0, 0)) >= 0.99 * seconds
