"""Check the header of an SQLite file (SQLite Database File Format, section 1.3) without opening the database."""

from __future__ import annotations

from pathlib import Path

MAGIC = b"SQLite format 3\0"


def is_sqlite(path: Path) -> bool:
    """Return True if a file is an SQLite database. Raises OSError if it cannot be read."""
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC
