"""If programs are timed in alternation, the choice of the winner is statistically sound and stable from run to run."""

import math

import numpy as np
import pytest

from measurements.trials import near_ties
from measurements.trials.near_ties import Slowdown, choose, plausible


def noisy(centre: float, sigma: float, rounds: int, seed: int) -> list[float]:
    return list(centre * np.exp(sigma * np.random.default_rng(seed).standard_normal(rounds)))


def test_the_simplest_of_the_equally_fast_wins() -> None:
    fast, equal, slow = [1.0] * 20, [1.002] * 20, [1.2] * 20
    assert choose([fast, equal, slow], [5, 3, 1]).winner == 1
    assert choose([fast, equal, slow], [3, 5, 1]).winner == 0
    assert choose([fast, equal, slow], [3, 3, 1]).winner == 0
    choice = choose([fast, equal, slow], [5, 3, 1])
    assert choice.clear and choice.fastest == 0 and choice.tied == (0, 1)
    assert 2 not in choice.contenders, "slower entrants are not timed further"


def test_an_entrant_near_the_tie_limit_is_undecided_only_if_it_would_win() -> None:
    fast, edge = [1.0] * 20, noisy(1.01, 0.02, 20, 1)
    choice = choose([fast, edge], [5, 1])
    assert choice.undecided == (1,) and not choice.clear and choice.contenders == (0, 1)
    assert choose([[1.0] * 40, noisy(1.01, 0.02, 40, 1)], [1, 5]).clear, (
        "the entrant does not win, whether it ties or not"
    )
    many = choose([[1.0] * 1000, noisy(1.016, 0.02, 1000, 1)], [5, 1])
    assert many.clear and many.winner == 0, "rounds decide"


def test_noisy_entrants_that_may_be_faster_are_undecided() -> None:
    choice = choose([[1.0] * 20, [0.9, 1.15] * 10], [1, 5])
    assert (choice.winner, choice.undecided) == (0, (1,))


def test_contenders_for_the_fastest_are_timed_further() -> None:
    times = [noisy(1 + 0.0001 * i, 0.01, 20, i) for i in range(12)] + [noisy(1.01, 0.02, 20, 99)]
    choice = choose(times, [float(12 - i) for i in range(12)] + [-1.0])
    assert choice.undecided[-1] == 12
    assert near_ties.REFERENCES <= len(choice.contenders) < 13


def test_the_incumbent_stays_until_it_is_shown_to_be_slower_by_twice_the_tie() -> None:
    fast, simple, slower, slow = [1.0] * 20, [1.002] * 20, [1.015] * 20, [1.03] * 20
    assert choose([fast, simple, slower], [5, 1, 9], incumbent=2).winner == 2
    assert choose([fast, simple, slower], [5, 1, 9]).winner == 1
    assert choose([fast, simple, slow], [5, 1, 0], incumbent=2).winner == 1
    open_yet = choose([fast, simple, noisy(1.02, 0.02, 20, 3)], [5, 1, 9], incumbent=2)
    assert (open_yet.winner, open_yet.clear) == (2, False)
    with pytest.raises(ValueError, match="incumbent"):
        choose([fast], [0], incumbent=1)


def test_slowdowns_shared_by_a_round_cancel() -> None:
    shared = np.random.default_rng(0).choice([1.0, 1.4], 40)
    choice = choose([list(1.1 * shared), list(shared), list(1.05 * shared)], [0, 1, 2])
    assert choice.fastest == 1 and choice.clear
    assert [b.centre for b in choice.slowdowns] == pytest.approx([math.log(1.1), 0, math.log(1.05)])


def test_no_entrants_and_unequal_rounds_are_rejected() -> None:
    with pytest.raises(ValueError, match="entrant"):
        choose([], [])
    with pytest.raises(ValueError, match="not 6, 7"):
        choose([[1.0] * 6, [1.0] * 7], [0, 1])


def test_the_centre_is_scipys_trimmed_mean_with_a_calibrated_interval() -> None:
    from scipy import stats  # importing takes half a second

    rng = np.random.default_rng(5)
    hits = 0
    for _ in range(400):
        times = np.exp(0.02 * rng.standard_t(3, 40))
        slowdown = Slowdown.of(list(times), [1.0] * 40)
        assert slowdown.centre == pytest.approx(stats.trim_mean(np.log(times), near_ties.TRIM))
        hits += slowdown.low <= 0 <= slowdown.high
    assert hits >= 0.985 * 400
    assert Slowdown.of([1.0] * 5, [1.0] * 5).low == -math.inf


def test_two_clocks_do_not_make_the_centre_jump() -> None:
    """If the GPU alternates between two clocks (7% apart), the slowdown's centre must vary by less than 0.4%."""
    centres = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        one, other = (rng.choice([1.0, 1.07], 400) for _ in range(2))
        centres.append(Slowdown.of(list(one), list(other)).centre)
    assert np.std(centres) < 0.004


def test_two_rounds_keep_plausible_winners() -> None:
    """After two rounds, an outlier does not exclude an entrant, and the fastest entrant is hardly ever dropped."""
    clear = [[1.0, 1.1], [1.005, 1.1055], [1.03, 1.133], [1.06, 1.166], [1.02, 2.2]]
    assert plausible(clear) == [0, 1]
    dropped = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        true = 1 + 0.05 * rng.random(32)
        times = true[:, np.newaxis] * rng.uniform(1, 1.1, 2) * np.exp(0.005 * rng.standard_normal((32, 2)))
        dropped += int(true.argmin()) not in plausible(times.tolist())
    assert dropped <= 3
    assert plausible([]) == [] and plausible([[1.0], [2.0]]) == [0, 1] and plausible([[1.0, 2.0]]) == [0]
