"""Layouts of a schedule to show in reports, as pictures with titles. ``autosched.reporting.pictures`` draws them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from search_spaces.layouts.nested_layout import NestedLayout
    from search_spaces.layouts.shared_layout import SharedLayout
    from search_spaces.layouts.wg_map import WgMap


@dataclass(frozen=True)
class Drawing:
    """One layout to draw.

    Attributes:
        layout: A WgMap or NestedLayout, or a SharedLayout whose banks are drawn.
        shape: Shape of the tile of a WgMap.
        element_bytes: Bytes per element of a SharedLayout.
    """

    title: str
    layout: NestedLayout | WgMap | SharedLayout
    shape: tuple[int, int] | None = None
    element_bytes: int = 0
