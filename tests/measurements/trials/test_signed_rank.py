"""The signed-rank interval and p-value equal their definition, computed by enumerating all signs."""

import itertools
import math

import numpy as np
import pytest

from measurements.trials import signed_rank


def by_enumeration(differences, centre):
    """Return P(W >= observed) over all equally likely signs; W is the sum of the ranks of positive differences."""
    shifted = np.asarray(differences) - centre
    ranks = np.argsort(np.argsort(np.abs(shifted))) + 1
    observed = ranks[shifted > 0].sum()
    every = [np.dot(ranks, signs) for signs in itertools.product((0, 1), repeat=len(ranks))]
    return sum(w >= observed for w in every) / len(every)


@pytest.mark.parametrize("n", [1, 2, 5, 8, 10])
def test_the_p_value_equals_the_enumeration_of_all_signs(n):
    rng = np.random.default_rng(n)
    for _ in range(5):
        differences = rng.standard_normal(n) + 0.3
        centre = float(rng.standard_normal() * 0.3)
        assert signed_rank.p_value(differences, centre) == pytest.approx(by_enumeration(differences, centre))


@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
def test_the_interval_holds_exactly_the_centres_that_are_not_refuted(confidence):
    rng = np.random.default_rng(4)
    for n in (8, 12, 25):
        differences = rng.standard_normal(n)
        low, high = signed_rank.interval(differences, confidence)
        refuted, step = (1 - confidence) / 2, 1e-9
        for values, bound in ((differences, low), (-differences, -high)):
            assert signed_rank.p_value(values, bound - step) <= refuted
            assert signed_rank.p_value(values, bound + step) > refuted


def test_too_few_differences_give_no_interval():
    assert signed_rank.interval(np.ones(5), 0.95) is None
    assert signed_rank.interval(np.ones(6), 0.95) == (1.0, 1.0)
    assert signed_rank.interval(np.ones(7), 0.99) is None
    assert signed_rank.interval(np.ones(8), 0.99) == (1.0, 1.0)


def test_the_interval_has_its_coverage_and_is_narrower_than_the_sign_test():
    rng = np.random.default_rng(5)
    hits, widths = 0, []
    for _ in range(500):
        low, high = signed_rank.interval(rng.standard_normal(40), 0.95)
        hits += low <= 0 <= high
        widths.append(high - low)
    assert 0.93 <= hits / 500 <= 0.975
    # The expected width of the sign test's interval for 40 normal values.
    sign_test = 2 * 1.96 * math.sqrt(math.pi / 2) / math.sqrt(40)
    assert np.mean(widths) < 0.9 * sign_test


def test_one_outlier_moves_the_interval_little():
    rng = np.random.default_rng(6)
    differences = rng.standard_normal(40)
    low, high = signed_rank.interval(differences, 0.95)
    far = signed_rank.interval(np.append(differences, 1e6), 0.95)
    assert abs(far[0] - low) < 0.2 and abs(far[1] - high) < 0.2
