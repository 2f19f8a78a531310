"""Standard streams whose write errors do not end a run. Lost output is reported at the end of the run."""

import io
import os
import sys
from typing import TextIO

_LEAST_COLUMNS = 20


class TerminalStream(io.TextIOWrapper):
    """Text stream that never raises OSError. ``lost`` is the first error; later text is dropped."""

    lost: OSError | None = None

    def write(self, text: str) -> int:
        """Write text. If this fails, store the error in ``lost`` and drop later text."""
        try:
            return super().write(text)
        except OSError as error:
            self._lose(error)
            return len(text)

    def flush(self) -> None:
        """Flush the stream. If this fails, store the error in ``lost`` and drop later text."""
        try:
            super().flush()
        except OSError as error:
            self._lose(error)

    def _lose(self, error: OSError) -> None:
        self.lost = self.lost or error
        null_device = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null_device, self.fileno())
        os.close(null_device)


def take() -> tuple[TerminalStream, TerminalStream]:
    """Replace ``sys.stdout`` and ``sys.stderr``, and unset COLUMNS if it is no number or too small.

    A closed stdin, stdout or stderr is opened on the null device for reading. Otherwise a file that is opened later
    could get the closed stream's descriptor, and output would be written into that file.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            # open() returns the lowest free descriptor, which is the closed one
            os.set_inheritable(os.open(os.devnull, os.O_RDONLY), True)
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)))
    sys.stdout, sys.stderr = streams = _stream(sys.stdout, 1), _stream(sys.stderr, 2)
    columns = os.environ.get("COLUMNS", "")
    if not columns.isdecimal() or int(columns) < _LEAST_COLUMNS:
        os.environ.pop("COLUMNS", None)
    return streams


def _stream(old: TextIO | None, descriptor: int) -> TerminalStream:
    at_once = isinstance(old, io.TextIOWrapper) and (old.line_buffering or old.write_through)
    encoding = "utf-8" if old is None else old.encoding
    binary = io.BufferedWriter(io.FileIO(descriptor, "wb", closefd=False))
    return TerminalStream(binary, encoding=encoding, errors="backslashreplace", line_buffering=at_once)
