"""Which tests a run selects: tests of the options in ``tests/conftest.py``."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Folder whose tests have this project's ``conftest.py``."""
    support = [str(TESTS / "support"), str(TESTS.parent)]
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nmarkers =\n  gpu\n  nightly\n  slow\npythonpath = " + " ".join(support) + "\n"
    )
    (tmp_path / "conftest.py").write_text((TESTS / "conftest.py").read_text())
    return tmp_path


def outcomes(folder: Path, *options: str) -> dict[str, str]:
    """Run pytest and return the outcome of each test and skipped module."""
    command = [sys.executable, "-m", "pytest", "-q", "-rA", *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith(("PASSED", "FAILED", "SKIPPED"))]
    return {" ".join(words[1:3]) if words[0] == "SKIPPED" else words[1]: words[0] for words in lines}


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["one process", "workers"])
def test_what_the_last_run_skipped_runs_once_its_package_is_there(folder: Path, workers: tuple[str, ...]) -> None:
    (folder / "test_module.py").write_text("import pytest\npytest.importorskip('absent')\ndef test_a(): pass\n")
    (folder / "test_one.py").write_text(
        "import pytest\ndef test_b(): pytest.importorskip('absent')\ndef test_c(): pass\n"
        "@pytest.mark.parametrize('x', ['1 2', '3'])\ndef test_d(x): x == '3' or pytest.importorskip('absent')\n"
    )
    assert Counter(outcomes(folder, *workers).values()) == {"PASSED": 2, "SKIPPED": 3}
    (folder / "absent.py").write_text("")
    assert outcomes(folder, *workers, "--last-skipped") == {
        "test_module.py::test_a": "PASSED",
        "test_one.py::test_b": "PASSED",
        "test_one.py::test_d[1": "PASSED",
    }
