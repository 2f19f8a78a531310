"""Files that somebody else names: never more of one is read than there may be, whatever it is."""

from __future__ import annotations

import errno
import os
from pathlib import Path


def read_bounded(path: str | Path, most: int) -> bytes:
    """Return the content of a file. Raises ValueError, with the reason alone, where it has more than ``most`` bytes, as
    /dev/zero has; and OSError, also where it would have to be waited for."""
    with open(path, "rb", opener=_without_waiting) as file:
        content = file.read(most + 1)
    if content is None:
        raise BlockingIOError(errno.EAGAIN, "there is nothing to read yet", str(path))
    if len(content) > most:
        raise ValueError(f"it has more than {most:,} bytes")
    return content


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
