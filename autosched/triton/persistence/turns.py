"""Locks that let one process at a time tune a kernel. A killed process always releases its lock."""

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
_OFFSETS = 2**31  # lockable bytes of the file; none is written


class Turns:
    """Locks by name, shared by the processes of a machine.

    Each name is a byte of one file. Locks of this kind end with the process that took them; its forked children do not
    inherit them. They do not distinguish threads, so each name also has a lock in this process.

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
        """Hold the lock of ``name``.

        Args:
            name: Name of the tuning.
            timeout: Time to wait for others, in seconds.

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
            taken = _taken(file, offset, deadline)
            try:
                yield taken
            finally:
                if taken:
                    fcntl.lockf(file, fcntl.LOCK_UN, 1, offset)
        finally:
            thread_lock.release()

    def _opened(self, offset: int) -> tuple[threading.Lock, int]:
        """Return the lock of this process's threads, and the locked file.

        The file stays open, because closing it would release all locks that the process holds on it.
        """
        if self._process != os.getpid():  # forked: threads that held locks do not exist here
            self.__init__(self._path)  # type: ignore[misc]
        with self._guard:
            if self._file is None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            return self._threads.setdefault(offset, threading.Lock()), self._file


def _taken(file: int, offset: int, deadline: float) -> bool:
    while True:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, offset)
            return True
        except (BlockingIOError, PermissionError):  # depends on the system
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_SECONDS)
