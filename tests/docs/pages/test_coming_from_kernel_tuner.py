"""The program of docs/tutorial/coming-from-kernel-tuner.md runs, and each row of the page's table is true."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autosched import KernelSpec, tune
from autosched.user_kernels import KernelFileError
from measurements.compiler.nvrtc import NVCC
from measurements.tables.reading import read_table
from search_spaces.hardware.devices import device

PAGE = Path(__file__).parents[3] / "docs" / "tutorial" / "coming-from-kernel-tuner.md"
A100 = device("a100")
ADD = """
__global__ void vector_add(float *c, const float *a, const float *b, int n) {
  int i = blockIdx.x * block_size_x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}
"""
N = 1000
A, B = (np.random.default_rng(i).standard_normal(N).astype(np.float32) for i in (0, 1))
BLOCKS = [32, 64, 128]


def test_the_program_of_the_page_runs() -> None:
    (program,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    script = "from search_spaces.hardware.devices import device\n"
    script += "space = kernel.template.space(problem, device('a100'))\n"
    script += "print(space.count(), sorted(problem.metrics({'block_size_x': 64}, 1e-3)))"
    done = subprocess.run([sys.executable, "-c", f"{program}\n{script}"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "4 ['GB/s']"


def add(source: Any = ADD, name: str = "vector_add", params: Any = None, **options: Any) -> KernelSpec:
    """Return the KernelSpec of the page, possibly with another source, kernel function ``name``, or options."""
    arguments = [np.zeros(N, np.float32), A, B, np.int32(N)]
    return KernelSpec.from_arrays(name, source, N, arguments, params or {"block_size_x": BLOCKS}, **options)


def lowered(kernel: KernelSpec, **config: Any) -> Any:
    (schedule,) = (s for s in space(kernel).sample(64, 0) if not config or s.values == config)
    return kernel.template.kernel(kernel.problem(), schedule, A100)


def space(kernel: KernelSpec) -> Any:
    return kernel.template.space(kernel.problem(), A100)


def recording(folder: Path) -> Path:
    """Write a Kernel Tuner cache and return its path. 64 is the fastest block size, and 128 is the largest."""
    cache = {str(b): {"block_size_x": b, "time": 1.0 + abs(b - 64)} for b in BLOCKS}
    document = {"kernel_name": "vector_add", "tune_params_keys": ["block_size_x"], "cache": cache}
    (folder / "cache.json").write_text(json.dumps({"device_name": "NVIDIA A100-PCIE-40GB", **document}))
    return folder / "cache.json"


def replayed(folder: Path, **options: Any) -> Any:
    """Return the result of a search that tries every block size of the recording."""
    all_options = {"sampler": "brute_force", "trials": 10, "database": folder / "best.db", **options}
    return tune(add().problem(), backend="replay", recording=recording(folder), **all_options)


def tune_kernel(folder: Path) -> None:
    assert space(add()).count() == 3 and lowered(add(), block_size_x=64).grid == (16, 1, 1)


def sources(folder: Path) -> None:
    (folder / "one.cu").write_text("#define ONE 1\n")
    (folder / "two.cu").write_text(ADD)
    for source in (str(folder / "two.cu"), [str(folder / "one.cu"), str(folder / "two.cu")], lambda values: ADD):
        assert "c[i] = a[i] + b[i]" in lowered(add(source), block_size_x=32).source


def templates(folder: Path) -> None:
    source = ADD.replace("__global__", "template <int block> __global__").replace("block_size_x", "block")
    assert lowered(add(source, "vector_add<block_size_x>"), block_size_x=64).entry == "vector_add<64>"


def restrictions(folder: Path) -> None:
    assert space(add(restrictions=["block_size_x >= 64"])).count() == 2
    assert space(add(restrictions=lambda values: values["block_size_x"] < 64)).count() == 1


def answer(folder: Path) -> None:
    problem = add(answer=[A + B, None, None, None], atol=0.5).problem()
    reference, tolerance = problem.expected(problem.random_inputs(0))
    np.testing.assert_allclose(reference["c"], A + B)
    assert (tolerance["c"] == 0.5).all()


def verify(folder: Path) -> None:
    def same(answer: Any, result: Any, atol: float) -> bool:
        return bool((answer[0] == result[0]).all())

    problem = add(answer=[A + B, None, None, None], verify=same).problem()
    inputs = problem.random_inputs(0)
    assert problem.checks_outputs and problem.check_outputs(inputs, {"c": A + B}) == ""
    assert problem.check_outputs(inputs, {"c": A - B})


def in_place(folder: Path) -> None:
    source = "__global__ void twice(float *x, int n) { x[blockIdx.x * block_size_x + threadIdx.x] *= 2; }"
    kernel = KernelSpec.from_arrays(
        "twice", source, 64, [np.ones(64, np.float32), np.int32(64)], {"block_size_x": [64]}
    )
    assert [(o.name, o.role) for o in kernel.problem().operands()] == [("x", "inout")]


def constant_memory(folder: Path) -> None:
    source = "__constant__ float d_filter[9];" + ADD
    kernel = add(source, cmem_args={"d_filter": np.ones(9, np.float32)})
    assert [o.name for o in lowered(kernel, block_size_x=32).symbols] == ["d_filter"]


def shared_memory(folder: Path) -> None:
    assert lowered(add(smem_args={"size": "block_size_x * 4"}), block_size_x=64).dynamic_shared_bytes == 256


def launch(folder: Path) -> None:
    kernel = add(
        ADD.replace("block_size_x", "threads"),
        params={"threads": BLOCKS, "tile": [2]},
        block_size_names=["threads"],
        grid_div_x=["threads", "tile"],
        defines={"SIDE": 3},
        compiler_options=["--use_fast_math"],
    )
    lowered_launch = lowered(kernel, threads=64, tile=2)
    assert (lowered_launch.grid, lowered_launch.block) == ((8, 1, 1), (64, 1, 1))
    assert lowered_launch.compile_options == ("--use_fast_math", "-lineinfo")
    assert "#define SIDE 3" in lowered_launch.source


def compiler(folder: Path) -> None:
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("needs nvcc")
    for spelled in ("nvcc", nvcc):
        kernel = add(compiler=spelled)
        assert lowered(kernel, block_size_x=64).compile_options[:-1] == kernel.template.compile_options == (NVCC,)
    assert lowered(add(compiler=""), block_size_x=64).compile_options == ("-lineinfo",)


def metrics(folder: Path) -> None:
    for metric in (lambda p: 12 * N / p["time"], "12000 / time"):
        assert add(metrics={"B/s": metric}).problem().metrics({"block_size_x": 32}, 2.0) == {"B/s": 6000.0}


def brute_force(folder: Path) -> None:
    assert len(replayed(folder).trials) == 3


def objective(folder: Path) -> None:
    assert replayed(folder, objective="block_size_x:max").best.schedule["block_size_x"] == 128


def several_objectives(folder: Path) -> None:
    result = replayed(folder, objective=["seconds", "block_size_x:max"])
    assert [row["block_size_x"] for row in result.front] == [64, 128]


def energy(folder: Path) -> None:
    with pytest.raises(ValueError, match="power cannot be measured"):
        replayed(folder, objective="joules")


def pinned(folder: Path) -> None:
    assert space(add().pinned(block_size_x=64)).count() == 1


def resumed(folder: Path) -> None:
    assert len(replayed(folder, trials=2).trials) == 2 and len(replayed(folder).trials) == 1


def simulation(folder: Path) -> None:
    assert replayed(folder).best.schedule["block_size_x"] == 64


def results(folder: Path) -> None:
    result = replayed(folder)
    result.to_csv(folder / "all.csv")
    result.to_t4(folder / "all.json")
    assert len(result.rows()) == 3 == len((folder / "all.csv").read_text().splitlines()) - 1
    assert read_table(folder / "all.json").best_seconds == pytest.approx(1e-3)


def header(folder: Path) -> None:
    text = add().c_header({"a100": replayed(folder).best.schedule.values})
    assert re.search(r"#define\s+block_size_x\s+64", text)


def t1(folder: Path) -> None:
    (folder / "vector_add.cu").write_text(ADD)
    of_four = [{"Name": n, "Type": "float", "MemoryType": "Vector", "Size": N, "FillType": "Random"} for n in "cab"]
    of_four[0]["AccessType"] = "WriteOnly"
    count = {"Name": "n", "Type": "int32", "MemoryType": "Scalar", "FillValue": N}
    spec = {"Language": "CUDA", "KernelName": "vector_add", "KernelFile": "vector_add.cu", "ProblemSize": [N]}
    tuned = [{"Name": "block_size_x", "Type": "int", "Values": BLOCKS}]
    document = {
        "ConfigurationSpace": {"TuningParameters": tuned},
        "KernelSpecification": {**spec, "Arguments": [*of_four, count]},
    }
    (folder / "kernel.json").write_text(json.dumps(document))
    assert space(KernelSpec.from_file(folder / "kernel.json")).count() == 3
    (folder / "more.toml").write_text("[kernel]\nt1 = 'kernel.json'\n[parameters]\nblock_size_x = [32]\n")
    assert space(KernelSpec.from_file(folder / "more.toml")).count() == 1


def cub(folder: Path) -> None:
    (folder / "k.cu").write_text("#include <cub/cub.cuh>\n" + ADD)
    assert "cub/cub.cuh" in dict(lowered(add(str(folder / "k.cu")), block_size_x=32).headers.files)


def other_languages(folder: Path) -> None:
    document = {"ConfigurationSpace": {}, "KernelSpecification": {"Language": "OpenCL"}}
    (folder / "k.json").write_text(json.dumps(document))
    with pytest.raises(KernelFileError, match="only CUDA"):
        KernelSpec.from_file(folder / "k.json")


ROWS: dict[str, Callable[[Path], None]] = {
    "`tune_kernel(": tune_kernel,
    "a source as a file": sources,
    "C++ templates": templates,
    "`restrictions=": restrictions,
    "`answer`": answer,
    "`verify=": verify,
    "arrays that are changed in place": in_place,
    "`cmem_args": constant_memory,
    "`smem_args": shared_memory,
    "`block_size_names`": launch,
    "`compiler=": compiler,
    "`metrics`": metrics,
    "`strategy=": brute_force,
    "`objective=": objective,
    "several objectives": several_objectives,
    "`NVMLObserver`": energy,
    "one configuration": pinned,
    "a cache file": resumed,
    "simulation mode": simulation,
    "results as a list": results,
    "`create_device_targets`": header,
    "a T1 file": t1,
    "`#include <cub": cub,
    "OpenCL": other_languages,
}
ELSEWHERE = {
    "`texmem_args`": "tests/autosched/user_kernels/test_textures.py::test_fetches_agree_with_the_emulated_texture",
    "several kernels as one": "tests/autosched/user_kernels/test_pipeline.py::test_a_pipeline_is_verified_in_full",
    "`TunablePrecision`": "tests/autosched/user_kernels/test_types.py::test_each_type_is_verified_at_its_precision",
    "sizes that the source fixes": "tests/autosched/verify/test_blocks_on_inputs.py::test_some_blocks_in_several",
}


@pytest.mark.parametrize("check", ROWS.values(), ids=lambda f: f.__name__)
def test_each_row_is_true(check: Callable[[Path], None], tmp_path: Path) -> None:
    check(tmp_path)


def test_every_row_of_the_page_has_a_test() -> None:
    lines = [line[2:] for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    shown = [line for line in lines if not line.startswith("Kernel Tuner |")]
    keys = [*ROWS, *ELSEWHERE]
    for row in shown:
        assert sum(row.startswith(key) for key in keys) == 1, row
    assert len(shown) == len(keys)
    for test_id in ELSEWHERE.values():
        file, _, name = test_id.partition("::")
        assert f"def {name}" in (PAGE.parents[2] / file).read_text()
