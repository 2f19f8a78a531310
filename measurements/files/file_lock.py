"""Portable lock on a file, between processes and threads. The system releases the lock when its process ends."""

from __future__ import annotations

import time
from importlib import import_module
from typing import IO, Any

try:
    import fcntl
except ImportError:  # Windows
    _windows: Any = import_module("msvcrt")
else:
    _windows = None

_POLL_SECONDS = 0.02


def lock(file: IO[str], *, wait: bool = True) -> None:
    """Lock an open file until the file is closed. Each open file object is a separate owner of locks.

    Args:
        file: The file. The file should be empty, because on Windows other processes cannot read a locked file.
        wait: If True, wait until the lock is free.

    Raises:
        OSError: The file cannot be locked, or another owner has the lock and ``wait`` is False.
    """
    if _windows is None:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        return
    while True:
        try:
            _windows.locking(file.fileno(), _windows.LK_NBLCK, 1)
            return
        except PermissionError:
            if not wait:
                raise
            time.sleep(_POLL_SECONDS)
