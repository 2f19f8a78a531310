"""Persistent blocks. Each persistent block computes several tiles."""

from __future__ import annotations

from collections.abc import Mapping

from search_spaces.programs.planning.boxes import has_copying_warp
from search_spaces.programs.planning.memory import Exchange, OuterLoop
from search_spaces.spaces.parameters import Value

PERSISTENT = "persistent"
LAUNCHED = "persistent_blocks"


def launched_blocks(values: Mapping[str, Value]) -> int:
    """Return the number of persistent blocks; 0 if there is a block per tile."""
    return int(values[LAUNCHED]) if values.get(PERSISTENT, 0) else 0


def waits_between_tiles(values: Mapping[str, Value], exchanges: Mapping[OuterLoop, Mapping[Exchange, int]]) -> bool:
    """Return True if a barrier of all threads separates the tiles of a persistent block.

    No barrier is needed if a producer warp fills the ring and there are no exchanges: the ring's mbarriers protect the
    stages.
    """
    return bool(values.get(PERSISTENT, 0)) and (not has_copying_warp(values) or any(exchanges.values()))
