"""Errors of libraries as one line, for reasons and messages."""

from __future__ import annotations


def first_line(error: BaseException) -> str:
    """The first line that an error says; its type where it says nothing."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
