"""The command line as a process, with closed, full or missing standard streams, and with Ctrl-C at any moment."""

import contextlib
import importlib.metadata
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from cases import representative
from needs import needs_nvrtc

from autosched.cli import main
from autosched.cli.terminal import interrupts, streams
from autosched.version import VERSION
from measurements.store.store import Store

SMALL = ("-m", "64", "-n", "64", "-k", "64")
COPY = ("copy", "--rows", "64", "--columns", "64")  # a small space, which is counted quickly
SPACE = ("space", *COPY)
HOW = ("--backend", "estimate", "--sampler", "random", "--no-verify", "--db", "b.db")
RUN = (sys.executable, "-m", "autosched")


def shell(arguments: tuple[str, ...], redirection: str, folder: Path, **env: str) -> tuple[int, str, str]:
    """Run ``autosched`` with the shell's ``redirection``, and return its status, stdout and stderr."""
    inherited: Mapping[str, str] = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    completed = subprocess.run(
        ["sh", "-c", f'exec "$@" {redirection}', "sh", *RUN, *arguments],
        cwd=folder,
        env={**inherited, **env},
        capture_output=True,
        text=True,
        timeout=120,
    )
    return completed.returncode, completed.stdout, completed.stderr


UNINSTALLED = """
import importlib.metadata as metadata, sys
def missing(name):
    if name == "autosched":
        raise metadata.PackageNotFoundError(name)
    return version(name)
version, metadata.version = metadata.version, missing
from autosched.cli import main
sys.exit(main())
"""


@pytest.mark.parametrize("command", ["--version", "doctor"])
def test_the_version_is_printed_without_an_installation(command: str) -> None:
    completed = subprocess.run(
        [sys.executable, "-c", UNINSTALLED, command], capture_output=True, text=True, timeout=120
    )
    assert completed.returncode == 0, completed.stderr
    assert completed.stdout.startswith(f"autosched {VERSION}")


def test_the_version_imports_no_command() -> None:
    code = "import sys, autosched.cli as c; c.main(['--version']); sys.exit('typer' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=120).returncode == 0


@needs_nvrtc
def test_a_verification_imports_no_unused_modules() -> None:
    """``verify`` imports neither databases nor tile programs. Only the compiling process loads NVRTC."""
    unused = ["sqlalchemy", "search_spaces.programs", "autosched.user_kernels.problem"]
    if any(d.metadata["Name"] == "nvidia-cuda-nvrtc" for d in importlib.metadata.distributions()):
        unused.append("cuda.bindings.nvrtc")
    problem = ["copy", "--rows", "4096", "--columns", "4096", "--sample", "1"]
    loaded = f"set({unused}) & set(sys.modules)"
    code = f"import sys, autosched.cli as c; c.main(['verify', *{problem}]); sys.exit(repr({loaded}))"
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert completed.stderr.endswith("set()\n"), completed.stderr


@pytest.mark.parametrize(("argument", "expected"), [("", "False True"), ("['devices']", "True False")])
def test_only_command_processes_disable_garbage_collection(argument: str, expected: str) -> None:
    """At exit, garbage collection is off in a command's process, and still on in a program that calls a command."""
    state = "f'{gc.isenabled()} {gc.get_freeze_count() > 0}'"
    code = (
        "import atexit, gc, sys, autosched.cli as c; "
        f"atexit.register(lambda: print({state}, file=sys.stderr)); c.main({argument})"
    )
    completed = subprocess.run([sys.executable, "-c", code, "devices"], capture_output=True, text=True, timeout=120)
    assert completed.stderr.splitlines()[0] == expected


# -- streams ----------------------------------------------------------------------------------------------------------

ANSWERS = ["--version", "--help", " ".join(SPACE), " ".join((*SPACE, "--json"))]


@pytest.mark.parametrize("arguments", representative(ANSWERS, "--help", ANSWERS[-1]))
@pytest.mark.parametrize(
    ("redirection", "why"), [("<&- >&-", "Bad file descriptor"), (">/dev/full", "No space left on device")]
)
def test_an_unwritable_stdout_is_reported_in_one_line(
    tmp_path: Path, arguments: str, redirection: str, why: str
) -> None:
    status, _, err = shell(tuple(arguments.split()), redirection, tmp_path)
    assert (status, err) == (2, f"autosched: stdout cannot be written ({why}); stored results are kept\n")


@pytest.mark.parametrize("redirection", ["2>/dev/full", "<&- 2>&-"])
def test_results_are_printed_without_a_stderr(tmp_path: Path, redirection: str) -> None:
    status, out, _ = shell((*SPACE, "--json"), redirection, tmp_path)
    assert status == 0 and json.loads(out)["legal"] > 0
    assert shell(("space", "matmul", "-m", "0"), redirection, tmp_path)[:2] == (2, "")


def test_invalid_input_is_reported_once_when_stdout_is_closed(tmp_path: Path) -> None:
    status, _, err = shell(("tune", "matmul", *SMALL, "--db", "b.db", "--trials", "0"), ">&-", tmp_path)
    assert (status, err) == (2, "autosched: --trials must be at least 1, got 0\n")


def refused(status: int, out: str, err: str) -> bool:
    return (status, out, err.count("\n")) == (2, "", 1) and err.startswith("autosched: ") and len(err) < 300


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/null", "."])
def test_a_schedule_is_not_read_from_anywhere(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    status = main([*SPACE, "--explain", path])
    captured = capsys.readouterr()
    assert refused(status, captured.out, captured.err), captured.err


def test_a_schedule_is_not_read_from_a_stdin_that_is_closed(tmp_path: Path) -> None:
    outcome = shell((*SPACE, "--explain", "-"), "<&-", tmp_path)
    assert refused(*outcome), outcome


def test_the_exit_status_is_2_without_any_stream(tmp_path: Path) -> None:
    assert shell(SPACE, "<&- >&- 2>&-", tmp_path)[0] == 2


@pytest.mark.parametrize("arguments", [("--version",), ("--help",), (*SPACE, "--json")], ids=" ".join)
def test_a_reader_that_closes_the_pipe_causes_no_message(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    buffered = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}  # so that output is written at exit
    completed = subprocess.run(
        [*RUN, *arguments], cwd=tmp_path, env=buffered, stdout=writer, stderr=subprocess.PIPE, timeout=120
    )
    os.close(writer)
    assert (completed.returncode, completed.stderr) == (1, b"")


@needs_nvrtc
@pytest.mark.parametrize(
    "redirection",
    representative([">&-", ">/dev/full", ">&- 2>&-", "2>/dev/full", "| head -0"], ">/dev/full", ">&- 2>&-", "| head"),
)
def test_tune_keeps_all_trials_for_any_redirection(tmp_path: Path, redirection: str) -> None:
    status, _, err = shell(("tune", *COPY, *HOW, "--trials", "3"), redirection, tmp_path)
    assert Store.open(tmp_path / "b.db", create=False).count() == 3
    assert sorted(p.name for p in tmp_path.iterdir()) == ["b.db"]
    assert status == (0 if redirection in ("2>/dev/full", "| head -0") else 2)
    assert "Traceback" not in err
    if ">&- " not in redirection and redirection.startswith(">"):
        assert err.endswith("; stored results are kept\n")


def test_characters_outside_the_encoding_are_escaped(tmp_path: Path) -> None:
    status, out, err = shell(SPACE, "", tmp_path, PYTHONIOENCODING="ascii")
    assert (status, err) == (0, "") and "vector_x" in out


def test_an_unusably_small_terminal_width_is_ignored(tmp_path: Path) -> None:
    expected = shell(("--help",), "", tmp_path, COLUMNS="")
    assert expected[0] == 0 and shell(("--help",), "", tmp_path, COLUMNS="1") == expected


@pytest.mark.parametrize(
    ("columns", "expected"), [("0", None), ("1", None), ("-3", None), ("many", None), ("20", "20")]
)
def test_a_width_is_a_number_of_columns(monkeypatch: pytest.MonkeyPatch, columns: str, expected: str | None) -> None:
    for stream in ("stdout", "stderr"):
        monkeypatch.setattr(sys, stream, getattr(sys, stream))
    monkeypatch.setenv("COLUMNS", columns)
    streams.take()
    assert os.environ.get("COLUMNS") == expected


@pytest.mark.parametrize("columns", ["40", "60", "80"])
def test_a_narrow_terminal_truncates_no_text(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: str
) -> None:
    def printed(width: str, *arguments: str) -> str:
        monkeypatch.setenv("COLUMNS", width)
        assert main(arguments) == 0
        return capsys.readouterr().out

    monkeypatch.setattr("measurements.runners.cuda.runner.cuda_available", lambda: (False, "no GPU"))
    wide, narrow = (printed(width, "space", "matmul", *SMALL, "--sample", "1") for width in ("200", columns))
    assert wide != narrow
    untimed = [set(text.replace("─", "").split()) for text in (wide, narrow)]
    assert {word for word in untimed[0] - untimed[1] if not word.replace(".", "").isdecimal()} == set()
    text = printed(columns, "tune", "matmul", "--help")
    assert "…" not in text and "--no-verify" in text and "auto|cuda|estimate|ray|replay" in text


# -- Ctrl-C -----------------------------------------------------------------------------------------------------------


PYTHONS = {
    signal.SIGINT: "signal.default_int_handler",
    signal.SIGTERM: "signal.SIG_DFL",
    signal.SIGHUP: "signal.SIG_DFL",
}


@needs_nvrtc
@pytest.mark.parametrize(
    ("delay", "times", "number"),
    representative(
        [
            *((0.0, 3, signal.SIGINT), (0.1, 1, signal.SIGINT), (0.4, 3, signal.SIGINT), (0.8, 3, signal.SIGINT)),
            *((1.2, 1, signal.SIGINT), (2.0, 3, signal.SIGINT)),
            *((0.2, 1, signal.SIGTERM), (1.5, 1, signal.SIGTERM), (0.8, 1, signal.SIGHUP), (2.5, 1, signal.SIGHUP)),
        ],
        *("0.0-3", "0.4-3", "1.2-1", "0.2-1", "0.8-1"),
        ids=lambda case: f"{case[0]}-{case[1]}",
    ),
)
def test_ctrl_c_prints_one_line_and_exits_with_130_at_any_moment(
    tmp_path: Path, delay: float, times: int, number: signal.Signals
) -> None:
    # Before autosched's first line runs, Python handles Ctrl-C. Therefore the delay starts after that line.
    code = "import os, autosched.cli as c; c.interrupts.take(); os.write(2, b'ready\\n'); raise SystemExit(c.main())"
    # Under nohup, the child would inherit an ignored SIGHUP.
    code = f"import signal; signal.signal({int(number)}, {PYTHONS[number]}); {code}"
    child = subprocess.Popen(
        [sys.executable, "-c", code, "tune", "matmul", *SMALL, *HOW, "--trials", "1000000", "--json"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stderr is not None and child.stderr.readline() == "ready\n"
        time.sleep(delay)
        for _ in range(times):
            with contextlib.suppress(ProcessLookupError):
                child.send_signal(number)
            time.sleep(0.01)
        out, err = child.communicate(timeout=60)
    finally:
        child.kill()
        child.communicate()
    assert child.returncode == 130, err
    assert "Traceback" not in err
    if out:
        document = json.loads(out)
        assert document["interrupted"]
        unseen = Store.open(tmp_path / "b.db", create=False).count() - document["trials"]["new"]
        assert unseen in (0, 1)  # Ctrl-C may interrupt after a trial is stored and before it is counted
    else:
        assert err == "autosched: stopped\n"


LOCKING = """
import signal, threading, time
from functools import partial
from autosched.cli.terminal import interrupts, streams
class Lock:  # Ctrl-C comes as a Condition has just taken it
    __enter__ = staticmethod(partial(signal.raise_signal, signal.SIGINT))
    acquire = release = locked = __exit__ = print
interrupts.take()
try:
    with interrupts.raised(), threading.Condition(Lock()):
        while True:
            time.sleep(0.1)
except KeyboardInterrupt:
    print("stopped")
"""


def test_ctrl_c_leaves_no_lock_held() -> None:
    """A KeyboardInterrupt inside ``Condition.__enter__`` would leave the lock held.

    Then the pool's threads would wait for the lock forever, and so the pool could not shut down.
    """
    completed = subprocess.run([sys.executable, "-c", LOCKING], capture_output=True, text=True, timeout=60)
    released, stopped = completed.stdout.splitlines()
    assert "KeyboardInterrupt" in released and stopped == "stopped", completed.stderr


def handler() -> object:
    return signal.getsignal(signal.SIGINT)


def test_ctrl_c_is_left_to_a_program_that_calls_main() -> None:
    before = handler()
    with interrupts.raised():
        assert handler() is before
    assert handler() is before


@pytest.mark.parametrize(
    ("code", "status", "message"),
    [
        ("kill()", 130, "autosched: stopped"),
        (
            "with raised():\n try:\n  kill()\n except KeyboardInterrupt:\n  kill(); kill()\n  print('tidied')",
            0,
            "tidied",
        ),
        (
            "with raised():\n try:\n  kill()\n except KeyboardInterrupt:\n  sleep(0.2); kill()",
            130,
            "autosched: stopped",
        ),
        ("with raised():\n pass\nkill(); print('answered')", 0, "answered"),
        (
            "try:\n with raised():\n  x = Thing(); r = weakref.ref(x, lambda _: kill()); del x; sleep(20)\n"
            "except KeyboardInterrupt:\n print('tidied')",
            0,
            "tidied",
        ),
        (
            "try:\n with raised():\n  try:\n   kill()\n  except BaseException:\n   log.exception('closing'); raise\n"
            "except KeyboardInterrupt:\n print('tidied')",
            0,
            "tidied",
        ),
        ("with suppress(KeyboardInterrupt):\n with raised():\n  kill()\nkill()\nprint('answered')", 0, "answered"),
    ],
    ids=[
        "at once",
        "soon after the first",
        "late",
        "while the answer is printed",
        "in a callback",
        "logged",
        "again while it is printed",
    ],
)
def test_ctrl_c_ends_each_phase_with_its_status(code: str, status: int, message: str) -> None:
    prelude = (
        "import logging, os, signal, weakref\nlog = logging.getLogger('x')\nclass Thing: pass\n"
        "from contextlib import suppress\nfrom time import sleep\n"
        "from autosched.cli import interrupts\nfrom autosched.cli.terminal.interrupts import raised\n"
        "def kill(): os.kill(os.getpid(), signal.SIGINT)\n"
        f"interrupts.PATIENCE = {0.1 if 'sleep' in code else 60}\n"
        "interrupts.take()\n"
    )
    completed = subprocess.run([sys.executable, "-c", prelude + code], capture_output=True, text=True, timeout=60)
    assert (completed.returncode, (completed.stdout + completed.stderr).strip()) == (status, message)


def test_no_slow_module_is_imported_before_ctrl_c_is_handled() -> None:
    code = "import sys, autosched.cli; print(sorted({'numpy', 'rich', 'typer', 'sqlalchemy'} & set(sys.modules)))"
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (completed.stdout, completed.stderr) == ("[]\n", "")
