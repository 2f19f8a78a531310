"""The process of a command runs in a child of the one that was started: exit status 0 needs a command that was done.

Files that users name are run as Python in that child. Whatever ends it there (``os._exit``, a crash) has not ended the
command, and must not look like a pass: the child reports its status when the command is done, and only then.
"""

import os
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

from autosched.reporting.exit_status import ExitStatus

_FORWARDED = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
_PR_SET_PDEATHSIG = 1  # of <linux/prctl.h>


def supervised(command: Callable[[], int]) -> int:
    """Return the status of ``command``, which runs in a child; NO_ANSWER if the child ends before it is done.

    The child raises SystemExit. Where there is no fork, this process itself runs the command.
    """
    if not hasattr(os, "fork"):
        return command()
    reading, writing = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _end_with(parent)
        child = os.getpid()
        status = _told(command)
        if os.getpid() == child:  # a file that forks has a second process come here
            os.write(writing, bytes([status & 0xFF]))
        raise SystemExit(status)
    os.close(writing)
    _forward_to(pid)
    ended = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    for number in _FORWARDED:
        signal.signal(number, signal.SIG_IGN)  # the status is known
    os.set_blocking(reading, False)  # processes that the child has left behind hold the other end
    with suppress(BlockingIOError):
        told = os.read(reading, 1)
        if told:
            return told[0]
    if ended == ExitStatus.STOPPED:
        return ExitStatus.STOPPED
    print(f"autosched: {_early_end(ended)}", file=sys.stderr)
    return ExitStatus.NO_ANSWER


def _told(command: Callable[[], int]) -> int:
    """Return the status of ``command``. An exception is a bug: its traceback and one line are printed."""
    try:
        return command()
    except Exception as error:
        traceback.print_exc()
        print(f"autosched: internal error ({type(error).__name__}): report it with the lines above", file=sys.stderr)
        return ExitStatus.NO_ANSWER


def _early_end(ended: int) -> str:
    """Return the line for a child that ended before its command was done, by an exit status or minus a signal."""
    if ended >= 0:
        how = f"the process ended with exit status {ended}"
        cause = "a file that it runs may have called os._exit"
    elif -ended == signal.SIGKILL:
        how = "SIGKILL ended the process"
        cause = "the system may be out of memory (free some), or a file that it runs sent the signal"
    else:
        how = f"{_signal_name(-ended)} ended the process"
        cause = "a file that it runs may have crashed or sent the signal"
    return f"{how} before the command was done: {cause}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


def _forward_to(pid: int) -> None:
    """Send what asks this process to stop on to the child, which stops in its own way."""

    def forward(number: int, _: FrameType | None) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, number)

    for number in _FORWARDED:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, forward)


def _end_with(parent: int) -> None:
    """Let this process be killed when its parent is (Linux)."""
    if sys.platform != "linux":
        return
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(ExitStatus.NO_ANSWER)
