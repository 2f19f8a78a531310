"""Ctrl-C ends a command with status 130 and at most one line, whenever it comes and however often. What ``timeout``, a
CI system or a terminal that closes send (SIGTERM, SIGHUP) does the same.

While modules are imported and input is read, nothing needs tidying: the process ends at once, as a KeyboardInterrupt
could be swallowed by whatever is being imported. Inside ``raised`` the first Ctrl-C raises KeyboardInterrupt. Those
that follow it within ``PATIENCE`` seconds are taken for the same one; a later one ends the process at once, which
loses nothing that is stored.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

from autosched.cli.errors import STOPPED

PATIENCE = 2.0  # seconds


_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
_DEFAULTS = (signal.default_int_handler, signal.SIG_DFL)


def take() -> None:
    """From now on these signals end this process at once; unless its parent wants them ignored."""
    for number in _SIGNALS:
        if signal.getsignal(number) in _DEFAULTS:
            signal.signal(number, _end)


def leave() -> None:
    """The process is about to end by itself, with a status that a late signal must not change."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def raised() -> Iterator[None]:
    """Around work that needs tidying, the last of a command. Without ``take`` it does nothing."""
    taken = [number for number in _SIGNALS if signal.getsignal(number) is _end]
    if not taken:
        yield
        return
    first: float | None = None

    def stop(*_: object) -> None:
        nonlocal first
        if first is None:
            first = time.monotonic()
            raise KeyboardInterrupt
        if time.monotonic() - first > PATIENCE:
            _end()

    for number in taken:
        signal.signal(number, stop)
    try:
        yield
    finally:
        if first is None:  # only the answer is left to be printed
            leave()


def _end(*_: object) -> NoReturn:
    leave()
    with suppress(OSError):
        os.write(2, b"autosched: stopped\n")
    os._exit(STOPPED)
