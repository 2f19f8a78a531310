"""The benchmark over other people's programs: which arguments they get, how their ends are told, its page."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.emulator.strangers.__main__ import Run, conclude, journal_of, of_repository
from benchmarks.emulator.strangers.limited import ends_within
from benchmarks.emulator.strangers.page import page
from benchmarks.emulator.strangers.programs import MOST_THINGS, arguments_of, cmake_command, programs_in, scaled
from benchmarks.emulator.strangers.table import TABLE, Table

MAKEFILE = "run: $(program)\n\t$(LAUNCHER) ./$(program) 4096 4096 7 100 \n"
SOURCE = """int main(int argc, char** argv) {
  int width = atoi(argv[1]), height = atoi(argv[2]); const int mode = atoi(argv[3]);
  const int repeat = atoi(argv[4]);
}
"""


def test_programs_are_folders_with_a_makefile_and_files_with_a_main(tmp_path: Path) -> None:
    for name, text in (
        ("a/Makefile", MAKEFILE), ("a/main.cu", SOURCE), ("a/deeper/other.cu", SOURCE),
        ("b/one.cu", SOURCE), ("b/kernels.cu", "__global__ void k() {}"), ("c/Makefile", MAKEFILE),
    ):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = list(programs_in(tmp_path))
    assert [p.name for p in found] == ["a", "b/one.cu"]
    width, height, mode, repeat = arguments_of(found[0], {})
    assert (mode, repeat) == ("7", "1")
    assert MOST_THINGS // 4 < int(width) * int(height) <= MOST_THINGS
    assert arguments_of(found[0], {"a": ["1", "2"]}) == ["1", "2"]


def test_programs_of_cmake_are_built_where_they_need_the_runtime_alone(tmp_path: Path) -> None:
    needs_others = "add_executable(blas blas.cu)\ntarget_link_libraries(blas PUBLIC CUDA::cublas)\n"
    apart = (
        "# add_executable(old old.cu)\nadd_executable(sum sum.cu host.cpp)\n"
        "target_link_libraries(sum PRIVATE OpenMP::OpenMP_CXX)\n"
        "set_target_properties(sum PROPERTIES CUDA_SEPARABLE_COMPILATION ON)\n"
    )
    for name, text in (("blas", needs_others), ("sum", apart)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "CMakeLists.txt").write_text(text)
        (tmp_path / name / f"{name}.cu").write_text(SOURCE)
    (tmp_path / "Common").mkdir()
    assert [p.name for p in programs_in(tmp_path)] == ["sum"]
    command = cmake_command(tmp_path / "sum", 80)
    assert {"-rdc=true", "-arch=sm_80", "-fopenmp", str(tmp_path / "Common")} < set(command)
    assert command[command.index("sum.cu") :][:2] == ["sum.cu", "host.cpp"] and command[-2:] == ["-o", "sum"]
    assert cmake_command(tmp_path / "blas", 80) == []


@pytest.mark.parametrize(
    ("arguments", "names", "few"),
    [
        (["1000"], {1: "repeat"}, ["1"]),
        (["1000"], {}, ["1000"]),
        (["100000000", "100"], {}, ["24415", "1"]),
        (["-n", "64", "--iterations", "50"], {}, ["-n", "64", "--iterations", "1"]),
        (["data.txt", "0.5", "16"], {3: "cols"}, ["data.txt", "0.5", "16"]),
    ],
)
def test_repetitions_are_one_and_sizes_small(arguments: list[str], names: dict[int, str], few: list[str]) -> None:
    assert scaled(arguments, names) == few


@pytest.mark.parametrize(
    ("run", "said", "late", "verdict"),
    [
        (Run("p", launches=1), "PASS", False, "pass"),
        (Run("p", launches=1), "verification: FAIL", False, "fail"),
        (Run("p", launches=1), "time 3 us", False, "ended"),
        (Run("p", launches=1, status=1), "time 3 us", False, "died"),
        (Run("p", launches=1, lacking=["cudaGraphLaunch is not emulated"]), "PASS", False, "stopped"),
        (Run("p", launches=1, findings=[{"kind": "timeout", "message": "not done"}]), "PASS", False, "time limit"),
        (Run("p"), "PASS", True, "time limit"),
        (Run("p"), "========= nothing was found in 0 launches\nusage: p SIZE", False, "no launch"),
        (Run("p"), "autosched: p needs libcublas.so.13", False, "refused"),
    ],
)
def test_how_a_program_ended(run: Run, said: str, late: bool, verdict: str) -> None:
    conclude(run, said, late=late)
    assert run.verdict == verdict


def test_a_program_is_ended_at_its_limit_of_cpu_seconds(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as output:
        assert ends_within(30.0, [sys.executable, "-c", "print(1)"], tmp_path, output)
        assert not ends_within(0.2, [sys.executable, "-c", "while True: pass"], tmp_path, output)


def test_the_page_counts_ends_and_says_who_read_a_finding(tmp_path: Path) -> None:
    race = {"kind": "global_race", "message": "two threads", "file": "/x/p.cu", "line": 3, "count": 2, "grade": "fault"}
    runs = [
        Run("p", verdict="pass", launches=2, findings=[race]),
        Run("q", verdict="time limit", why="60 s", launches=1),
        Run("r", verdict="no launch"),
    ]
    table = Table(readings=[{"program": "p", "kind": "global_race", "judged": "true", "why": "no barrier"}])
    text = page(runs, table)
    assert "**1 of the 2 programs that launch a kernel came to their end** (3 were tried)" in text
    assert "| p | global_race | p.cu:3 | 2 | true | no barrier |" in text
    assert "| q |  | time limit | 60 s |" in text
    assert "not read" in page(runs, Table())
    assert journal_of(tmp_path / "none.jsonl") == {}


def test_the_table_has_what_it_is_asked_for() -> None:
    assert all({"program", "kind", "judged", "why"} <= set(r) for r in TABLE.readings)
    assert {r["judged"] for r in TABLE.readings} <= {"true", "false", "harmless"}


def test_messages_name_programs_by_their_place_in_the_repository(tmp_path: Path) -> None:
    run = Run("a", why=f"at {tmp_path}/a/main.cu:3", findings=[{"file": f"{tmp_path.parent}/Common/h.h", "line": 4}])
    stripped = of_repository(run, tmp_path)
    assert stripped.why == "at a/main.cu:3"
    assert stripped.findings == [{"file": "../Common/h.h", "line": 4}]
    assert stripped.program == "a"
