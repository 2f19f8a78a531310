"""Where the registers of a thread lie in a tile that changes hands in shared memory."""

from __future__ import annotations

import numpy as np

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
