"""Statistics of times have the right properties. They are not compared with fixed expected values."""

import itertools
import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from measurements.trials.timing_statistics import (
    Ratio,
    SpeedChange,
    StopRule,
    interleaved,
    median_error,
    relative_noise,
    unslowed,
    verdict,
)

times = st.lists(st.floats(1e-6, 1.0), min_size=2, max_size=40)


@given(times, st.floats(1e-3, 1e3))
def test_noise_has_no_unit(seconds, factor):
    assert relative_noise([t * factor for t in seconds]) == pytest.approx(relative_noise(seconds), abs=1e-9)


def test_noise_equals_the_relative_deviation_despite_outliers():
    rng = random.Random(1)
    seconds = [rng.gauss(1.0, 0.02) for _ in range(4001)]
    assert relative_noise(seconds) == pytest.approx(0.02, rel=0.1)
    assert relative_noise([*seconds, *[50.0] * 20]) == pytest.approx(0.02, rel=0.1)


def test_the_error_of_the_median_equals_the_scatter_of_medians():
    rng = random.Random(2)
    samples = [[rng.gauss(1.0, 0.05) for _ in range(101)] for _ in range(400)]
    scatter = statistics.stdev(statistics.median(s) for s in samples)
    assert statistics.fmean(median_error(s) for s in samples) == pytest.approx(scatter, rel=0.15)


def test_the_noise_of_a_single_time_is_infinite():
    assert relative_noise([1.0]) == math.inf
    assert relative_noise([]) == math.inf


def test_repeating_stops_when_it_is_quiet_or_when_a_limit_is_met():
    rule = StopRule(target=0.01, min_repeats=5, max_repeats=20, max_seconds=1.0)
    noisy = [1.0, 2.0] * 10
    assert not rule.done([], 99.0)
    assert not rule.done([1.0] * 4, 0.5)
    assert rule.done([1.0] * 5, 0.5)
    assert not rule.done(noisy[:19], 0.5)
    assert rule.done(noisy, 0.5)
    assert rule.done([1.0], 1.0)


def test_candidates_with_a_much_slower_fastest_repeat_are_hopeless():
    rule = StopRule(hopeless_repeats=3, hopeless_factor=3.0)
    assert rule.hopeless([3.1, 3.2, 9.0], 1.0)
    assert not rule.hopeless([3.1, 3.2], 1.0)
    assert not rule.hopeless([2.9, 9.0, 9.0, 9.0], 1.0)
    assert not rule.hopeless([3.1] * 9, None)
    with pytest.raises(ValueError, match=r"hopeless_factor must be at least 1, not 3 and 0\.5"):
        StopRule(hopeless_factor=0.5)


def test_times_of_a_slowed_gpu_are_excluded_unless_all_are():
    times = [1.0, 2.0, 3.0]
    assert unslowed(times, [False, True, False]) == [1.0, 3.0]
    assert unslowed(times, [True, True, False]) == [3.0]
    assert unslowed(times, [True] * 3) == times
    assert unslowed([], []) == []


@pytest.mark.parametrize(
    "arguments",
    [
        {"min_repeats": 0},
        {"min_repeats": 9, "max_repeats": 8},
        {"target": 0},
        {"max_seconds": -1.0},
        {"target": math.nan},
    ],
)
def test_a_stop_rule_that_cannot_stop_is_rejected(arguments):
    with pytest.raises(ValueError, match="must"):
        StopRule(**arguments)


@given(times.filter(lambda t: len(t) >= 6), st.floats(0.5, 2.0))
def test_a_constant_ratio_is_found_through_any_drift(baseline, factor):
    ratio = Ratio.paired([t * factor for t in baseline], baseline)
    assert ratio.median == pytest.approx(factor)
    assert ratio.low == pytest.approx(factor)
    assert ratio.high == pytest.approx(factor)


@given(st.lists(st.tuples(st.floats(1e-3, 1.0), st.floats(1e-3, 1.0)), min_size=1, max_size=60))
def test_swapping_the_two_inverts_the_interval(pairs):
    candidate, baseline = [a for a, _ in pairs], [b for _, b in pairs]
    ratio, inverse = Ratio.paired(candidate, baseline), Ratio.paired(baseline, candidate)
    assert ratio.low <= ratio.median * (1 + 1e-12)
    assert ratio.median <= ratio.high * (1 + 1e-12)
    assert ratio.high == (pytest.approx(1 / inverse.low) if inverse.low else math.inf)


def test_no_interval_is_claimed_from_too_few_pairs():
    assert Ratio.paired([1.0] * 5, [2.0] * 5) == Ratio(0.5, 0.0, math.inf, 5)
    assert Ratio.paired([1.0] * 6, [2.0] * 6) == Ratio(0.5, 0.5, 0.5, 6)


def test_the_interval_covers_the_true_ratio_at_its_confidence():
    rng = random.Random(3)
    hits = 0
    for _ in range(600):
        baseline = [rng.uniform(1.0, 3.0) for _ in range(20)]
        ratio = Ratio.paired([b * 1.1 * math.exp(rng.gauss(0, 0.05)) for b in baseline], baseline)
        hits += ratio.low <= 1.1 <= ratio.high
    assert 0.93 <= hits / 600 <= 0.975


@pytest.mark.parametrize(
    ("candidate", "baseline"), [([], []), ([1.0], [1.0, 2.0]), ([0.0], [1.0]), ([1.0], [math.nan]), ([-1.0], [1.0])]
)
def test_invalid_pairs_are_rejected(candidate, baseline):
    with pytest.raises(ValueError, match=r"must|same length"):
        Ratio.paired(candidate, baseline)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.90, 0.98, SpeedChange.FASTER),
        (0.90, 0.995, SpeedChange.UNCERTAIN),
        (0.995, 1.005, SpeedChange.SAME),
        (0.99, 1.01, SpeedChange.SAME),
        (0.98, 1.02, SpeedChange.UNCERTAIN),
        (1.02, 1.30, SpeedChange.SLOWER),
        (1.005, 1.30, SpeedChange.UNCERTAIN),
        (0.0, math.inf, SpeedChange.UNCERTAIN),
    ],
)
def test_a_verdict_holds_over_the_whole_interval(low, high, expected):
    assert verdict(Ratio((low + high) / 2, low, high, 20), tie=0.01) is expected


@pytest.mark.parametrize("entrants", [1, 2, 3, 5])
def test_every_entrant_has_every_position_equally_often(entrants):
    orders = interleaved(entrants, 4 * entrants)
    assert all(sorted(order) == list(range(entrants)) for order in orders)
    for entrant, position in itertools.product(range(entrants), repeat=2):
        assert sum(order[position] == entrant for order in orders) == 4
