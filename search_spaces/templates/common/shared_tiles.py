"""Tiles that pass through shared memory under a layout that the schedule names, illegal layouts included."""

from __future__ import annotations

from search_spaces.layouts.shared_layout import Axis, parse_layout

STAGE_ALIGNMENT = 128  # bytes: a stage starts at a full line of banks


def stage_bytes(layout: str, rows: int, columns: int, element_bytes: int) -> int:
    """Return the shared bytes of one tile; 0 under an illegal layout.

    Args:
        layout: Its text.
        rows: Of the tile, in elements.
        columns: Of the tile.
        element_bytes: Of one.
    """
    parsed = parse_layout(layout, rows, columns)
    return 0 if isinstance(parsed, str) else -(-parsed.size * element_bytes // STAGE_ALIGNMENT) * STAGE_ALIGNMENT


def contiguity(layout: str, rows: int, columns: int, axis: Axis) -> int:
    """Return the elements along an axis that a layout keeps together; 0 for an illegal one.

    Args:
        layout: Its text.
        rows: Of the tile, in elements.
        columns: Of the tile.
        axis: "rows" or "cols".
    """
    parsed = parse_layout(layout, rows, columns)
    return 0 if isinstance(parsed, str) else parsed.contiguity(axis)
