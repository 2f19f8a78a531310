"""Waiting for results of other threads in such a way that Ctrl-C ends the wait."""

from __future__ import annotations

from concurrent.futures import Future, wait
from typing import TypeVar

Result = TypeVar("Result")

_SIGNAL_SECONDS = 0.2  # a missed signal is handled after at most this time


def result_of(future: Future[Result]) -> Result:
    """Wait for a future, and return its result or raise its exception.

    ``Future.result`` without a time limit can miss Ctrl-C: if the signal arrives just as the wait begins, Python
    handles it only when the wait ends.
    """
    while not future.done():
        wait((future,), _SIGNAL_SECONDS)
    return future.result()
