"""A lock on a whole file, between processes and threads, on every system. It ends with the process that holds it."""

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
    """Lock an open file until it is closed. Each opening of a file is a separate owner.

    Args:
        file: The file, which holds nothing: on Windows, others cannot read it while it is locked.
        wait: Wait for the owner of the lock.

    Raises:
        OSError: The file cannot be locked; without ``wait``, also because another owner has the lock.
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
