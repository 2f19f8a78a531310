"""Read files that a user names, with limits of size and waiting time."""

from __future__ import annotations

import errno
import json
import os
import select
import stat
from pathlib import Path
from typing import Any, BinaryIO

WAIT_SECONDS = 8.0  # seconds to wait for data from a pipe that a writer has opened
NO_WRITER_SECONDS = 1.0  # seconds to wait for a process to open a pipe for writing


def read_bounded(path: str | Path, most: int, *, regular: bool = False) -> bytes:
    """Return the content of a file.

    Args:
        path: Path of the file.
        most: Maximum size in bytes.
        regular: If True, only regular files are accepted, not pipes or devices.

    Raises:
        ValueError: The file is larger than ``most``, or is not a regular file. The message is the reason, without the
            path.
        OSError: As in ``open_readable``.
    """
    with open_readable(path, regular=regular) as file:
        content = file.read(most + 1)
    if content is None:  # a non-blocking read of a system file without data returns None
        raise BlockingIOError(errno.EAGAIN, "the file has no data yet", str(path))
    if len(content) > most:
        raise ValueError(f"the file has more than {most:,} bytes")
    return content


def read_json(path: str | Path, most: int, **hooks: Any) -> Any:
    """Return the JSON document in a regular file of at most ``most`` bytes. ``hooks`` are passed to ``json.loads``.

    Raises OSError, or ValueError for a file that is too large or invalid. The message of a ValueError is the reason,
    without the path.
    """
    return parse_json(read_bounded(path, most, regular=True).decode("utf-8"), **hooks)


def parse_json(text: str | bytes, **hooks: Any) -> Any:
    """Return the JSON document in a text. ``hooks`` are passed to ``json.loads``.

    Raises ValueError if the document is invalid or nested too deeply.
    """
    try:
        return json.loads(text, **hooks)
    except RecursionError:
        raise ValueError("the JSON document is nested too deeply") from None


def open_readable(path: str | Path, *, regular: bool = False) -> BinaryIO:
    """Open a file for reading. If the file is a pipe, wait for data first.

    Args:
        path: Path of the file.
        regular: If True, only regular files are accepted.

    Raises:
        OSError: The file cannot be opened. TimeoutError: No process writes to the pipe.
        ValueError: ``regular`` is True, and the file is not a regular file.
    """
    file = open(path, "rb", opener=_without_waiting)  # noqa: SIM115  # it is returned open
    try:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            if regular:
                raise ValueError("the path is not a regular file")
            if not _written_to(file.fileno()):
                raise TimeoutError(errno.ETIMEDOUT, "no process writes to it", str(path))
            os.set_blocking(file.fileno(), True)
    except BaseException:
        file.close()
        raise
    return file


def _written_to(descriptor: int) -> bool:
    """Wait until data can be read from a pipe. Return False if no data arrive in time."""
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    first = min(NO_WRITER_SECONDS, WAIT_SECONDS)
    if waiting.poll(1000 * first):
        return True
    try:
        if not os.read(descriptor, 1):  # end of file: no process has the pipe open for writing
            return False
    except BlockingIOError:  # a process has the pipe open for writing, but has written nothing yet
        pass
    return bool(waiting.poll(1000 * (WAIT_SECONDS - first)))


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)
