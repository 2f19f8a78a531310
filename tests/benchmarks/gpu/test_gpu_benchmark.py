"""The benchmark command for GPU machines, run on a simulated GPU, keeps its time limit and writes complete files."""

import dataclasses
import itertools
import json
import os
import signal
import subprocess
import sys
import time
import zlib
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace

import forked_python
import instant_compiler
import numpy as np
import pytest
from cases import spread
from faults import FOLDER_VARIABLE, HERE, MODULE, fault_kernel

from autosched.tuning.training_data import gather, usable
from autosched.version import VERSION
from benchmarks.gpu import probe, simulated_gpu
from benchmarks.gpu import run as gpu
from benchmarks.gpu import table as gpu_table
from benchmarks.gpu.agreement import agreement
from benchmarks.gpu.problems import matmuls, other_problems
from benchmarks.gpu.run import Benchmark, Plan
from cost_models.trees.boosted import BoostedTreeSettings
from cost_models.trees.training import table, train
from measurements.compiler.nvrtc import NvrtcMissing, toolchain_version
from measurements.compiler.pool import CompileCache, CompilePool
from measurements.emulator import HostCompilerMissing, host_compiler
from measurements.runners.base import Entrant, RunnerStopped
from measurements.runners.cuda.runner import CudaOptions, CudaRunner, cuda_available
from measurements.runners.cuda.supervisor import TimeLimits
from measurements.trials import recording
from measurements.trials.measurement import Measurement, Provenance, Status
from measurements.trials.vendor_library import is_library
from search_spaces import catalogue
from search_spaces.catalogue import BUILT_IN_OPERATORS, templates
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.matvec import Matvec
from search_spaces.operators.transpose import Transpose

ROOT = Path(gpu.__file__).parents[2]
H200 = device("h200")
SHAPES = (("square", Matmul(m=256, n=256, k=256)), ("odd", Matmul(m=127, n=63, k=65)))


def fake_kernel(problem, schedule, device, bad_every=10):
    """Return a fake measurement from a formula. Every ``bad_every``-th candidate fails, in one of three ways."""
    number = zlib.crc32(schedule.key().encode())
    name = ("wrong", "poison", "segfault")[number % 3] if number % bad_every == 0 else f"time_{2000 + number % 3000}"
    return fault_kernel(f"{name}_{number}", problem)


@pytest.fixture
def make_runner(tmp_path):
    try:
        toolchain_version()
    except NvrtcMissing as missing:
        pytest.skip(str(missing))
    opened = []

    def make() -> CudaRunner:
        pool = CompilePool(
            CompileCache(tmp_path / "cache"),
            workers=1,
            worker_module="instant_compiler",
            python_path=[instant_compiler.HERE],
        )
        options = CudaOptions(limits=TimeLimits(candidate=2.0, retry_pauses=(0.05,)))
        environment = {FOLDER_VARIABLE: str(tmp_path)}
        runner = CudaRunner(
            H200, pool, options=options, worker_module=MODULE, worker_path=[HERE], worker_env=environment
        )
        opened.append((runner, pool))
        return runner

    yield make
    for runner, pool in opened:
        runner.close()
        pool.close()


@pytest.fixture(autouse=True)
def probe_of_small_arrays(monkeypatch):
    """Reduce the probe's arrays: computing references of large ones takes a minute. Simulated times ignore sizes."""
    monkeypatch.setattr(probe, "LARGE", dataclasses.replace(probe.LARGE, m=512, n=512, k=512))
    monkeypatch.setattr(probe, "COPIED", dataclasses.replace(probe.COPIED, rows=64, columns=64))


@pytest.fixture
def no_tests(tmp_path) -> Path:
    folder = tmp_path / "gpu"
    folder.mkdir()
    (folder / "test_x.py").write_text(
        "import pytest\n"
        "@pytest.mark.gpu\ndef test_good(): pass\n"
        "@pytest.mark.gpu\n@pytest.mark.skip(reason='no')\ndef test_skipped(): pass\n"
        "def test_of_no_gpu(): assert False\n"
    )
    return folder


def test_a_whole_run(make_runner, tmp_path, no_tests, capsys, monkeypatch):
    monkeypatch.setattr(gpu, "other_problems", lambda: iter([("matvec", SHAPES[0][1]), ("strange", "it has no size")]))
    out = tmp_path / "out"
    plan = Plan(600.0, out, trials=12, rounds=7, tests=no_tests, matmuls=SHAPES, agreement=(), sampled=())
    assert Benchmark(plan, H200, make_runner(), generate=fake_kernel).run() == 0
    results = json.loads((out / "results.json").read_text())
    assert results["tests"] == {"timed_out": False, "returncode": 0, "passed": 1, "failed": 0, "skipped": 1}
    assert [row["purpose"] for row in results["shapes"]] == ["square", "odd", "matvec"]
    assert "the operator strange: it has no size" in results["left_out"]
    assert results["finished"] and not results["stopped"]
    for row in results["shapes"]:
        assert row["trials"] == 12
        assert row["best"]["provenance"] == "measured" and row["best"]["rank"] == 1
        assert row["remeasured"]["entrants"] >= 2
    assert set(results["shapes"][0]["compared"]) == {"library", "cublaslt", "torch", "triton"}
    assert set(results["shapes"][2]["compared"]) == {"library", "cublaslt", "torch", "triton", "cupy", "copy"}
    library = results["shapes"][0]["compared"]["library"]
    best = results["shapes"][0]["best"]["timing"]["median"]
    assert library["ratio"]["median"] == pytest.approx(best / 3e-6)
    warm = results["shapes"][0]["compared_warm"]
    assert set(warm) == {"library", "cublaslt"}
    assert warm["library"]["ratio"]["median"] == pytest.approx(best / 2.5e-6)  # the simulated library, warm L2
    shown = (out / "table.txt").read_text()
    assert "256x256x256 f16 rr" in shown and "gpu tests: 1 passed" in shown
    assert shown in capsys.readouterr().out

    # the measurements can be replayed
    names = sorted(p.name for p in out.iterdir())
    assert names == [
        *("gpu-tests.log", "gpu-tests.xml", "probe.json", "probe.txt", "recordings-0.jsonl.gz", "results.json"),
        "table.txt",
    ]
    recordings = recording.read(out / "recordings-0.jsonl.gz")
    assert [r.problem for r in recordings] == [SHAPES[0][1], SHAPES[1][1], SHAPES[0][1]]
    assert all(r.provenance is Provenance.MEASURED for recorded in recordings for r in recorded.trials)
    assert len(recordings[0].trials) >= 12 + 2
    versions = {t.name: t.version for t in templates()}
    for recorded in recordings:
        assert all(r.template_version == versions[r.schedule.template] for r in recorded.trials)
    assert {r.measurement.clock_mhz for r in recordings[0].trials if r.ok} == {1500.0}
    recording.install(out / "recordings-0.jsonl.gz", tmp_path / "recorded")
    assert recording.find(SHAPES[1][1].key(), "h200", tmp_path / "recorded") == recordings[1]

    # the measurements can be used for training
    data = usable(gather([], [out / "recordings-0.jsonl.gz"], "measured"))
    timed = {(r.problem_key, r.schedule) for recorded in recordings for r in recorded.trials if r.ok}
    assert data.rows == sum(not is_library(schedule) for _, schedule in timed)
    for model in train(data.observations, BoostedTreeSettings(rounds=10)):
        assert all(figures.rows for figures in model.held_out)
        assert np.isfinite(model.predict(table(model.observations[0]))).all()


def test_measurements_before_a_gpu_disappeared_are_kept(make_runner, tmp_path, no_tests, capsys):
    generated = itertools.count()

    def unplugged(problem, schedule, device):
        return fault_kernel("unplug", problem) if next(generated) == 8 else fake_kernel(problem, schedule, device)

    out = tmp_path / "out"
    plan = Plan(600.0, out, trials=30, tests=no_tests, matmuls=SHAPES, agreement=(), sampled=())
    assert Benchmark(plan, H200, make_runner(), generate=unplugged).run() == 1
    output = capsys.readouterr()
    assert "benchmarks.gpu: stopped: GPU 0" in output.err
    assert json.loads((out / "results.json").read_text())["stopped"]
    (recorded,) = recording.read(out / "recordings-0.jsonl.gz")
    assert len(recorded.trials) >= 1


@pytest.mark.nightly
def test_the_whole_command_with_real_kernels_and_the_emulator(tmp_path, no_tests, monkeypatch, capsys):
    """Kernels are compiled for an H200 and emulated; only the times are simulated."""
    try:
        host_compiler()
        toolchain_version()
    except (HostCompilerMissing, NvrtcMissing) as missing:
        pytest.skip(str(missing))
    environment = {simulated_gpu.SECONDS: "0.001", simulated_gpu.LOG: str(tmp_path / "log")}
    runner = partial(CudaRunner, worker_module=simulated_gpu.MODULE, worker_env=environment)
    small, transpose = Matmul(m=33, n=17, k=20), Transpose(9, 17)
    some = {"matmuls": (("small", small),), "agreement": (small, transpose), "sampled": (transpose,)}
    plan = partial(Plan, tests=no_tests, per_problem=1, **some)
    monkeypatch.setattr(gpu, "cuda_available", lambda: (True, "it answers"))
    monkeypatch.setattr(gpu, "cuda_device", lambda: H200)
    monkeypatch.setattr(gpu, "CudaRunner", runner)
    monkeypatch.setattr(gpu, "Plan", plan)
    monkeypatch.setattr(
        gpu, "other_problems", lambda: (("transpose", Transpose(40, 24)), ("strange", "it has no size"))
    )
    out = tmp_path / "out"
    assert gpu.main(["--minutes", "20", "--out", str(out), "--trials", "4"]) == 0, capsys.readouterr().out
    results = json.loads((out / "results.json").read_text())
    assert [row["agrees"] for row in results["agreement"]] == [True, True], results["agreement"]
    assert results["agreement"][0]["worst"] <= 1 and results["agreement"][1]["worst"] == 0
    assert [(row["purpose"], row["trials"]) for row in results["shapes"]] == [("small", 4), ("transpose", 4)]
    of_searches = [reason for reason in results["left_out"] if not reason.startswith("of the probe: ")]
    assert of_searches == ["the operator strange: it has no size"]
    for row in results["shapes"]:
        whose = "library" if row["best"]["template"] == "library" else "own"
        assert f"best ({whose})" in gpu_table.line(row)
    assert "emulator: 2 of 2 candidates agree" in (out / "table.txt").read_text()


@pytest.mark.parametrize(("program", "template"), spread([("gemm_relu", "gemm_relu"), ("matmul", "matmul")], 1))
def test_a_tile_program_by_the_command(tmp_path, no_tests, monkeypatch, capsys, program, template):
    """Run a tile program as a problem of its own, and another as an additional template of an operator."""
    try:
        host_compiler()
        toolchain_version()
    except (HostCompilerMissing, NvrtcMissing) as missing:
        pytest.skip(str(missing))
    environment = {simulated_gpu.SECONDS: "0.001", simulated_gpu.LOG: str(tmp_path / "log")}
    monkeypatch.setattr(catalogue, "_catalogue", cache(catalogue._Catalogue))  # discard registrations after the test
    monkeypatch.setattr(gpu, "cuda_available", lambda: (True, "it answers"))
    monkeypatch.setattr(gpu, "cuda_device", lambda: H200)
    monkeypatch.setattr(
        gpu, "CudaRunner", partial(CudaRunner, worker_module=simulated_gpu.MODULE, worker_env=environment)
    )
    out, program_path = tmp_path / "out", str(ROOT / "examples" / "programs" / f"{program}.py")
    arguments = ["--minutes", "20", "--out", str(out), "--trials", "3", "--program", program_path]
    sizes = ["--size", "m=33", "--size", "n=24", "--size", "k=40"]
    assert gpu.main([*arguments, *sizes]) == 0, capsys.readouterr().out
    (row,) = json.loads((out / "results.json").read_text())["shapes"]
    assert (row["trials"], row["problem"]["operator"]) == (3, template)
    for wrong, why in (
        (["--program", program_path, "--size", "m=33"], "needs --size"),
        (["--program", program_path, "--size", "q=1"], "invalid --size q=1"),
        (["--size", "m=1"], "--size requires --program"),
        (["--program", str(tmp_path / "none.py")], "none.py"),
    ):
        with pytest.raises(SystemExit, match="2"):
            gpu.main(["--minutes", "20", "--out", str(out), *wrong])
        assert why in capsys.readouterr().err


def test_a_missing_baseline_is_reported_once(make_runner, tmp_path, no_tests):
    runner = make_runner()
    able = runner.compare

    def compare(*positional, other_baselines=(), **options):
        absent = [Entrant(name, Status.LAUNCH_ERROR, "it is not installed", ()) for name in other_baselines]
        return (*able(*positional, **options), *absent)

    runner.compare = compare
    benchmark = Benchmark(Plan(600.0, tmp_path / "out", trials=4), H200, runner, generate=fake_kernel)
    benchmark._shapes(SHAPES, benchmark._end, ("torch",))
    assert benchmark.results["left_out"] == [
        "the comparison with torch: it is not installed",
        "references on the GPU (computed on the CPU instead): it has no arrays",
    ]
    assert "left out: the comparison with torch: it is not installed" in gpu_table.table(benchmark.results, H200)


def first_preparation(runner, monkeypatch, prepared):
    """Replace the runner's preparation by ``prepared``. Return a list that collects each search's time limit."""
    time_limits = []

    def run(self, plan):
        time_limits.append(plan.seconds + 2 * plan.final_seconds)
        raise RunnerStopped("this is enough")

    monkeypatch.setattr(gpu.Tuner, "run", run)
    runner.outputs = prepared
    return time_limits


def test_the_first_preparation_does_not_shorten_the_search(make_runner, tmp_path, monkeypatch):
    problems, runner = [], make_runner()

    def slowly(candidate):
        problems.append(candidate.problem)
        time.sleep(1.0)
        return Measurement(Status.TIMEOUT, Provenance.MEASURED, "it was too slow")

    time_limits = first_preparation(runner, monkeypatch, slowly)
    benchmark = Benchmark(Plan(600.0, tmp_path / "out"), H200, runner, generate=fake_kernel)
    with pytest.raises(RunnerStopped, match="this is enough"):
        benchmark._shape(*SHAPES[0], 30.0, time.monotonic() + 60.0, ())
    assert (problems, time_limits) == ([SHAPES[0][1]], [30.0])
    with pytest.raises(RunnerStopped, match="this is enough"):
        benchmark._shape(*SHAPES[1], 30.0, time.monotonic() + 30.0, ())
    assert 1.0 <= time_limits[1] <= 29.0, "at most the remaining time of all shapes"


@pytest.mark.parametrize(
    ("raised", "end", "searches"),
    [(ValueError("no kernel"), "this is enough", 1), (RunnerStopped("it is gone"), "it is gone", 0)],
)
def test_a_failed_preparation_fails_in_the_search(make_runner, tmp_path, monkeypatch, raised, end, searches):
    """If the first preparation fails, the search runs and reports the failure, except if the GPU is unavailable."""

    def failing(candidate):
        raise raised

    runner = make_runner()
    time_limits = first_preparation(runner, monkeypatch, failing)
    benchmark = Benchmark(Plan(600.0, tmp_path / "out"), H200, runner, generate=fake_kernel)
    with pytest.raises(RunnerStopped, match=end):
        benchmark._shape(*SHAPES[0], 30.0, time.monotonic() + 60.0, ())
    assert len(time_limits) == searches


def test_the_tests_of_the_gpu_can_be_imported(make_runner, tmp_path):
    """Without a GPU all of them are skipped."""
    benchmark = Benchmark(Plan(100.0, tmp_path / "out"), H200, make_runner(), generate=fake_kernel)
    benchmark._tests(60.0)
    tests = benchmark.results["tests"]
    log = (tmp_path / "out/gpu-tests.log").read_text()
    assert tests["failed"] == 0 and tests["passed"] + tests["skipped"] > 20, log


def test_wrong_schedules_that_were_drawn_at_random_are_a_failure(make_runner, tmp_path, capsys):
    out = tmp_path / "out"
    problems = tuple(problem for _, problem in SHAPES)
    plan = Plan(600.0, out, trials=40, sampled=problems, parts=("sampled",))
    generate = partial(fake_kernel, bad_every=4)
    assert Benchmark(plan, H200, make_runner(), generate=generate).run() == 1
    results = json.loads((out / "results.json").read_text())
    assert [row["trials"] for row in results["sampled"]] == [40, 40]
    for row in results["sampled"]:
        assert len(row["wrong"]) == row["failures"].get("wrong_result", 0)
    wrong = [fault for row in results["sampled"] for fault in row["wrong"]]
    assert wrong and all(fault["reason"] and fault["template"] and fault["schedule"] for fault in wrong)
    assert "random schedules of 256x256x256" in capsys.readouterr().out
    assert len(recording.read(out / "recordings-0.jsonl.gz")) == 2


def test_tests_that_fail_or_hang_are_reported(make_runner, tmp_path):
    folder = tmp_path / "gpu"
    folder.mkdir()
    (folder / "test_x.py").write_text(
        "import time, pytest\n"
        "@pytest.mark.gpu\ndef test_bad(): assert False\n"
        "@pytest.mark.gpu\ndef test_hangs(): time.sleep(600)\n"
    )
    out = tmp_path / "out"
    benchmark = Benchmark(Plan(20.0, out, tests=folder), H200, make_runner(), generate=fake_kernel)
    benchmark._tests(3.0)  # stops the test that hangs
    tests = benchmark.results["tests"]
    assert tests["timed_out"] and benchmark.failed
    assert tests["failed"] == 1, "failures before the time limit are reported"
    assert "def test_bad(): assert False" in (out / "gpu-tests.log").read_text()


@pytest.mark.parametrize("deaf", [False, True])
def test_tests_out_of_time_are_omitted_without_failure(make_runner, tmp_path, monkeypatch, deaf):
    """Tests that exceed their time limit are interrupted. If a test ignores the interrupt, its worker is killed."""
    folder = tmp_path / "gpu"
    folder.mkdir()
    ignores = "signal.signal(signal.SIGINT, signal.SIG_IGN); " if deaf else ""
    (folder / "test_x.py").write_text(
        "import signal, time, pytest\n"
        "@pytest.mark.gpu\ndef test_good(): pass\n"
        f"@pytest.mark.gpu\ndef test_slow(): {ignores}time.sleep(600)\n"
    )
    if deaf:
        monkeypatch.setattr(gpu, "REPORT_SECONDS", 0.5)
    benchmark = Benchmark(Plan(20.0, tmp_path / "out", tests=folder), H200, make_runner(), generate=fake_kernel)
    benchmark._tests(3.0)
    assert benchmark.results["tests"]["timed_out"]
    assert benchmark.results["tests"]["returncode"] in ((None,) if deaf else (None, 2))
    assert not benchmark.failed
    assert benchmark.results["left_out"] == ["some of the tests: no time was left"]


def test_an_emulation_out_of_time_is_omitted_without_failure(make_runner, tmp_path, monkeypatch):
    late = SimpleNamespace(status="timeout", reason="not done after 1 s")
    monkeypatch.setattr(gpu, "check_ready", lambda: None)
    monkeypatch.setattr(gpu, "emulate", lambda *_, **options: late)
    plan = Plan(600.0, tmp_path / "out", agreement=(SHAPES[1][1],))
    benchmark = Benchmark(plan, H200, make_runner(), generate=fake_kernel)
    benchmark._agree(60.0)
    assert not benchmark.failed
    assert benchmark.results["agreement"] == []
    assert benchmark.results["left_out"] == ["some comparisons with the emulator: no time was left"]


def test_unrequested_parts_take_no_time(make_runner, tmp_path, no_tests, monkeypatch):
    monkeypatch.setattr(gpu, "other_problems", lambda: iter([("matvec", SHAPES[0][1])]))
    searches = []
    monkeypatch.setattr(
        Benchmark, "_shapes", lambda self, shapes, until, entrants: searches.append((len(shapes), until))
    )
    for parts, expected in ((("tests", "matmul"), [2]), (("others",), [1])):
        searches.clear()
        plan = Plan(3600.0, tmp_path / parts[0], tests=no_tests, matmuls=SHAPES, parts=parts)
        benchmark = Benchmark(plan, H200, make_runner(), generate=fake_kernel)
        assert sum(map(benchmark._share, parts)) == pytest.approx(3600.0 * (1 - gpu.RESERVE), rel=0.05)
        assert benchmark.run() == 0
        assert [count for count, _ in searches] == expected
        assert all(until == benchmark._end for _, until in searches), "no time is reserved for omitted parts"
        assert (benchmark.results["tests"] is not None) is ("tests" in parts)
        assert benchmark.results["agreement"] == []


@pytest.mark.nightly
def test_a_second_run_into_the_same_folder_keeps_the_first(make_runner, tmp_path, no_tests):
    out = tmp_path / "out"
    for _ in range(3):
        plan = Plan(600.0, out, trials=8, rounds=7, tests=no_tests, matmuls=SHAPES[:1], agreement=())
        benchmark = Benchmark(plan, H200, make_runner(), generate=fake_kernel)
        benchmark._shapes(SHAPES[:1], benchmark._end, ())
    assert sorted(p.name for p in out.glob("*.json")) == ["results-1.json", "results-2.json", "results.json"]
    assert sorted(p.name for p in out.glob("*.txt")) == ["table-1.txt", "table-2.txt", "table.txt"]
    assert len(recording.read(out / "recordings-0.jsonl.gz")) == 3


def test_the_next_run_records_measurements_of_a_killed_run(make_runner, tmp_path):
    out = tmp_path / "out"
    killed = Benchmark(Plan(600.0, out, trials=8), H200, make_runner(), generate=fake_kernel)
    killed._record = lambda trials, path: None  # as if the process had been killed before recording
    killed._shapes(SHAPES[:1], killed._end, ())
    (left,) = out.glob("trials-*.jsonl")
    lines = left.read_text().splitlines()
    left.write_text("\n".join([*lines, lines[0][:100]]))
    Benchmark(Plan(60.0, out), H200, make_runner(), generate=fake_kernel)
    assert not left.exists()
    (recorded,) = recording.read(out / "recordings-0.jsonl.gz")
    # One line is not recorded: the time of the library, because the library has no schedule.
    assert len(recorded.trials) == len(lines) - 1 >= 8


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_kill_during_the_tests_leaves_no_process(tmp_path, how):
    tests = tmp_path / "gpu"
    tests.mkdir()
    (tests / "test_x.py").write_text(
        "import os, time, pytest\n"
        f"@pytest.mark.gpu\ndef test_hangs():\n    open({str(tmp_path / 'pid')!r}, 'x').write(str(os.getpid()))\n"
        "    time.sleep(600)\n"
    )
    program = f"""
from pathlib import Path
from functools import cache, partial
from benchmarks.gpu import run as gpu, simulated_gpu
from search_spaces.hardware.devices import device
gpu.cuda_available, gpu.cuda_device = lambda: (True, "it answers"), lambda: device("h200")
gpu.CudaRunner = partial(gpu.CudaRunner, worker_module=simulated_gpu.MODULE)
gpu.Plan = partial(gpu.Plan, tests=Path({str(tests)!r}))
parts = [part for part in gpu.PARTS if part != "probe"]  # which comes before the tests and takes seconds of the CPU
gpu.sys.exit(gpu.main(["--minutes", "5", "--out", {str(tmp_path / "out")!r}, "--parts", *parts]))
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "AUTOSCHED_CACHE_DIR": str(tmp_path / "cache")}
    process = forked_python.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.DEVNULL)
    try:
        until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
        process.send_signal(how)
        assert process.wait(30) == (1 if how == signal.SIGTERM else -how)
    finally:
        process.kill()
        process.wait()
    hanging = Path("/proc", (tmp_path / "pid").read_text(), "cmdline")
    until(lambda: not hanging.exists() or not hanging.read_bytes())
    if how == signal.SIGTERM:
        assert json.loads((tmp_path / "out" / "results.json").read_text())["stopped"] == "interrupted"


def until(condition) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true in time"
        time.sleep(0.02)


def test_an_unwritable_folder_is_rejected_in_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(gpu, "cuda_available", lambda: (True, "it answers"))
    monkeypatch.setattr(gpu, "cuda_device", lambda: H200)
    monkeypatch.setenv("AUTOSCHED_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "file").write_text("precious")
    with pytest.raises(SystemExit) as ended:
        gpu.main(["--minutes", "1", "--out", str(tmp_path / "file")])
    assert ended.value.code == 2
    assert f"--out {tmp_path / 'file'} cannot be written" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_shapes_without_time_are_reported_and_not_run(make_runner, tmp_path):
    out = tmp_path / "out"
    benchmark = Benchmark(Plan(1.0, out), H200, make_runner(), generate=fake_kernel)
    time.sleep(1.0)
    benchmark._shapes(SHAPES, benchmark._end, ())
    assert benchmark.results["shapes"] == []
    assert [w for w in benchmark.results["left_out"] if "no time was left" in w] == [
        "square 256x256x256 f16 rr: no time was left",
        "odd 127x63x65 f16 rr: no time was left",
    ]


def test_the_gpu_and_the_emulator_agree_within_the_tolerance():
    problem = Matmul(m=9, n=8, k=7, out="f32")
    inputs = problem.random_inputs(0)
    right = problem.reference(inputs)["out"].astype(np.float32)
    near = right + np.float32(0.4) * problem.tolerance(inputs)["out"].astype(np.float32)
    far = right + np.float32(3.0) * problem.tolerance(inputs)["out"].astype(np.float32)
    same = agreement(problem, inputs, {"out": right}, {"out": right})
    assert same["agrees"] and same["same_bits"] and same["apart"] == 0
    close = agreement(problem, inputs, {"out": near}, {"out": right})
    assert close["agrees"] and not close["same_bits"] and 0.3 < close["apart"] < 0.5
    for one, two in (
        ({"out": far}, {"out": right}),
        ({"out": right}, {"out": far}),
        ({"out": right * np.nan}, {"out": right}),
    ):
        assert not agreement(problem, inputs, one, two)["agrees"]
    assert not agreement(problem, inputs, {}, {"out": right})["agrees"]
    exact, moved = Transpose(3, 5), Transpose(3, 5).random_inputs(0)
    transposed_x = moved["x"].swapaxes(1, 2)
    assert agreement(exact, moved, {"out": transposed_x}, {"out": transposed_x})["agrees"], "no tolerance, and no error"
    assert not agreement(exact, moved, {"out": transposed_x}, {"out": transposed_x + np.uint32(1)})["agrees"]


def test_the_shapes_cover_all_purposes():
    shapes = matmuls()
    keys = [problem.key() for _, problem in shapes]
    assert len(set(keys)) == len(keys)
    assert len(shapes) == 60
    assert {purpose for purpose, _ in shapes[:8]} == {purpose for purpose, _ in shapes}
    squares = {p.m for purpose, p in shapes if purpose == "square"}
    assert {1024, 8192} <= squares
    assert {(p.order_a, p.order_b) for _, p in shapes} == {(a, b) for a in ("row", "col") for b in ("row", "col")}
    built_in = {operator.name for operator in BUILT_IN_OPERATORS}  # other tests of this process may register more
    built_in_problems = [entry for entry in other_problems() if entry[0] in built_in]
    for name, problem in built_in_problems:
        assert not isinstance(problem, str), f"{name}: {problem}"
    assert built_in == {"matmul", *(name for name, _ in built_in_problems)}
    assert built_in_problems[0] == ("matvec", Matvec(m=4, n=6656, k=16384))
    assert {p.columns for name, p in built_in_problems if name == "softmax"} == {1024, 8192, 65536}
    assert ("transpose", Transpose(8192, 8192)) in built_in_problems


def test_a_missing_gpu_is_reported_in_one_line(tmp_path):
    if cuda_available()[0]:
        pytest.skip("a GPU answers here")
    command = [sys.executable, "-m", "benchmarks.gpu", "--minutes", "1", "--out", str(tmp_path / "out")]
    ran = forked_python.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 1
    assert ran.stdout == ""
    assert ran.stderr.startswith("benchmarks.gpu: no GPU can be used: ")
    assert ran.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


BARE = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"sqlalchemy", "optuna", "xgboost", "rich", "typer", "hypothesis", "matplotlib"}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Refuse())
import importlib.metadata
def version(name): raise importlib.metadata.PackageNotFoundError(name)
importlib.metadata.version = version
import autosched.dispatch.kernel, benchmarks.gpu.run, measurements.runners.cuda.runner  # what tests/gpu imports, too
from autosched.version import VERSION
print(VERSION)
"""


def test_starting_only_requires_numpy():
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run([sys.executable, "-c", BARE], cwd=ROOT, capture_output=True, text=True, env=environment)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == VERSION
