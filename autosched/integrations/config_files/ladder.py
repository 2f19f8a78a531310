"""Batch sizes of a file. Programs use the entry with the nearest size, so gaps between sizes matter."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from autosched.integrations.config_files.files import BatchConfig

_GAP = 4  # with a larger ratio of neighbouring sizes, some batch is more than a factor of two from both
_LAST = 1024  # minimum for the largest size, in rows; otherwise batches of prompts use the entry of a few rows
_JUMP = 4  # factor by which BLOCK_SIZE_M of an outlier differs from both neighbours


def ladder_notes(entries: Sequence[BatchConfig]) -> list[str]:
    """Return a line for each gap between sizes, for missing small or large sizes, and for outliers of BLOCK_SIZE_M."""
    good = [entry for entry in entries if not entry.fault]
    if not good:
        return []
    notes = []
    if good[0].size > 1:
        notes.append(f"it begins at {good[0].size} rows: smaller batches get the same configuration")
    for before, after in pairwise(good):
        if after.size > _GAP * before.size:
            middle = (before.size + after.size) // 2
            notes.append(
                f"nothing between {before.size} and {after.size} rows: {middle} rows get the configuration of "
                f"{before.size}, {middle + 1} that of {after.size}"
            )
    if good[-1].size < _LAST:
        notes.append(f"it ends at {good[-1].size} rows: every larger batch gets the same configuration")
    tiles = [entry["BLOCK_SIZE_M"] for entry in good]
    for k in range(1, len(good) - 1):
        left, own, right = tiles[k - 1 : k + 2]
        if min(left, right) >= _JUMP * own or own >= _JUMP * max(left, right):
            notes.append(
                f"BLOCK_SIZE_M goes {left}, {own}, {right} at {good[k - 1].size}, {good[k].size}, "
                f"{good[k + 1].size} rows: the middle one may be noise"
            )
    return notes
