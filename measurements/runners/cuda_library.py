"""What candidates are compared with, on the same arrays: the vendor's library, torch, Triton, and a plain copy."""

from __future__ import annotations

import importlib
import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from search_spaces.problem import Problem

OTHERS = ("torch", "triton", "copy")  # besides the library; torch and Triton need not be installed

Call = Callable[[int], None]

_COPY_ALIGNMENT = 256  # bytes


def baseline_call(
    name: str, cp: Any, stream: Any, problem: Problem, copies: Sequence[dict[str, Any]], cold_bytes: int
) -> Call | str:
    """A function that launches the baseline called ``name`` on copy i of the operands; else one line on why there is
    none. ``copies`` hold the operands by name, shaped as in memory; work goes to the cupy stream ``stream``.
    """
    if name == "copy":
        return _copy_call(cp, stream, problem, cold_bytes)
    said = problem.to_json()
    if said["family"] != "matmul":
        return f"no {name} is known for {said['family']}"
    if said["epilogue"] != "none":
        return f"{name} has no epilogue to compare with"
    if not said["a"] == said["b"] == said["out"]:
        return f"{name} does not take {said['a']} to {said['out']}"
    made = library_call(cp, problem, copies) if name == "library" else _torch_call(name, cp, stream, said, copies)
    if isinstance(made, str):
        return made
    try:
        made(0)  # loads what is to be loaded, and makes workspaces
    except Exception as error:  # whatever the library raises when something of it is missing
        return f"{name} cannot be called: {type(error).__name__}: {_first_line(error)}"
    return made


def library_call(cp: Any, problem: Problem, copies: Sequence[dict[str, Any]]) -> Call | str:
    """cuBLAS through cupy's matmul, which takes and gives f16 and f32, and multiplies f32 as tf32 if CUPY_TF32 is 1."""
    said = problem.to_json()
    if said["a"] not in ("f16", "f32"):
        return f"cupy's matmul does not take {said['a']} to {said['out']}"
    if said["a"] == "f32" and (said["precision"] == "tf32") != (os.environ.get("CUPY_TF32") == "1"):
        return f"the library would not multiply in {said['precision']}"
    views = [_views(said, arrays) for arrays in copies]

    def call(copy: int) -> None:
        a, b, out = views[copy]
        cp.matmul(a, b, out=out)

    return call


def _views(said: dict[str, Any], arrays: dict[str, Any]) -> tuple[Any, Any, Any]:
    """a, b and out as matrices, or as stacks of them, whatever their storage order."""
    a = arrays["a"] if said["order_a"] == "row" else arrays["a"].swapaxes(-1, -2)
    b = arrays["b"] if said["order_b"] == "row" else arrays["b"].swapaxes(-1, -2)
    return (a, b, arrays["out"]) if said["batch"] > 1 else (a[0], b[0], arrays["out"][0])


def _torch_call(name: str, cp: Any, stream: Any, said: dict[str, Any], copies: Sequence[dict[str, Any]]) -> Call | str:
    """torch.matmul, or a Triton kernel on torch's tensors."""
    try:
        torch = importlib.import_module("torch")
        if name == "triton":
            multiply = importlib.import_module("measurements.runners.triton_matmul").matmul
        else:
            multiply = torch.matmul
    except Exception as error:  # broken installations raise all sorts of errors
        return f"{name} cannot be imported: {type(error).__name__}: {_first_line(error)}"
    if said["a"] == "f32":
        if name == "triton" and said["precision"] != "tf32":
            return "the Triton kernel multiplies f32 as tf32"
        torch.backends.cuda.matmul.allow_tf32 = said["precision"] == "tf32"
    queue = torch.cuda.ExternalStream(int(stream.ptr))

    def tensor(array: Any) -> Any:
        if said["a"] == "bf16":  # cupy has only its bits
            return torch.as_tensor(array.view(np.int16), device="cuda").view(torch.bfloat16)
        return torch.as_tensor(array, device="cuda")

    views = [_views(said, {operand: tensor(array) for operand, array in arrays.items()}) for arrays in copies]

    def call(copy: int) -> None:
        a, b, out = views[copy]
        with torch.cuda.stream(queue):
            multiply(a, b, out=out)

    return call


def _copy_call(cp: Any, stream: Any, problem: Problem, cold_bytes: int) -> Call | str:
    """A device-to-device copy that moves as many bytes, read and written, as the problem must at least."""
    half = max(-(-problem.min_bytes // (2 * _COPY_ALIGNMENT)), 1) * _COPY_ALIGNMENT
    pairs = max(math.ceil(cold_bytes / (2 * half)), 1)
    try:
        memory = cp.cuda.alloc(2 * half * pairs)
    except MemoryError as error:
        return f"the GPU has too little memory for a copy: {_first_line(error)}"

    def call(copy: int) -> None:
        start = memory + 2 * half * (copy % pairs)
        (start + half).copy_from_device_async(start, half, stream)

    return call


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [""])[0]
