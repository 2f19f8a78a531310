"""Conditional nodes of graphs are emulated, and faults in the use of these nodes are reported."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import forked_python
import pytest
from needs import needs_compiler

pytestmark = [
    needs_compiler,
    pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc"),
    pytest.mark.skipif(sys.platform != "linux", reason="needs Linux"),
]

SOURCE = Path(__file__).parent / "corpus" / "graph_conditions.cu"


@pytest.fixture(scope="module", params=[(), pytest.param(("-rdc=true",), marks=pytest.mark.nightly)], ids=["", "rdc"])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    version = subprocess.run(["nvcc", "--version"], capture_output=True, text=True, check=False).stdout
    if int(re.search(r"release (\d+)", version)[1]) < 13:  # type: ignore[index]
        pytest.skip("needs nvcc 13")
    path = tmp_path_factory.mktemp("conditions") / "graph_conditions"
    command = ["nvcc", "-cudart", "shared", "-lineinfo", "-arch=sm_80", *request.param, "-o", str(path), str(SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return path


def run(program: Path, *arguments: str, options: tuple[str, ...] = ()) -> tuple[int, dict[str, object]]:
    options = ("--device", "h100", "--json", *options)
    command = [sys.executable, "-m", "autosched", "run", *options, str(program), *arguments]
    done = forked_python.run(command, capture_output=True, text=True, timeout=250, check=False)
    return done.returncode, json.loads(done.stdout)


@pytest.mark.parametrize(
    "arguments",
    [("loop",), ("captured",), ("if", "0"), ("if", "7"), ("choice", "1"), ("choice", "5")],
    ids=" ".join,
)
def test_the_condition_controls_how_often_bodies_run(program: Path, arguments: tuple[str, ...]) -> None:
    status, answer = run(program, *arguments)
    assert status == 0, answer


@pytest.mark.parametrize(
    ("case", "kind"),
    [("unset", "uninitialized_host_read"), ("racing", "global_race"), ("unordered", "host_race")],
)
def test_an_unordered_or_unset_condition_is_reported(program: Path, case: str, kind: str) -> None:
    status, answer = run(program, case, "1")
    assert status == 1
    findings = answer["findings"]
    assert isinstance(findings, list) and kind in {f["kind"] for f in findings}, answer


@pytest.mark.parametrize("body", [(), ("empty",)], ids=["a kernel", "empty"])
def test_a_loop_without_an_end_is_ended_by_the_time_limit(program: Path, body: tuple[str, ...]) -> None:
    status, answer = run(program, "endless", *body, options=("--time-limit", "0.5"))
    assert status == 1
    (finding,) = answer["findings"]  # type: ignore[misc]
    assert finding["kind"] == "timeout" and "in main" in finding["message"], answer
    assert "--time-limit" in finding["message"]
