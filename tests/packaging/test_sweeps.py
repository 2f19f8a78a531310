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

@pytest.mark.sweep("f16", "tf")
@pytest.mark.parametrize("case", ["bf16", "f16", "tf32", "f32"])
def test_of_words(case): pass

@pytest.mark.sweep(1)
@pytest.mark.parametrize("case", [pytest.param(0, marks=pytest.mark.nightly), 1, 2])
def test_with_one_by_night_anyway(case): pass
"""
MANY = {f"of_many[{k}]" for k in range(8)}
OTHERS = {"of_few[0]", "of_few[1]", "of_words[f16]", "of_words[tf32]"}
DAILY = {"of_many[0]", "of_many[2]", "of_many[5]", *OTHERS, "with_one_by_night_anyway[1]"}
WHOLE = {
    *MANY,
    *OTHERS,
    "of_words[bf16]",
    "of_words[f32]",
    "with_one_by_night_anyway[1]",
    "with_one_by_night_anyway[2]",
}
ALL = {*WHOLE, "with_one_by_night_anyway[0]"}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], DAILY),
        (["--nightly"], ALL),
        (["--nightly", "-m", "nightly"], ALL - DAILY),
        (["--nightly", "-m", "nightly or sweep"], ALL),
        (["--update-golden"], WHOLE),
        (["--all-cases"], WHOLE),
        (["-k", "many"], MANY),
        (["test_x.py::test_of_many[1]", "test_x.py::test_of_many[7]"], {"of_many[1]", "of_many[7]"}),
    ],
    ids=["by day", "everything", "by night", "nightly workflow", "golden files", "all cases", "by word", "by name"],
)
def test_which_cases_are_collected(tmp_path: Path, options: list[str], expected: set[str]) -> None:
    done = collected(tmp_path, TESTS, *options)
    found = [line for line in done.stdout.splitlines() if line.startswith("test_x.py::test_")]
    assert {line.removeprefix("test_x.py::test_") for line in found} == expected, done.stdout + done.stderr
    assert len(found) == len(expected)


def collected(tmp_path: Path, tests: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Return what pytest says of ``tests`` beside the conftest of ours."""
    (tmp_path / "test_x.py").write_text(tests)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  gpu\n  nightly\n  sweep(n)\n")
    conftest = Path(__file__).parents[1] / "conftest.py"
    (tmp_path / "conftest.py").write_text(conftest.read_text())
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider", *options]
    return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)


def test_a_word_that_no_case_begins_with_is_said(tmp_path: Path) -> None:
    done = collected(tmp_path, TESTS.replace('"tf"', '"tf64"'))
    assert done.returncode == 4 and "no case for each of ('f16', 'tf64')" in done.stderr
