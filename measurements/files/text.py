"""Make third-party text (of compilers, drivers, workers and libraries) safe for messages and logs."""

from __future__ import annotations

import re

_PASSWORDS = re.compile(r"(?<=://)([^:/@\s]*):[^/\s]*(?=@)|(?<=[?&]password=)[^&\s]*")
_LONGEST = 1000  # maximum number of characters of a line in a message


def harmless(text: str) -> str:
    """Return ``text`` with control characters escaped, except line breaks and tabs, for safe output on terminals."""
    lines = text.replace("\r\n", "\n")
    if lines.isascii() and lines.replace("\n", "").replace("\t", "").isprintable():
        return lines
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in lines)


def printable(text: str) -> str:
    """Return ``text`` unchanged if it can be printed. ``text`` is the name of a device, version or tool.

    Raises ValueError if ``text`` contains control characters, such as escape characters, zero bytes, and Unicode
    characters that set the text direction.
    """
    if not text.isprintable():
        raise ValueError(f"{text!a:.60} contains characters that cannot be printed")
    return text


def one_line(text: str) -> str:
    """Return ``text`` on one line, with control characters escaped, and truncated if it is too long."""
    line = " ".join(harmless(text[: 10 * _LONGEST]).split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or the error's type if the message is empty."""
    line = next(iter(harmless(str(error)).strip().splitlines()), type(error).__name__)
    return line.replace("\t", " ")


def without_password(location: str) -> str:
    """Return a path or the URL of a database without its password, for messages and logs."""
    return _PASSWORDS.sub(lambda match: "***" if match[1] is None else f"{match[1]}:***", location)
