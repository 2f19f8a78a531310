"""Random ranks are exactly uniform, and a seed always gives the same ranks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from search_spaces.spaces.ranks import draw_ranks


@given(st.integers(1, 2**200), st.integers(0, 40), st.integers(0, 2**64), st.booleans())
def test_ranks_lie_in_range_and_longer_draws_continue_shorter_ones(
    count: int, n: int, seed: int, replace: bool
) -> None:
    ranks = draw_ranks(count, n, seed, replace)
    assert all(0 <= rank < count for rank in ranks)
    assert ranks[: n // 2] == draw_ranks(count, n // 2, seed, replace)
    if not replace:
        assert len(ranks) == len(set(ranks)) == min(n, count)


@given(st.integers(1, 60), st.integers(0, 2**32))
def test_drawing_all_ranks_is_a_permutation(count: int, seed: int) -> None:
    assert sorted(draw_ranks(count, count + 3, seed)) == list(range(count))


@pytest.mark.parametrize("replace", [False, True])
# A rank is computed from random 64-bit words. For the second count, many words are rejected. For the third count, each
# rank needs two words.
@pytest.mark.parametrize("count", [3, 2**64 // 3 + 1, 2**70 // 3])
def test_every_third_of_the_range_is_equally_likely(count: int, replace: bool) -> None:
    if count > 3:
        drawn = draw_ranks(count, 6000, 5, replace)
    else:
        drawn = [draw_ranks(count, 1, seed, replace)[0] for seed in range(6000)]
    thirds = np.bincount([3 * rank // count for rank in drawn], minlength=3)
    assert float(np.square(thirds - 2000).sum() / 2000) < 13.8  # holds for 99.9% of uniform samples


def test_golden_ranks() -> None:
    assert draw_ranks(1000, 6, seed=0) == GOLDEN_SMALL
    assert draw_ranks(10**30, 2, seed=0, replace=True) == GOLDEN_LARGE


GOLDEN_SMALL = [652, 277, 43, 19, 836, 939]
GOLDEN_LARGE = [807444865255427370586668261256, 51940112211182934745360268129]


def test_invalid_requests_are_rejected() -> None:
    for arguments, message in (((0, 1, 0), "empty space"), ((5, -1, 0), "-1 samples"), ((5, 1, -1), "negative")):
        with pytest.raises(ValueError, match=message):
            draw_ranks(*arguments)
