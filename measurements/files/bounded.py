"""Reading of files that a user names, with limits of size and waiting time."""

from __future__ import annotations

import errno
import json
import os
import select
import stat
from pathlib import Path
from typing import Any, BinaryIO

WAIT_SECONDS = 8.0  # seconds to wait for a pipe whose writer has written nothing
NO_WRITER_SECONDS = 1.0  # seconds to wait for a pipe that no process has opened to write


def read_bounded(path: str | Path, most: int, *, regular: bool = False) -> bytes:
    """Return the content of a file.

    Args:
        path: Path of the file.
        most: Maximum size in bytes.
        regular: If True, only regular files are accepted. Pipes only make sense on a command line.

    Raises:
        ValueError: The file is larger, or is not a regular file. The message is the reason, without the path.
        OSError: As in ``open_readable``.
    """
    with open_readable(path, regular=regular) as file:
        content = file.read(most + 1)
    if content is None:  # a system file that has no data yet
        raise BlockingIOError(errno.EAGAIN, "it has no data yet", str(path))
    if len(content) > most:
        raise ValueError(f"it has more than {most:,} bytes")
    return content


def read_json(path: str | Path, most: int, **hooks: Any) -> Any:
    """Return the JSON document in a regular file of at most ``most`` bytes. ``hooks`` are those of ``json.loads``.

    Raises ValueError, with the reason but without the path, also for a document that is nested too deeply; and OSError.
    """
    return parse_json(read_bounded(path, most, regular=True).decode("utf-8"), **hooks)


def parse_json(text: str | bytes, **hooks: Any) -> Any:
    """Return the JSON document in a text. ``hooks`` are those of ``json.loads``.

    Raises ValueError, also for a document that is nested too deeply.
    """
    try:
        return json.loads(text, **hooks)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def open_readable(path: str | Path, *, regular: bool = False) -> BinaryIO:
    """Open a file, or a pipe after waiting for data.

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
                raise ValueError("it is not a regular file")
            if not _written_to(file.fileno()):
                raise TimeoutError(errno.ETIMEDOUT, "no process writes to it", str(path))
            os.set_blocking(file.fileno(), True)
    except BaseException:
        file.close()
        raise
    return file


def _written_to(descriptor: int) -> bool:
    """Wait until data can be read; return False if none arrive in time."""
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    first = min(NO_WRITER_SECONDS, WAIT_SECONDS)
    if waiting.poll(1000 * first):
        return True
    try:
        if not os.read(descriptor, 1):  # end of file: the pipe has no writer, and no data were consumed
            return False
    except BlockingIOError:  # a writer has it open
        pass
    return bool(waiting.poll(1000 * (WAIT_SECONDS - first)))


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)
