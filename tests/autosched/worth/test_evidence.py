"""Evidence of recorded searches: a choice's regret, a correction of estimates, and the best of a shorter search."""

import dataclasses
import itertools
import math

import numpy as np
import pytest

from autosched.worth.evidence import Evidence, drawn, recorded_searches, spread_out, weights
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.row_reduction import Softmax

SQUARE = Matmul(64, 64, 64)


def evidence(seconds: tuple[float, ...], predicted: tuple[float, ...] | None = None) -> Evidence:
    return Evidence(SQUARE.key(), seconds, predicted or seconds)


def test_the_first_choice_is_the_predicted_fastest() -> None:
    search = evidence((3.0, 2.0, 4.0), (1.0, 2.0, 1.5))
    # The schedule predicted to be fastest takes 3.0 s, and the fastest schedule takes 2.0 s.
    assert search.regret == 1.5
    assert search.correction == 2.0
    assert dataclasses.replace(search, sustained=2.5).correction == 2.5


@pytest.mark.parametrize("trials", [1, 2, 3])
def test_the_best_of_a_shorter_search_is_the_mean_over_all_draws(trials: int) -> None:
    times = (5.0, 1.0, 2.0, 8.0)
    draws = [min(draw) for draw in itertools.combinations(times, trials)]
    assert evidence(times).best_of(trials) == pytest.approx(sum(draws) / len(draws))


def test_a_search_at_least_as_long_finds_the_best() -> None:
    assert evidence((2.0, 1.0)).best_of(2) == evidence((2.0, 1.0)).best_of(99) == 1.0


def test_nearer_problems_weigh_more() -> None:
    problems = [SQUARE, Matmul(128, 64, 64), Matmul(1024, 64, 64), Matmul(64, 64, 64, a="bf16"), Softmax(4, 64)]
    actual = weights(SQUARE, [other.to_json() for other in problems])
    assert math.isclose(actual.sum(), 1.0)
    same, twice, far, other_type, other_operator = actual
    assert same > twice > far > other_operator
    assert twice > other_type > other_operator


def test_draws_are_taken_from_the_evidence_deterministically() -> None:
    several = [evidence((1.0, 2.0), (2.0, 1.0)), evidence((1.0, 3.0), (1.0, 3.0))]
    first, again = (drawn(SQUARE, several, lambda e: e.regret, 100, np.random.default_rng(3)) for _ in range(2))
    assert set(first) == {1.0, 2.0}
    assert (first == again).all()


def test_smoothing_keeps_positive_numbers_around_the_same_middle() -> None:
    draws = np.exp(np.random.default_rng(1).normal(0.0, 0.1, 4000))
    smooth = spread_out(draws, np.random.default_rng(2))
    assert (smooth > 0).all()
    assert np.median(smooth) == pytest.approx(np.median(draws), rel=0.02)
    assert np.std(np.log(smooth)) == pytest.approx(0.1 * math.sqrt(2), rel=0.1)
    assert (spread_out(np.full(5, 2.0), np.random.default_rng(0)) == 2.0).all()


def test_shipped_recordings_are_evidence_for_every_device() -> None:
    searches = recorded_searches("h100")
    assert {one.fields["operator"] for one in searches} >= {"matmul", "softmax", "rmsnorm"}
    assert all(one.regret >= 1.0 and one.correction > 0.0 for one in searches)
    assert recorded_searches("b200") == searches  # autosched includes no recorded search for this device
