"""Files that somebody else names: never more of one is read than there may be, whatever it is."""

from __future__ import annotations

from pathlib import Path


def read_bounded(path: str | Path, most: int) -> bytes:
    """Return the content of a file. Raises ValueError, with the reason alone, where it has more than ``most`` bytes, as
    /dev/zero has; and OSError."""
    with Path(path).open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"it has more than {most:,} bytes")
    return content
