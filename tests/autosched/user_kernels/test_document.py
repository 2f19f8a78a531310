"""The example of docs/reference/bring-your-own-kernel.md works if followed literally."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from autosched.user_kernels.arithmetic import FUNCTIONS
from autosched.user_kernels.user_kernel import KernelSpec
from search_spaces.hardware.devices import device

TEXT = (Path(__file__).parents[3] / "docs" / "reference" / "bring-your-own-kernel.md").read_text()


def block(language: str, which: int = 0) -> str:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)[which]


def test_the_kernel_file(tmp_path: Path) -> None:
    for name, text in (
        ("conv.cu", block("cuda")),
        ("conv.toml", block("toml")),
        ("conv_reference.py", block("python")),
    ):
        (tmp_path / name).write_text(text)
    kernel = KernelSpec.from_file(tmp_path / "conv.toml")
    assert [p.sizes["width"] for p in kernel.problems] == [1024, 4096]
    problem = kernel.problem(width=20, height=9, side=3)
    inputs = problem.random_inputs(0)
    expected = sum(
        inputs["input"][i : i + 9, j : j + 20].astype(float) * float(inputs["filter"][i, j])
        for i in range(3)
        for j in range(3)
    )
    assert np.allclose(problem.reference(inputs)["out"], expected)
    problem_of_file = kernel.problems[0]
    assert kernel.template.space(problem_of_file, device("h200")).count() > 50
    assert list(kernel.file.metric_values(problem_of_file.sizes, {"block_x": 32, "block_y": 4, "tile_x": 1}, 1.0)) == [
        "GB/s",
        "GFLOP/s",
        "Mpixel/s",
    ]


def test_the_kernel_from_python() -> None:
    names: dict[str, Any] = {"source_text": "__global__ void vector_add() {}"}
    exec(block("python", 1), names)  # executes code from the documentation
    problem = names["kernel"].problem(n=100)
    assert problem.reference({"a": np.ones(100, "f4"), "b": np.ones(100, "f4")})["c"].sum() == 200


def test_the_functions_of_the_language_are_listed() -> None:
    assert f"`{' '.join(FUNCTIONS)}`" in TEXT
