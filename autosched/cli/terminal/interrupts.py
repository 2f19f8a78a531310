"""Handling of Ctrl-C: the command ends with status 130 and prints at most one line.

SIGTERM and SIGHUP, which ``timeout``, CI systems and closing terminals send, have the same effect.

While modules are imported and input is read, the process ends at once (``take``, and ``end_by_default`` in a child
process of ``supervised``). Nothing has to be cleaned up at that stage, and an import could swallow a KeyboardInterrupt.
Inside ``raised`` the first Ctrl-C raises KeyboardInterrupt as soon as that is safe. Further signals within ``PATIENCE``
seconds are ignored. A later signal ends the process at once; stored data is not lost.

Python calls a handler between two instructions of the main thread. A signal that arrives just before a blocking wait
would be handled only after the wait. A thread therefore sends each signal again until its handler has been called.
"""

import concurrent.futures
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

from autosched.reporting.exit_status import ExitStatus

PATIENCE = 2.0  # seconds after a signal during which further signals are ignored
RETRY = 0.005  # seconds until the next attempt to raise an exception, if raising was not safe
REPEAT = 0.02  # seconds after which a signal is sent again if it has not been handled yet

STOPPED_LINE = "autosched: stopped"

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
_DEFAULTS = (signal.default_int_handler, signal.SIG_DFL)
_by_default: set[int] = set()  # signals whose handler ``end_by_default`` has replaced
_LOCKING = (threading.__file__, os.path.dirname(concurrent.futures.__file__) + os.sep)
# functions of the locking modules that may be interrupted; all other functions of these modules may not
_WAITS = ("wait", "_wait_for_tstate_lock")


def take() -> None:
    """Install handlers that end the process immediately on Ctrl-C and similar signals. Ignored signals stay ignored."""
    for number in SIGNALS:
        if signal.getsignal(number) in _DEFAULTS:
            signal.signal(number, _end)


def end_by_default() -> None:
    """Let the system end this process on Ctrl-C and similar signals; ``supervised`` then prints ``STOPPED_LINE``.

    Unlike a handler in Python, the system does not miss a signal that arrives just before a blocking wait.
    """
    for number in SIGNALS:
        if signal.getsignal(number) is _end:
            signal.signal(number, signal.SIG_DFL)
            _by_default.add(number)


def leave() -> None:
    """Ignore signals from now on: the process is about to end, and a late signal must not change its exit status."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def raised() -> Iterator[None]:
    """Within the block, raise KeyboardInterrupt on these signals, so that the code in the block can clean up.

    The block must be the last thing that a command runs. Without an earlier call of ``take``, signals are handled as
    usual.
    """
    handled = [number for number in SIGNALS if _ends(number)]
    if not handled:
        yield
        return
    first: float | None = None
    waiting = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal first
        if first is None:
            first = time.monotonic()
            again(0, frame)
        elif time.monotonic() - first > PATIENCE:
            _end(number)

    def again(_: int, frame: FrameType | None) -> None:
        nonlocal waiting
        waiting = _unsafe(frame) and hasattr(signal, "setitimer")
        if not waiting:
            raise KeyboardInterrupt
        signal.setitimer(signal.ITIMER_REAL, RETRY)

    def swallowed(lost: "sys.UnraisableHookArgs", /) -> None:
        nonlocal waiting
        if issubclass(lost.exc_type, KeyboardInterrupt) and hasattr(signal, "setitimer"):
            waiting = True
            signal.setitimer(signal.ITIMER_REAL, RETRY)
        else:
            hook(lost)

    def unhandled(number: int) -> bool:
        return first is None if number in handled else waiting and number == signal.SIGALRM

    for number in handled:
        signal.signal(number, stop)
    hook, sys.unraisablehook = sys.unraisablehook, swallowed
    if logging.lastResort is not None:
        logging.lastResort.addFilter(_no_interrupt)
    before = signal.signal(signal.SIGALRM, again) if hasattr(signal, "SIGALRM") else None
    try:
        with _repeated(unhandled):
            yield
        if waiting:  # an interrupt is still pending
            raise KeyboardInterrupt
    finally:
        sys.unraisablehook = hook
        if logging.lastResort is not None:
            logging.lastResort.removeFilter(_no_interrupt)
        if before is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        if first is None:  # if there was no interrupt so far, ignore signals while the answer is printed
            leave()


def _ends(number: int) -> bool:
    """Return True if a signal ends this process because of ``take`` or ``end_by_default``."""
    handler = signal.getsignal(number)
    return handler is _end or (handler is signal.SIG_DFL and number in _by_default)


@contextmanager
def _repeated(unhandled: Callable[[int], bool]) -> Iterator[None]:
    """Within the ``with`` block, resend each received signal to the main thread until the thread has handled it."""
    if not hasattr(signal, "pthread_kill"):  # Windows has no pthread_kill
        yield
        return
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    main = threading.get_ident()

    def repeat() -> None:
        while received := os.read(reading, 1):
            time.sleep(REPEAT)
            if unhandled(received[0]):
                signal.pthread_kill(main, received[0])  # Python then calls the signal's handler again
        os.close(reading)

    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    try:
        threading.Thread(target=repeat, name="signals", daemon=True).start()
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(writing)


def _unsafe(frame: FrameType | None) -> bool:
    """Return True if an exception raised in ``frame`` could get lost, or could leave a lock locked.

    An exception in ``Condition.__enter__``, which futures and executors use, may leave its lock held. Other threads
    would then wait for the lock, and this thread would wait for these threads. Imports and finalizers swallow
    exceptions. The frame of a garbage collector callback cannot be recognised, so an exception that the callback
    swallows is raised again (``swallowed``).
    """
    if frame is not None and frame.f_code.co_filename.startswith(_LOCKING) and frame.f_code.co_name not in _WAITS:
        return True
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib") or frame.f_code.co_name == "__del__":
            return True
        frame = frame.f_back
    return False


def _no_interrupt(record: logging.LogRecord) -> bool:
    """Filter log records of a KeyboardInterrupt, which SQLAlchemy logs while it closes a connection."""
    return record.exc_info is None or not isinstance(record.exc_info[1], KeyboardInterrupt)


def _end(number: int, _: FrameType | None = None) -> NoReturn:
    if number in _by_default:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    leave()
    with suppress(OSError):
        os.write(2, f"{STOPPED_LINE}\n".encode())
    os._exit(ExitStatus.STOPPED)
