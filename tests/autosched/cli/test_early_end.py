"""If a user's file exits before the verdict, every command that runs files prints one line and exits with 2."""

from __future__ import annotations

import importlib.util
import itertools
import os
import signal
import subprocess
import sys
from pathlib import Path

import forked_python
import pytest
from cases import representative, spread
from ended_processes import wait_until_ended
from needs import needs_compiler, needs_nvrtc

from autosched.cli import main
from measurements.store.store import Store

ROOT = Path(__file__).parents[3]
PROGRAM = """\
from search_spaces.programs.builder import Input, Output, program

@program(x=Input("n m", "f32"), y=Output("n m", "f32"))
def copy(p, x, y):
    b, c = p.blocks(y, names=("b", "c"))
    p.store(y, (b, c), p.load(x, (b, c)))
"""
FORKS = """\
import os, sys
from autosched.cli.terminal.supervised import supervised

def command():
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
        os._exit(1)
    return 0

sys.exit(supervised(command))
"""
FILE_COMMANDS = {
    "space --program": ("space", "--program", "x.py", "--size", "n=64"),
    "tune --program": ("tune", "--program", "x.py", "--size", "n=64", "--db", "b.db"),
    "best --program": ("best", "--program", "x.py", "--db", "empty.db"),
    "verify --program": ("verify", "--program", "x.py", "--size", "n=64"),
    "check --program": ("check", "--db", "empty.db", "--static", "--program", "x.py"),
    "report --program": ("report", "--db", "empty.db", "--program", "x.py", "--json"),
    "train --program": ("train", "--db", "empty.db", "--program", "x.py", "--out", "m.json"),
    "db check --program": ("db", "check", "--db", "empty.db", "--program", "x.py"),
    "tune --triton": ("tune", "--triton", "x.py:k", "--args", "x.py:make", "--device", "h100", "--db", "b.db"),
    "best --triton": ("best", "--triton", "x.py:k", "--db", "empty.db"),
    "verify FILE": ("verify", "x.py", "--device", "h100"),
    "judge": ("judge", "x.py", "--task", "x.py", "--device", "h100"),
}
TRITON = ("tune --triton", "best --triton", "verify FILE", "judge")


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return forked_python.run(
        [sys.executable, "-m", "autosched", *command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture(params=FILE_COMMANDS)
def command(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the name of a command that runs files, and create an empty database in the working folder."""
    name: str = request.param
    if name in TRITON and (importlib.util.find_spec("triton") is None or importlib.util.find_spec("torch") is None):
        pytest.skip("needs Triton and torch")
    Store.open(tmp_path / "empty.db").close()
    monkeypatch.chdir(tmp_path)
    return name


def write_ending(command: str, ends: str) -> None:
    Path("x.py").write_text(f"import triton\n{ends}\n" if "verify FILE" in command else f"{ends}\n")


@needs_compiler
@pytest.mark.parametrize("command", spread(FILE_COMMANDS, 4), indirect=True)
def test_a_file_that_ends_its_process_does_not_pass(command: str, tmp_path: Path) -> None:
    write_ending(command, "import os; os._exit(0)")
    completed = run(tmp_path, *FILE_COMMANDS[command])
    assert completed.returncode == 2 or (command == "judge" and completed.returncode == 1), completed.stderr
    assert completed.stderr.count("\n") <= 1 and "Traceback" not in completed.stderr, completed.stderr
    assert completed.stderr or completed.stdout


EXITS = ("import sys; sys.exit(0)", "raise SystemExit")
OF_EVERY_COMMAND = (f"{command}-{EXITS[0]}" for command in FILE_COMMANDS)


@needs_compiler
@pytest.mark.parametrize(
    ("command", "ends"),
    representative(itertools.product(FILE_COMMANDS, EXITS), *OF_EVERY_COMMAND, f"check --program-{EXITS[1]}"),
    indirect=["command"],
)
def test_a_file_that_exits_does_not_pass(command: str, ends: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The command runs in this process, so that an uncaught exit of the user's file makes the test fail."""
    write_ending(command, ends)
    status = main(FILE_COMMANDS[command])
    out, err = capsys.readouterr()
    assert status == 2 or (command == "judge" and status == 1), err
    assert err.count("\n") <= 1 and "Traceback" not in err, err
    assert err or out


@pytest.mark.parametrize("ends", ["import sys; sys.exit(0)", "import os; os._exit(0)"])
def test_a_program_that_exits_while_it_is_traced_does_not_pass(ends: str, tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text(PROGRAM.replace("    b, c =", f"    {ends}\n    b, c ="))
    completed = run(tmp_path, "verify", "--program", "x.py", "--size", "n=64", "--size", "m=64", "--sample", "1")
    assert completed.returncode == 2 and completed.stderr.count("\n") == 1, completed.stderr


@pytest.mark.parametrize(
    ("end", "said"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", ("SIGSEGV", "crashed")),
        ("os.kill(os.getpid(), signal.SIGKILL)", ("SIGKILL", "out of memory")),
        ("os._exit(0)", ("the process ended with exit status 0", "os._exit")),
    ],
)
def test_the_end_of_the_process_is_reported_first(end: str, said: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text(f"import os, signal\n{end}\n")
    completed = run(tmp_path, "verify", "--program", "x.py", "--size", "n=64")
    how, cause = said
    assert completed.returncode == 2 and completed.stderr.count("\n") == 1, completed.stderr
    assert completed.stderr.startswith(f"autosched: {how} ") and cause in completed.stderr


def test_a_real_time_signal_has_no_name(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGRTMIN + 1)\n")
    completed = run(tmp_path, "verify", "--program", "x.py", "--size", "n=64")
    assert completed.returncode == 2 and "Traceback" not in completed.stderr and completed.stderr.count("\n") == 1


def test_a_child_process_of_a_file_does_not_decide_the_status() -> None:
    completed = forked_python.run(
        [sys.executable, "-c", FORKS], cwd=ROOT, capture_output=True, timeout=120, check=False
    )
    assert completed.returncode == 2


def test_main_reports_an_early_exit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.py").write_text("import sys; sys.exit(0)\n")
    assert main(["verify", "--program", str(tmp_path / "x.py"), "--size", "n=64"]) == 2
    assert "SystemExit: 0" in capsys.readouterr().err


BEGIN = "import os, signal, threading, time\nopen('pid', 'w').write(str(os.getpid()))\n"
READY = "print('here', flush=True)\n"
# In the second program, signals do not interrupt the wait of the main thread, so that Python calls no handler.
WAITING = {
    "a wait": f"{BEGIN}{READY}time.sleep(60)\n",
    "a wait that signals do not interrupt": f"{BEGIN}threading.Thread(target=time.sleep, args=(60,)).start()\n"
    "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])\n"
    f"{READY}time.sleep(60)\n",
}


def started(source: str, folder: Path) -> subprocess.Popen[str]:
    """Start a command that runs ``source``, and wait until it prints a line."""
    (folder / "x.py").write_text(source)
    process = forked_python.Popen(
        [sys.executable, "-m", "autosched", "space", "--program", "x.py", "--size", "n=64"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "here\n"
    return process


@pytest.mark.parametrize("source", WAITING.values(), ids=WAITING)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_to_the_command_reach_its_worker(number: signal.Signals, source: str, tmp_path: Path) -> None:
    if signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip("this process ignores the signal, and so do its child processes (as after nohup)")
    process = started(source, tmp_path)
    try:
        process.send_signal(number)
        _, err = process.communicate(timeout=30)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 130 and err == "autosched: stopped\n"
    wait_until_ended(int((tmp_path / "pid").read_text()))


def test_a_handler_of_the_users_file_receives_each_signal_once(tmp_path: Path) -> None:
    source = (
        f"{BEGIN}handled = []\nsignal.signal(signal.SIGTERM, lambda *_: handled.append(1))\n{READY}"
        "while not handled: time.sleep(0.01)\ntime.sleep(0.5)\nprint(len(handled), flush=True)\nos._exit(7)\n"
    )
    process = started(source, tmp_path)
    try:
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
        process.communicate()
    assert out == "1\n" and "exit status 7" in err


def test_a_blocked_sigchld_does_not_delay_the_end(tmp_path: Path) -> None:
    code = (
        "import signal; from autosched.cli.terminal.supervised import supervised\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD]); raise SystemExit(supervised(lambda: 3))"
    )
    done = forked_python.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=30)
    assert done.returncode == 3, done.stderr


@needs_nvrtc
@needs_compiler
def test_a_tolerance_that_overflows_is_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "k.cu").write_text('extern "C" __global__ void big(float* y) { y[threadIdx.x] = threadIdx.x * 1e20f; }')
    (tmp_path / "r.py").write_text("import numpy as np\ndef big():\n    return 2e20 * np.arange(32)\n")
    (tmp_path / "k.toml").write_text(
        '[kernel]\nname = "big"\nsource = "k.cu"\nentry = "big"\n[parameters]\nblock = [32]\n[launch]\n'
        'grid = [1]\nblock = ["block"]\n[[argument]]\nname = "y"\nkind = "output"\ndtype = "f32"\nshape = [32]\n'
        '[tolerance]\nrtol = 1e300\n[reference]\npython = "r.py:big"\n'
    )
    assert main(["verify", "--kernel", str(tmp_path / "k.toml")]) == 2
    stderr = capsys.readouterr().err.splitlines()[-1]
    assert "tolerance of y" in stderr


@needs_nvrtc
@pytest.mark.parametrize("tolerance", ["inf", "nan", "-1"])
def test_a_tolerance_that_accepts_all_results_is_rejected(
    tolerance: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "k.cu").write_text("__global__ void k(float* y) { y[threadIdx.x] = 1.0f; }")
    command = ["verify", str(tmp_path / "k.cu"), "-a", "out f32[32]", "--tolerance", tolerance]
    assert main(command) == 2 and "--tolerance" in capsys.readouterr().err
    (tmp_path / "x.py").write_text("")
    file = str(tmp_path / "x.py")
    task = ["judge", file, "--task", file, "--device", "h100", "--tolerance", tolerance]
    assert main(task) == 2 and "--tolerance" in capsys.readouterr().err


RAISES = """
import sys
import autosched.cli as cli

def broken(arguments):
    raise LookupError("a bug of ours")

cli._run = broken
sys.argv = ["autosched", "devices"]
sys.exit(cli.main())
"""


def test_an_internal_error_is_reported_as_a_bug() -> None:
    completed = forked_python.run([sys.executable, "-c", RAISES], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert completed.returncode == 2
    assert completed.stderr.count("autosched: ") == 1 and "internal error (LookupError)" in completed.stderr
    assert "os._exit" not in completed.stderr and "a bug of ours" in completed.stderr


LEAVES = """
import os, signal
from measurements.files.work_folders import process_folder
(process_folder("test") / "data").write_bytes(bytes(1000))
"""


@pytest.mark.parametrize("end", ["os._exit(0)", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_temporary_files_of_a_command_that_ends_early_are_removed(tmp_path: Path, end: str) -> None:
    (tmp_path / "x.py").write_text(f"{PROGRAM}{LEAVES}{end}\n")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    command = [sys.executable, "-m", "autosched", "verify", "--program", "x.py", "--size", "n=64"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(temporary)}
    completed = forked_python.run(command, cwd=tmp_path, env=environment, capture_output=True, timeout=120, check=False)
    assert completed.returncode == 2
    assert not list(temporary.iterdir())
