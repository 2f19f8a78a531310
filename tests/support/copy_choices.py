"""Every legal copy of a tile: what plans are the best of."""

from __future__ import annotations

from search_spaces.hardware.costs.data_movement import CopyPlan, Method, Region, copy_plan
from search_spaces.layouts.shared_layout import Axis, SharedLayout


def copy_choices(
    tile_shape: tuple[int, int],
    contiguous_axis: Axis,
    element_bytes: int,
    layout: SharedLayout,
    threads: int,
    global_alignment_elements: int,
) -> tuple[CopyPlan, ...]:
    """Return every legal copy, best first: fewest sectors, then shared cycles, then the widest vector.

    Empty where ``threads`` cannot share the tile evenly. Raises ValueError for a malformed region.
    """
    region = Region(tile_shape, contiguous_axis, global_alignment_elements, element_bytes)
    columns = [c for c in range(1, min(threads, region.line) + 1) if threads % c == 0 and region.line % c == 0]
    methods: tuple[Method, ...] = ("cp.async", "ld.global")
    vectors = (v for v in (1, 2, 4, 8, 16) if v * element_bytes <= 16)
    plans = (copy_plan(region, layout, threads, v, c, m) for v in vectors for c in columns for m in methods)
    legal = (plan for plan in plans if isinstance(plan, CopyPlan))
    return tuple(sorted(legal, key=_order))


def _order(plan: CopyPlan) -> tuple[float, int, int, bool, int]:
    """Sectors, shared cycles, wide vectors, no registers, many columns."""
    return plan.sectors, plan.stores.wavefronts, -plan.vector, plan.method != "cp.async", -plan.columns
