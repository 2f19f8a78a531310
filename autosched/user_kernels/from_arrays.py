"""Convert arguments of ``kernel_tuner.tune_kernel`` (source, sizes, arrays, parameter values) to a kernel file."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from autosched.user_kernels import KernelFileError
from autosched.user_kernels.signature import declared_parameters
from autosched.user_kernels.struct_values import is_struct, number_fields
from measurements.files.bounded import read_bounded
from measurements.trials.tolerance import checked_tolerance
from search_spaces.hardware.dtype_names import canonical

_MOST_SOURCE = 1 << 24  # maximum bytes of a source file
_AXES = ("x", "y", "z")


def arguments_of(
    entry: str,
    source: str,
    arguments: Sequence[Any],
    answer: Sequence[Any] | None,
    outputs: Sequence[int] | None,
    constants: Mapping[str, Any],
) -> list[dict[str, Any]]:
    """Return the ``[[argument]]`` tables. Before each launch, arrays are reset to their initial contents.

    Outputs are the arrays in ``outputs`` or ``answer``, else every array whose parameter is not a pointer to const.

    Args:
        entry: Name of the kernel.
        source: Source of the kernel; its parameters name the arguments.
        arguments: Arrays and numbers, in the order of the parameters.
        answer: Expected contents of each argument after the launch. The item of an argument that is not checked is
            None. If nothing is checked, ``answer`` is None.
        outputs: Positions of the outputs; None to infer them.
        constants: Arrays in constant memory, by symbol name.

    Returns:
        One table per argument.

    Raises:
        ValueError: An argument is not an array, a number or a struct, or it is an output of structs with mixed types.
    """
    parameters = declared_parameters(entry, (source,))
    tables: list[dict[str, Any]] = []
    for i, value in enumerate(arguments):
        text, name = parameters[i][:2] if i < len(parameters) else ("", "")
        if not name or any(t["name"] == name for t in tables):
            name = f"argument_{i}"
        if is_struct(value):
            tables.append({"name": name, "kind": "struct", "value": value})
            continue
        if isinstance(value, (bool, int, float, np.generic)):
            number = value.item() if isinstance(value, np.generic) else value
            dtype = canonical(np.asarray(value).dtype)
            tables.append({"name": name, "kind": "scalar", "dtype": dtype, "value": number})
            continue
        if not isinstance(value, np.ndarray):
            struct = ", such as np.array((1, 0.5), np.dtype([...], align=True))" if isinstance(value, tuple) else ""
            raise ValueError(
                f"argument {i} must be a numpy array, a number or a struct{struct}, not {type(value).__name__}"
            )
        if outputs is not None:
            written = i in outputs
        elif answer is not None:
            written = answer[i] is not None
        else:
            written = "const" not in text.partition("*")[0]
        if written and value.dtype.kind == "V" and number_fields(value.dtype) is None:
            raise ValueError(
                f"argument {i} is an output of structs with fields of several types, which have no common tolerance: "
                "use a separate array for each field"
            )
        tables.append(_array(name, "output" if written else "input", value))
    return [*tables, *(_array(name, "constant", np.asarray(value)) for name, value in constants.items())]


def _array(name: str, kind: str, array: np.ndarray[Any, Any]) -> dict[str, Any]:
    value = as_pairs(array)
    shape = [str(n) for n in value.shape] or ["1"]
    return {
        "name": name,
        "kind": kind,
        "dtype": canonical(value.dtype),
        "shape": shape,
        "fill": {"array": value.reshape([int(n) for n in shape])},
    }


def as_pairs(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return complex numbers as pairs of floats along an additional axis, as in memory.

    Structs become arrays of their numbers along an additional axis, or of bytes if the numbers have several types.
    Other arrays are unchanged.
    """
    if array.dtype.kind not in "cV":
        return array
    part = array.real.dtype if array.dtype.kind == "c" else (number_fields(array.dtype) or (np.dtype(np.uint8),))[0]
    return np.ascontiguousarray(array).reshape(*array.shape, 1).view(part)


def as_original(array: Any, original: Any) -> Any:
    """Convert an array of the kernel back to the type and shape of the user's argument."""
    if not isinstance(original, np.ndarray) or original.dtype.kind not in "cV" or array is None:
        return array
    part = as_pairs(original).dtype
    return np.ascontiguousarray(array).astype(part).view(original.dtype).reshape(original.shape)


def answers(tables: Sequence[Mapping[str, Any]], answer: Sequence[Any] | None) -> Callable[..., Any] | None:
    """Return a reference function whose outputs are the arrays of ``answer``; None without an answer."""
    if answer is None:
        return None
    known = {t["name"]: as_pairs(np.asarray(a)) for t, a in zip(tables, answer, strict=False) if a is not None}

    def answered(known: Mapping[str, Any] = known) -> Mapping[str, Any]:
        return known

    return answered


def output_check(
    tables: Sequence[Mapping[str, Any]],
    verify: Callable[..., Any],
    answer: Sequence[Any] | None,
    atol: float,
    arguments: Sequence[Any] = (),
) -> Callable[..., Any]:
    """Wrap Kernel Tuner's ``verify(answer, result, atol)`` in a function whose keyword arguments are the arrays.

    Args:
        tables: Tables of the arguments, in the order of the kernel's parameters.
        verify: The user's function; ``atol`` is an optional parameter.
        answer: First argument of ``verify``.
        atol: Absolute tolerance.
        arguments: The user's arguments. ``verify`` receives arrays of the same types.

    Returns:
        The function.
    """
    try:
        atol = checked_tolerance(atol, "atol")
    except ValueError as error:
        raise KernelFileError(str(error)) from None
    takes_atol = len(inspect.signature(verify).parameters) > 2 or "atol" in inspect.signature(verify).parameters

    def checked(answer: Any = answer, verify: Any = verify, atol: float = atol, **arrays: Any) -> bool:
        names = [t["name"] for t in tables if t["kind"] != "constant"]
        result = [as_original(arrays.get(n), a) for n, a in zip_longest(names, arguments[: len(names)])]
        return bool(verify(answer, result, atol=atol) if takes_atol else verify(answer, result))

    return checked


def launch_of(
    problem_size: Any,
    tune_params: Mapping[str, Any],
    block_size_names: Sequence[str],
    divisors: Mapping[str, Any],
) -> dict[str, Any]:
    """Return block and grid, computed as in Kernel Tuner.

    Args:
        problem_size: A number or a text, a sequence of up to three numbers or texts, or a function of the parameters.
        tune_params: The parameters with their values.
        block_size_names: Parameters that are the extents of a block; empty for block_size_x, block_size_y and
            block_size_z. A missing parameter counts as 1.
        divisors: ``grid_div_x``, ``grid_div_y`` and ``grid_div_z``, if given. The default divisor is the block's size.

    Returns:
        Keys and values for the table ``launch`` of a kernel file.
    """
    names = [*block_size_names, *(f"block_size_{a}" for a in _AXES)][:3] if block_size_names else []
    names = names or [f"block_size_{a}" for a in _AXES]
    block = [n if n in tune_params else 1 for n in names]
    if callable(problem_size):
        return {"block": block, "problem_size": [_axis(problem_size, i) for i in range(3)], **divisors}
    sizes = [problem_size] if isinstance(problem_size, (int, str, np.integer)) else list(problem_size)
    launch: dict[str, Any] = {"block": block, "problem_size": [s if isinstance(s, str) else int(s) for s in sizes]}
    for axis, name in zip(_AXES, block, strict=True):
        key = f"grid_div_{axis}"
        launch[key] = divisors.get(key, [name])
    return launch


def _axis(function: Callable[[dict[str, Any]], Any], axis: int) -> Callable[[dict[str, Any]], int]:
    def extent(values: dict[str, Any], function: Any = function, axis: int = axis) -> int:
        size = function(values)
        sizes = (size,) if isinstance(size, (int, np.integer)) else tuple(size)
        return int(sizes[axis]) if axis < len(sizes) else 1

    return extent


def text_of(source: Any, values: Mapping[str, Any]) -> tuple[str, str | Path]:
    """Return text and file name of a source: CUDA C++, one or several files, or a function of the parameter values."""
    if callable(source):
        return str(source(dict(values))), ""
    if isinstance(source, (list, tuple)):
        return "\n".join(map(_text, source)), Path(source[0])
    if isinstance(source, Path) or ("\n" not in source and "{" not in source):
        return _text(source), Path(source)
    return str(source), ""


def _text(path: Any) -> str:
    """Return the text of a file. Raises ValueError and OSError."""
    try:
        return read_bounded(path, _MOST_SOURCE).decode("utf-8")
    except ValueError as error:
        raise ValueError(f"{path} cannot be read: {error}") from None
