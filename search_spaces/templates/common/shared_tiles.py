"""Tiles that pass through shared memory under a layout that the schedule names, illegal layouts included."""

from __future__ import annotations

from search_spaces.layouts.shared_layout import Axis, parse_layout

STAGE_ALIGNMENT = 128  # bytes: a stage starts at a full line of banks


def stage_bytes(layout: str, rows: int, columns: int, element_bytes: int) -> int:
    """Shared bytes of one tile of ``rows`` x ``columns`` elements; 0 under an illegal layout."""
    parsed = parse_layout(layout, rows, columns)
    return 0 if isinstance(parsed, str) else -(-parsed.size * element_bytes // STAGE_ALIGNMENT) * STAGE_ALIGNMENT


def contiguity(layout: str, rows: int, columns: int, axis: Axis) -> int:
    """Elements along ``axis`` that a layout keeps together; 0 for an illegal one."""
    parsed = parse_layout(layout, rows, columns)
    return 0 if isinstance(parsed, str) else parsed.contiguity(axis)
