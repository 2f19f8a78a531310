"""Progress of a compilation on stderr: a redrawn line in a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

_LINE_SECONDS = 4.0  # interval between plain lines
_REDRAW_SECONDS = 0.5
_ERASE_LINE = "\r\x1b[K"


class CompileStatus:
    """Context manager that displays how many of the ``total`` files of ``subject`` are compiled.

    ``count`` returns the number of compiled files. It also works for a process that waits while another process
    compiles.
    """

    def __init__(self, subject: str, total: int, count: Callable[[], int]) -> None:
        self._subject = subject
        self._total, self._count, self._started = total, count, time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._report, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()
        if kind is None:
            _write(f"Compiled {self._subject} in {time.monotonic() - self._started:.0f} s\n")

    def _report(self) -> None:
        redrawn = _is_redrawn()
        while True:
            elapsed = time.monotonic() - self._started
            line = f"Compiling {self._subject} (once): {self._count()} of {self._total} files, {elapsed:.0f} s"
            _write(f"{_ERASE_LINE}{line}" if redrawn else f"{line}\n")
            if self._over.wait(_REDRAW_SECONDS if redrawn else _LINE_SECONDS):
                break
        if redrawn:
            _write(_ERASE_LINE)


def _is_redrawn() -> bool:
    """Return True if stderr is a terminal without another live display, which would replace ``sys.stderr``."""
    stream = sys.stderr
    return stream is not None and stream.isatty() and stream is sys.__stderr__


def _write(text: str) -> None:
    stream = sys.stderr
    if stream is None:  # a process without a console has no stderr
        return
    try:
        stream.write(text)
        stream.flush()
    except (OSError, ValueError):  # stderr is closed: continue without progress
        pass
