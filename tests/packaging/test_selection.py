"""The pytest options that ``tests/conftest.py`` adds select the right tests."""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path

import forked_python
import pytest
from cases import representative
from slow_tests import updated

TESTS = Path(__file__).parents[1]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder for tests that use this project's ``conftest.py``."""
    support = [str(TESTS / "support"), str(TESTS.parent)]
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nmarkers =\n  gpu\n  nightly\n  slow\npythonpath = " + " ".join(support) + "\n"
    )
    (tmp_path / "conftest.py").write_text((TESTS / "conftest.py").read_text())
    return tmp_path


def outcomes(folder: Path, *options: str) -> dict[str, str]:
    """Run pytest and return the outcome of each test and skipped module."""
    command = [sys.executable, "-m", "pytest", "-q", "-rA", *options]
    done = forked_python.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith(("PASSED", "FAILED", "SKIPPED"))]
    return {" ".join(words[1:3]) if words[0] == "SKIPPED" else words[1]: words[0] for words in lines}


@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["one process", "a worker"])
def test_last_skipped_runs_tests_whose_package_is_now_installed(folder: Path, workers: tuple[str, ...]) -> None:
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


NIGHTLY = """
import pytest
from cases import representative, spread

@pytest.mark.nightly
@pytest.mark.parametrize("case", range(3))
def test_function(case): pass

@pytest.mark.parametrize("case", representative(["f16", "bf16", ("f32")], "f1"))
def test_representative(case): pass

@pytest.mark.parametrize(("case", "size"), spread([("a", 1), pytest.param("b", 2, id="last")], 1))
def test_spread(case, size): pass
"""
DEFAULT = {"representative[f16]", "spread[a-1]"}
ALL = (
    DEFAULT
    | {f"function[{case}]" for case in range(3)}
    | {"representative[bf16]", "representative[f32]", "spread[last]"}
)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), DEFAULT),
        (("--nightly",), ALL),
        (("--nightly", "-m", "nightly"), ALL - DEFAULT),
        (("--update-golden",), ALL),
    ],
    ids=["default", "nightly", "nightly only", "golden"],
)
def test_nightly_cases_run_with_the_option(folder: Path, options: tuple[str, ...], expected: set[str]) -> None:
    (folder / "test_x.py").write_text(NIGHTLY)
    assert {name.removeprefix("test_x.py::test_") for name in outcomes(folder, *options)} == expected


def test_a_name_of_no_case_is_an_error() -> None:
    with pytest.raises(ValueError, match="f64"):
        representative(["f16", "f32"], "f64")


@pytest.mark.parametrize(("options", "calls"), [((), True), (("--collect-only",), False)], ids=["run", "collection"])
def test_the_emulator_is_compiled_before_the_tests(
    folder: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], calls: bool
) -> None:
    """A fake compiler creates a file when it is called."""
    tools = folder / "tools"
    tools.mkdir()
    for name in ("g++", "clang++", "c++"):
        (tools / name).write_text(f"#!/bin/sh\ntouch {folder}/called\nexit 1\n")
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("AUTOSCHED_CACHE_DIR", str(folder / "cache"))
    (folder / "test_x.py").write_text(
        "from pathlib import Path\n\ndef test_a(): assert Path(__file__).with_name('called').exists()\n"
    )
    assert outcomes(folder, *options) == ({"test_x.py::test_a": "PASSED"} if calls else {})
    assert (folder / "called").exists() == calls


SLOW = """
import subprocess, sys, pytest

BUSY = "import time\\nend = time.process_time() + 0.3\\nwhile time.process_time() < end: pass"

@pytest.fixture(scope="module")
def prepared(): exec(BUSY, {})

def test_quick(): pass
def test_busy(): exec(BUSY, {})
def test_child(): subprocess.run([sys.executable, "-c", BUSY], check=True)
def test_prepared(prepared): pass
def test_skipped(): pytest.skip("it needs something")

@pytest.mark.parametrize("case", range(8))
def test_one_case_in_eight(case): case or exec(BUSY, {})

class Contract:
    def test_inherited(self): exec(BUSY, {})

class TestOwn(Contract): pass
"""
NOT_RUN = """
class Contract:
    def test_inherited(self): pass

class TestOther(Contract): pass
"""


def test_the_list_of_slow_tests_has_those_that_take_long(folder: Path) -> None:
    (folder / "test_x.py").write_text(SLOW)
    (folder / "tests").mkdir()
    listed = folder / "tests" / "slow.txt"
    (folder / "test_y.py").write_text(NOT_RUN)
    before = ["x.py::test_absent", "x.py::test_quick", "x.py::test_skipped", "x.py::TestOwn::test_absent"]
    before += ["y.py::TestOther::test_inherited", "y.py::TestAbsent::test_inherited", "y.py::test_absent"]
    listed.write_text("".join(f"test_{name}\n" for name in before))
    outcomes(folder, "--update-slow", "-n", "0", "test_x.py")
    slow = {f"x.py::test_{name}" for name in ("busy", "child", "prepared", "skipped")}
    slow |= {"x.py::TestOwn::test_inherited", "y.py::TestOther::test_inherited"}
    assert {line.removeprefix("test_") for line in listed.read_text().splitlines()} == slow
    quick = outcomes(folder, "-m", "not slow", "test_x.py")
    assert quick == {
        f"test_x.py::test_{name}": "PASSED" for name in ("quick", *map("one_case_in_eight[{}]".format, range(8)))
    }


@pytest.mark.parametrize(
    ("listed", "seconds", "slow"),
    [(False, 0.06, False), (False, 0.1, True), (True, 0.04, True), (True, 0.02, False)],
)
def test_a_test_near_the_limit_keeps_its_mark(listed: bool, seconds: float, slow: bool) -> None:
    names = {"test_x.py::test_a"} if listed else set()
    assert updated(names, {"test_x.py::test_a": seconds}, names) == (["test_x.py::test_a"] if slow else [])
