"""Array types that depend on parameters: each configuration has its own inputs, references and tolerances."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from needs import needs_compiler, needs_nvrtc

import autosched
from autosched.user_kernels import KernelFileError
from autosched.user_kernels.user_kernel import KernelSpec
from autosched.verify.launch_plan import LaunchRun
from autosched.verify.run import Depth
from autosched.verify.schedules import verify_one
from autosched.verify.verdict import Verdict
from measurements.emulator import Order
from search_spaces.hardware.devices import device
from search_spaces.hardware.dtypes import SCALAR_DTYPES
from search_spaces.spaces.schedule import Schedule

A100 = device("a100")
SOURCE = """
#include <cuda_fp16.h>
__global__ void scale(T* out, const T* x, T factor, int n) {
  int i = blockIdx.x * b + threadIdx.x;
  if (i < n) out[i] = (T)(COMPUTED(x[i]) * COMPUTED(factor));
}
"""


def kernel(name: str, dtype: str = "T", computed: str = "(double)(float)", **more: Any) -> KernelSpec:
    arrays = ({"name": n, "kind": k, "dtype": dtype, "shape": "n"} for n, k in (("out", "output"), ("x", "input")))
    options: dict[str, Any] = {
        "name": name,
        "parameters": {"b": [32, 64], "T": ["f32", "half", "double"]},
        "sizes": {"n": 300},
        "block": "b",
        "grid": "ceil_div(n, b)",
        "arguments": [
            *arrays,
            {"name": "factor", "kind": "scalar", "dtype": dtype, "value": 3.0},
            {"name": "n", "kind": "scalar", "value": "n"},
        ],
    }
    return KernelSpec(SOURCE.replace("COMPUTED", computed), "scale", **{**options, **more})


def verified(spec: KernelSpec, kind: str) -> Verdict:
    schedule = Schedule(spec.file.name, (("b", 32), ("T", kind)))
    return verify_one(spec.template, spec.problem(), schedule, A100)


@needs_compiler
@needs_nvrtc
@pytest.mark.parametrize("kind", ["f32", "half", "double"])
@pytest.mark.parametrize("reference", [{"reference": lambda x: 3 * x}, {}], ids=["function", "itself"])
def test_each_type_is_verified_at_its_precision(kind: str, reference: dict[str, Any]) -> None:
    computed = "(double)" if kind == "double" else "(float)"
    verdict = verified(kernel("typed", computed=computed, **reference), kind)
    assert verdict.ok, verdict.reason
    names = {"f32": "f32", "half": "f16", "double": "f64"}
    assert verdict.problem.random_inputs(0)["x"].dtype == np.dtype(SCALAR_DTYPES[names[kind]].storage)
    assert {o.dtype.name for o in verdict.problem.operands()} == {names[kind]}


@needs_compiler
@needs_nvrtc
def test_the_tolerance_depends_on_the_type() -> None:
    """Products computed in float are accepted for float and half arrays.

    For double arrays, they are accepted only if the file allows them.
    """
    rounded = {"reference": lambda x: 3 * x, "computed": "(float)"}
    assert verified(kernel("typed_rounded", **rounded), "f32").ok
    assert verified(kernel("typed_rounded", **rounded), "double").status == "wrong_result"
    allowed = {"rtol": "1e-6 if T == 'double' else 1e-2 if T == 'half' else 1e-7"}
    assert verified(kernel("typed_allowed", tolerance=allowed, **rounded), "double").ok
    assert kernel("typed_allowed", tolerance=allowed, **rounded).file.under({"T": "half"}).arrays[0].rtol == 1e-2


@needs_compiler
@needs_nvrtc
def test_types_are_searched_and_recorded_as_one_problem(tmp_path: Path) -> None:
    spec = kernel("typed_tuned", parameters={"b": [32, 64], "T": ["f32", "half"]}, reference=lambda x: 3 * x)
    result = autosched.tune(spec.problem(), trials=4, device="a100", backend="estimate", database=tmp_path / "best.db")
    assert {(r["T"], r["status"]) for r in result.rows()} == {("f32", "ok"), ("half", "ok")}
    assert result.best is not None and result.best.verification is not None


def test_invalid_types_are_rejected_in_one_line() -> None:
    for dtype, message in (
        ("U", "'U' is not known"),
        ("T + 1", "this is a text, but a number is needed"),
        ("b", '"b" is a int'),
        ("'quux' if b == 32 else T", "unknown type 'quux'"),
    ):
        with pytest.raises(KernelFileError) as raised:
            kernel("typed_bad", dtype=dtype)
        assert message in str(raised.value) and "\n" not in str(raised.value)
    with pytest.raises(KernelFileError, match="unknown name 'z'"):
        kernel("typed_bad", tolerance={"atol": "z"})


GATHER = """
__global__ void gather(float* y, const float* x, const int* at, int n) {
  int i = blockIdx.x * b + threadIdx.x;
  if (i < n) atomicAdd(y + i, x[at[i] - 1]);
}
"""


@needs_compiler
@needs_nvrtc
@pytest.mark.parametrize("launch", [None, LaunchRun("requested", Order("random", 7), 2)])
def test_a_reference_may_change_its_arrays(launch: LaunchRun | None) -> None:
    def reference(x: Any, at: Any) -> Any:
        at -= 1
        return x[at]

    arguments = [
        {"name": "y", "kind": "output", "dtype": "f32", "shape": "n", "zeroed": True},
        {"name": "x", "kind": "input", "dtype": "f32", "shape": "n"},
        {"name": "at", "kind": "input", "dtype": "i32", "shape": "n", "fill": {"integers": [1, 3]}},
        {"name": "n", "kind": "scalar", "value": "n"},
    ]
    spec = KernelSpec(
        GATHER, "gather", parameters={"b": [32]}, sizes={"n": 100}, grid="ceil_div(n, b)", block="b",
        arguments=arguments, reference=reference,
    )  # fmt: skip
    schedule = Schedule(spec.file.name, (("b", 32),))
    depths: tuple[Depth, ...] = ("quick", "full")
    for depth in depths:
        verdict = verify_one(spec.template, spec.problem(), schedule, A100, depth=depth, launch=launch)
        assert verdict.ok, (depth, verdict.reason)
