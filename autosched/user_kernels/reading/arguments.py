"""The ``[[argument]]`` tables of a kernel file: types, shapes, contents of inputs, and tolerances of outputs."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from autosched.user_kernels.arithmetic import Type
from autosched.user_kernels.document import DocumentTable
from autosched.user_kernels.expressions import Expression, suggestion
from autosched.user_kernels.kernel_file import Fetch, InputFill, KernelArgument
from autosched.user_kernels.lowering import operand, texture
from autosched.user_kernels.reading.sources import callable_reference, python_reference, read_limits
from autosched.user_kernels.reading.structs import read_struct
from autosched.user_kernels.signature import contradicts, declared_parameters
from measurements.files.npy import open_npy
from measurements.trials.tolerance import checked_tolerance
from search_spaces.hardware.dtype_names import canonical, spellings
from search_spaces.hardware.dtypes import SCALAR_DTYPES, DType, dtype_of
from search_spaces.launches.texture import MODES
from search_spaces.spaces.parameters import Parameter

_KINDS = ("input", "output", "inout", "workspace", "scalar", "struct", "constant", "texture")
_MOST_TYPES = 1 << 12  # maximum number of configurations that a type may depend on
_MOST_DIMENSIONS = 16  # maximum number of an array's dimensions; numpy's limit is 64
IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def read_arguments(
    top: DocumentTable,
    types: Mapping[str, Type],
    sizes: Mapping[str, int],
    folder: Path,
    parameters: Sequence[Parameter],
) -> tuple[KernelArgument, ...]:
    """Return the arguments in the order of the entry function.

    Args:
        top: Top-level table of the document.
        types: Types of the names that outputs, workspaces and scalars may use.
        sizes: Names that shapes of inputs may use.
        folder: Folder in which array files are found.
        parameters: Parameters that types and tolerances may use.

    Returns:
        The arguments.

    Raises:
        KernelFileError: An argument is invalid; the message has its position.
    """
    chosen = {p.name: types[p.name] for p in parameters}
    usual = {p.name: float(p.default) if types[p.name] == "float" else p.default for p in parameters}
    tolerances = top.table("tolerance")
    arguments: list[KernelArgument] = []
    for table in top.tables("argument"):
        name = table.text("name")
        if not IDENTIFIER.fullmatch(name) or any(a.name == name for a in arguments):
            table.fail(f"the argument {name!r} needs a unique name of letters, digits and _", "name")
        position = table.positions.at(table.path)
        kind = table.choice("kind", _KINDS)
        if kind == "scalar":
            raw = table.get("value", (str, int, float), 'the scalar\'s value, such as value = "width"')
            value = table.expression("value", raw, types, ("int", "float", "bool"))
            dtype, by = _dtype(table, parameters, chosen, "f32" if value.type == "float" else "i32")
            arguments.append(KernelArgument(name, "scalar", dtype, value=value, dtype_by=by, position=position))
        elif kind == "struct":
            arguments.append(
                KernelArgument(name, "struct", SCALAR_DTYPES["u8"], struct=read_struct(table, types), position=position)
            )
        else:
            (dtype, by), raw = _dtype(table, parameters, chosen), table.listed("shape")
            if not raw:
                table.fail('shape is missing: give the sizes of the array, such as shape = ["height", "width"]')
            if len(raw) > _MOST_DIMENSIONS:
                table.fail(f"an array may have at most {_MOST_DIMENSIONS} dimensions, not {len(raw)}", "shape")
            if name in types:
                table.fail(f"the name {name!r} is already used: choose another", "name")
            varies = kind in ("output", "workspace")
            known: Mapping[str, Type] = types if varies else dict.fromkeys(sizes, "int")
            shape = tuple(table.expression("shape", e, known, ("int",)) for e in raw)
            zeroed = varies and bool(table.get("zeroed", bool, "true or false", False))
            filled = kind in ("input", "inout", "constant", "texture") or (kind == "output" and "fill" in table)
            fill = _fill(table, dtype, folder) if filled else None
            if kind == "output" and zeroed:
                if fill is not None:
                    table.fail("give fill or zeroed, not both", "zeroed")
                fill, zeroed = InputFill("constant", (0.0,)), False
            if kind == "output" and fill is not None and any(n not in sizes for e in shape for n in e.names):
                table.fail("the shape of an output with initial contents may only use sizes", "shape")
            own_tolerances = _tolerance(tolerances, name, chosen) if kind in ("output", "inout") else {}
            atol, rtol = (tolerances.attempt(key, _usual, own_tolerances.get(key), usual) for key in ("atol", "rtol"))
            atol_by, rtol_by = (
                e if isinstance(e := own_tolerances.get(key), Expression) else None for key in ("atol", "rtol")
            )
            argument = KernelArgument(
                name,
                kind,  # type: ignore[arg-type]
                dtype,
                shape,
                None,
                fill,
                zeroed,
                atol,
                rtol,
                dtype_by=by,
                position=position,
            )
            fetch = _fetch(table) if kind == "texture" else None
            arguments.append(replace(argument, atol_by=atol_by, rtol_by=rtol_by, fetch=fetch))
        table.done()
    if not any(a.kind in ("output", "inout") for a in arguments):
        top.fail('no [[argument]] is an output: give one kind = "output" or "inout"')
    tolerances.done()
    return tuple(arguments)


def check_declared(
    top: DocumentTable,
    arguments: tuple[KernelArgument, ...],
    entries: Sequence[str],
    passed: Sequence[Sequence[str]],
    sources: Sequence[str],
) -> None:
    """Raise an error for an array whose type differs from the type of its parameter in the source."""
    tables = top.tables("argument")
    order = {a.name: number for number, a in enumerate(arguments)}
    usual = [a.name for a in arguments if a.kind != "constant"]
    for entry, names in zip(entries, passed or [usual], strict=True):
        declared = declared_parameters(entry, sources)
        if len(declared) != len(names):
            continue  # the signature uses macros, or cannot be parsed
        for name, parameter in zip(names, declared, strict=True):
            a = arguments[order[name]]
            is_array = a.is_array and a.fetch is None and a.dtype_by is None
            if is_array and parameter.element is not None and contradicts(a.dtype, parameter.element):
                tables[order[name]].fail(
                    f"{name} is {a.dtype.name}, but its parameter is {parameter.text}: change its dtype to "
                    f"{parameter.element.name}",
                    "dtype",
                )


def check_files(
    top: DocumentTable, arguments: tuple[KernelArgument, ...], problems: Sequence[Mapping[str, int]]
) -> None:
    """Raise an error for an array file whose shape does not match the argument's shape in any of ``problems``."""
    for table, argument in zip(top.tables("argument"), arguments, strict=True):
        if argument.fill is None or argument.fill.kind != "file":
            continue
        shape = table.attempt("fill", open_npy, argument.fill.path).shape
        shapes = [tuple(e.value(sizes) for e in argument.shape) for sizes in problems]
        if shape not in shapes:
            name = PurePath(argument.fill.path).name
            table.fail(f"{name} has the shape {shape}, but {argument.name} is {shapes[0]}", "fill")


def check_shapes(top: DocumentTable, arguments: tuple[KernelArgument, ...], sizes: Mapping[str, int]) -> None:
    """Raise an error for an array that has no elements at these ``sizes``, and for an invalid texture."""
    for table, argument in zip(top.tables("argument"), arguments, strict=True):
        for e in argument.shape:
            if not sizes.keys() >= set(e.names):
                continue  # the extent depends on the configuration
            extent = table.attempt("shape", e.value, sizes)
            if extent < 1:  # type: ignore[operator]  # an int
                assignments = ", ".join(f"{n} = {sizes[n]}" for n in e.names)
                table.fail(f'"{e.text}" is {extent} for {assignments}: an array needs at least one element', "shape")
        if argument.fetch is not None:
            table.attempt("shape", texture, argument, operand(argument, sizes))


def _dtype(
    table: DocumentTable, parameters: Sequence[Parameter], types: Mapping[str, Type], default: str | None = None
) -> tuple[DType, Expression | None]:
    """Return a type at the default values of parameters, and the expression of the type.

    The expression is None if the type does not depend on parameters.
    """
    text = table.text("dtype", default)
    if text not in types and canonical(text) in SCALAR_DTYPES:
        return dtype_of(text), None
    if not re.search(r"\W", text) and text not in types:
        table.fail(f"{text!r} is not known: {suggestion(text, (*spellings(SCALAR_DTYPES), *types))}", "dtype")
    expression = table.expression("dtype", text, types, ("text",))
    used = [p for p in parameters if p.name in expression.names]
    if math.prod(len(p.values) for p in used) > _MOST_TYPES:
        table.fail("the type depends on too many configurations", "dtype")
    for values in product(*(p.values for p in used)):
        known = {p.name: float(v) if types[p.name] == "float" else v for p, v in zip(used, values, strict=True)}
        table.attempt("dtype", dtype_of, str(table.attempt("dtype", expression.value, known)))
    usual = {p.name: float(p.default) if types[p.name] == "float" else p.default for p in used}
    return dtype_of(str(expression.value(usual))), expression


def _fetch(table: DocumentTable) -> Fetch:
    return Fetch(
        filter=table.choice("filter", ("point", "linear"), "point"),  # type: ignore[arg-type]  # one of them
        mode=table.choice("mode", MODES, "clamp"),  # type: ignore[arg-type]
        normalized=bool(table.get("normalized", bool, "true or false", False)),
        normalized_read=bool(table.get("normalized_read", bool, "true or false", False)),
        channels=int(table.get("channels", int, "1, 2 or 4", 1)),
    )


def _tolerance(table: DocumentTable, output: str, types: Mapping[str, Type]) -> dict[str, float | Expression]:
    """Return the tolerances of an output, from its own table or else from the file's common table.

    A tolerance may be a text: an expression of parameters.
    """
    tolerance: dict[str, float | Expression] = {}
    own = table.table(output) if output in table else table
    for key in ("atol", "rtol"):
        if key not in own:
            continue
        value = own.get(key, (int, float, str), "a number, or an expression over parameters")
        if isinstance(value, str):
            tolerance[key] = own.expression(key, value, types, ("int", "float"))
        else:
            tolerance[key] = own.attempt(key, checked_tolerance, value, key)
    if own is not table:
        own.done()
    return tolerance


def _usual(tolerance: float | Expression | None, usual: Mapping[str, Any]) -> float | None:
    if tolerance is None:
        return None
    return checked_tolerance(tolerance.value(usual), "value") if isinstance(tolerance, Expression) else tolerance


def _fill(table: DocumentTable, dtype: DType, folder: Path) -> InputFill:
    kind_of = np.dtype(dtype.storage).kind
    default = "normal" if dtype.is_float else "integers"
    raw = table.values["fill"] if "fill" in table else default
    span = {"b": (0, 1), "u": (0, 15)}.get(kind_of, (-8, 7))
    usual: dict[str, Any] = {
        "normal": (0, 1),
        "uniform": (0, 1),
        "integers": span,
        "zeros": (0,),
        "constant": (),
        "file": (),
        "python": (),
        "array": (),
    }
    limits = None
    if isinstance(raw, Mapping) and "python" in raw:
        limits = table.table("fill")
        raw = {key: value for key, value in raw.items() if key not in ("time_limit", "memory_limit")}
    kind, value = next(iter(raw.items())) if isinstance(raw, Mapping) and len(raw) == 1 else (raw, None)
    if not isinstance(kind, str) or kind not in usual:
        names = ", ".join(name for name in usual if name != "array")
        table.fail(f"{raw!r} is not a fill: use one of {names}, such as fill = {{ uniform = [-1, 1] }}", "fill")
    if kind == "array":
        array = np.asarray(value)
        if array.dtype.kind not in "fiub":
            table.fail("an array must hold numbers", "fill")
        traits = f"{array.dtype.str}{array.shape}".encode() + np.ascontiguousarray(array).tobytes()
        return InputFill("array", content=hashlib.sha256(traits).hexdigest(), array=array)
    if kind == "python":
        if callable(value):
            function = callable_reference(value)
        else:
            function = python_reference(table, folder, "fill", value, read_limits(limits) if limits else (0.0, 0))
        return InputFill("python", content=function.content, path=function.name, function=function.function)
    if kind == "file":
        if not isinstance(value, str):
            table.fail('give the file: fill = { file = "input.npy" }', "fill")
        path = folder / value
        leads_out = PurePath(value).is_absolute() or ".." in PurePath(value).parts
        # a kernel file may only use files in its folder; a kernel defined in Python may use any file
        if leads_out and table.positions.lines:
            table.fail(f"{value!r} is outside the folder of the kernel file: move the file into this folder", "fill")
        if not path.exists():
            table.fail(f"the file {value!r} does not exist next to the kernel file", "fill")
        try:
            open_npy(path)
        except ValueError as error:
            table.fail(f"{value} is not a .npy file of numbers: {error}", "fill")
        with path.open("rb") as file:
            return InputFill("file", path=str(path.absolute()), content=hashlib.file_digest(file, "sha256").hexdigest())
    numbers = usual[kind] if value is None else value if isinstance(value, (list, tuple)) else [value]
    num_numbers = 1 if kind in ("constant", "zeros") else 2
    if len(numbers) != num_numbers or not all(type(v) in (int, float) and math.isfinite(v) for v in numbers):
        example = f"{{ {kind} = {[1, 2] if num_numbers == 2 else 1} }}"
        table.fail(f"{kind} needs {num_numbers} number{'s' * (num_numbers - 1)}, such as fill = {example}", "fill")
    if kind in ("uniform", "integers") and numbers[0] > numbers[1]:
        table.fail(f"{kind} needs the smaller number first", "fill")
    if kind == "integers" and any(v != int(v) for v in numbers):
        table.fail("integers needs two whole numbers", "fill")
    return InputFill("constant" if kind == "zeros" else kind, tuple(float(v) for v in numbers))  # type: ignore[arg-type]
