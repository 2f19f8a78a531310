"""What others say (compilers, drivers, workers, libraries), before any of it becomes part of a reason or a log."""

from __future__ import annotations

_LONGEST = 1000  # characters of a line for people; a log may hold more


def harmless(text: str) -> str:
    """``text`` with its lines and tabs, and every other control character spelled out, so that no terminal obeys it."""
    lines = text.replace("\r\n", "\n")
    if lines.isascii() and lines.replace("\n", "").replace("\t", "").isprintable():
        return lines
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in lines)


def one_line(text: str) -> str:
    """``text``, harmless and on one line, cut where it is longer than anybody reads."""
    line = " ".join(harmless(text[: 10 * _LONGEST]).split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."


def first_line(error: BaseException) -> str:
    """The first line that an error says; its type where it says nothing."""
    return next(iter(harmless(str(error)).strip().splitlines()), type(error).__name__)
