"""Limits of counting. Without limits, counting with some rules would take minutes and exhaust the memory."""

from __future__ import annotations

from collections.abc import Iterable

JOINED_ROWS = 1 << 25  # maximum number of rows of all joins together; joining this many rows takes some seconds


class TooTightlyTied(ValueError):
    """Raised if rules connect so many parameters that the tables for counting would be too large."""


class RowsLeft:
    """Number of rows that joins may still produce; if they produce more, counting fails."""

    def __init__(self, rows: int = JOINED_ROWS) -> None:
        self._rows = rows

    def take(self, rows: int, names: Iterable[str]) -> None:
        """Subtract ``rows`` from the number of rows that remain. Raises TooTightlyTied if fewer rows remain."""
        self._rows -= rows
        if self._rows < 0:
            raise TooTightlyTied(
                f"the rules connect {', '.join(names)} so closely that counting would take minutes: give these "
                "parameters fewer values, split the rules into rules with fewer inputs, or formulate them with "
                "attributes that have fewer values"
            )
