"""The vendor's library for the same problem, called through cupy: the yardstick of a comparison."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from search_spaces.problem import Problem


def library_call(cp: Any, problem: Problem, copies: Sequence[dict[str, Any]]) -> Callable[[int], None] | str:
    """A function that launches the library on copy i of the operands; else one line on why there is none.

    ``copies`` hold the operands by name, shaped as in memory. Matmuls are compared without an epilogue, and in the
    types that cupy's matmul takes and gives: f16 and f32, which it multiplies as tf32 where CUPY_TF32 is 1.
    """
    said = problem.to_json()
    if said["family"] != "matmul":
        return f"no library is known for {said['family']}"
    if said["epilogue"] != "none":
        return "the library has no epilogue to compare with"
    if not said["a"] == said["b"] == said["out"] or said["a"] not in ("f16", "f32"):
        return f"cupy's matmul does not take {said['a']} to {said['out']}"
    if said["a"] == "f32" and (said["precision"] == "tf32") != (os.environ.get("CUPY_TF32") == "1"):
        return f"the library would not multiply in {said['precision']}"
    views = []
    for arrays in copies:
        a = arrays["a"] if said["order_a"] == "row" else arrays["a"].swapaxes(-1, -2)
        b = arrays["b"] if said["order_b"] == "row" else arrays["b"].swapaxes(-1, -2)
        views.append((a, b, arrays["out"]) if said["batch"] > 1 else (a[0], b[0], arrays["out"][0]))

    def call(copy: int) -> None:
        a, b, out = views[copy]
        cp.matmul(a, b, out=out)

    try:
        call(0)  # loads cuBLAS, and makes its workspace
    except Exception as error:  # whatever cupy raises when it finds no cuBLAS
        return f"cuBLAS cannot be called: {type(error).__name__}: {error}"
    return call
