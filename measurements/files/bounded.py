"""Files that somebody else names: never more of one is read than there may be, and none is waited for without end."""

from __future__ import annotations

import errno
import json
import os
import select
import stat
from pathlib import Path
from typing import Any, BinaryIO

WAIT_SECONDS = 8.0  # for a pipe to which its writer has written nothing
NO_WRITER_SECONDS = 1.0  # for a pipe that no process has opened to write


def read_bounded(path: str | Path, most: int, *, regular: bool = False) -> bytes:
    """Return the content of a file.

    Args:
        path: Its name.
        most: Bytes that it may have.
        regular: Whether it must be a regular file, as one is that nobody names on a command line.

    Raises:
        ValueError: It has more bytes, as /dev/zero has, or is no regular file. The message is the reason alone.
        OSError: As of ``open_readable``.
    """
    with open_readable(path, regular=regular) as file:
        content = file.read(most + 1)
    if content is None:  # a file of the system's, which would have to be waited for
        raise BlockingIOError(errno.EAGAIN, "there is nothing to read yet", str(path))
    if len(content) > most:
        raise ValueError(f"it has more than {most:,} bytes")
    return content


def read_json(path: str | Path, most: int, **hooks: Any) -> Any:
    """Return the document in a regular file; ``hooks`` are those of ``json.loads``.

    Raises ValueError, with the reason alone, also for a document that is nested too deeply; and OSError.
    """
    content = read_bounded(path, most, regular=True)
    try:
        return json.loads(content.decode("utf-8"), **hooks)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def open_readable(path: str | Path, *, regular: bool = False) -> BinaryIO:
    """Open a file, or a pipe once something is written to it.

    Args:
        path: Its name.
        regular: Whether it must be a regular file.

    Raises:
        OSError: It cannot be opened. TimeoutError for a pipe that nobody writes to.
        ValueError: It is not a regular file, and must be.
    """
    file = open(path, "rb", opener=_without_waiting)  # noqa: SIM115  # it is returned open
    try:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            if regular:
                raise ValueError("it is not a regular file")
            if not _written_to(file.fileno()):
                raise TimeoutError(errno.ETIMEDOUT, "nothing is written to it", str(path))
            os.set_blocking(file.fileno(), True)
    except BaseException:
        file.close()
        raise
    return file


def _written_to(descriptor: int) -> bool:
    """Wait until there is something to read; False if nothing comes."""
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    first = min(NO_WRITER_SECONDS, WAIT_SECONDS)
    if waiting.poll(1000 * first):
        return True
    try:
        if not os.read(descriptor, 1):  # the end of a pipe that has no writer; nothing was there to be taken
            return False
    except BlockingIOError:  # somebody has it open
        pass
    return bool(waiting.poll(1000 * (WAIT_SECONDS - first)))


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)
