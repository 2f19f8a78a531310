"""Unordered accesses of streams and host are reported, as are uses of unwritten memory. Correct variants pass."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import forked_python
import pytest
from cuda_programs import cuda_program
from needs import needs_compiler

pytestmark = [
    needs_compiler,
    pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc"),
    pytest.mark.skipif(sys.platform != "linux", reason="needs Linux"),
]

CORPUS = Path(__file__).parent / "corpus"
QUICK = ("streams", "managed", "reuse", "result", "edge", "fork", "threads", "joined")
ORDERS = (
    "streams", "blocking", "halves", "atomics", "managed", "managed_write", "managed_read", "result", "reuse",
    "pageable", "pool", "pool_free", "default", "rows", "graph", "graph_node", "edge",
    "edge_around", "child", "host_node", "executable", "fork", "join", "device_copy", "threads",
    "thread_reads", "thread_copies", "result_of_thread", "joined", "joined_posix", "read_before_join", "signalled",
    "callback",
)  # fmt: skip


def compiled(name: str, *options: str) -> Path:
    return cuda_program(CORPUS / f"{name}.cu", "-Xcompiler", "-g", *options)


@pytest.fixture(scope="module")
def orders() -> Path:
    return compiled("host_order")


@pytest.fixture(scope="module")
def unwritten() -> Path:
    return compiled("unwritten")


@pytest.fixture(scope="module")
def graph_edges() -> Path:
    version = subprocess.run(["nvcc", "--version"], capture_output=True, text=True, check=False).stdout
    if int(re.search(r"release (\d+)", version)[1]) < 13:  # type: ignore[index]
        pytest.skip("needs nvcc 13")
    return compiled("graph_edges")


def run(program: Path, *arguments: str, options: tuple[str, ...] = ()) -> tuple[int, list[dict[str, Any]]]:
    """Run a program in the emulator, and return the exit status and the findings."""
    command = [sys.executable, "-m", "autosched", "run", "--json", *options, str(program), *arguments]
    done = forked_python.run(command, capture_output=True, text=True, timeout=250, check=False)
    findings = json.loads(done.stdout)["findings"]
    return done.returncode, [{"grade": "fault", **f} for f in findings]


def line_of(name: str, mark: str) -> int:
    lines = (CORPUS / f"{name}.cu").read_text().splitlines()
    return next(k for k, line in enumerate(lines, 1) if line.endswith(f"// {mark}"))


def marked(name: str) -> object:
    return pytest.param(name, marks=[] if name in QUICK else [pytest.mark.nightly])


@pytest.mark.parametrize("case", [marked(name) for name in ORDERS])
def test_unordered_host_accesses_are_reported_at_their_call(orders: Path, case: str) -> None:
    status, findings = run(orders, case)
    assert status == 1
    assert {f["kind"] for f in findings} == {"host_race"}
    first = findings[0]
    assert Path(first["file"]).name == "host_order.cu" and first["line"] == line_of("host_order", case)


@pytest.mark.parametrize("case", [marked(name) for name in ORDERS])
def test_accesses_ordered_by_streams_events_and_waits_are_accepted(orders: Path, case: str) -> None:
    status, findings = run(orders, case, "sound")
    if case in ("result", "reuse", "pageable", "rows"):  # no kernel, so nothing was verified
        assert (status, findings) == (2, [])
    else:
        assert (status, findings) == (0, [])


def test_both_calls_of_a_race_are_reported(orders: Path) -> None:
    _, (finding,) = run(orders, "streams")
    assert finding["kernel"] == "twice(int const*, int*)"
    assert "kernel fill(int*, int)" in finding["message"] and "cudaMalloc#1" in finding["message"]
    assert re.search(r"stream 1 .*host_order\.cu:\d+", finding["message"])


# Edges of graphs have data since CUDA 13.
@pytest.mark.parametrize(
    ("case", "status", "message"),
    [
        ("plain", 0, "nothing was found"),
        ("ordinary", 0, "nothing was found"),
        ("without", 1, "host_race"),
        ("programmatic", 2, "a programmatic edge of a graph is not emulated"),
    ],
)
def test_edges_of_graphs_are_judged_or_rejected_by_name(
    graph_edges: Path, case: str, status: int, message: str
) -> None:
    command = [sys.executable, "-m", "autosched", "run", "--device", "h100", str(graph_edges), case]
    done = forked_python.run(command, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == status, done.stderr
    assert message in done.stderr
    assert done.stdout == "PASS\n"


def test_an_expected_race_is_suppressed(orders: Path) -> None:
    assert run(orders, "streams", options=("--suppress", "host_race:host_order.cu:*:they write the same"))[0] == 0


@pytest.mark.nightly
def test_the_per_thread_default_stream_blocks() -> None:
    program = compiled("host_order", "--default-stream", "per-thread")
    for case in ("managed", "result", "streams", "graph", "device_copy"):
        assert [f["kind"] for f in run(program, case)[1]] == ["host_race"], case
        assert run(program, case, "sound")[1] == [], case


@pytest.mark.parametrize(
    ("case", "kinds"),
    [
        ("sum", {"uninitialized_global_read"}),
        ("sum_half", {"uninitialized_global_read"}),
        ("copy", {"uninitialized_host_read"}),
        ("tail_compared", {"uninitialized_host_read"}),
        ("table", {"unset_symbol"}),
    ],
)
def test_unwritten_memory_that_the_host_uses_is_a_fault(unwritten: Path, case: str, kinds: set[str]) -> None:
    status, findings = run(unwritten, case)
    assert status == 1
    assert {f["kind"] for f in findings if f["grade"] == "fault"} == kinds


@pytest.mark.parametrize("case", ["sum_written", "tail", "carried", "scratch", "table_part"])
def test_unused_unwritten_memory_is_no_fault(unwritten: Path, case: str) -> None:
    status, findings = run(unwritten, case)
    assert status == 0
    assert not [f for f in findings if f["grade"] == "fault"]
    assert bool(findings) == (case in ("tail", "scratch")), "notes"


def test_memory_is_not_called_unwritten_after_a_kernel_that_was_not_emulated(unwritten: Path) -> None:
    """The program's PTX is for a newer GPU, so the kernel that writes the memory is not emulated."""
    assert run(unwritten, "sum_written", options=("--device", "t4")) == (2, [])


def test_undefined_memory_may_be_allowed(unwritten: Path) -> None:
    assert run(unwritten, "sum", options=("--allow-undefined",)) == (0, [])
