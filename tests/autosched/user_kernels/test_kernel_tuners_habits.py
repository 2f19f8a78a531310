"""Kernel sources and calls that were written for Kernel Tuner keep their behaviour."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from needs import needs_compiler, needs_nvrtc

from autosched.tuning.result import Progress, Start
from autosched.tuning.tune import tune
from autosched.user_kernels import KernelFileError
from autosched.user_kernels.entry import check_entry
from autosched.user_kernels.signature import declared_parameters
from autosched.user_kernels.user_kernel import KernelSpec
from autosched.verify.schedules import verify_one
from autosched.verify.verdict import Verdict
from search_spaces.hardware.devices import device

A100 = device("a100")
N = 300
SCALE = """
__global__ void scale(float* y, const float* x, int n) {
  extern __shared__ float staged[];
  int i = blockIdx.x * block_size_x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}
"""
X = np.arange(N, dtype=np.float32)


def scale(source: str = SCALE, **more: Any) -> KernelSpec:
    options: dict[str, Any] = {
        "arguments": [np.zeros(N, np.float32), X, np.int32(N)],
        "tune_params": {"block_size_x": [32, 64]},
        "answer": [2 * X, None, None],
    }
    options |= more
    return KernelSpec.from_arrays("scale", source, N, options.pop("arguments"), options.pop("tune_params"), **options)


def verified(kernel: KernelSpec) -> Verdict:
    problem = kernel.problem()
    (schedule,) = kernel.template.space(problem, A100).sample(1, 0)
    return verify_one(kernel.template, problem, schedule, A100)


@needs_compiler
@needs_nvrtc
def test_all_six_macros_of_a_launch_are_defined() -> None:
    body = """
__global__ void scale(float* y, const float* x, int n) {
  static_assert(block_size_y == 1 && block_size_z == 1 && grid_size_y == 1 && grid_size_z == 1, "");
  for (int i = blockIdx.x * block_size_x + threadIdx.x; i < n; i += grid_size_x * block_size_x) y[i] = 2 * x[i];
}
"""
    assert verified(scale(body)).ok
    changed_body = body.replace("grid_size_z == 1", "grid_size_z == 7")
    assert verified(scale(changed_body, defines={"grid_size_z": 7})).ok


@needs_compiler
@needs_nvrtc
def test_shared_memory_may_be_a_function_of_the_values() -> None:
    spec = scale(smem_args={"size": lambda values: 4 * values["block_size_x"]})
    assert verified(spec).ok
    (schedule,) = spec.template.space(spec.problem(), A100).sample(1, 0)
    kernel = spec.template.kernel(spec.problem(), schedule, A100)
    assert kernel.dynamic_shared_bytes == 4 * schedule.integer("block_size_x")


def test_restrictions_may_use_bit_operators_and_math() -> None:
    restrictions = ["(block_size_x & (block_size_x - 1)) == 0", "math.log2(block_size_x) >= 6"]
    spec = scale(tune_params={"block_size_x": [32, 64, 96, 128]}, restrictions=restrictions)
    space = spec.template.space(spec.problem(), A100)
    assert sorted(s.integer("block_size_x") for s in space.sample(4, 0)) == [64, 128]


@needs_compiler
@needs_nvrtc
@pytest.mark.parametrize(("kind", "parameter"), [(np.complex64, "float2"), (np.complex128, "double2")])
@pytest.mark.parametrize("judged", [False, True])
def test_complex_arrays_are_pairs(kind: type, parameter: str, judged: bool) -> None:
    source = """
__global__ void scale(TYPE* y, const TYPE* x, int n) {
  int i = blockIdx.x * block_size_x + threadIdx.x;
  if (i < n) y[i] = TYPE{-x[i].y, x[i].x};
}
""".replace("TYPE", parameter)
    x = (np.arange(N) + 1j * np.arange(N)[::-1]).astype(kind)
    results: list[Any] = []

    def verify(expected: Any, result: Any, atol: float) -> bool:
        results.append((result[0].dtype, result[0].shape))
        return bool(np.allclose(expected[0], result[0], atol=atol))

    def wrong(expected: Any, result: Any, atol: float) -> bool:
        return result[0].dtype == kind and bool((result[0] == 2 * x).all())

    arguments, expected = [np.zeros(N, kind), x, np.int32(N)], [1j * x, None, None]
    spec = scale(source, arguments=arguments, answer=expected, **({"verify": verify} if judged else {}))
    verdict = verified(spec)
    assert verdict.ok, verdict.reason
    assert not judged or set(results) == {(np.dtype(kind), (N,))}
    assert not verified(
        scale(source, arguments=arguments, answer=[2 * x, None, None], **({"verify": wrong} if judged else {}))
    ).ok


@pytest.mark.parametrize("kind", [np.float64, np.int64, np.float16])
def test_an_array_of_another_type_than_its_parameter_is_rejected(kind: type) -> None:
    with pytest.raises(KernelFileError) as error:
        scale(arguments=[np.zeros(N, kind), X, np.int32(N)])
    message = str(error.value)
    assert "float* y" in message and "f32" in message and "\n" not in message


def test_types_that_may_be_packed_or_are_not_known_pass() -> None:
    for parameter, kind in (
        ("unsigned*", np.uint8),
        ("T*", np.float64),
        ("void*", np.float64),
        ("float4*", np.float32),
    ):
        scale(SCALE.replace("float* y", f"{parameter} y"), arguments=[np.zeros(N, kind), X, np.int32(N)])


def test_a_parameter_with_the_name_of_a_kernel_argument_is_reported() -> None:
    with pytest.raises(KernelFileError, match="macro n would") as error:
        scale(tune_params={"block_size_x": [32], "n": [1, 2]})
    assert "\n" not in str(error.value)


@needs_nvrtc
def test_a_parameter_may_have_a_name_that_a_header_also_uses() -> None:
    """Headers are included before the parameters' macros are defined, so the macro does not change the header."""
    kernel = scale("#include <limits>\n" + SCALE, tune_params={"block_size_x": [32], "digits": [1]})
    problem = kernel.problem()
    check_entry(problem, kernel.template.space(problem, A100).sample(1, 0), A100)


def test_a_single_equals_sign_suggests_two() -> None:
    with pytest.raises(KernelFileError, match="write =="):
        scale(restrictions=["block_size_x = 32"])


def test_declarations_are_read_in_common_styles() -> None:
    source = """
// void k(int wrong) {
template <typename T, int n>
__global__ void __launch_bounds__(256) k(const float *__restrict__ a, unsigned long long* b, half2 const* c, T* d,
                                         float e[], int n_, float** f, __nv_bfloat16 *g) {
"""
    parameters = declared_parameters("ns::k<float, 3>", ("int other;", source))
    assert [p.name for p in parameters] == ["a", "b", "c", "d", "e", "n_", "f", "g"]
    names = [p.element.name if p.element else None for p in parameters]
    assert names == ["f32", "u64", "f16", None, "f32", None, None, "bf16"]
    assert declared_parameters("missing", (source,)) == ()


class Seen:
    """Progress observer that records the number of trials and the lines that a search reports when it starts."""

    def __init__(self) -> None:
        self.trials: list[int] = []
        self.lines: tuple[str, ...] = ()

    def started(self, start: Start) -> None:
        self.trials.append(start.trials)
        self.lines = start.lines

    def trial(self, progress: Progress) -> None:
        self.trials.append(progress.trials)


@needs_compiler
@needs_nvrtc
def test_a_brute_force_search_is_limited_by_the_size_of_its_space(tmp_path: Path) -> None:
    problem = scale(tune_params={"block_size_x": [32, 64, 128]}).problem()
    options: dict[str, Any] = {"device": "a100", "backend": "estimate", "database": tmp_path / "best.db"}
    progress = Seen()
    result = tune(problem, trials=10**9, sampler="brute_force", progress=progress, **options)
    assert result.exhausted and len(result.trials) == 3
    assert set(progress.trials) == {3} and "3 more will be tried" in " ".join(progress.lines)
    again = Seen()
    tune(problem, trials=10**9, sampler="brute_force", progress=again, **options)
    assert set(again.trials) == {0}
