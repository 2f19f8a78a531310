"""A server that imports packages once and forks a child for each command; its client is ``forked_python.py``.

Arguments: the path of its socket, the id of the owner process, and the packages to import. The server stops when the
owner ends. A client sends one request per connection. It receives the child's pid, and later its wait status and CPU
seconds.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import io
import json
import os
import pkgutil
import runpy
import select
import shutil
import signal
import socket
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

OURS = ("autosched", "cost_models", "measurements", "search_spaces")
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def load(package: str) -> None:
    """Import a package, with all modules if it belongs to this project. Ignore a package that is not installed."""
    with suppress(ImportError):
        imported = importlib.import_module(package)
        if package.partition(".")[0] in OURS:
            for module in pkgutil.walk_packages(imported.__path__, f"{package}."):
                if not module.name.endswith("__main__"):
                    with suppress(ImportError):
                        importlib.import_module(module.name)


def serve(path: str, owner: int) -> tuple[dict[str, Any], list[int]]:
    """Fork a child for each request, as long as the process ``owner`` runs.

    Only the children return from this function, with the request and its descriptors.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(f"{path}.new")
    listener.listen(64)
    woken, wakes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for number in STOPS:  # a signal to the process group, such as Ctrl-C, is meant for the children only
        signal.signal(number, signal.SIG_IGN)
    running: dict[int, socket.socket] = {}
    os.rename(f"{path}.new", path)
    while Path(f"/proc/{owner}").exists():
        readable, _, _ = select.select([listener.fileno(), woken], [], [], 1.0)
        if woken in readable:
            os.read(woken, 4096)
            report_ended(running)
        if listener.fileno() in readable:
            connection, _ = listener.accept()
            message, descriptors, _, _ = socket.recv_fds(connection, 1 << 20, 32)
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                return json.loads(message), descriptors
            for descriptor in descriptors:
                os.close(descriptor)
            running[pid] = connection
            connection.send(str(pid).encode())
    shutil.rmtree(os.path.dirname(path), ignore_errors=True)  # other servers whose sockets are in the folder also end
    os._exit(0)


def report_ended(running: dict[int, socket.socket]) -> None:
    """For each child that has ended, send its wait status and CPU seconds to its client."""
    while running:
        pid, status, usage = os.wait4(-1, os.WNOHANG)
        if pid == 0:
            return
        with running.pop(pid) as connection, suppress(BrokenPipeError):
            connection.send(f"{status} {usage.ru_utime + usage.ru_stime}".encode())


def take_streams(received: list[int]) -> None:
    """Use the received descriptors as standard streams, and close all others."""
    above = max(2, *received) + 1
    for offset, descriptor in enumerate(received):
        os.dup2(descriptor, above + offset)
    for number in range(3):
        os.dup2(above + number, number)
    for entry in os.listdir("/proc/self/fd"):
        if int(entry) > 2:
            with suppress(OSError):  # the descriptor of listdir itself is already closed
                os.close(int(entry))


def become(request: dict[str, Any]) -> None:
    """Set the environment, folder, signals and streams that the request specifies."""
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    if request["start_new_session"]:
        os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    for number in request["ignored"]:
        signal.signal(number, signal.SIG_IGN)
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)))
    sys.stdout, sys.stderr = writer(1, "strict"), writer(2, "backslashreplace")
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr  # type: ignore[misc]
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    gc.enable()


def writer(descriptor: int, errors: str) -> io.TextIOWrapper:
    raw: Any = io.FileIO(descriptor, "w", closefd=False)
    at_once = bool(os.environ.get("PYTHONUNBUFFERED"))
    return io.TextIOWrapper(
        raw if at_once else io.BufferedWriter(raw),
        errors=errors,
        line_buffering=descriptor == 2 or raw.isatty(),
        write_through=at_once,
    )


def run(arguments: list[str]) -> None:
    """Run ``-m MODULE``, ``-c CODE`` or a script as the interpreter does.

    With ``-P``, sys.path does not begin with the script's folder or the working directory.
    """
    main = sys.modules["__main__"] = ModuleType("__main__")
    sys.orig_argv = [sys.executable, *arguments]
    paths = [os.path.abspath(entry) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    safe = arguments[0] == "-P"
    how, *remaining = arguments[1:] if safe else arguments
    first = {"-m": os.getcwd(), "-c": ""}.get(how, os.path.dirname(os.path.realpath(how)))
    sys.path[:0] = paths if safe else [first, *paths]
    if how == "-m":
        sys.argv = ["-m", *remaining[1:]]
        runpy._run_module_as_main(remaining[0])  # type: ignore[attr-defined]  # as the interpreter does
    elif how == "-c":
        sys.argv = ["-c", *remaining[1:]]
        exec(compile(remaining[0], "<string>", "exec", dont_inherit=True), main.__dict__)
    else:
        sys.argv = [how, *remaining]
        main.__file__ = os.path.abspath(how)
        exec(compile(Path(how).read_bytes(), main.__file__, "exec", dont_inherit=True), main.__dict__)


def end(error: BaseException | None) -> NoReturn:
    """End this process as the interpreter would after ``error``, but without freeing memory first."""
    status = 0
    if isinstance(error, SystemExit):
        if error.code is not None and not isinstance(error.code, int):
            print(error.code, file=sys.stderr)
        status = error.code & 0xFF if isinstance(error.code, int) else int(error.code is not None)
    elif error is not None:
        sys.excepthook(type(error), error, error.__traceback__)
        status = 1
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads
    atexit._run_exitfuncs()
    for output in (sys.stdout, sys.stderr):
        try:
            output.flush()
        except (OSError, ValueError):
            status = 120
    if isinstance(error, KeyboardInterrupt):
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(status)


if __name__ == "__main__":
    _, socket_path, owner, *packages = sys.argv
    del sys.path[0]
    gc.disable()
    for package in packages:
        load(package)
    gc.freeze()
    request, descriptors = serve(socket_path, int(owner))
    failure = None
    try:
        take_streams(descriptors)
        become(request)
        run(request["arguments"])
    except BaseException as error:
        failure = error
    end(failure)
