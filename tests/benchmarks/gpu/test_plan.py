"""A plan for 15 minutes of GPU time is prepared, run on a simulated GPU, and resumed after an interruption."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from needs import needs_nvrtc

from benchmarks.gpu.plan import counters, device_child
from benchmarks.gpu.plan.prepared import choose, load, prepare
from benchmarks.gpu.plan.problems import FINALS, LANGUAGE, PROBLEMS, SUSTAINED, YARDSTICKS
from benchmarks.gpu.plan.results import Results
from benchmarks.gpu.plan.run import main
from benchmarks.gpu.table import short_name
from measurements.compiler.pool import CompileFailure, CompilePool
from measurements.trials import recording
from search_spaces.catalogue import template
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul

H200 = device("h200")
SMALL = next(p for p in FINALS if isinstance(p, Matmul) and p.m == 1)
PARTS = ("yardsticks", "trials", "finals", "counters")


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plan")
    with CompilePool() as pool:
        prepare(folder, H200, pool, print, problems=(SMALL, YARDSTICKS[0], SUSTAINED), language=(), per_problem=3)
    return folder


def run(plan: Path, out: Path, *parts: str, minutes: str = "1") -> int:
    return main(["--plan", str(plan), "--out", str(out), "--simulated", "--minutes", minutes, "--part", *parts])


def test_every_problem_of_the_plan_has_a_name_of_its_own() -> None:
    names = [short_name(problem) for problem in dict.fromkeys((*PROBLEMS, *YARDSTICKS, SUSTAINED))]
    assert len(set(names)) == len(names)
    assert len({entry.key for entry in LANGUAGE}) == len(LANGUAGE)
    assert set(FINALS) <= set(PROBLEMS)


@pytest.mark.nightly
def test_chosen_schedules_are_different_members_of_the_space() -> None:
    chosen = choose(SMALL, H200, 10)
    assert len(set(chosen)) == len(chosen) == 10
    assert choose(SMALL, H200, 10) == chosen
    for schedule in chosen:
        template(schedule.template).kernel(SMALL, schedule, H200)


@needs_nvrtc
def test_prepared_cubins_are_found_without_a_compiler(plan: Path, tmp_path: Path) -> None:
    prepared = load(plan, tmp_path)
    schedules = prepared.schedules[SMALL]
    assert schedules
    for schedule in schedules:
        kernel = template(schedule.template).kernel(SMALL, schedule, H200)
        assert not isinstance(prepared.cubins.submit(kernel, H200.arch).result(), CompileFailure)
    other = Matmul(m=64, n=64, k=64)
    schedule = choose(other, H200, 1)[0]
    kernel = template(schedule.template).kernel(other, schedule, H200)
    assert isinstance(prepared.cubins.submit(kernel, H200.arch).result(), CompileFailure)


@needs_nvrtc
def test_parts_run_over_a_simulated_gpu_and_are_done_once(plan: Path, tmp_path: Path, capsys: Any) -> None:
    assert run(plan, tmp_path, *PARTS) == 0
    results = Results(tmp_path)
    assert set(results.of("yardsticks")) == {short_name(YARDSTICKS[0]), "sustained"}
    trials = results.of("trials")[short_name(SMALL)]
    assert trials["measured"] == trials["prepared"] >= 2
    assert results.of("finals")[short_name(SMALL)]["from_trials"]
    assert set(results.of("finals")[short_name(SMALL)]["ratios"]) == {"library", "cublaslt"}
    assert len(results.of("counters")) == len(counters.KERNELS)
    recorded = {r.problem: r for r in recording.read(tmp_path / f"recordings{recording.SUFFIX}")}
    assert len(recorded[SMALL].trials) == trials["measured"]
    assert "Geometric mean" in (tmp_path / "table.md").read_text()

    rows = len(results.rows)
    assert run(plan, tmp_path, *PARTS) == 0
    assert len(Results(tmp_path).rows) == rows


@needs_nvrtc
def test_a_truncated_result_is_measured_again(plan: Path, tmp_path: Path) -> None:
    assert run(plan, tmp_path, "trials") == 0
    path = tmp_path / "results.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    assert run(plan, tmp_path, "trials") == 0
    assert Results(tmp_path).has("trials", short_name(SMALL))


@needs_nvrtc
def test_a_run_without_time_stores_no_result(plan: Path, tmp_path: Path) -> None:
    assert run(plan, tmp_path, *PARTS, minutes="1e-9") == 0
    assert Results(tmp_path).rows == []


@needs_nvrtc
def test_plans_of_other_versions_are_rejected(plan: Path, tmp_path: Path, capsys: Any) -> None:
    document = json.loads((plan / "plan.json").read_text())
    other = tmp_path / "other"
    other.mkdir()
    (other / "plan.json").write_text(json.dumps(document | {"autosched": "0.0.0"}))
    for folder in (other, tmp_path / "missing"):
        assert run(folder, tmp_path / "out", "trials") == 2
        assert len(capsys.readouterr().err.strip().splitlines()) == 1


@needs_nvrtc
def test_the_parts_and_their_commands_are_listed(plan: Path, tmp_path: Path, capsys: Any) -> None:
    assert main(["--plan", str(plan), "--out", str(tmp_path)]) == 0
    listed = capsys.readouterr().out
    assert all(f"--part {part}" in listed for part in PARTS)


PROFILER = """#!{python}
import sys
assert "--clock-control" in sys.argv and sys.argv[-1] == "2048^3 tf32"
print("==PROF== Connected")
print('"ID","Section Name","Metric Name","Metric Unit","Metric Value"')
print('"0","GPU Speed Of Light Throughput","DRAM Throughput","%","81.2"')
print('"0","Occupancy","Achieved Occupancy","%","12.5"')
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (PROFILER, {"metrics": {"GPU Speed Of Light Throughput: DRAM Throughput": "81.2 %",
                                "Occupancy: Achieved Occupancy": "12.5 %"}}),
        ("#!{python}\nimport sys\nsys.exit('==ERROR== no permission')\n", {"reason": "==ERROR== no permission"}),
        ("#!{python}\nimport time\ntime.sleep(60)\n", {"reason": "ncu did not end within 2 s", "cut": True}),
    ],
    ids=["metrics", "refused", "hangs"],
)  # fmt: skip
def test_counters_are_read_or_a_reason_is_returned(text: str, expected: dict[str, Any], tmp_path: Path) -> None:
    ncu = tmp_path / "ncu"
    ncu.write_text(text.format(python=sys.executable))
    ncu.chmod(0o755)
    assert counters.profiled("2048^3 tf32", tmp_path, 2.0, str(ncu)) == expected


@pytest.mark.parametrize("key", device_child.HOST)
def test_each_time_of_the_host_part_has_a_function(
    key: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("host_calls", "decode_chain", "dependent_chain"):
        monkeypatch.setattr(device_child, name, lambda name=name: {name: 2.0})
    assert device_child.main(["host", key]) == 0
    row = json.loads(capsys.readouterr().out)
    expected = dict(zip(device_child.HOST, ("host_calls", "decode_chain", "dependent_chain"), strict=True))[key]
    assert row == {"key": key, "microseconds": {expected: 2.0}}
