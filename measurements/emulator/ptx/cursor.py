"""A position in PTX text: skips blanks and comments, reads statements, and counts lines."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")

SPACE = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
# The repeated group must match only a small part of the text, because each repetition needs 100 bytes of memory.
_STATEMENT = re.compile(r"[^;\"]*(?:\"[^\"]*\"[^;\"]*)*;")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


class PtxError(ValueError):
    """The text is not valid PTX, or not supported by this parser. The message is one line that names the PTX line."""


class Cursor:
    """Reads PTX text; ``at`` is the current position."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self._line_starts = [0, *(m.end() for m in re.finditer("\n", text))]

    def line(self, at: int) -> int:
        """Return the line number of a position."""
        return bisect_right(self._line_starts, at)

    def error(self, problem: str, at: int | None = None) -> PtxError:
        """Return an error that names the line of the current position."""
        return PtxError(f"PTX line {self.line(self.at if at is None else at)}: {problem}")

    def attempt(self, at: int | None, read: Callable[[re.Match[str]], _T], match: re.Match[str]) -> _T:
        """Apply ``read`` to a match. If ``read`` raises PtxError, the line number is added to the message."""
        try:
            return read(match)
        except PtxError as error:
            raise self.error(str(error), at) from None

    def skip(self) -> bool:
        """Skip blanks and comments. Return True if more text follows."""
        match = SPACE.match(self.text, self.at)
        self.at = match.end() if match else self.at
        return self.at < len(self.text)

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Consume and return the pattern's match at the current position; None if it does not match."""
        match = pattern.match(self.text, self.at)
        if match:
            self.at = match.end()
        return match

    def statement(self) -> str:
        """Return the text up to the next semicolon, without comments."""
        match = self.take(_STATEMENT)
        if match is None:
            raise self.error("a statement without a semicolon")
        return without_comments(match[0][:-1])


def without_comments(text: str) -> str:
    """Return PTX without comments."""
    return _COMMENT.sub(" ", text) if "/" in text else text
