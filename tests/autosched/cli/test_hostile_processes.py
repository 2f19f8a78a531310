"""Hostile input in real processes gives one line and exit status 2, within bounded time and memory.

The commands execute code of the tests' files. ``test_hostile.py`` tests the limits for files that are only read.
"""

from __future__ import annotations

import itertools
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import forked_python
import pytest
from cases import representative, spread
from ended_processes import wait_until_ended

from measurements.workers.resource_watch import written_bytes
from tests.support.snippets.kernel_file import FILE, SOURCE

MORE_MEMORY = 512 << 20  # bytes of memory that a command may use in addition to what it uses for harmless input
HANGS = 60.0  # seconds, longer than every time limit of the commands
# Progress lines, which any command may print on a busy machine.
PROGRESS = re.compile(
    r"^(?:emulated \d+/\d+ in \d+ s|\d+/\d+, [a-z ]+ for \d+ s|Compil(?:ing|ed) the emulator ).*\n",
    re.MULTILINE,
)


def run(folder: Path, *command: str) -> tuple[int, str, int]:
    """Run a command in ``folder``.

    Return the command's exit status, its standard error without progress lines, and the peak memory of the process and
    its children in bytes.
    """
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    with (folder / "err").open("w+b") as err:
        process = forked_python.Popen(
            [sys.executable, "-m", "autosched", *command, "--kernel", "k.toml", "--device", "a100"],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=err,
        )
        most, deadline = 0, time.monotonic() + HANGS
        try:
            while process.poll() is None:
                most = max(most, written_bytes(process.pid))
                assert time.monotonic() < deadline, "it hangs"
                time.sleep(0.1)
        finally:
            process.kill()
            process.wait()
        err.seek(0)
        return process.returncode, PROGRESS.sub("", err.read().decode()), most


def refused(folder: Path, most: int, *command: str) -> str:
    """Return the one-line error of a command. Check that the command uses at most ``most`` bytes of memory.

    On a busy machine, memory is sampled too late. Therefore it is enough if one of three runs is below the limit.
    """
    for _ in range(3):
        status, err, held = run(folder, *command)
        assert status == 2 and err.count("\n") == 1, err
        if held < most:
            return err
    pytest.fail(f"the command used {held} bytes of memory, more than {most}")


def write(folder: Path, more: str, reference: str = "") -> None:
    (folder / "k.cu").write_text(SOURCE)
    (folder / "k.toml").write_text(FILE + more)
    (folder / "r.py").write_text(reference)


@pytest.fixture(scope="module")
def harmless(tmp_path_factory: pytest.TempPathFactory) -> int:
    """Return the peak memory, in bytes, of ``verify`` with a harmless reference function."""
    folder = tmp_path_factory.mktemp("harmless")
    write(folder, '[reference]\npython = "r.py:f"\n', "def f(x):\n    return x\n")
    status, err, most = run(folder, "verify")
    assert status == 0, err
    return most


GROWS = "blocks = []\n    while True:\n        blocks.append(bytearray(b'x') * (1 << 20))"
CHILDREN = """\
import os, time
    for i in range(20):
        if os.fork() == 0:
            block = bytearray(b'x') * (1 << 28)
            time.sleep(60)
    time.sleep(60)"""
NAMES = "return {str(i) * 1000: 1.0 for i in range(10**6)}"
WRITES = """\
import os
    while True:
        for to in range(1, 9):
            try: os.write(to, b'1' * 65536)
            except OSError: pass"""


@pytest.mark.parametrize(
    ("body", "message"),
    spread(
        [
            (GROWS, "memory_limit = 4"),
            (CHILDREN, "took more than 0.38 GiB of memory"),
            (NAMES, "took more than 0.38 GiB of memory"),
            (WRITES, "ended its process without an answer"),
            ("import numpy as np; return np.broadcast_to(1.0, (1 << 40,))", "MemoryError"),
            ("raise ValueError('x' * (1 << 26))", "fails at line 2: ValueError: xxx"),
            ("import ctypes; ctypes.string_at(0)", "SIGSEGV"),
            ("import os; os._exit(0)", "ended its process without an answer"),
        ],
        4,
    ),
)
def test_a_reference_stays_within_its_limits(body: str, message: str, tmp_path: Path, harmless: int) -> None:
    write(tmp_path, '[reference]\npython = "r.py:f"\n', f"def f(x):\n    {body}\n")
    assert message in refused(tmp_path, harmless + MORE_MEMORY, "verify")


def test_detached_children_of_a_reference_are_killed(tmp_path: Path) -> None:
    detach = "if os.fork() == 0:\n            os.setsid(); open('pid', 'w').write(str(os.getpid())); time.sleep(600)"
    body = f"import os, time\n    if os.fork() == 0:\n        {detach}\n        os._exit(0)\n    time.sleep(600)"
    write(tmp_path, '[reference]\npython = "r.py:f"\ntime_limit = 0.4\n', f"def f(x):\n    {body}\n")
    status, err, _ = run(tmp_path, "verify")
    assert status == 2 and err.count("\n") == 1 and "did not answer within 4 s" in err
    wait_until_ended(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize(
    "more",
    representative(
        [
            '[reference]\npython = "r.py:f"\ntime_limit = 0.4\n',
            '[reference]\nverify = "r.py:f"\ntime_limit = 0.4\n',
            'fill = { python = "r.py:f", time_limit = 0.4 }\n',
        ],
        "[reference]\npython",
        "fill",
    ),
)
def test_a_function_that_never_returns_is_ended(more: str, tmp_path: Path) -> None:
    write(tmp_path, more, "import time\ndef f(**given):\n    time.sleep(1000)\n")
    status, err, _ = run(tmp_path, "verify")
    assert status == 2 and err.count("\n") == 1, err
    assert "did not answer within 4 s" in err and "time_limit = 4 " in err


def test_time_limits_count_cpu_time(tmp_path: Path) -> None:
    """A reference that sleeps for longer than its time limit is not stopped, because the limit counts CPU time."""
    waits, calculates = "time.sleep(1)\n    return x", "while True:\n        pass"
    for body, status, message in ((waits, 0, ""), (calculates, 2, "took more than 0.5 CPU seconds")):
        write(tmp_path, '[reference]\npython = "r.py:f"\ntime_limit = 0.5\n', f"import time\ndef f(x):\n    {body}\n")
        ended, err, _ = run(tmp_path, "verify", "--sample", "1")
        assert ended == status and message in err, err


def test_a_reference_that_exits_gives_no_winner(tmp_path: Path) -> None:
    write(tmp_path, '[reference]\npython = "r.py:f"\n', "def f(x):\n    raise SystemExit(0)\n")
    status, err, _ = run(tmp_path, "tune", "--trials", "1", "--db", "b.db")
    assert status == 2 and err.count("\n") == 1 and "fails at line 2: SystemExit: 0" in err


# Each macro doubles the previous one, so A40 expands to 2^40 terms. Short terms exhaust the time, long terms the
# memory.
DOUBLED = "\n".join(f"#define A{k} A{k - 1} A{k - 1}" for k in range(1, 41))
BOMBS = {"time": f"#define A0 +1\n{DOUBLED}\n", "memory": f"#define A0 +{'x' * 4000}\n{DOUBLED}\n"}


@pytest.mark.parametrize(
    ("bomb", "limit", "message"),
    [
        (
            "time",
            "compile_time_limit = 1",
            "took more than 1 CPU seconds: to raise the limit, write compile_time_limit = 10, in seconds",
        ),
        (
            "memory",
            "compile_memory_limit = 0.125",
            "took more than 0.12 GiB of memory: to raise the limit, write compile_memory_limit = 1, in GiB",
        ),
    ],
)
def test_a_compiler_stays_within_its_limits(
    bomb: str, limit: str, message: str, tmp_path: Path, harmless: int, nightly: bool
) -> None:
    write(tmp_path, "")
    (tmp_path / "k.cu").write_text(BOMBS[bomb] + SOURCE.replace("x[i]", "0 A40"))
    (tmp_path / "k.toml").write_text(FILE.replace("[kernel]", f"[kernel]\n{limit}"))
    commands = [("verify",), ("tune", "--trials", "1", "--db", "b.db")]
    for command in commands if nightly else commands[bomb == "memory" :][:1]:
        assert message in refused(tmp_path, harmless + MORE_MEMORY, *command)


@pytest.mark.parametrize("command", [("verify",), ("verify", "--full")])
def test_arrays_that_no_memory_holds_are_not_emulated(command: tuple[str, ...], tmp_path: Path, harmless: int) -> None:
    write(tmp_path, "")
    (tmp_path / "k.toml").write_text(FILE.replace("n = 64", "n = 4000000000"))
    err = refused(tmp_path, harmless + MORE_MEMORY, *command)
    assert "take 32,000,000,000 bytes" in err and "[proxy]" in err, err


@pytest.mark.parametrize(
    ("command", "number"),
    representative(
        itertools.product([("verify",), ("tune", "--trials", "1", "--db", "b.db")], [signal.SIGTERM, signal.SIGKILL]),
        "verify-SIGTERM",
        "tune-SIGKILL",
        ids=lambda case: f"{case[0][0]}-{case[1].name}",
    ),
)
def test_a_process_that_must_stop_does_not_wait_for_kernels(
    command: tuple[str, ...], number: signal.Signals, tmp_path: Path
) -> None:
    write(tmp_path, "")
    (tmp_path / "k.cu").write_text(SOURCE.replace("y[i] = x[i];", "while (true) y[i] += x[i];"))
    process = forked_python.Popen(  # the signals sent below do not reach the emulator processes that it starts
        [sys.executable, "-m", "autosched", *command, "--kernel", "k.toml", "--device", "a100"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + HANGS
        while not (runners := emulating(process.pid)):
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(number)
        assert process.wait(20.0) == (130 if number == signal.SIGTERM else -number)
    finally:
        process.kill()
        process.wait()
    wait_until_ended(*runners)


def emulating(parent: int) -> list[int]:
    """Return the emulator runners that a process or its children have started."""
    pids = [int(pid) for task in Path(f"/proc/{parent}/task").glob("*/children") for pid in proc_file(task).split()]
    return [pid for child in pids for pid in (child, *emulating(child)) if b"/runner-" in command_line(pid)]


def command_line(pid: int) -> bytes:
    """Return the command line of a process."""
    return proc_file(Path(f"/proc/{pid}/cmdline"))


def proc_file(file: Path) -> bytes:
    """Return the contents of a file of ``/proc``; empty if its process or thread has ended since it was listed."""
    try:
        return file.read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""
