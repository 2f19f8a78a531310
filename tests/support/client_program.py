"""Run commands as on a machine without a GPU stack and without the modules that only POSIX systems have.

Each argument is a command line. Prints a JSON list of their exit statuses and error texts.
"""

import asyncio  # noqa: F401  these modules check the system on import, so import them before ``hide`` changes it
import contextlib
import ctypes  # noqa: F401
import io
import json
import multiprocessing  # noqa: F401
import os
import shlex
import signal
import subprocess  # noqa: F401
import sys
import types

MISSING = (
    *("fcntl", "grp", "pwd", "resource", "termios"),
    *("cuda", "cupy", "helion", "matplotlib", "nvidia", "pynvml", "ray", "torch", "triton"),
)
NOT_ON_WINDOWS = {
    os: ("fork", "geteuid", "getuid", "killpg", "register_at_fork", "sched_getaffinity", "setsid"),
    signal: ("ITIMER_REAL", "SIGALRM", "SIGHUP", "SIGKILL", "SIGPIPE", "setitimer"),
}


def hide() -> None:
    sys.modules.update(dict.fromkeys(MISSING))  # importing these raises ModuleNotFoundError
    windows = types.ModuleType("msvcrt")
    windows.LK_NBLCK, windows.locking = 2, lambda *_: None  # type: ignore[attr-defined]
    sys.modules["msvcrt"] = windows
    for module, names in NOT_ON_WINDOWS.items():
        for name in names:
            if hasattr(module, name):
                delattr(module, name)


if __name__ == "__main__":
    hide()
    from autosched.cli import main

    results = []
    for line in sys.argv[1:]:
        errors = io.StringIO()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(errors):
            results.append([main(shlex.split(line)), errors.getvalue()])
    print(json.dumps(results))
