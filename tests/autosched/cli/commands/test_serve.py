"""``autosched serve``: every Python process of a program takes its tuned configurations from the database."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import forked_python
import pytest

from autosched.cli import main

pytest.importorskip("torch", reason="torch is not installed: pip install 'autosched[torch]'")
pytest.importorskip("triton", reason="Triton is not installed: pip install 'autosched[triton]'")

SUPPORT = str(Path(__file__).parents[3] / "support")
PROGRAM = """
import json, sys
sys.path.append(sys.argv[1])
import persisted_kernels as stock
from autosched.triton import emulated

with emulated("h100"):  # nothing is launched: it only says which GPU there is
    chosen = [stock.launch(kernel, 64) for kernel in stock.kernels("log", count=2)]
print(json.dumps(chosen))
"""


def serve(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {"AUTOSCHED_DB": str(folder / "default.db"), **environment}
    command = [sys.executable, "-m", "autosched", "serve", *arguments]
    return forked_python.run(
        command, cwd=folder, env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )


def test_a_script_is_tuned_once_across_its_processes(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "launcher.py").write_text(
        "import subprocess, sys\nsubprocess.run([sys.executable, 'program.py', *sys.argv[1:]], check=True)\n"
    )
    of_child = serve(tmp_path, "--db", "best.db", "--", sys.executable, "launcher.py", SUPPORT)
    assert of_child.returncode == 0 and "0 tunings answered, 2 new" in of_child.stderr, of_child.stderr
    timed = len((tmp_path / "log").read_text().splitlines())
    again = serve(tmp_path, "--db", "best.db", "--", sys.executable, "program.py", SUPPORT)
    assert again.returncode == 0 and "2 tunings answered, 0 new" in again.stderr, again.stderr
    assert json.loads(again.stdout) == json.loads(of_child.stdout)
    assert timed and len((tmp_path / "log").read_text().splitlines()) == timed


def test_the_script_replaces_the_process_of_the_command(tmp_path: Path) -> None:
    assert serve(tmp_path, "--", sys.executable, "-c", "raise SystemExit(7)").returncode == 7
    killed = serve(tmp_path, "--", sys.executable, "-c", "import os; os.kill(os.getpid(), 15)")
    assert killed.returncode == -signal.SIGTERM
    assert (tmp_path / "default.db").exists()


def test_a_script_without_triton_imports_no_autosched_module(tmp_path: Path) -> None:
    code = "import sys; print([name for name in sys.modules if name.startswith(('autosched', 'triton', 'torch'))])"
    assert serve(tmp_path, sys.executable, "-c", code).stdout == "[]\n"


def test_the_sitecustomize_of_the_environment_runs(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('here')\n")
    completed = serve(
        tmp_path, sys.executable, "-c", "print('done')", PYTHONPATH=f"{tmp_path}{os.pathsep}{os.getcwd()}"
    )
    assert completed.stdout.splitlines()[-2:] == ["here", "done"]


def test_an_environment_without_autosched_is_reported_once(tmp_path: Path) -> None:
    (tmp_path / "triton" / "runtime").mkdir(parents=True)
    for module in ("__init__", "runtime/__init__", "runtime/autotuner"):
        (tmp_path / "triton" / f"{module}.py").write_text("")
    code = "import sys; sys.modules['autosched'] = None; import triton.runtime.autotuner"
    completed = serve(tmp_path, sys.executable, "-c", code, PYTHONPATH=f"{tmp_path}{os.pathsep}{os.getcwd()}")
    assert (
        completed.returncode == 0
        and completed.stderr.count("\n") == 1
        and "cannot import autosched" in completed.stderr
    )


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ((), "PROGRAM"),
        (("no/such/program",), "no/such/program"),
        (("--timeout", "-1", "true"), "--timeout"),
        (("--db", "no/such/folder/best.db", "true"), "no/such/folder"),
    ],
)
def test_scripts_that_cannot_run_are_rejected_in_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    word: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AUTOSCHED_DB", str(tmp_path / "default.db"))
    status = main(["serve", *arguments])
    err = capsys.readouterr().err
    assert status == 2 and word in err and err.count("\n") == 1
