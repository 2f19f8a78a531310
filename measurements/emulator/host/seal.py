"""A digest at the end of a cached object: whether the file is still what was compiled.

What loads a shared library or a program ignores bytes behind it.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

_MARK = b"autosched sealed:"
_SIZE = len(_MARK) + hashlib.sha256().digest_size


def sealed(content: bytes) -> bytes:
    """``content`` with its digest behind it."""
    return content + _MARK + hashlib.sha256(content).digest()


def unsealed(content: bytes) -> bytes:
    """Return what ``sealed`` was given."""
    return content[:-_SIZE]


def seal(path: Path) -> None:
    """Append the digest of the file to it."""
    mark = sealed(path.read_bytes())[-_SIZE:]
    with path.open("ab") as file:
        file.write(mark)


def intact(path: Path) -> bool:
    """Whether the file is there, sealed, and unchanged since. Raises OSError for one that cannot be read."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return False
    return path.is_file() and _intact(path, status.st_ino, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=64)
def _intact(path: Path, inode: int, changed: int, size: int) -> bool:
    content = path.read_bytes()
    return content[-_SIZE:] == _MARK + hashlib.sha256(content[:-_SIZE]).digest()
