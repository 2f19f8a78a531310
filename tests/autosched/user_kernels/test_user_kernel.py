"""``autosched.KernelSpec`` gives the same kernel as a kernel file, and the same errors."""

# ruff: noqa: E501  # tables with one case a line
from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autosched.user_kernels import KernelFileError
from autosched.user_kernels.kernel_options import KernelOptions
from autosched.user_kernels.user_kernel import KernelSpec
from search_spaces.catalogue import operator, problem_from_json, register, templates_for
from search_spaces.hardware.devices import device

Write = Callable[..., Path]

VECTOR_ADD = """
extern "C" __global__ void vector_add(float* c, const float* a, const float* b, int n) {
  int i = blockIdx.x * block_size_x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}
"""


def vector_add(**changes: Any) -> KernelSpec:
    arrays = [("c", "output"), ("a", "input"), ("b", "input")]
    options: dict[str, Any] = {
        "parameters": {"block_size_x": [128 + 64 * i for i in range(15)]},
        "sizes": {"n": 1_000_000},
        "problem_size": "n",
        "arguments": [
            *({"name": name, "kind": kind, "dtype": "float32", "shape": "n"} for name, kind in arrays),
            {"name": "n", "kind": "scalar", "value": "n"},
        ],
        "rules": ["block_size_x % 128 == 0", ("block_size_x < n", "one block would be enough")],
        "reference": lambda a, b: a + b,
        "cost": {"bytes": "12 * n"},
    }
    return KernelSpec(VECTOR_ADD, "vector_add", **{**options, **changes})


def test_a_kernel_without_files() -> None:
    kernel = vector_add()
    assert (kernel.file.name, kernel.file.source) == ("vector_add", VECTOR_ADD)
    problem = kernel.problem(n=1000)
    inputs = problem.random_inputs(0)
    assert np.array_equal(problem.reference(inputs)["c"], inputs["a"].astype(float) + inputs["b"])
    space = kernel.template.space(problem, device("h200"))
    assert {s["block_size_x"] for s in space.sample(100, 0)} == {128, 256, 384, 512, 640, 768, 896}
    config = space.config(space.sample(1, 0)[0])
    assert config.integer("grid_dim_x") == -(-1000 // config.integer("block_dim_x"))
    assert kernel.file.metric_values(problem.sizes, config, 1e-6) == pytest.approx({"GB/s": 12.0})


def test_equal_definitions_are_equal() -> None:
    assert vector_add() == vector_add() and hash(vector_add()) == hash(vector_add())
    assert vector_add() != vector_add(rules=["block_size_x < n"])
    assert vector_add().file.computes != vector_add(reference=lambda a, b: a - b).file.computes
    assert vector_add().problem() == vector_add().problem(n=1_000_000)


def test_a_functions_identity_includes_its_captured_values() -> None:
    def scaled(factor: Any) -> KernelSpec:
        return vector_add(reference=lambda a, b: a + factor * b)

    assert scaled(2) == scaled(2) != scaled(3)
    many = np.zeros(10_000)
    other = many.copy()
    other[5_000] = 1.0
    assert scaled(many) == scaled(many.copy()) != scaled(other)
    problem = scaled(3).problem(n=4)
    inputs = problem.random_inputs(0)
    assert np.allclose(problem.reference(inputs)["c"], inputs["a"] + 3.0 * inputs["b"])


def test_a_kernel_is_read_from_a_file(write: Write) -> None:
    path = write()
    kernel = KernelSpec.from_file(path)
    assert repr(kernel) == "KernelSpec(scale)"
    assert [p.sizes for p in kernel.problems] == [{"width": 4096, "height": 8}, {"width": 100, "height": 3}]
    source = KernelSpec(
        path.parent / "scale.cu",
        "scale",
        parameters={"block_x": [32]},
        block="block_x",
        grid=1,
        arguments=[{"name": "out", "kind": "output", "dtype": "f32", "shape": 4}],
    )
    assert source.file.source == kernel.file.source and source.file.headers == kernel.file.headers
    t1 = Path(__file__).parent / "reading" / "stencil_T1.json"
    (path.parent / "stencil.cu").write_text("__global__ void stencil() {}")
    (path.parent / "stencil.json").write_text(t1.read_text())
    assert KernelSpec.from_file(path.parent / "stencil.json").file.name == "stencil"


def test_a_kernel_is_registered_like_any_other() -> None:
    kernel = vector_add(name="added_by_a_test")
    register(kernel.operator, kernel.template)
    register(vector_add(name="added_by_a_test").operator, vector_add(name="added_by_a_test").template)
    problem = kernel.problem(n=77)
    assert operator("added_by_a_test").make(n=77) == problem
    assert problem_from_json(problem.to_json()) == problem
    assert [t.name for t in templates_for(problem, device("h200"))] == ["added_by_a_test"]
    with pytest.raises(ValueError, match="another kernel template is already called 'added_by_a_test'"):
        register(vector_add(name="added_by_a_test", rules=[]).template)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"parameters": {}}, "Kernel vector_add: parameters: there is nothing to tune"),
        ({"rules": ["block_size_x * blk < 3"]}, "Kernel vector_add: rule[1].expr: unknown name 'blk', use one of n, block_size_x"),
        ({"rules": [3]}, "Kernel vector_add: rule[1]: this must be a table, not 3"),
        ({"arguments": []}, "Kernel vector_add: no [[argument]] is an output"),
        ({"arguments": ["c"]}, "Kernel vector_add: argument[1]: this must be a table, not 'c'"),
        ({"grid": "n"}, "Kernel vector_add: launch: give either grid"),
        ({"sizes": {"n": "3"}}, "Kernel vector_add: sizes.n: n must be a whole number of at least 1, not '3'"),
        ({"reference": 3}, "Kernel vector_add: reference: this must be a table, not 3"),
        ({"name": "no name"}, 'Kernel no name: kernel.name: invalid name "no name"'),
    ],
)  # fmt: skip
def test_invalid_arguments_are_rejected_in_one_line(changes: dict[str, Any], line: str) -> None:
    with pytest.raises(KernelFileError) as error:
        vector_add(**changes)
    assert str(error.value).startswith(line)
    assert "\n" not in str(error.value)


def test_a_missing_source_is_rejected() -> None:
    with pytest.raises(KernelFileError, match=r"^Kernel f: kernel\.source: cannot read nowhere\.cu"):
        KernelSpec("nowhere.cu", "f", parameters={"x": [1]}, block="x", grid=1, arguments=[])


OUT = {"name": "out", "kind": "output", "dtype": "f32", "shape": 4}


def test_options_are_one_value_that_keywords_override() -> None:
    options = KernelOptions(parameters={"x": [1, 2]}, block="x", grid=1, arguments=[OUT], options=["-lineinfo"])
    kernel = KernelSpec("__global__ void f(float* out) {}", "f", options)
    keywords = {field.name: getattr(options, field.name) for field in dataclasses.fields(options)}
    assert kernel == KernelSpec("__global__ void f(float* out) {}", "f", **keywords)
    assert KernelSpec("__global__ void f(float* out) {}", "f", options, name="g").file.name == "g"


@pytest.mark.parametrize("keywords", [{}, {"parameters": {"x": [1]}, "arguments": [], "blocks": 1}])
def test_missing_and_unknown_options_are_named(keywords: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=r"parameters|blocks"):
        KernelSpec("__global__ void f() {}", "f", **keywords)
    with pytest.raises(TypeError, match="base must be KernelOptions"):
        KernelSpec("__global__ void f() {}", "f", ["-lineinfo"])  # type: ignore[arg-type]
