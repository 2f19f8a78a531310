"""Run Python commands of tests in forked processes, which have already imported their modules.

``run`` and ``Popen`` replace the functions of ``subprocess`` for commands that start with ``sys.executable``. The
command runs in a child that ``fork_server.py`` forks: a separate process with its own exit status, signals, streams,
environment and folder. This saves the imports, which take longer than most commands.

Tests of a process's start (imports, closed streams) use ``subprocess`` to start a new interpreter. For each command,
one test also starts a new interpreter, to test the entry point.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import gettempdir
from typing import Any

from fork_server import STOPS

COMMANDS = (
    *("autosched.cli", "autosched.tuning", "autosched.samplers", "autosched.user_kernels", "autosched.regression"),
    *("autosched.verify", "autosched.programs", "cost_models", "measurements", "search_spaces"),
    *("numpy.random", "scipy", "cuda.bindings.nvrtc", "pytest", "hypothesis"),
)
TORCH = (*COMMANDS, "torch", "triton.language")
OWNER = "AUTOSCHED_TEST_PROCESS"  # variable with the id of pytest's first process; servers stop when it ends
_FOLDER = gettempdir()  # determined at import, since some tests set TMPDIR

# Options that a forked child supports. For other options (such as -W or -I), a new interpreter is started.
_OPTIONS = {"cwd", "env", "stdin", "stdout", "stderr", "text", "bufsize", "start_new_session"}
_OF_CHILD = {"PYTHONPATH", "PYTHONUNBUFFERED"}
# A new interpreter is also started if a variable with one of these prefixes differs, since Python reads it at start.
_OF_START = ("LANG", "LC_", "LD_", "PYTHON")

cpu_seconds = 0.0  # total CPU seconds of all forked processes that have ended


class Popen(subprocess.Popen[Any]):
    """A forked process, or a process of ``subprocess`` if the command requires a new interpreter.

    ``torch`` is for commands that import PyTorch.
    """

    def __init__(self, args: Sequence[Any], *, torch: bool = False, **options: Any) -> None:
        self._server: socket.socket | None = None
        self._request: dict[str, Any] | None = None
        environment = os.environ if options.get("env") is None else options["env"]
        if options.keys() <= _OPTIONS and _can_fork(args, environment):
            self._server = _connected(torch)
            self._request = {
                "arguments": [os.fspath(argument) for argument in args[1:]],
                "environment": dict(environment),
                "folder": os.path.abspath(options.get("cwd") or os.curdir),
                "start_new_session": options.get("start_new_session", False),
                # A child ignores the signals that its parent ignores.
                "ignored": [number for number in STOPS if signal.getsignal(number) is signal.SIG_IGN],
            }
        super().__init__(args, **options)

    def _execute_child(self, *arguments: Any) -> None:
        if self._server is None or self._request is None:
            super()._execute_child(*arguments)  # type: ignore[misc]
            return
        pipes = stdin, _, _, stdout, _, stderr = arguments[10:16]  # -1 means that the stream has no pipe
        streams = [number if pipe == -1 else pipe for number, pipe in enumerate((stdin, stdout, stderr))]
        socket.send_fds(self._server, [json.dumps(self._request).encode()], streams)
        self.pid = int(_answer(self._server))
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]

    def _internal_poll(self, *arguments: Any, **options: Any) -> int | None:
        if self._server is None:
            return super()._internal_poll(*arguments, **options)  # type: ignore[misc,no-any-return]
        return self._ended(self._server, 0.0)

    def _wait(self, timeout: float | None) -> int:
        if self._server is None:
            return super()._wait(timeout)  # type: ignore[misc,no-any-return]
        status = self._ended(self._server, timeout)
        if status is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return status

    def _ended(self, server: socket.socket, timeout: float | None) -> int | None:
        global cpu_seconds
        if self.returncode is None and select.select([server], [], [], timeout)[0]:
            status, seconds = _answer(server).split()
            self.returncode = os.waitstatus_to_exitcode(int(status))
            cpu_seconds += float(seconds)
            server.close()
        return self.returncode


def run(
    args: Sequence[Any],
    *,
    input: Any = None,
    capture_output: bool = False,
    timeout: float | None = None,
    check: bool = False,
    **options: Any,
) -> subprocess.CompletedProcess[Any]:
    if capture_output:
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    if input is not None:
        options["stdin"] = subprocess.PIPE
    with Popen(args, **options) as process:
        try:
            out, err = process.communicate(input, timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(args, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


def _answer(server: socket.socket) -> str:
    message = server.recv(64)
    if not message:
        raise RuntimeError("the fork server has ended")
    return message.decode()


def _can_fork(args: Sequence[Any], environment: Mapping[str, str]) -> bool:
    program, how, *_ = map(os.fspath, [*args, "-"])  # without an argument, Python reads stdin
    return (
        sys.platform == "linux"
        and program == sys.executable
        and (how in ("-c", "-m", "-P") or not how.startswith("-"))
        and _of_start(environment) == _of_start(os.environ)
    )


def _of_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environment.items()
        if value and name.startswith(_OF_START) and name not in _OF_CHILD
    }


def _connected(torch: bool) -> socket.socket:
    """Return a connection to a server. If the server does not run yet, start it."""
    owner = os.environ.get(OWNER, str(os.getpid()))
    path = Path(_FOLDER, f"autosched-tests-{owner}", "torch" if torch else "commands")
    if not path.exists():
        path.parent.mkdir(mode=0o700, exist_ok=True)
        with open(f"{path}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                _start(path, owner, TORCH if torch else COMMANDS)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(str(path))
    return connection


def _start(path: Path, owner: str, packages: Sequence[str]) -> None:
    arguments = [sys.executable, str(Path(__file__).with_name("fork_server.py")), str(path), owner, *packages]
    environment = {name: value for name, value in os.environ.items() if name not in _OF_CHILD}
    no_streams = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)]
    pid = os.posix_spawn(
        sys.executable, arguments, {**environment, "OPENBLAS_NUM_THREADS": "1"}, file_actions=no_streams
    )
    while not path.exists():
        if os.waitpid(pid, os.WNOHANG)[0]:
            raise RuntimeError(f"the fork server has ended before it served: {arguments}")
        time.sleep(0.02)
