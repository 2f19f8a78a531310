"""Locks that allow only one process at a time to tune a kernel. The system releases the lock of a killed process."""

from __future__ import annotations

import fcntl
import hashlib
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_POLL_SECONDS = 0.02
_OFFSETS = 2**31  # range of byte offsets that names are mapped to; the locked file itself stays empty


class TuningLocks:
    """Locks by name, shared by the processes of a machine.

    Each name locks one byte of a file (POSIX record locks). The system releases such a lock when its process ends, and
    forked children do not inherit it. A record lock does not exclude other threads of the process, so each name also
    has a thread lock.

    Args:
        path: The file, which is created if missing.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        self._guard = threading.Lock()
        self._threads: dict[int, threading.Lock] = {}
        self._process = os.getpid()

    @contextmanager
    def of(self, name: str, timeout: float) -> Iterator[bool]:
        """Hold the lock ``name`` within the context.

        Args:
            name: Name of the tuning.
            timeout: Time to wait for the lock, in seconds.

        Yields:
            True if the lock was acquired in time.
        """
        offset = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8]) % _OFFSETS
        thread_lock, file = self._opened(offset)
        deadline = time.monotonic() + timeout
        if not thread_lock.acquire(timeout=timeout):
            yield False
            return
        try:
            locked = _try_lock_until(file, offset, deadline)
            try:
                yield locked
            finally:
                if locked:
                    fcntl.lockf(file, fcntl.LOCK_UN, 1, offset)
        finally:
            thread_lock.release()

    def _opened(self, offset: int) -> tuple[threading.Lock, int]:
        """Return the thread lock of a name, and the descriptor of the locked file.

        The file stays open, because closing it would release all locks that the process holds on it.
        """
        # after a fork, create new locks: the threads that held the old locks do not exist in this process
        if self._process != os.getpid():
            self.__init__(self._path)  # type: ignore[misc]
        with self._guard:
            if self._file is None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            return self._threads.setdefault(offset, threading.Lock()), self._file


def _try_lock_until(file: int, offset: int, deadline: float) -> bool:
    while True:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, offset)
            return True
        # systems use different error numbers for a lock held by another process
        except (BlockingIOError, PermissionError):
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_SECONDS)
