"""nvcc can replace NVRTC. It compiles template instances, several functions and host code. Its absence is reported."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from needs import needs_compiler, needs_nvrtc

from autosched import tune
from autosched.dispatch.staleness import Environment, stale_reasons
from autosched.user_kernels import KernelFileError
from autosched.user_kernels.user_kernel import KernelSpec
from autosched.verify import stored
from autosched.verify.schedules import verify_one
from measurements.compiler import nvcc
from measurements.compiler.nvcc import NvccMissing
from measurements.compiler.nvrtc import NVCC, toolchain_version
from measurements.compiler.pool import Compiled, CompileFailure, CompilePool
from measurements.store.store import Store
from search_spaces.hardware.devices import device
from search_spaces.launches.headers import Headers

needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
SOURCE = """
#include <cstdio>
#include <vector>
#include "scaled.cuh"
template <typename T, int B>
__global__ void scale(T* out, const T* x, int n) {
  int i = blockIdx.x * B + threadIdx.x;
  if (i < n) out[i] = scaled(x[i]);
}
__global__ void other(float* out) { out[threadIdx.x] = 1; }
int main() {
  std::vector<float> nothing(3);
  scale<double, 7><<<1, 7>>>(nullptr, nullptr, 0);
  return std::printf("%zu", nothing.size());
}
"""
HEADERS = Headers.of({"scaled.cuh": "template <typename T> __device__ T scaled(T x) { return 3 * x; }\n"})
OPTIONS = ("-std=c++17", "--ptxas-options=-v", NVCC)


@needs_nvcc
def test_the_requested_instance_is_the_entry() -> None:
    output = nvcc.compile_source(SOURCE, "scale<float, 64>", "sm_80", HEADERS, OPTIONS, ["other"])
    assert output.cubin is not None and (output.entry, output.then) == ("_Z5scaleIfLi64EEvPT_PKS0_i", ("_Z5otherPf",))
    wrong = nvcc.compile_source(SOURCE.replace("3 * x", "3 *"), "missing", "sm_80", HEADERS, OPTIONS)
    assert wrong.cubin is None and "no function missing was compiled" in wrong.log


@needs_nvcc
@needs_nvrtc
@needs_compiler
def test_a_kernel_file_selects_nvcc(tmp_path: Path) -> None:
    (tmp_path / "scaled.cuh").write_text(dict(HEADERS.files)["scaled.cuh"])
    (tmp_path / "scale.cu").write_text(SOURCE)
    spec = kernel(tmp_path / "scale.cu")
    problem, a100 = spec.problem(), device("a100")
    (schedule,) = spec.template.space(problem, a100).sample(1, 0)
    done = verify_one(spec.template, problem, schedule, a100)
    assert done.ok, done.reason
    with CompilePool(workers=1) as pool:
        compiled = pool.compile(spec.template.kernel(problem, schedule, a100), "sm_80")
    assert isinstance(compiled, Compiled) and compiled.toolchain.startswith("nvcc ")


@needs_nvcc
@needs_nvrtc
@needs_compiler
def test_trials_and_verifications_record_the_compiler(tmp_path: Path) -> None:
    (tmp_path / "scaled.cuh").write_text(dict(HEADERS.files)["scaled.cuh"])
    (tmp_path / "scale.cu").write_text(SOURCE)
    spec, a100 = kernel(tmp_path / "scale.cu"), device("a100")
    result = tune(spec.problem(), trials=1, database=tmp_path / "b.db", device="a100", workers=1)
    assert result.best is not None and result.best.toolchain == nvcc.nvcc_version()
    assert json.loads(result.best.fingerprint)["toolchain"] == nvcc.nvcc_version()
    assert any(f"by {nvcc.nvcc_version()}" in line for line in result.lines)
    with Store.open(tmp_path / "b.db") as store:
        (trial,) = store.trials()
    assert trial.verification is not None and json.loads(trial.verification)["compiler"] == nvcc.nvcc_version()
    built = spec.template.kernel(spec.problem(), trial.schedule, a100)
    assert stored.stale_reason(trial.verification, built) == ""
    here = Environment(toolchain_version())
    assert stale_reasons(trial, a100, here, spec.template, built) == ()
    # None stands for an unknown kernel, for example that of a trial of a neighbouring problem.
    assert stale_reasons(trial, a100, here, spec.template, None) == ()
    older = replace(trial, toolchain="nvcc 1.2.3")
    assert stale_reasons(older, a100, here, spec.template, built) == (f"compiler nvcc 1.2.3 to {nvcc.nvcc_version()}",)


def test_a_missing_nvcc_is_reported_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "scale.cu").write_text(SOURCE)
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None)
    with pytest.raises(KernelFileError, match=r"compiler: nvcc was not found") as raised:
        kernel(tmp_path / "scale.cu")
    assert "\n" not in str(raised.value)
    with pytest.raises(NvccMissing):
        nvcc.find_nvcc()
    with pytest.raises(KernelFileError, match="'gcc' is not known"):
        kernel(tmp_path / "scale.cu", compiler="gcc")


def test_a_pool_without_nvcc_only_fails_its_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    (tmp_path / "scale.cu").write_text(SOURCE)
    monkeypatch.setattr(nvcc, "find_nvcc", lambda: "nvcc")
    monkeypatch.setattr("autosched.user_kernels.reading.sources.find_nvcc", lambda: "nvcc")
    spec, a100 = kernel(tmp_path / "scale.cu"), device("a100")
    (schedule,) = spec.template.space(spec.problem(), a100).sample(1, 0)

    def missing() -> str:
        raise NvccMissing("nvcc was not found")

    monkeypatch.setattr(nvcc, "nvcc_version", missing)
    with CompilePool(workers=1) as pool:
        failed = pool.compile(spec.template.kernel(spec.problem(), schedule, a100), "sm_80")
    assert isinstance(failed, CompileFailure) and failed.reason == "nvcc was not found"


def kernel(source: Path, **more: Any) -> KernelSpec:
    arguments: dict[str, Any] = {
        "name": "by_nvcc",
        "compiler": "nvcc",
        "parameters": {"b": [32, 64]},
        "sizes": {"n": 100},
        "block": "b",
        "grid": "ceil_div(n, b)",
        "arguments": [
            {"name": "out", "kind": "output", "dtype": "f32", "shape": "n"},
            {"name": "x", "kind": "input", "dtype": "f32", "shape": "n"},
            {"name": "n", "kind": "scalar", "value": "n"},
        ],
        "reference": lambda x: 3 * x,
    }
    return KernelSpec(source, "scale<float, b>", **{**arguments, **more})
