"""Kernels that need newer features of kernel files. Correct and faulty variants are verified in the emulator."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autosched import KernelSpec
from autosched.user_kernels import KernelFileError, entry
from autosched.user_kernels.document import DocumentTable, KeyPositions
from autosched.user_kernels.entry import check_entry
from autosched.user_kernels.reading.sources import read_headers
from autosched.verify.schedules import verify_one
from measurements.compiler.nvrtc import PtxOutput
from search_spaces.hardware.devices import device
from search_spaces.spaces.schedule import Schedule

A100 = device("a100")


def status(kernel: KernelSpec, **config: Any) -> tuple[str, str]:
    problem = kernel.problem()
    verdict = verify_one(kernel.template, problem, Schedule(kernel.file.name, tuple(config.items())), A100)
    return verdict.status, verdict.reason


def array(name: str, kind: str, dtype: str = "f32", shape: str = "n", **more: Any) -> dict[str, Any]:
    return {"name": name, "kind": kind, "dtype": dtype, "shape": shape, **more}


N = {"name": "n", "kind": "scalar", "value": "n"}


def test_an_array_may_be_changed_in_place() -> None:
    source = "__global__ void twice(float* x, int n) { int i = blockIdx.x * b + threadIdx.x; if (i < n) x[i] *= 2; }"
    options: dict[str, Any] = dict(
        parameters={"b": [32, 64]},
        sizes={"n": 100},
        problem_size="n",
        grid_div_x="b",
        block="b",
        arguments=[array("x", "inout"), N],
    )
    right = KernelSpec(source, "twice", reference=lambda x: 2 * x, **options)
    assert status(right, b=32) == ("ok", "")
    assert right.template.supports(right.problem(), A100) is None
    wrong = KernelSpec(source, "twice", reference=lambda x: 3 * x, name="thrice", **options)
    assert status(wrong, b=64)[0] == "wrong_result"


HISTOGRAM = """
__global__ void histogram(int* bins, const int* x, int n) {
  for (int i = blockIdx.x * b + threadIdx.x; i < n; i += b * gridDim.x) atomicAdd(bins + (x[i] & 15), 1);
}
"""


@pytest.mark.parametrize(("more", "expected"), [({"zeroed": True}, "ok"), ({"fill": {"constant": 1}}, "wrong_result")])
def test_an_output_that_is_zeroed_or_has_contents_before_each_launch(more: dict[str, Any], expected: str) -> None:
    kernel = KernelSpec(
        HISTOGRAM,
        "histogram",
        parameters={"b": [64]},
        sizes={"n": 1000},
        grid="2",
        block="b",
        arguments=[
            array("bins", "output", "i32", "16", **more),
            array("x", "input", "i32", fill={"integers": [0, 100]}),
            N,
        ],
        reference=lambda x: np.bincount(x & 15, minlength=16),
        name=f"histogram_{expected}",
    )
    assert status(kernel, b=64)[0] == expected


CONSTANT = """
__constant__ float coefficients[4];
__global__ void poly(float* y, const float* x, int n) {
  int i = blockIdx.x * b + threadIdx.x;
  if (i < n) y[i] = ((coefficients[3] * x[i] + coefficients[2]) * x[i] + coefficients[1]) * x[i] + coefficients[0];
}
"""


def constant_kernel(*more: dict[str, Any], **options: Any) -> KernelSpec:
    return KernelSpec(
        CONSTANT,
        "poly",
        parameters={"b": [32]},
        sizes={"n": 64},
        problem_size="n",
        grid_div_x="b",
        block="b",
        arguments=[array("y", "output"), array("x", "input"), N, *more],
        **options,
    )


def test_constant_memory_is_filled_as_an_argument() -> None:
    filled = array("coefficients", "constant", shape="4", fill={"array": np.array([1, 2, 3, 4], np.float32)})
    kernel = constant_kernel(
        filled, reference=lambda x, coefficients: np.polyval(coefficients[::-1], x), name="poly_filled"
    )
    assert status(kernel, b=32) == ("ok", "")
    lowered = kernel.template.kernel(kernel.problem(), Schedule("poly_filled", tuple({"b": 32}.items())), A100)
    assert [o.name for o in lowered.symbols] == ["coefficients"]
    assert lowered.launch_json()["symbols"][0]["shape"] == [4]
    check_entry(kernel.problem(), [Schedule("poly_filled", tuple({"b": 32}.items()))], A100)


def test_unfilled_constant_memory_is_rejected_by_name() -> None:
    kernel = constant_kernel(name="poly_unfilled")
    with pytest.raises(KernelFileError, match=r"nothing fills the __constant__ variable coefficients"):
        check_entry(kernel.problem(), [Schedule("poly_unfilled", tuple({"b": 32}.items()))], A100)


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("coefficient", "4", "no __constant__ variable 'coefficient'"),
        ("coefficients", "5", "has 16 bytes in the source"),
    ],
)
def test_arrays_for_constant_memory_must_fit(name: str, shape: str, message: str) -> None:
    kernel = constant_kernel(array(name, "constant", shape=shape), name=f"poly_{name}")
    with pytest.raises(KernelFileError, match=message):
        check_entry(kernel.problem(), [Schedule(f"poly_{name}", tuple({"b": 32}.items()))], A100)


SUMS = """
__global__ void sums(float* partial, const float* x, int n) {
  __shared__ float total;
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  float mine = 0;
  for (int i = blockIdx.x * b + threadIdx.x; i < n; i += b * blocks) mine += x[i];
  atomicAdd(&total, mine);
  __syncthreads();
  if (threadIdx.x == 0) partial[blockIdx.x] = total * scale;
}
"""


@pytest.mark.parametrize(("scale", "expected"), [("1", "ok"), ("2", "wrong_result")])
def test_outputs_that_depend_on_the_configuration_are_judged(scale: str, expected: str) -> None:
    kernel = KernelSpec(
        SUMS,
        "sums",
        parameters={"b": [32, 64], "blocks": [2, 3, 8]},
        sizes={"n": 500},
        grid="blocks",
        block="b",
        arguments=[array("partial", "output", shape="blocks"), array("x", "input"), N],
        verify=lambda partial, x: bool(np.isclose(partial.sum(), x.sum(), rtol=1e-4, atol=1e-3)),
        defines={"scale": scale},
        name=f"sums_{scale}",
    )
    assert status(kernel, b=64, blocks=3)[0] == expected
    (output, _) = kernel.problem().operands()
    assert output.shape == (8,)  # the largest size of any configuration
    lowered = kernel.template.kernel(
        kernel.problem(), Schedule(f"sums_{scale}", tuple({"b": 64, "blocks": 3}.items())), A100
    )
    assert lowered.operands[0].shape == (3,)


def test_a_shape_over_parameters_needs_a_check_of_outputs() -> None:
    with pytest.raises(KernelFileError, match=r"file\.py:function"):
        KernelSpec(
            SUMS,
            "sums",
            parameters={"b": [32], "blocks": [2]},
            sizes={"n": 500},
            grid="blocks",
            block="b",
            arguments=[array("partial", "output", shape="blocks"), array("x", "input"), N],
        )


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("import sys; sys.exit(0)", "fails at line 2: SystemExit: 0"),
        ("import os; os._exit(0)", "ended its process without an answer"),
        ("raise SystemExit", "fails at line 2: SystemExit"),
        ("return open('/nowhere')", "FileNotFoundError"),
        ("return 'all is well'", "returns no numbers for y"),
    ],
)
def test_a_reference_that_ends_its_process_is_a_failure(body: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "reference.py").write_text(f"def poly(x):\n    {body}\n")
    (tmp_path / "poly.cu").write_text(
        "__global__ void poly(float* y, const float* x) { y[threadIdx.x] = x[threadIdx.x]; }"
    )
    (tmp_path / "poly.toml").write_text(
        '[kernel]\nname = "exits"\nsource = "poly.cu"\nentry = "poly"\n[sizes]\nn = 32\n[parameters]\nb = [32]\n'
        '[launch]\nblock = "b"\ngrid = "1"\n'
        '[[argument]]\nname = "y"\nkind = "output"\ndtype = "f32"\nshape = ["n"]\n'
        '[[argument]]\nname = "x"\nkind = "input"\ndtype = "f32"\nshape = ["n"]\n'
        '[reference]\npython = "reference.py:poly"\n'
    )
    kernel = KernelSpec.from_file(tmp_path / "poly.toml")
    with pytest.raises(KernelFileError, match=message):
        status(kernel, b=32)


def test_inputs_from_functions_and_files_of_the_wrong_kind(tmp_path: Path) -> None:
    def ramp(n: int, seed: int) -> Any:
        return np.arange(n) + seed

    def kernel_with_fill(fill: Any) -> KernelSpec:
        return constant_kernel(array("coefficients", "constant", shape="4", fill=fill), name="poly_fill")

    problem = constant_kernel(array("coefficients", "constant", shape="n", fill={"python": ramp})).problem()
    np.testing.assert_array_equal(problem.random_inputs(3)["coefficients"], np.arange(64, dtype=np.float32) + 3)
    np.save(tmp_path / "five.npy", np.zeros(5))
    np.save(tmp_path / "texts.npy", np.array(["a", "b", "c", "d"]))
    np.save(tmp_path / "fine.npy", np.array([0.1, 0.2, 0.3, 0.4]))
    (tmp_path / "short.npy").write_bytes(b"\x93NUMPY")
    for name, message in (("five", r"has the shape \(5,\)"), ("texts", "not numbers"), ("short", "not a .npy file")):
        with pytest.raises(KernelFileError, match=message):
            kernel_with_fill({"file": str(tmp_path / f"{name}.npy")}).problem().random_inputs(0)
    with pytest.raises(KernelFileError, match="float64 numbers that f32 cannot represent"):
        kernel_with_fill({"array": np.array([1e300, 0, 0, 0])}).problem().random_inputs(0)
    kernel_with_fill({"file": str(tmp_path / "fine.npy")}).problem().random_inputs(0)


def test_an_entry_may_be_in_an_included_source_file(tmp_path: Path) -> None:
    (tmp_path / "head.cuh").write_text("__global__ void twice(float* y, const float* x) { y[threadIdx.x] = two(x); }\n")
    (tmp_path / "a.cu").write_text("__device__ float two(const float* x) { return 2 * x[threadIdx.x]; }\n")
    (tmp_path / "b.cu").write_text('#include "head.cuh"\n')
    kernel = (
        '[kernel]\nname = "several"\nsource = %s\nentry = "twice"\n[sizes]\nn = 32\n[parameters]\nb = [32]\n'
        '[launch]\nblock = "b"\ngrid = "1"\n'
        '[[argument]]\nname = "y"\nkind = "output"\ndtype = "f32"\nshape = ["n"]\n'
        '[[argument]]\nname = "x"\nkind = "input"\ndtype = "f32"\nshape = ["n"]\n'
    )
    (tmp_path / "k.toml").write_text(kernel % '["a.cu", "b.cu"]')
    assert status(KernelSpec.from_file(tmp_path / "k.toml"), b=32)[0] == "ok"
    (tmp_path / "k.toml").write_text(kernel % '["a.cu", 3]')
    with pytest.raises(KernelFileError, match="expected a file name"):
        KernelSpec.from_file(tmp_path / "k.toml")
    (tmp_path / "host.cu").write_text("void twice() {}\n")
    (tmp_path / "k.toml").write_text(kernel % '"host.cu"')
    with pytest.raises(KernelFileError, match="no __global__ function: give"):
        KernelSpec.from_file(tmp_path / "k.toml")


@pytest.mark.parametrize("hostile", ["/dev/zero", "pipe", "huge"])
def test_irregular_and_huge_sources_are_rejected(hostile: str, tmp_path: Path) -> None:
    if hostile == "pipe":
        os.mkfifo(tmp_path / "pipe")
    if hostile == "huge":
        with (tmp_path / "huge").open("wb") as file:
            file.truncate(1 << 34)
    (tmp_path / "k.toml").write_text(f'[kernel]\nsource = "{hostile}"\nentry = "f"\n[parameters]\nb = [1]\n')
    with pytest.raises(KernelFileError, match=r"is not a regular file|has more than 16 MiB"):
        KernelSpec.from_file(tmp_path / "k.toml")


BARE = """
[kernel]
name = "bare"
source = "bare.cu"
entry = "bare"
[parameters]
b = [32]
[launch]
block = "b"
grid = "1"
"""
OUT = '[[argument]]\nname = "y"\nkind = "output"\ndtype = "f32"\nshape = ["32"]\n'


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("[sizes]\nself = 1\n", "a size cannot be named 'self'"),
        ("[sizes]\noperator = 1\n", "a size cannot be named 'operator'"),
        ("[sizes]\nclass = 1\n", "a size cannot be named 'class'"),
        ('[[rule]]\nexpr = "b > 1"\nname = "r"\n[[rule]]\nexpr = "b > 2"\nname = "r"\n', "another rule is named 'r'"),
        ("[lunch]\nblock = 1\n", "unknown key 'lunch', did you mean launch"),
        ("x = " + "[" * 5000 + "]" * 5000 + "\n", "nested too deeply|unknown key 'x'|no TOML"),
    ],
)
def test_hostile_kernel_files_are_rejected_in_one_line(more: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "bare.cu").write_text("__global__ void bare(float* y) { y[threadIdx.x] = 0; }\n")
    text = more + BARE + OUT if more.startswith("x") else BARE + OUT + more
    (tmp_path / "k.toml").write_text(text)
    with pytest.raises(KernelFileError, match=message) as error:
        KernelSpec.from_file(tmp_path / "k.toml")
    assert "\n" not in str(error.value)


def test_a_long_chain_of_references_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "bare.cu").write_text("__global__ void bare(float* y) { y[threadIdx.x] = 0; }\n")
    for i in range(60):
        (tmp_path / f"k{i}.toml").write_text(f'{BARE}{OUT}[reference]\nkernel = "k{i + 1}.toml"\n')
    with pytest.raises(KernelFileError, match="at most 20 kernels"):
        KernelSpec.from_file(tmp_path / "k0.toml")


def test_a_source_that_takes_the_compiler_minutes_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compilations: list[str] = []

    def slow(source: str, name: str, *, arch: str, **_: object) -> PtxOutput:
        compilations.append(arch)
        return PtxOutput(None, name, "kernel.cu(1): catastrophic error: out of memory", 60.0)

    monkeypatch.setattr(entry, "compile_to_ptx", slow)
    source = "__global__ void k(float* x, int n) { x[threadIdx.x] = b; }"
    spec = KernelSpec(
        source, "k", parameters={"b": [32, 64]}, sizes={"n": 64}, grid=1, block="b", arguments=[array("x", "output"), N]
    )
    clock = iter(range(0, 10_000, 60))
    monkeypatch.setattr(entry.time, "monotonic", lambda: float(next(clock)))
    with pytest.raises(KernelFileError, match=r"k does not compile: .*out of memory"):
        check_entry(spec.problem(), spec.template.space(spec.problem(), A100).sample(2, 0), A100)
    assert len(compilations) == 1


def test_the_cub_header_is_replaced_by_its_device_headers(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text("#include <cub/cub.cuh>\n#include <cstdio>\n__global__ void k(float* x, int n) {}\n")
    table = DocumentTable({}, KeyPositions("k.toml"))
    headers = dict(read_headers(table, (tmp_path / "k.cu").read_text(), tmp_path, tmp_path))
    assert "include" not in headers["cstdio"] and "#include <cub/block/block_reduce.cuh>" in headers["cub/cub.cuh"]
