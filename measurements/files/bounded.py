"""Files that somebody else names: never more of one is read than there may be, and none is waited for without end."""

from __future__ import annotations

import errno
import os
import select
import stat
from pathlib import Path
from typing import BinaryIO

WAIT_SECONDS = 8.0  # for a pipe that nothing has been written to


def read_bounded(path: str | Path, most: int) -> bytes:
    """Return the content of a file. Raises ValueError, with the reason alone, where it has more than ``most`` bytes, as
    /dev/zero has; and OSError, as ``open_readable`` does."""
    with open_readable(path) as file:
        content = file.read(most + 1)
    if content is None:  # a file of the system's, which would have to be waited for
        raise BlockingIOError(errno.EAGAIN, "there is nothing to read yet", str(path))
    if len(content) > most:
        raise ValueError(f"it has more than {most:,} bytes")
    return content


def open_readable(path: str | Path) -> BinaryIO:
    """Open a file, or a pipe once something is written to it. Raises OSError, also where nothing is for
    ``WAIT_SECONDS``."""
    file = open(path, "rb", opener=_without_waiting)  # noqa: SIM115  # it is returned open
    try:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            waiting = select.poll()
            waiting.register(file, select.POLLIN)
            if not waiting.poll(1000 * WAIT_SECONDS):
                raise TimeoutError(errno.ETIMEDOUT, "nothing is written to it", str(path))
            os.set_blocking(file.fileno(), True)
    except BaseException:
        file.close()
        raise
    return file


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)
