"""Kernels with structs passed by value, and with arrays of structs."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
from needs import needs_compiler, needs_nvrtc

from autosched.user_kernels import KernelFileError
from autosched.user_kernels.entry import check_entry
from autosched.user_kernels.user_kernel import KernelSpec
from autosched.verify.schedules import verify_one
from autosched.verify.verdict import Verdict
from search_spaces.hardware.devices import device

A100 = device("a100")
N = 300
X = np.arange(N, dtype=np.float32)
PARTS = """
struct Scaling { int n; short kind; double factor; float shift[3]; };
__global__ void scale(float* y, const float* x, Scaling s) {
  int i = blockIdx.x * block_size_x + threadIdx.x;
  if (i < s.n) y[i] = float(s.factor) * x[i] + (s.kind == 2 ? s.shift[2] : 0.0f);
}
"""
SCALING = np.dtype([("n", "i4"), ("kind", "i2"), ("factor", "f8"), ("shift", "f4", 3)], align=True)


def scale(source: str, arguments: list[Any], **more: Any) -> KernelSpec:
    return KernelSpec.from_arrays("scale", source, N, arguments, {"block_size_x": [32, 64]}, **more)


def verified(kernel: KernelSpec) -> Verdict:
    """Compare the entry function's parameters with the arguments, as commands do. Then verify a configuration."""
    problem = kernel.problem()
    (schedule,) = kernel.template.space(problem, A100).sample(1, 0)
    check_entry(problem, [schedule], A100)
    return verify_one(kernel.template, problem, schedule, A100)


class Scaling(ctypes.Structure):
    _fields_ = (
        ("n", ctypes.c_int), ("kind", ctypes.c_short), ("factor", ctypes.c_double), ("shift", ctypes.c_float * 3)
    )  # fmt: skip


def scaling(factor: float) -> list[Any]:
    """Return one struct as a numpy scalar, as numpy arrays of both byte orders, and as a ctypes structure."""
    values = (N, 2, factor, (5, 6, 7))
    return [
        np.array([values], SCALING)[0],
        np.array(values, SCALING),
        np.array(values, SCALING.newbyteorder(">")),
        Scaling(N, 2, factor, (5, 6, 7)),
    ]


@needs_compiler
@needs_nvrtc
@pytest.mark.parametrize("form", range(4))
def test_a_struct_is_passed_by_value(form: int) -> None:
    expected = [2 * X + 7, None, None]
    verdict = verified(scale(PARTS, [np.zeros(N, np.float32), X, scaling(2)[form]], answer=expected))
    assert verdict.ok, verdict.reason
    assert not verified(scale(PARTS, [np.zeros(N, np.float32), X, scaling(2.5)[form]], answer=expected)).ok


@needs_compiler
@needs_nvrtc
def test_a_struct_of_a_kernel_file_has_fields() -> None:
    fields = [
        {"name": "n", "dtype": "i32", "value": "n"},
        {"dtype": "i16", "value": "mode"},
        {"dtype": "f64", "value": 2.0},
        {"dtype": "f32", "value": [5, 6, 7.0]},
    ]

    def spec(fields: list[dict[str, Any]], **more: Any) -> KernelSpec:
        arrays = [
            {"name": name, "kind": kind, "dtype": "f32", "shape": "n"}
            for name, kind in (("y", "output"), ("x", "input"))
        ]
        return KernelSpec(
            PARTS,
            "scale",
            parameters={"block_size_x": [32, 64], "mode": [1, 2]},
            sizes={"n": N},
            problem_size="n",
            arguments=[*arrays, {"name": "s", "kind": "struct", "fields": fields} | more],
            verify=lambda x, y, n: bool(np.allclose(y, 2 * x) or np.allclose(y, 2 * x + 7)),
        )

    kernel = spec(fields)
    problem = kernel.problem()
    for schedule in kernel.template.space(problem, A100).sample(4, 0):
        verdict = verify_one(kernel.template, problem, schedule, A100)
        assert verdict.ok, verdict.reason
    assert spec([*fields[:3], {"dtype": "f32", "value": [5, 6, 8.0]}]).file.content != kernel.file.content
    for wrong in (
        [*fields[:3], {"dtype": "f32", "value": 5}, {"dtype": "f32", "value": 5, "offset": 16}],
        [*fields[:3], {"dtype": "float31", "value": 5}],
        [*fields[:3], {"dtype": "f32", "value": [0] * 5000}],
        [{"dtype": "i32", "value": 0.5}],
        [],
    ):
        with pytest.raises(KernelFileError) as error:
            spec(wrong)
        assert "\n" not in str(error.value)
    short = spec(fields[:3])
    with pytest.raises(KernelFileError, match="16 bytes"):
        verified(short)


@needs_compiler
@needs_nvrtc
def test_arrays_of_structs_are_their_numbers() -> None:
    source = """
struct Point { float u, v; };
struct Mixed { int id; double w; };
__global__ void scale(Point* y, const Point* x, const Mixed* m) {
  int i = blockIdx.x * block_size_x + threadIdx.x;
  if (i < 300) y[i] = Point{x[i].v, float(m[i].w) + m[i].id};
}
"""
    point, mixed = np.dtype([("u", "f4"), ("v", "f4")]), np.dtype([("id", "i4"), ("w", "f8")], align=True)
    x, m = np.zeros(N, point), np.zeros(N, mixed)
    x["u"], x["v"], m["id"], m["w"] = X, 3 * X, np.arange(N), 0.5
    y = np.zeros(N, point)
    y["u"], y["v"] = x["v"], m["w"] + m["id"]
    arguments = [np.zeros(N, point), x, m]
    verdict = verified(scale(source, arguments=arguments, answer=[y, None, None]))
    assert verdict.ok, verdict.reason
    assert not verified(scale(source, arguments=arguments, answer=[x, None, None])).ok
    with pytest.raises(ValueError, match="several types"):
        scale(source, arguments=[np.zeros(N, mixed), x, m], answer=[m, None, None])


class Pointing(ctypes.Structure):
    _fields_ = (("a", ctypes.c_int), ("b", ctypes.POINTER(ctypes.c_float)))


@pytest.mark.parametrize(
    "struct", [(np.int32(1), np.int32(2)), Pointing(1), np.array((1, "a"), [("a", "i4"), ("b", "O")]), "text"]
)
def test_invalid_structs_are_rejected_in_one_line(struct: Any) -> None:
    with pytest.raises(ValueError, match=r"struct|Kernel") as error:
        scale(PARTS, [np.zeros(N, np.float32), X, struct])
    assert "\n" not in str(error.value)
