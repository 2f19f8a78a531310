"""Blocks of a schedule that each compute several tiles, one after another."""

from __future__ import annotations

from collections.abc import Mapping

from search_spaces.programs.planning.boxes import has_copying_warp
from search_spaces.programs.planning.memory import Exchange, OuterLoop
from search_spaces.spaces.parameters import Value

PERSISTENT = "persistent"
LAUNCHED = "persistent_blocks"


def launched_blocks(values: Mapping[str, Value]) -> int:
    """Return the number of blocks that compute all tiles; 0 if each tile has its own block."""
    return int(values[LAUNCHED]) if values.get(PERSISTENT, 0) else 0


def waits_between_tiles(values: Mapping[str, Value], exchanges: Mapping[OuterLoop, Mapping[Exchange, int]]) -> bool:
    """Return True if all threads of a persistent block wait for each other before its next tile.

    They need not if a dedicated warp fills the ring, whose barriers order its stages, and nothing else lies in shared
    memory.
    """
    return bool(values.get(PERSISTENT, 0)) and (not has_copying_warp(values) or any(exchanges.values()))
