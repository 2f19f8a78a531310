"""Kernels described as for Kernel Tuner's ``tune_kernel``: names, sizes, numpy arrays, and values to try."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autosched import KernelSpec
from autosched.user_kernels import KernelFileError
from autosched.verify.schedules import verify_one
from search_spaces.hardware.devices import device
from search_spaces.spaces.schedule import Schedule

A100 = device("a100")
ADD = """
__global__ void vector_add(float *c, const float *a, const float *b, int n) {
  int i = blockIdx.x * block_size_x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}
"""
N = 1000
A, B = (np.random.default_rng(i).standard_normal(N).astype(np.float32) for i in (0, 1))


def status(kernel: KernelSpec, **config: Any) -> str:
    schedule = Schedule(kernel.file.name, tuple(config.items()))
    return verify_one(kernel.template, kernel.problem(), schedule, A100).status


def add(**options: Any) -> KernelSpec:
    arguments = [np.zeros(N, np.float32), A, B, np.int32(N)]
    params = {"block_size_x": [np.int32(32), 64, 128]}
    return KernelSpec.from_arrays("vector_add", ADD, N, arguments, params, **{"name": "kt_add", **options})


def test_names_roles_and_contents_follow_from_the_arrays_and_the_source() -> None:
    kernel = add()
    assert [(a.name, a.kind) for a in kernel.file.arguments] == [
        ("c", "output"), ("a", "input"), ("b", "input"), ("n", "scalar"),
    ]  # fmt: skip
    problem = kernel.problem()
    np.testing.assert_array_equal(problem.random_inputs(0)["a"], A)
    assert kernel.template.kernel(problem, Schedule("kt_add", (("block_size_x", 64),)), A100).grid == (16, 1, 1)


def test_answers_are_compared_within_atol() -> None:
    assert status(add(answer=[A + B, None, None, None]), block_size_x=64) == "ok"
    assert status(add(answer=[A - B, None, None, None], name="kt_wrong"), block_size_x=64) == "wrong_result"


def test_restrictions_sizes_and_metrics_may_be_functions() -> None:
    kernel = add(
        restrictions=lambda p: p["block_size_x"] > 32,
        metrics={"elements/s": lambda p: N / p["time"]},
        name="kt_functions",
    )
    space = kernel.template.space(kernel.problem(), A100)
    assert space.count() == 2
    assert kernel.problem().metrics({"block_size_x": 64}, 0.5) == {"elements/s": 2000.0}
    by_function = KernelSpec.from_arrays(
        "vector_add", ADD, lambda p: (N, 2), [np.zeros(N, np.float32), A, B, np.int32(N)], {"block_size_x": [32]},
        name="kt_size",
    )  # fmt: skip
    lowered = by_function.template.kernel(by_function.problem(), Schedule("kt_size", (("block_size_x", 32),)), A100)
    assert lowered.grid == (32, 2, 1)


def test_a_kernels_identity_includes_its_restriction_function() -> None:
    def larger(least: int) -> Any:
        return lambda p: p["block_size_x"] > least

    first, again, other = (add(restrictions=larger(n)).file.content for n in (32, 32, 64))
    assert first == again != other


def test_a_verify_function_is_called_as_by_kernel_tuner() -> None:
    calls: list[Any] = []

    def verify(answer: Any, result: Any, atol: float) -> bool:
        calls.append((answer, [type(r) for r in result], atol))
        return bool(np.allclose(result[0], A + B, atol=atol))

    assert status(add(verify=verify, atol=1e-4, name="kt_judged"), block_size_x=32) == "ok"
    assert calls[0][1][:3] == [np.ndarray] * 3 and calls[0][2] == 1e-4


def test_the_source_may_be_a_function_of_the_values() -> None:
    def source(values: dict[str, Any]) -> str:
        return ADD.replace("a[i] + b[i]", "a[i] + b[i] * %s" % (1 if values["block_size_x"] > 32 else 2))

    arguments = [np.zeros(N, np.float32), A, B, np.int32(N)]
    kernel = KernelSpec.from_arrays(
        "vector_add", source, N, arguments, {"block_size_x": [32, 64]}, answer=[A + B, None, None, None], name="kt_gen"
    )
    assert status(kernel, block_size_x=64) == "ok"
    assert status(kernel, block_size_x=32) == "wrong_result"


def test_parameters_may_be_pinned() -> None:
    kernel = add()
    pinned = kernel.pinned(block_size_x="64")
    space = pinned.template.space(pinned.problem(), A100)
    assert [s.values for s in space.sample(5, 0)] == [{"block_size_x": 64}]
    assert space.fingerprint == kernel.template.space(kernel.problem(), A100).fingerprint
    assert pinned.template.version == kernel.template.version
    for wrong, message in (
        ({"blok": "1"}, "no parameter 'blok'"),
        ({"block_size_x": "33"}, "cannot be 33: use one of 32"),
    ):
        with pytest.raises(KernelFileError, match=message):
            kernel.pinned(**wrong)


def test_arguments_other_than_arrays_and_numbers_are_rejected() -> None:
    with pytest.raises(ValueError, match="argument 0 must be a numpy array, a number or a struct, not list"):
        KernelSpec.from_arrays("vector_add", ADD, N, [[1.0]], {"block_size_x": [32]})


def test_a_c_header_has_the_values_of_each_device() -> None:
    kernel = add()
    header = kernel.c_header({"a100": {"block_size_x": 64}, "rtx_a6000": {"block_size_x": 128}})
    lines = header.splitlines()
    assert lines.index("#if defined(TARGET_A100)") + 1 == lines.index("#define block_size_x 64")
    assert lines.index("#elif defined(TARGET_RTX_A6000)") + 1 == lines.index("#define block_size_x 128")
    assert lines[lines.index("#else  // as on a100") + 1] == "#define block_size_x 64"
    with pytest.raises(ValueError, match="at least one device"):
        kernel.c_header({})
