"""Sizes of shared-memory tiles. The layout of such a tile is a parameter of the schedule, and may be illegal."""

from __future__ import annotations

from search_spaces.layouts.shared_layout import Axis, parse_layout

STAGE_ALIGNMENT = 128  # 32 banks * 4 bytes: each stage starts at a multiple of this to begin at bank 0


def stage_bytes(layout: str, rows: int, columns: int, element_bytes: int) -> int:
    """Return the shared-memory bytes of one tile; 0 for an illegal layout.

    Args:
        layout: Text of the layout.
        rows: Rows of the tile, in elements.
        columns: Columns of the tile.
        element_bytes: Bytes per element.
    """
    parsed = parse_layout(layout, rows, columns)
    return 0 if isinstance(parsed, str) else -(-parsed.size * element_bytes // STAGE_ALIGNMENT) * STAGE_ALIGNMENT


def contiguity(layout: str, rows: int, columns: int, axis: Axis) -> int:
    """Return the number of elements along ``axis`` that are contiguous in shared memory; 0 for an illegal layout.

    Args:
        layout: Text of the layout.
        rows: Rows of the tile, in elements.
        columns: Columns of the tile.
        axis: "rows" or "cols".
    """
    parsed = parse_layout(layout, rows, columns)
    return 0 if isinstance(parsed, str) else parsed.contiguity(axis)
