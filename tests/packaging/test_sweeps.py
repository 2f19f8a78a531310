"""Cases of tests marked ``sweep``: each is run by day or by night, and by night alone those that the day leaves out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import pytest

@pytest.mark.sweep(3)
@pytest.mark.parametrize("case", range(8))
def test_of_many(case): pass

@pytest.mark.sweep(3)
@pytest.mark.parametrize("case", range(2))
def test_of_few(case): pass

@pytest.mark.sweep(1)
@pytest.mark.parametrize("case", [pytest.param(0, marks=pytest.mark.nightly), 1, 2])
def test_with_one_by_night_anyway(case): pass
"""
DAILY = {"of_many[0]", "of_many[2]", "of_many[5]", "of_few[0]", "of_few[1]", "with_one_by_night_anyway[1]"}
ALL = {*(f"of_many[{k}]" for k in range(8)), *DAILY, *(f"with_one_by_night_anyway[{k}]" for k in range(3))}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], DAILY),
        (["--nightly"], ALL),
        (["--nightly", "-m", "nightly"], ALL - DAILY),
        (["--update-golden"], ALL - {"with_one_by_night_anyway[0]"}),
    ],
    ids=["by day", "everything", "by night", "golden files"],
)
def test_which_cases_are_collected(tmp_path: Path, options: list[str], expected: set[str]) -> None:
    (tmp_path / "test_x.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  gpu\n  nightly\n  sweep(n)\n")
    conftest = Path(__file__).parents[1] / "conftest.py"
    (tmp_path / "conftest.py").write_text(conftest.read_text())
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider", *options]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    collected = [line for line in done.stdout.splitlines() if line.startswith("test_x.py::test_")]
    assert {line.removeprefix("test_x.py::test_") for line in collected} == expected, done.stdout + done.stderr
    assert len(collected) == len(expected)
