"""What a template can show of a schedule: layouts under titles. ``autosched.reporting.pictures`` draws them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from search_spaces.layouts.nested_layout import NestedLayout
    from search_spaces.layouts.shared_layout import SharedLayout
    from search_spaces.layouts.wg_map import WgMap


@dataclass(frozen=True)
class Drawing:
    """One layout to draw under a title: a distribution (a WgMap with the ``shape`` of its tile, or a NestedLayout), or
    the banks of a SharedLayout of elements of ``element_bytes``.
    """

    title: str
    layout: NestedLayout | WgMap | SharedLayout
    shape: tuple[int, int] | None = None
    element_bytes: int = 0
