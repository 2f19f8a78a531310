"""Uniformly distributed random ranks, which are equal on every machine and with every version of numpy.

Only the raw 64-bit output of PCG64 is used, which numpy guarantees to be stable for a seed. Rejection sampling converts
the output to bounded integers, so that all ranks have exactly the same probability.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

_FEWEST_WORDS, _MOST_WORDS = 64, 4096  # number of words that are drawn at a time


def _words(seed: int) -> Iterator[int]:
    generator = np.random.PCG64(seed)
    count = _FEWEST_WORDS  # number of words in the first block, which is small because most calls need only a few ranks
    while True:
        yield from generator.random_raw(count).tolist()
        count = min(2 * count, _MOST_WORDS)


def _below(bound: int, words: Iterator[int]) -> int:
    """Return a uniformly distributed integer in [0, bound), from the leading bits of as many 64-bit words as needed."""
    bits = (bound - 1).bit_length()
    count = -(-bits // 64)
    while True:
        drawn = 0
        for _ in range(count):
            drawn = drawn << 64 | next(words)
        drawn >>= 64 * count - bits
        if drawn < bound:
            return drawn


def draw_ranks(count: int, n: int, seed: int, replace: bool = False) -> list[int]:
    """Return uniform random ranks in [0, count). For one seed, a longer result begins with a shorter result's ranks.

    Args:
        count: Number of ranks to draw from, of any size.
        n: Number of ranks to draw.
        seed: Random seed, non-negative.
        replace: If True, a rank may be drawn twice; otherwise at most ``count`` are drawn.

    Raises:
        ValueError: ``n`` or ``seed`` is negative, or ``count`` is 0.
    """
    if n < 0:
        raise ValueError(f"cannot draw {n} samples: use 0 or more")
    if isinstance(seed, bool) or seed < 0:
        raise ValueError(f"seed {seed} is negative: use 0 or more")
    if count < 1:
        raise ValueError("cannot draw ranks from an empty space")
    words = _words(seed)
    if replace:
        return [_below(count, words) for _ in range(n)]
    # Make the first n steps of a Fisher-Yates shuffle of range(count), storing only entries that have moved.
    moved: dict[int, int] = {}
    ranks = []
    for i in range(min(n, count)):
        j = i + _below(count - i, words)
        ranks.append(moved.get(j, j))
        moved[j] = moved.get(i, i)
    return ranks
