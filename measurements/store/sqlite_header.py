"""How an SQLite file begins (SQLite Database File Format, section 1.3), without what it takes to open one."""

from __future__ import annotations

from pathlib import Path

MAGIC = b"SQLite format 3\0"


def is_sqlite(path: Path) -> bool:
    """Whether a file is a database of SQLite. Raises OSError where it cannot be read."""
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC
