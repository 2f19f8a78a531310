"""Append a digest to cached files, so that damaged files are recognised.

Loaders of shared libraries and programs ignore trailing bytes.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

_MARK = b"autosched sealed:"
_SIZE = len(_MARK) + hashlib.sha256().digest_size
_PIECE = 1 << 17  # number of bytes that are hashed at a time


def sealed(content: bytes) -> bytes:
    """Return ``content`` followed by its digest."""
    return content + _MARK + hashlib.sha256(content).digest()


def unsealed(content: bytes) -> bytes:
    """Return sealed content without its digest."""
    return content[:-_SIZE]


def seal(path: Path) -> None:
    """Append a digest to a file, computed from the file's contents."""
    mark = sealed(path.read_bytes())[-_SIZE:]
    with path.open("ab") as file:
        file.write(mark)


def intact(path: Path) -> bool:
    """Return True if the file exists and is unchanged since it was sealed. Raises OSError if it cannot be read."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return False
    return path.is_file() and _intact(path, status.st_ino, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=64)
def _intact(path: Path, inode: int, changed: int, size: int) -> bool:
    """Compare a file with its digest, in pieces that fit into a cache."""
    digest = hashlib.sha256()
    piece = memoryview(bytearray(_PIECE))
    with path.open("rb") as file:
        left = size - _SIZE
        while left > 0 and (count := file.readinto(piece[:left])):
            digest.update(piece[:count])
            left -= count
        return file.read() == _MARK + digest.digest()
