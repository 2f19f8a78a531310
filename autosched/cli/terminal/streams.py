"""stdout and stderr of the process. A run outlives them: what cannot be written is dropped, and the end tells of it."""

import io
import os
import sys
from typing import TextIO

_LEAST_COLUMNS = 20


class TerminalStream(io.TextIOWrapper):
    """A text stream that does not raise OSError: ``lost`` is the first, and what follows it goes nowhere."""

    lost: OSError | None = None

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError as error:
            self._lose(error)
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            self._lose(error)

    def _lose(self, error: OSError) -> None:
        self.lost = self.lost or error
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.fileno())
        os.close(nowhere)


def take() -> tuple[TerminalStream, TerminalStream]:
    """Replace ``sys.stdout`` and ``sys.stderr``, and forget a terminal width in COLUMNS that nothing fits.

    A closed stdin, stdout or stderr is opened on the null device, for reading, so that no file opened later takes its
    number and is written to in its place.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDONLY), True)  # gets the lowest number that is free
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
