"""The positions of all registers of a thread in an exchanged tile can be computed from one address per thread."""

from __future__ import annotations

import numpy as np
import pytest

from search_spaces.layouts.shared_layout import SharedLayout
from search_spaces.programs.language.distribution import Distribution
from search_spaces.programs.language.layout_distributions import blocked
from search_spaces.programs.planning.exchange import steps
from search_spaces.programs.planning.memory import EXCHANGES, exchange_layout

WARPS = 4
DISTRIBUTIONS = [
    blocked((64, 64), WARPS, 1, 8, 1, 4),
    blocked((64, 64), WARPS, 1, 32, 2, 1),
    blocked((64, 64), WARPS, 0, 16, 1, 2),
    blocked((48, 96), WARPS, 1, 4, 1, 8),
    blocked((128, 32), WARPS, 0, 8, 1, 4),
]


def positions_of(layout: SharedLayout, of: Distribution) -> np.ndarray:
    elements = of.elements(WARPS)
    return layout(elements // of.shape[1], elements % of.shape[1])


@pytest.mark.parametrize("text", EXCHANGES)
@pytest.mark.parametrize("of", DISTRIBUTIONS, ids=lambda of: f"{of.shape}")
def test_steps_reach_the_positions_of_the_layout(of: Distribution, text: str) -> None:
    layout = exchange_layout(text, of.shape)
    actual = steps(layout, of, WARPS)
    assert actual is not None
    flips, adds = actual
    expected = positions_of(layout, of)
    assert np.array_equal((expected[:, :1] ^ np.asarray(flips)) + np.asarray(adds), expected)


def test_threads_with_different_offsets_have_no_common_steps() -> None:
    of = blocked((64, 48), WARPS, 1, 2, 1, 2)  # lines start at different offsets in a swizzle's period
    layout = SharedLayout.parse("swizzle(2,3,4)", of.shape)
    expected = positions_of(layout, of)
    between = expected - expected[:, :1]
    assert (between != between[0]).any() and steps(layout, of, WARPS) is None
