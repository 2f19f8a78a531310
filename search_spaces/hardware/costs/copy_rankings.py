"""Rank the possible copies of a region, and the layouts that both a copy and an intrinsic support.

Both rankings are for problem 1 of TVM's memory planning.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from search_spaces.hardware.costs.bank_conflicts import Traffic, fragment_traffic
from search_spaces.hardware.costs.data_movement import CopyPlan, Method, Region, copy_plan
from search_spaces.hardware.costs.transactions import WIDEST_BYTES
from search_spaces.hardware.requirements import Access, OperandSide, Refusal
from search_spaces.hardware.tensor_intrinsic import TensorIntrinsic
from search_spaces.layouts.shared_layout import SharedLayout


def copy_choices(region: Region, layout: SharedLayout, threads: int) -> tuple[CopyPlan, ...]:
    """Return every legal copy of a region, best first.

    The best copy has the fewest sectors, then the fewest shared-memory cycles, then the widest vector. Returns () if
    ``threads`` cannot share the tile evenly.
    """
    columns = [c for c in range(1, min(threads, region.line) + 1) if threads % c == 0 and region.line % c == 0]
    methods: tuple[Method, ...] = ("cp.async", "ld.global")
    vectors = (v for v in (1, 2, 4, 8, 16) if v * region.element_bytes <= WIDEST_BYTES)
    plans = (copy_plan(region, layout, threads, v, c, m) for v in vectors for c in columns for m in methods)
    legal = (plan for plan in plans if isinstance(plan, CopyPlan))
    return tuple(sorted(legal, key=_order))


def _order(plan: CopyPlan) -> tuple[float, int, int, bool, int]:
    """Return the sort key of a plan: few sectors, few shared-memory cycles, wide vectors, cp.async, many columns."""
    return plan.sectors, plan.stores.wavefronts, -plan.vector, plan.method != "cp.async", -plan.columns


@dataclass(frozen=True)
class LayoutChoice:
    """A layout that a copy and an intrinsic both support, with the best copy, the intrinsic's access, and their costs.

    ``loads`` is the traffic of one warp that reads every fragment of the tile once. ``readers`` is the number of such
    warps.
    """

    layout: SharedLayout
    access: Access
    copy: CopyPlan
    loads: Traffic
    readers: int

    @property
    def wavefronts(self) -> int:
        """Cycles of the copy's stores and of all readers' loads."""
        return self.copy.stores.wavefronts + self.readers * self.loads.wavefronts

    @property
    def conflicts(self) -> int:
        """Cycles lost to bank conflicts."""
        return self.wavefronts - self.copy.stores.ideal - self.readers * self.loads.ideal


def layout_choices(
    layouts: Iterable[SharedLayout],
    region: Region,
    intrinsic: TensorIntrinsic,
    operand: OperandSide,
    threads: int,
    method: Method | None = None,
    readers: int = 1,
) -> tuple[LayoutChoice, ...]:
    """Return those ``layouts`` that both the intrinsic and a copy of the region support, best first.

    Layouts are sorted by cycles lost to conflicts, then by total cycles, then by size.

    Args:
        layouts: Layouts of the region's shape.
        region: The copied region.
        intrinsic: The instruction that reads the tile.
        operand: "a" or "b".
        threads: Number of threads that copy the region.
        method: Method of the copy; None for the best one.
        readers: Number of warps that each read the whole tile. The loads of all these warps are counted.

    Raises:
        ValueError: The shape of a layout differs from the region's shape.
    """
    choices = []
    for layout in layouts:
        if layout.shape != region.shape:
            raise ValueError(f"layout {layout.text} has shape {layout.shape}, but the region has shape {region.shape}")
        access = intrinsic.requirement(operand, layout, region.element_bytes)
        if isinstance(access, Refusal) or layout.why_illegal():
            continue
        plans = [p for p in copy_choices(region, layout, threads) if method in (None, p.method)]
        if plans:
            loads = fragment_traffic(intrinsic, operand, layout, region.element_bytes)
            choices.append(LayoutChoice(layout, access, plans[0], loads, readers))
    return tuple(sorted(choices, key=lambda c: (c.conflicts, c.wavefronts, c.layout.size, c.layout.text)))
