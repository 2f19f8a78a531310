"""Every entry point for CUDA sources finds the headers that third-party sources include."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from needs import needs_compiler, needs_nvrtc

import autosched
from autosched.cli.app import run
from autosched.user_kernels.user_kernel import KernelSpec
from autosched.verify.schedules import verify_one
from measurements.compiler.cuda_headers import STAND_INS, missing_header
from measurements.compiler.nvrtc import cuda_include_folders
from search_spaces.hardware.devices import device

pytestmark = [needs_nvrtc, needs_compiler]
needs_libcudacxx = pytest.mark.skipif(
    not any(Path(folder, "cuda", "std", "limits").is_file() for folder in cuda_include_folders()),
    reason="libcu++ is not installed",
)
needs_cupy = pytest.mark.skipif(importlib.util.find_spec("cupy") is None, reason="cupy is not installed")

STANDARD = """
#include <cuda.h>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>
#include <helper_cuda.h>
template <typename T> __device__ std::enable_if_t<std::is_floating_point<T>::value, T> next(T x) {
  static_assert(sizeof(CUtensorMap) == 128 && alignof(CUtensorMap) == 64);
  return x < std::numeric_limits<T>::max() ? std::move(x) + T(1) : x;
}
extern "C" __global__ void k(float* y, int n) {
  uint64_t one = 1;
  if (threadIdx.x < n) y[threadIdx.x] = next(y[threadIdx.x]) * one;
}
"""
CUB = """
#include <cub/cub.cuh>
extern "C" __global__ void k(float* y, int n) {
  typedef cub::BlockReduce<float, 32> Reduce;
  __shared__ typename Reduce::TempStorage storage;
  float sum = Reduce(storage).Sum(y[threadIdx.x]);
  if (threadIdx.x == 0) y[0] = sum;
}
"""
COMPLEX = """
#include <cupy/complex.cuh>
extern "C" __global__ void k(complex<float>* y, int n) {
  if (threadIdx.x < n) y[threadIdx.x] *= complex<float>(0.f, 1.f);
}
"""


def emulated(source: str, y: np.ndarray[Any, Any], **more: Any) -> autosched.EmulatedLaunch:
    return autosched.emulate(source, arguments=[y, y.size], grid=1, block=32, **more)


@needs_libcudacxx
def test_headers_of_the_standard_library_compile_for_one_launch() -> None:
    emulation = emulated(STANDARD, np.arange(32, dtype=np.float32))
    assert emulation.ok, emulation.reason
    assert emulation.arrays[0].tolist() == list(range(1, 33))


@needs_libcudacxx
@pytest.mark.parametrize("source", [STANDARD, pytest.param(CUB, marks=pytest.mark.nightly)], ids=["standard", "cub"])
def test_headers_of_the_standard_library_compile_for_a_search(source: str) -> None:
    spec = KernelSpec(
        source,
        name="of_headers",
        entry="k",
        parameters={"block": [32]},
        sizes={"n": 32},
        grid=1,
        block="block",
        arguments=[
            {"name": "y", "kind": "inout", "dtype": "f32", "shape": "n", "fill": {"constant": 1}},
            {"name": "n", "kind": "scalar", "value": "n"},
        ],
        reference=(lambda y: y + 1) if source == STANDARD else (lambda y: np.concatenate(([y.sum()], y[1:]))),
    )
    (schedule,) = spec.template.space(spec.problem(), device("h100")).sample(1, 0)
    verdict = verify_one(spec.template, spec.problem(), schedule, device("h100"))
    assert verdict.ok, verdict.reason


@needs_libcudacxx
def test_cub_is_found() -> None:
    emulation = emulated(CUB, np.ones(32, np.float32))
    assert emulation.ok, emulation.reason
    assert emulation.arrays[0][0] == 32


@needs_cupy
def test_headers_of_cupy_are_found() -> None:
    emulation = emulated(COMPLEX, np.full(32, 1 + 2j, np.complex64))
    assert emulation.ok, emulation.reason
    assert (emulation.arrays[0] == -2 + 1j).all()


def test_a_missing_header_is_reported_with_the_options_that_find_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "include" / "mine").mkdir(parents=True)
    (tmp_path / "include" / "mine" / "three.h").write_text("#define THREE 3.0f\n")
    file = tmp_path / "k.cu"
    file.write_text('#include <mine/three.h>\nextern "C" __global__ void k(float* y) { y[threadIdx.x] = THREE; }\n')
    command = ["verify", str(file), "-a", "out f32[32]", "--grid", "1", "--block", "32"]
    assert run(command) == 2
    stderr = capsys.readouterr().err
    assert "k.cu:1" in stderr and "mine/three.h" in stderr and "--option=-IFOLDER" in stderr
    assert run([*command, f"--option=-I{tmp_path / 'include'}"]) == 0


def test_a_missing_header_is_read_from_compiler_messages() -> None:
    nvrtc = 'k.cu(1): catastrophic error: cannot open source file "a/b.h"'
    gcc = "k.cu:1:10: fatal error: a/b.h: No such file or directory"
    assert missing_header(nvrtc) == missing_header(gcc) == "a/b.h"
    assert missing_header('k.cu(1): error: identifier "x" is undefined') == ""
    assert {"cuda.h", "limits", "vector", "helper_cuda.h", "cub/cub.cuh"} <= STAND_INS.keys()
