"""The process of a command runs in a child of the one that was started: exit status 0 needs a command that was done.

Files that users name are run as Python in that child. Whatever ends it there (``os._exit``, a crash) has not ended the
command, and must not look like a pass: the child reports its status when the command is done, and only then.
"""

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

from autosched.cli.terminal.errors import BAD_INPUT, STOPPED

_FORWARDED = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
_PR_SET_PDEATHSIG = 1  # of <linux/prctl.h>


def supervised(command: Callable[[], int]) -> int:
    """Return the status of ``command``, which runs in a child; or BAD_INPUT where the child ends before it is done.

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
        status = command()
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
    if ended == STOPPED:
        return STOPPED
    how = f"exit status {ended}" if ended >= 0 else _signal_name(-ended)
    line = (
        f"autosched: the process ended ({how}) before the command was done: a file that it runs may end it (os._exit)"
    )
    print(line, file=sys.stderr)
    return BAD_INPUT


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
        os._exit(BAD_INPUT)
