"""Execution of a command in a child process, so that exit status 0 always means that the command completed.

Users' Python files run in the child. A file that ends the child early (``os._exit``, a crash) must not look like a
success. The child therefore reports its status only after the command has completed. The parent removes the temporary
files of a child that ended early.
"""

import os
import signal
import sys
import traceback
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any

from autosched.reporting.exit_status import ExitStatus

_FORWARDED = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
_REPEAT = 0.1  # seconds after which a forwarded signal is sent again; shorter than ``interrupts.PATIENCE``
_PR_SET_PDEATHSIG = 1  # constant of <linux/prctl.h>


def supervised(command: Callable[[], int]) -> int:
    """Run ``command`` in a child process and end with its status; return NO_ANSWER if the child ends early.

    The child raises SystemExit. The parent ends without freeing its objects: freeing would copy memory that it shares
    with the child (9 ms of CPU time). On platforms without fork, this function runs the command itself and returns the
    command's status.
    """
    if not hasattr(os, "fork"):
        return command()
    reading, writing = os.pipe()
    parent = os.getpid()
    forwarded = [number for number in _FORWARDED if signal.getsignal(number) != signal.SIG_IGN]
    # some systems discard SIGCHLD if it has no handler
    handlers = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGCHLD, signal.SIGALRM)}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [*forwarded, *handlers])
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _end_with(parent)
        _restore(handlers, mask)
        child = os.getpid()
        status = _result_of(command)
        if os.getpid() == child:  # a process that a user's file forked may also reach this line
            os.write(writing, bytes([status & 0xFF]))
        raise SystemExit(status)
    os.close(writing)
    ended = _exit_code(pid, forwarded)
    for number in _FORWARDED:
        signal.signal(number, signal.SIG_IGN)  # the child has ended; later signals must not change the status
    _restore(handlers, mask)
    # do not wait until the pipe is closed: child processes of the child may keep it open
    os.set_blocking(reading, False)
    with suppress(BlockingIOError):
        reported = os.read(reading, 1)
        if reported:
            os._exit(reported[0])  # ``os._exit`` does not flush streams, but this process has written nothing
    # imported lazily, because only failures need this module
    from measurements.files.work_folders import remove_temporary_of_killed

    remove_temporary_of_killed()
    if ended == ExitStatus.STOPPED:
        return ExitStatus.STOPPED
    print(f"autosched: {_early_end(ended)}", file=sys.stderr)
    return ExitStatus.NO_ANSWER


def _result_of(command: Callable[[], int]) -> int:
    """Run ``command`` and return its status. An exception is a bug: print the traceback and one line of explanation."""
    try:
        return command()
    except Exception as error:
        traceback.print_exc()
        print(f"autosched: internal error ({type(error).__name__}): report it with the lines above", file=sys.stderr)
        return ExitStatus.NO_ANSWER


def _early_end(ended: int) -> str:
    """Return the error line for a child that ended early. ``ended`` is its exit status, or minus a signal number."""
    if ended >= 0:
        how = f"the process ended with exit status {ended}"
        cause = "code that the process ran may have called os._exit"
    elif -ended == signal.SIGKILL:
        how = "SIGKILL ended the process"
        cause = "the system may be out of memory (free some memory), or code that the process ran sent the signal"
    else:
        how = f"{_signal_name(-ended)} ended the process"
        cause = "code that the process ran may have crashed or sent the signal"
    return f"{how} before the command was done: {cause}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # real-time signals have no name
        return f"signal {number}"


def _exit_code(pid: int, forwarded: Collection[int]) -> int:
    """Wait until a child ends, and return its exit code. Forward the signals ``forwarded`` to the child.

    A Python handler is not used, because it can miss a signal: if the signal arrives just before a blocking wait, the
    handler runs only after the wait. Instead, all signals are blocked, and ``sigwait`` accepts them one by one. The
    child, whose handlers are in Python, can miss a signal in this way. So each signal is sent again after a short time.
    """
    sent: int | None = None
    while True:
        number = signal.sigwait([*forwarded, signal.SIGCHLD, signal.SIGALRM])
        if number in forwarded:
            sent = number
            signal.setitimer(signal.ITIMER_REAL, _REPEAT)
        if number != signal.SIGCHLD and sent is not None:
            os.kill(pid, sent)  # the child exists until ``waitpid`` returns its status
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            return os.waitstatus_to_exitcode(status)


def _restore(handlers: Mapping[signal.Signals, Any], mask: Iterable[int]) -> None:
    """Restore the mask of blocked signals, and the handlers."""
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    for number, handler in handlers.items():
        signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _end_with(parent: int) -> None:
    """Kill this process when its parent ends (Linux)."""
    if sys.platform != "linux":
        return
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(ExitStatus.NO_ANSWER)
