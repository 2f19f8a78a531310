"""Limits of counting, since some rules would take minutes and exhaust the memory."""

from __future__ import annotations

from collections.abc import Iterable

MADE_ROWS = 1 << 25  # total rows of all joins: some seconds


class TooTightlyTied(ValueError):
    """The rules tie so many parameters together that counting needs too large a table."""


class RowsLeft:
    """Remaining rows that joins may produce before they fail."""

    def __init__(self, rows: int = MADE_ROWS) -> None:
        self._rows = rows

    def take(self, rows: int, names: Iterable[str]) -> None:
        """Raise TooTightlyTied unless ``rows`` are left."""
        self._rows -= rows
        if self._rows < 0:
            raise TooTightlyTied(
                f"the rules tie {', '.join(names)} so tightly that counting would take minutes: give these fewer "
                "values, split the rules into some with fewer inputs, or state them on attributes with fewer values"
            )
