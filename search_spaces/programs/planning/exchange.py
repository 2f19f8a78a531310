"""Where the registers of a thread lie in a tile that changes hands in shared memory, and what it costs."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from search_spaces.hardware.costs import bank_conflicts
from search_spaces.hardware.fragments import WARP
from search_spaces.layouts.shared_layout import SharedLayout, Swizzle
from search_spaces.programs.language.distribution import Distribution


def steps(layout: SharedLayout, of: Distribution, warps: int) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return flips and adds: register r of every thread lies at ``(base ^ flips[r]) + adds[r]``, where base is the
    place of its register 0. None where they differ between threads."""
    rows, columns = (of.of_threads(d, warps)[:, None] + np.asarray(of.of_registers(d))[None, :] for d in (0, 1))
    places = layout(rows, columns)
    base, flips, adds = places[:, 0], list[int](), list[int]()
    period = max((step.period for step in layout.steps if isinstance(step, Swizzle)), default=1)
    for place in places.T:
        add = int(place[0] - base[0])
        if not (place - base == add).all():  # whole periods pass through a swizzle unchanged
            add = int(place[0]) // period * period - int(base[0]) // period * period
        flip = int(place[0] - add) ^ int(base[0])
        if not ((base ^ flip) + add == place).all():
            return None
        flips.append(flip)
        adds.append(add)
    return tuple(flips), tuple(adds)


def access_width(of: Distribution, layout: SharedLayout) -> int:
    """Return how many registers an access takes: neighbours in the tile that the layout keeps together, 4 at most."""
    return max(math.gcd(of.run(0), layout.contiguity("rows"), 4), math.gcd(of.run(1), layout.contiguity("cols"), 4))


@lru_cache(maxsize=2**14)
def wavefronts(of: Distribution, layout: SharedLayout, warps: int, store: bool) -> int:
    """Return the cycles of shared memory in which a block writes all words of a tile, or reads them.

    Of threads with the same words the first one writes.
    """
    width = access_width(of, layout)
    rows, columns = (of.of_threads(d, warps)[:, None] + np.asarray(of.of_registers(d)[::width]) for d in (0, 1))
    places = 4 * np.asarray(layout(rows, columns))
    if store:
        alone = np.zeros(len(places), dtype=np.bool_)
        alone[np.unique(places[:, 0], return_index=True)[1]] = True
        places = np.where(alone[:, None], places, -1)
    accesses = places.reshape(warps, WARP, -1).transpose(0, 2, 1)
    return int(bank_conflicts.wavefronts(accesses, 4 * width).sum())
