"""Command line of autosched.

Start at ``app.py``, which maps arguments to commands and errors to exit statuses. ``commands/`` has one file for each
command, ``options/`` turns text into problems, kernels and devices, and ``terminal/`` prints. This package must not
import ``autosched.integrations``; ``autosched.registry`` imports an integration by name. No other package may import
``autosched.cli``.
"""

import gc
import sys
from collections.abc import Sequence

from autosched.cli.terminal import clock, interrupts, streams
from autosched.cli.terminal.supervised import supervised
from autosched.reporting.exit_status import ExitStatus
from autosched.version import VERSION

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status.

    ``arguments`` defaults to the arguments of the process. With this default, the handlers for Ctrl-C and the standard
    streams are installed before any slow import. The command then runs in a child process (``supervised``).
    """
    if arguments is not None:
        return _run(arguments)
    gc.disable()  # saves time: during imports, the garbage collector would scan hundreds of modules and free nothing
    interrupts.take()
    out, err = streams.take()
    if sys.argv[1:2] == ["serve"]:  # no child process: the served program replaces this process (exec)
        return _command(out, err)
    return supervised(lambda: _command(out, err))


def _command(out: streams.TerminalStream, err: streams.TerminalStream) -> int:
    status = _run(sys.argv[1:])
    interrupts.leave()
    out.flush()
    err.flush()
    if "triton" not in sys.modules:  # Triton's C++ extension prints warnings if its objects are not freed
        gc.disable()
        gc.freeze()  # skip Python's last garbage collection (15 ms); the process ends anyway
    if out.lost is None or status == ExitStatus.STOPPED:
        return status
    if isinstance(out.lost, BrokenPipeError):  # the reader closed the pipe (`| head`), which is not an error
        return ExitStatus.NO
    print(f"autosched: stdout cannot be written ({out.lost.strerror}); stored results are kept", file=err)
    err.flush()
    return ExitStatus.NO_ANSWER


def _run(arguments: Sequence[str]) -> int:
    if list(arguments) == ["--version"]:  # fast path without building any command
        print(f"autosched {VERSION}")
        return 0
    clock.start()
    from autosched.cli.app import run

    return run(arguments)
