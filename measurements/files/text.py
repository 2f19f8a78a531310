"""Text of compilers, drivers, workers and libraries, made safe before it becomes part of a reason or a log."""

from __future__ import annotations

import re

_PASSWORDS = re.compile(r"(?<=://)([^:/@\s]*):[^/\s]*(?=@)|(?<=[?&]password=)[^&\s]*")
_LONGEST = 1000  # characters of a line for people; a log may hold more


def harmless(text: str) -> str:
    """``text`` with its lines and tabs, but every other control character escaped, so that no terminal acts on it."""
    lines = text.replace("\r\n", "\n")
    if lines.isascii() and lines.replace("\n", "").replace("\t", "").isprintable():
        return lines
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in lines)


def printable(text: str) -> str:
    """``text``, which names something: a device, a version, a tool.

    Raises ValueError for what no terminal shows as it is, such as an escape sequence, a zero byte or a mark that turns
    the direction of writing.
    """
    if not text.isprintable():
        raise ValueError(f"{text!a:.60} holds characters that cannot be printed")
    return text


def one_line(text: str) -> str:
    """``text``, harmless and on one line, truncated where it is too long to read."""
    line = " ".join(harmless(text[: 10 * _LONGEST]).split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message; its type where there is none."""
    line = next(iter(harmless(str(error)).strip().splitlines()), type(error).__name__)
    return line.replace("\t", " ")


def without_password(place: str) -> str:
    """Return a path or the URL of a database, as it may be shown and logged."""
    return _PASSWORDS.sub(lambda found: "***" if found[1] is None else f"{found[1]}:***", place)
