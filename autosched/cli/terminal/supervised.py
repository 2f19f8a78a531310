"""Execution of a command in a child process, so that exit status 0 always means that the command completed.

Users' Python files run in the child. A file that ends the child early (``os._exit``, a crash) must not look like a
success. The child therefore reports its status only after the command has completed. The parent removes the temporary
files of a child that ended early.
"""

import os
import signal
import sys
import traceback
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress

from autosched.cli.terminal import interrupts
from autosched.reporting.exit_status import ExitStatus

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
    forwarded = [number for number in interrupts.SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    of_child_end = signal.signal(signal.SIGCHLD, _do_nothing)  # if SIGCHLD is ignored, no exit code is available
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, forwarded)  # until both processes have their handlers
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _end_with(parent)
        signal.signal(signal.SIGCHLD, of_child_end or signal.SIG_DFL)
        interrupts.end_by_default()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        child = os.getpid()
        status = _result_of(command)
        if os.getpid() == child:  # a process that a user's file forked may also reach this line
            os.write(writing, bytes([status & 0xFF]))
        raise SystemExit(status)
    os.close(writing)
    ended = _exit_code(pid, forwarded, mask)
    interrupts.leave()
    # do not wait until the pipe is closed: child processes of the child may keep it open
    os.set_blocking(reading, False)
    with suppress(BlockingIOError):
        reported = os.read(reading, 1)
        if reported:
            os._exit(reported[0])  # ``os._exit`` does not flush streams, but this process has written nothing
    was_stopped = -ended in forwarded
    print(interrupts.STOPPED_LINE if was_stopped else f"autosched: {_early_end(ended)}", file=sys.stderr, flush=True)
    # imported lazily, because only failures need this module
    from measurements.files.work_folders import remove_temporary_of_killed

    with suppress(OSError):
        remove_temporary_of_killed()
    return ExitStatus.STOPPED if was_stopped else ExitStatus.NO_ANSWER


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


def _exit_code(pid: int, forwarded: Collection[int], mask: Iterable[int]) -> int:
    """Wait until a child ends, and return its exit code. Forward the signals ``forwarded`` to the child.

    Args:
        pid: The child.
        forwarded: These signals are blocked at first.
        mask: The mask of blocked signals from now on.
    """
    # A handler in Python would miss a signal that arrives just before a blocking wait. So the numbers of all signals
    # are read from a pipe. SIGCHLD, which has a handler, is also written to the pipe.
    received, wakes = os.pipe()
    os.set_blocking(wakes, False)
    before = signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    for number in forwarded:
        signal.signal(number, _do_nothing)
    signal.pthread_sigmask(signal.SIG_SETMASK, set(mask) - {signal.SIGCHLD})  # a parent process may have blocked it
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            signal.set_wakeup_fd(before)
            return os.waitstatus_to_exitcode(status)
        for number in os.read(received, 64):
            if number in forwarded:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)


def _do_nothing(*_: object) -> None:
    """Handle a signal whose number is read from a pipe."""


def _end_with(parent: int) -> None:
    """Kill this process when its parent ends (Linux)."""
    if sys.platform != "linux":
        return
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(ExitStatus.NO_ANSWER)
