"""Exported kernels are launched without autosched, from C++ and Python, on a fake driver that emulates launches."""

from __future__ import annotations

import ctypes.util
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import forked_python
import numpy as np
import pytest
from needs import needs_compiler, needs_nvrtc

from autosched.aot import collect, write
from autosched.cli.app import run
from measurements.store.store import Store
from measurements.trials.comparison import check
from search_spaces.operators.problem import Problem

from .conftest import CLUSTERED, HERE, ROOT, SHARED, SOFTMAX, Export, compiled

pytestmark = [needs_compiler, needs_nvrtc, pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")]


def emulated(device: str, *command: str, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    started = [sys.executable, "-m", "autosched", "run", "--device", device, *options, *command]
    return forked_python.run(started, capture_output=True, text=True, timeout=250, check=False)


def called(
    caller: Path, folder: Path, device: str, text: str, problem: Problem, growth: float = 1.0, seed: int = 1
) -> tuple[str, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return the output of the C++ program, the inputs, and the outputs after two launches."""
    inputs = problem.random_inputs(seed)
    operands = [o for outputs in (False, True) for o in problem.operands() if (o.role == "output") == outputs]
    files = []
    for o in operands:
        array = inputs[o.name] if o.name in inputs else np.full(o.shape, 7, o.dtype.storage)
        files.append(folder / o.name)
        files[-1].write_bytes(np.ascontiguousarray(array).tobytes())
    completed = emulated(device, str(caller), str(growth), text, str(folder), *map(str, files))
    assert completed.returncode == 0, completed.stdout + completed.stderr
    outputs = {
        o.name: np.frombuffer((folder / str(n)).read_bytes(), o.dtype.storage).reshape(o.shape)
        for n, o in enumerate(operands)
        if o.role == "output"
    }
    return completed.stdout.strip(), inputs, outputs


@pytest.mark.parametrize(
    ("device", "problem"), [("h200", SOFTMAX), ("h200", CLUSTERED), ("a100", SHARED)], ids=["rows", "clusters", "sums"]
)
def test_a_cpp_program_launches_exported_kernels(
    export: Export, caller: Path, tmp_path: Path, device: str, problem: Problem
) -> None:
    text = export.text(problem)
    stdout, inputs, outputs = called(caller, tmp_path, device, text, problem)
    assert stdout == "match 0"
    verdict = check(problem, inputs, outputs)
    assert verdict.ok, verdict.reason


def test_a_kernel_with_size_arguments_serves_other_sizes(export: Export, caller: Path, tmp_path: Path) -> None:
    problem = export.vector_add.problem(n=4999)
    stdout, inputs, outputs = called(caller, tmp_path, "a100", "vector_add n=4999", problem)
    assert stdout == "match 1"
    np.testing.assert_array_equal(outputs["c"], inputs["a"] + inputs["b"])


def test_constant_memory_is_filled_before_each_launch(export: Export, caller: Path, tmp_path: Path) -> None:
    problem = export.smooth.problem(n=1000)
    stdout, inputs, outputs = called(caller, tmp_path, "a100", "smooth n=1000", problem)
    assert stdout == "match 0"
    assert check(problem, inputs, outputs).ok


def test_the_launcher_runs_both_launches_of_a_pipeline(export: Export, caller: Path, tmp_path: Path) -> None:
    """The two launches pass values through a scratch array that no other launch uses."""
    problem = export.sum_twice.problem()
    stdout, inputs, outputs = called(caller, tmp_path, "a100", "sum_twice groups=3 n=1000", problem)
    assert stdout == "match 0"
    np.testing.assert_array_equal(outputs["total"], 2 * inputs["x"].sum(axis=1))


def test_constants_and_pipelines_from_python_at_other_sizes(export: Export, tmp_path: Path) -> None:
    """Launch a pipeline. Then launch a kernel with constant memory twice, with different weights."""
    other, summed = export.smooth.problem(n=700), export.sum_twice.problem(groups=5, n=333)
    jobs, cases = [], []
    for seed in (5, 6):
        folder = tmp_path / str(seed)
        folder.mkdir()
        cases.append((folder, other.random_inputs(seed)))
        files = []
        for name in ("x", "weights", "out"):
            files.append(str(folder / name))
            Path(files[-1]).write_bytes(cases[-1][1][name].tobytes() if name != "out" else bytes(4 * 700))
        jobs.append(f"smooth n=700:{','.join(files)}")
    sums, files = summed.random_inputs(3), [str(tmp_path / "x"), str(tmp_path / "total")]
    Path(files[0]).write_bytes(sums["x"].tobytes())
    Path(files[1]).write_bytes(bytes(4 * 5))
    jobs.append(f"sum_twice groups=5 n=333:{','.join(files)}")
    command = (sys.executable, "-IB", "-c", SCRIPT, str(export.folder), *jobs)
    completed = emulated("a100", *command, options=("--driver",))
    assert completed.returncode == 0, completed.stdout + completed.stderr
    assert completed.stdout.split() == ["nearest"] * 3
    for folder, inputs in cases:
        result = np.fromfile(folder / "out", np.float32)
        assert check(other, inputs, {"out": result}).ok
    np.testing.assert_array_equal(np.fromfile(files[1], np.float32), 2 * sums["x"].sum(axis=1))


def test_rows_may_be_added_at_the_end(export: Export, caller: Path, tmp_path: Path) -> None:
    """The arrays have room for all rows of the kernel, but the call computes only 40 rows."""
    text = "softmax rows=40 columns=512 dtype=f32"
    refused = emulated("h200", str(caller), "1", text, str(tmp_path))
    assert refused.returncode == 1 and "status 4" in refused.stderr and "its rows is 64" in refused.stdout
    stdout, inputs, outputs = called(caller, tmp_path, "h200", text, SOFTMAX, growth=2.0)
    assert stdout == "match 2"
    assert check(SOFTMAX, inputs, outputs).ok


def test_a_file_with_machine_code_only_is_reported(export: Export, tmp_path: Path) -> None:
    with Store.open(export.database, create=False) as store:
        softmax = collect(store, operator="softmax", device="h200", skipped=pytest.fail)
    write(softmax, tmp_path / "kernels")
    (tmp_path / "x").write_bytes(bytes(SOFTMAX.operands()[0].bytes))
    job = f"{softmax[0].text}:{tmp_path / 'x'},{tmp_path / 'x'}"
    command = (sys.executable, "-IB", "-c", SCRIPT, str(tmp_path / "kernels"), job)
    completed = emulated("h200", *command, options=("--driver",))
    assert completed.returncode == 2
    assert "has only machine code" in completed.stderr


def test_a_program_starts_without_a_driver(export: Export, caller: Path) -> None:
    dynamic = subprocess.run(["readelf", "-d", str(caller)], capture_output=True, text=True, check=True).stdout
    assert "libcuda" not in dynamic
    if ctypes.util.find_library("cuda") is None:
        completed = subprocess.run([str(caller), "1", "softmax", "."], capture_output=True, text=True, check=False)
        assert (completed.returncode, "libcuda.so.1" in completed.stdout) == (1, True)


SCRIPT = """
import ctypes, sys
import numpy as np
sys.path.insert(0, sys.argv[1])
import autosched_loader

cuda = ctypes.CDLL("libcuda.so.1")
kernels = autosched_loader.load(sys.argv[1])
for text, files in (job.split(":") for job in sys.argv[2:]):
    kernel = kernels.select(text)
    arrays, at = [], []
    for name in files.split(","):
        arrays.append(np.fromfile(name, np.uint8))
        place = ctypes.c_uint64()
        assert cuda.cuMemAlloc_v2(ctypes.byref(place), ctypes.c_size_t(arrays[-1].size)) == 0
        pointer = ctypes.c_void_p(arrays[-1].ctypes.data)
        assert cuda.cuMemcpyHtoD_v2(place, pointer, ctypes.c_size_t(arrays[-1].size)) == 0
        at.append(place.value)
    kernel(*at)
    kernel(*at)
    assert cuda.cuMemcpyDtoH_v2(ctypes.c_void_p(arrays[-1].ctypes.data), place, ctypes.c_size_t(arrays[-1].size)) == 0
    arrays[-1].tofile(name)
    print(kernel.match)
"""


def test_a_python_program_launches_exported_kernels_with_one_file(export: Export, tmp_path: Path) -> None:
    """Launch a kernel with clusters and tensor maps, then a kernel with a workspace."""
    comparisons = []
    for device, problem in (("h200", CLUSTERED), ("a100", SHARED)):
        folder = tmp_path / device
        folder.mkdir()
        inputs = problem.random_inputs(3)
        for o in problem.operands():
            (folder / o.name).write_bytes(inputs[o.name].tobytes() if o.name in inputs else bytes(o.bytes))
        text = export.text(problem)
        job = f"{text}:{','.join(str(folder / o.name) for o in problem.operands())}"
        command = (sys.executable, "-IB", "-c", SCRIPT, str(export.folder), job, job)
        completed = emulated(device, *command, options=("--driver",))
        assert completed.returncode == 0, completed.stdout + completed.stderr
        comparisons.append(completed.stdout.split())
        out = problem.operands()[-1]
        result = np.fromfile(folder / out.name, out.dtype.storage).reshape(out.shape)
        assert check(problem, inputs, {out.name: result}).ok
    assert comparisons == [["exact", "exact"]] * 2


FAKE = """
import ctypes, sys
library, fake = ctypes.CDLL(sys.argv[1]), ctypes.CDLL("libcuda.so.1")
class Selection(ctypes.Structure):
    _fields_ = [("handle", ctypes.c_void_p), ("match", ctypes.c_int), ("arrays", ctypes.c_uint),
                ("doublings", ctypes.c_double), ("kernel", ctypes.c_char_p), ("verification", ctypes.c_char_p)]
message = ctypes.create_string_buffer(500)
def select(problem):
    found = Selection()
    status = library.autosched_select(problem.encode(), 0, ctypes.c_double(1), ctypes.byref(found), message, 500)
    return status, found, message.value.decode()
def launch(found, *addresses):
    arrays = (ctypes.c_void_p * len(addresses))(*addresses)
    return library.autosched_launch(ctypes.byref(found), arrays, None, message, 500), message.value.decode()
print(*select("matmul m=5")[::2], sep=": ")
print(*select("vector_sub n=5")[::2], sep=": ")
print(*select("vector_add n=5 m=6")[::2], sep=": ")
print(*select("vector_add n=1")[::2], sep=": ")
print(*select("matmul m=128 n=128 k=64 a=bf16")[::2], sep=": ")
status, shared, _ = select("matmul m=64 n=64 k=64")
assert status == 0 and shared.verification == b"none", status
print(*launch(shared, 256, 0, 512), sep=": ")
print(*launch(shared, 256, 8, 512), sep=": ")
for name, code in (("cuModuleLoadData", 200), ("cuModuleGetFunction", 500), ("cuMemAlloc", 2), ("cuLaunchKernel", 700)):
    fake.fake_fail(name.encode(), code)
    print(*launch(shared, 256, 512, 1024), sep=": ")
fake.fake_fail(b"", 0)
loaded = fake.fake_loads(0)
for context in (0, 1, 0, 1):
    fake.fake_context(context)
    assert launch(shared, 256, 512, 1024)[0] == 0
print("loads", fake.fake_loads(0) - loaded, fake.fake_loads(1), "launches", fake.fake_launches())
"""


def test_errors_are_typed_and_modules_belong_to_their_gpu(export: Export, tmp_path: Path) -> None:
    compiled(tmp_path / "libcuda.so.1", HERE / "fake_driver.cpp", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1")
    library = compiled(
        tmp_path / "libkernels.so", export.folder / "autosched_kernels.cpp", f"-I{export.folder}", "-shared", "-fPIC"
    )
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    command = [sys.executable, "-I", "-c", FAKE, str(library)]
    completed = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert completed.returncode == 0, completed.stdout + completed.stderr
    lines = completed.stdout.splitlines()
    assert [line.partition(":")[0] for line in lines[:-1]] == ["3", "3", "4", "4", "4", "5", "5", "6", "6", "7", "8"]
    assert lines[0].endswith('n is missing in "matmul m=5"')
    assert lines[2].endswith("has no size or option m")
    assert lines[3].endswith("differ too much from the requested sizes")
    assert lines[4].endswith("is for sm_90a")
    assert lines[6].endswith("b does not start at a multiple of 16 bytes")
    assert lines[9].endswith("the workspace partials: CUDA_ERROR_OF_THE_FAKE (2)")
    # The first context has already loaded the module. The second context loads the module once.
    assert lines[-1] == "loads 0 1 launches 5"


def test_export_reports_the_written_files_and_kernels(export: Export) -> None:
    assert "6 kernels in" in export.said
    assert "vector_add n=10007 on a100: vector_add, estimated, not verified" in export.said
    names = {"manifest.json", "autosched_kernels.hpp", "autosched_kernels.cpp", "autosched_launch.hpp"}
    assert names | {"autosched_loader.py", "cubins", "ptx"} <= {p.name for p in export.folder.iterdir()}
    document = json.loads((export.folder / "manifest.json").read_text())
    vectors = next(k for k in document["kernels"] if k["operator"] == "vector_add")
    assert vectors["sizes"]["n"] == {"value": 10007, "default": 10000019, "free": True, "padded": False}
    assert "n" in vectors["launch"]["grid"][0] and vectors["guards"]
    for kernel in document["kernels"]:
        assert hashlib.sha256((export.folder / kernel["cubin"]).read_bytes()).hexdigest() == kernel["sha256"]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [((), "--out FOLDER"), (("--cubin", "a", "--out", "b"), "--out FOLDER"), (("--out", "a", "--ptx"), "--cubin")],
)
def test_export_rejects_several_kinds_of_folders(
    export: Export, wrong: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["export", "--db", str(export.database), *wrong]) == 2
    assert says in capsys.readouterr().err
    assert not Path("a").exists() and not Path("b").exists()


def test_the_example_runs(export: Export, tmp_path: Path) -> None:
    source = ROOT / "examples" / "standalone" / "main.cpp"
    program = compiled(tmp_path / "example", source, f"-I{export.folder}")
    completed = emulated("h200", str(program))
    assert completed.returncode == 0, completed.stdout + completed.stderr
    assert "kernel: softmax rows=64 columns=512 dtype=f32, verification: none" in completed.stdout
    elsewhere = emulated("a100", str(program))
    assert (elsewhere.returncode, elsewhere.stderr.count("is for sm_90a")) == (1, 1)
    assert "status 4" in elsewhere.stderr
