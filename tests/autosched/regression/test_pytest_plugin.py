"""The pytest plugin, in separate pytest runs."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from needs import needs_compiler, needs_nvrtc

from autosched.regression.emulated import EmulatedKernel
from measurements.trials.trial import Trial
from search_spaces.catalogue import template
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.transpose import Transpose
from search_spaces.spaces.schedule import Schedule

REPOSITORY = Path(__file__).parents[3]
PROBLEM = Matmul(m=64, n=64, k=64)

MakeTrial = Callable[..., Trial]
MakeDatabase = Callable[..., Path]


ADDED = (
    "-q",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:xdist",
    "-p",
    "no:timeout",
    "-p",
    "autosched.regression.pytest_plugin",
)


@dataclasses.dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def run(project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """Run pytest in another project's folder, in this process, which has already imported the slow modules."""
    monkeypatch.chdir(project)
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)

    def run(*arguments: str) -> Done:
        capsys.readouterr()
        status = pytest.main([*ADDED, "--rootdir", str(project), *arguments])
        out = capsys.readouterr()
        sys.modules.pop("test_own", None)
        return Done(int(status), out.out, out.err)

    return run


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "pytest.ini").write_text("[pytest]\n")
    return folder


@needs_nvrtc
def test_every_entry_is_a_test(
    run: Callable[..., Done], project: Path, make_trial: MakeTrial, database: MakeDatabase, schedules: list[Schedule]
) -> None:
    good = make_trial(schedules[0])
    resources = good.measurement.resources
    assert resources is not None
    worse = make_trial(schedules[0], problem=Matmul(64, 64, 128), resources={"registers": 8})
    stranger = dataclasses.replace(good, problem_key='{"operator":"stencil","x":3}')
    path = database(good, worse, stranger)
    (project / "test_own.py").write_text("def test_own(): pass\n")
    static = ("--autosched-db", str(path), "--autosched-static", "--autosched-no-emulate")
    completed = run(*static, "--junitxml", "out.xml", "-rfs")
    assert completed.returncode == 1, completed.stdout + completed.stderr
    assert "1 failed, 2 passed, 1 skipped" in completed.stdout
    assert "k=128 a=f16 b=f16 acc=f32 out=f16 on h200 is slower" in completed.stdout
    assert "registers: 8 were recorded, now" in completed.stdout and "Traceback" not in completed.stdout
    assert "autosched: 1 same, 1 slower, 1 cannot compare" in completed.stdout
    cases = {
        case.attrib["name"]: {p.attrib["name"]: p.attrib["value"] for p in case.iter("property")}
        for case in ET.parse(project / "out.xml").iter("testcase")
    }
    assert cases["matmul m=64 n=64 k=64 a=f16 b=f16 acc=f32 out=f16 on h200"]["registers"] == str(resources.registers)
    only = run(*static, "-k", "stencil")
    assert only.returncode == 2, "a selected entry without a verdict must not pass: " + only.stdout


def test_a_database_without_entries_or_of_another_kind_is_rejected(
    run: Callable[..., Done], project: Path, database: MakeDatabase
) -> None:
    (project / "test_own.py").write_text("def test_own(): pass\n")
    (project / "text.db").write_text("no database")
    for path, message in ((str(database()), "no working schedule"), ("text.db", "text.db")):
        completed = run("--autosched-db", path, "--autosched-static")
        assert completed.returncode == pytest.ExitCode.USAGE_ERROR
        assert message in completed.stderr and "Traceback" not in completed.stderr


def test_projects_without_the_plugin_import_none_of_its_modules(project: Path) -> None:
    (project / "test_own.py").write_text(
        "import sys\n"
        "def test_own():\n"
        "    heavy = {'numpy', 'sqlalchemy', 'optuna', 'xgboost', 'measurements', 'search_spaces', 'rich', 'typer'}\n"
        "    assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
        "    assert [m for m in sys.modules if m.startswith('autosched')] != []\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    environment.pop("PYTEST_ADDOPTS", None)
    command = [sys.executable, "-m", "pytest", *ADDED]
    completed = subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, timeout=280, check=False
    )
    assert completed.returncode == 0, completed.stdout


@needs_nvrtc
@needs_compiler
def test_a_program_that_calls_tuned_kernels_is_tested_without_a_gpu(
    run: Callable[..., Done], project: Path, make_trial: MakeTrial, database: MakeDatabase, schedules: list[Schedule]
) -> None:
    problem = Transpose(rows=64, columns=48)
    schedule = template("transpose").space(problem, device("h200")).sample(1, 0)[0]
    path = database(make_trial(schedule, problem=problem))
    (project / "pytest.ini").write_text(f"[pytest]\nautosched_db = {path}\n")
    (project / "test_own.py").write_text(
        "import numpy as np, autosched\n"
        "def test_turned(tuned_kernel):\n"
        "    kernel = tuned_kernel(autosched.Transpose(rows=64, columns=48))\n"
        "    x = np.arange(64 * 48, dtype=np.uint32).reshape(64, 48)\n"
        "    assert np.array_equal(kernel(x), x.T)\n"
        "    assert kernel(x[None]).shape == (1, 48, 64)\n"
        "def test_another(tuned_kernel):\n"
        "    tuned_kernel(autosched.Transpose(rows=96, columns=48))\n"
    )
    completed = run()
    assert "1 failed, 1 passed" in completed.stdout, completed.stdout
    assert "96" in completed.stdout or "tune" in completed.stdout


def test_calls_that_do_not_fit_are_rejected(schedules: list[Schedule]) -> None:
    kernel = EmulatedKernel(template("matmul").kernel(PROBLEM, schedules[0], device("h200")))
    a = np.zeros((64, 64), np.float16)
    for arrays, keywords in (((a,), {}), ((a, a, a), {}), ((a,), {"a": a}), ((a,), {"x": a})):
        with pytest.raises(TypeError, match="a, b"):
            kernel(*arrays, **keywords)
