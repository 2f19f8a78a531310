"""The model sampler proposes the best estimates first, in an order that does not depend on results."""

from __future__ import annotations

import math

import numpy as np
import pytest
from toy_searches import HILL, hill_seconds, toy_estimates

from autosched.samplers import sampler
from autosched.samplers.first_choices.model_search import BEST, fastest
from autosched.samplers.model import SPREAD
from autosched.testing.samplers import TOY, failed, ok, seconds
from cost_models.estimates import Estimates
from search_spaces.spaces.schedule import Schedule


def hill_estimates() -> Estimates:
    """Return estimates that equal the times of HILL."""
    return Estimates(HILL.encode, lambda schedules: np.log([hill_seconds(schedule) for schedule in schedules]))


def best_of_hill() -> Schedule:
    values = zip("abcde", (4, 9, 7, 2, 11), strict=True)
    return Schedule("hill", tuple(values))


@pytest.mark.parametrize("seed", range(3))
def test_the_best_of_a_large_space_is_found_without_any_result(seed: int) -> None:
    best, estimated = fastest(HILL, hill_estimates(), seed)
    assert best[0] == best_of_hill()
    assert len(best) == BEST and estimated < HILL.count() / 4
    assert (best, estimated) == fastest(HILL, hill_estimates(), seed)


def test_a_small_space_is_estimated_entirely_without_failing_schedules() -> None:
    best, estimated = fastest(TOY, toy_estimates(), 0)
    assert estimated == TOY.count()
    assert set(best) == {s for s in TOY.sample(10**6, 0) if s["x"] != 1}


def test_proposals_are_the_best_distinct_schedules_and_then_others() -> None:
    proposals = sampler("model", HILL, seed=0, estimates=hill_estimates()).ask(BEST)
    assert proposals[0] == best_of_hill()
    assert all(
        sum(a != b for a, b in zip(one.items, other.items, strict=True)) > 1
        for i, one in enumerate(proposals[:SPREAD])
        for other in proposals[:i]
    )
    times = [hill_seconds(schedule) for schedule in proposals]
    assert times[:SPREAD] == sorted(times[:SPREAD]) and times[SPREAD:] == sorted(times[SPREAD:])


def test_no_gain_is_expected_after_the_best_estimate_is_reached() -> None:
    searching = sampler("model", TOY, seed=0, estimates=toy_estimates())
    (first,) = searching.ask(1)
    assert searching.expected_gain == math.inf
    searching.tell(first, ok(30 * seconds(first)))  # ten times slower than estimated
    (second,) = searching.ask(1)
    assert 0.5 < searching.expected_gain < 1
    searching.tell(second, failed())
    (third,) = searching.ask(1)
    searching.tell(third, ok(3 * 1e-6))
    searching.ask(1)
    assert searching.expected_gain == 0
    assert searching.num_guessed == TOY.count()
