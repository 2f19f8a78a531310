"""Check the batch sizes of a file. Programs use the entry with the nearest size, so gaps between sizes matter."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from autosched.integrations.config_files.files import BatchConfig

# maximum ratio of neighbouring sizes; beyond it, some batches differ from both sizes by more than a factor of two
_GAP = 4
# The largest size should have at least this many rows. Otherwise, large batches of prompts use an entry for few rows.
_LAST = 1024
_JUMP = 4  # an entry is an outlier if BLOCK_SIZE_M differs from the values of both neighbours by this factor


def ladder_notes(entries: Sequence[BatchConfig]) -> list[str]:
    """Return a line for each gap between sizes, for missing small or large sizes, and for outliers of BLOCK_SIZE_M."""
    good = [entry for entry in entries if not entry.fault]
    if not good:
        return []
    notes = []
    if good[0].size > 1:
        notes.append(f"the smallest batch size is {good[0].size} rows: smaller batches get its configuration")
    for before, after in pairwise(good):
        if after.size > _GAP * before.size:
            middle = (before.size + after.size) // 2
            notes.append(
                f"no entry between {before.size} and {after.size} rows: batches of up to {middle} rows get the "
                f"configuration of {before.size}, larger batches the one of {after.size}"
            )
    if good[-1].size < _LAST:
        notes.append(f"the largest batch size is {good[-1].size} rows: all larger batches use its configuration")
    tiles = [entry["BLOCK_SIZE_M"] for entry in good]
    for k in range(1, len(good) - 1):
        left, own, right = tiles[k - 1 : k + 2]
        if min(left, right) >= _JUMP * own or own >= _JUMP * max(left, right):
            notes.append(
                f"BLOCK_SIZE_M is {left}, {own}, {right} at {good[k - 1].size}, {good[k].size}, "
                f"{good[k + 1].size} rows: the middle value may be noise"
            )
    return notes
