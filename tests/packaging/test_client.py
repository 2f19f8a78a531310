"""A machine without GPU packages can query databases and write reports. Linux-only features give a one-line error."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from store_trials import matmul_trial

from measurements.emulator.host.compiler import HostFailure, host_compiler
from measurements.store.store import Store

PROGRAM = Path(__file__).parents[1] / "support" / "client_program.py"
HEAVY = (
    *("cuda", "cupy", "nvidia", "helion", "ray", "torch", "triton"),
    *("jinja2", "matplotlib", "optuna", "rich", "scipy", "sqlalchemy", "typer", "xgboost"),
)


def heavy_modules(code: str, *arguments: str) -> list[str]:
    """Return the packages of HEAVY that a Python program imports."""
    listed = f"{code}\nimport sys\nprint(*sorted({{name.split('.')[0] for name in sys.modules}} & set({HEAVY})))"
    done = subprocess.run([sys.executable, "-c", listed, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_importing_brings_no_heavy_package() -> None:
    assert heavy_modules("import autosched") == []
    assert heavy_modules("from autosched import Database, Matmul, Trial, matmul") == []


def test_querying_a_database_only_imports_its_driver(tmp_path: Path) -> None:
    with Store.open(tmp_path / "best.db") as store:
        store.append(matmul_trial())
    code = "import sys\nfrom measurements.store.store import Store\nStore.open(sys.argv[1], create=False).problems()"
    assert heavy_modules(code, str(tmp_path / "best.db")) == ["sqlalchemy"]


def run(folder: Path, *lines: str) -> list[tuple[int, str]]:
    done = subprocess.run([sys.executable, str(PROGRAM), *lines], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [(status, error) for status, error in json.loads(done.stdout)]


def test_a_client_reads_shares_and_reports(tmp_path: Path) -> None:
    with Store.open(tmp_path / "best.db") as store:
        store.append(matmul_trial())
    commands = (
        "devices",
        "space softmax --rows 4 --columns 64 --device h200",
        "db stats --db best.db",
        "report --db best.db --out report.html",
        "export --db best.db --out configs",
        "import configs --db other.db",
        "merge other.db --into third.db",
    )
    for command, (status, error) in zip(commands, run(tmp_path, *commands), strict=True):
        assert status == 0, (command, error)
    assert (tmp_path / "report.html").exists() and (tmp_path / "third.db").exists()


def test_unavailable_commands_of_a_client_are_rejected_in_one_line(tmp_path: Path) -> None:
    softmax = "softmax --rows 4 --columns 64 --device h200"
    commands = (f"verify {softmax}", f"tune {softmax} --db best.db --trials 1", "serve --db best.db true")
    for command, (status, error) in zip(commands, run(tmp_path, *commands), strict=True):
        assert status == 2 and error.count("\n") == 1, (command, error)


@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_the_emulator_names_the_system_it_needs(monkeypatch: pytest.MonkeyPatch, system: str) -> None:
    monkeypatch.setattr("sys.platform", system)
    with pytest.raises(HostFailure, match="Linux"):
        host_compiler()
