"""Generate the source of a user's kernel for a configuration: definitions of the parameters, then the user's source."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from autosched.user_kernels import KernelFileError
from autosched.user_kernels.expressions import Result
from autosched.user_kernels.kernel_file import BLOCK, CLUSTER, GRID, SHARED, KernelArgument, KernelFile, PipelineStep
from measurements.compiler.cuda_headers import STAND_INS
from search_spaces.hardware.dtype_names import in_source
from search_spaces.hardware.dtypes import DType
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.headers import Headers
from search_spaces.launches.launch import Argument, BytesArgument, Launch, ScalarArgument
from search_spaces.launches.operand import Operand, Role
from search_spaces.launches.texture import LinearTexture
from search_spaces.spaces.parameters import Value

_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*<([\w./]+)>", re.MULTILINE)
_OF_CUDA = ("cuda", "mma", "cooperative_groups", "cub/", "cupy/")
_ROLES: Mapping[str, Role] = {
    "input": "input",
    "constant": "input",
    "texture": "input",
    "output": "output",
    "inout": "inout",
}


def operand(argument: KernelArgument, values: Mapping[str, Result]) -> Operand:
    """Return the operand of an array argument. ``values`` has the values of the names in the argument's shape.

    An output that has contents before each launch is both read and written.
    """
    shape = tuple(int(e.value(values)) for e in argument.shape)
    restored = argument.kind == "output" and argument.fill is not None
    role = "inout" if restored else _ROLES.get(argument.kind, "workspace")
    return Operand(argument.name, role, argument.dtype, shape, argument.zeroed)


def texture(argument: KernelArgument, array: Operand) -> LinearTexture:
    """Return the texture of an argument. Raises KernelFileError if its array does not support textures."""
    assert argument.fetch is not None
    try:
        return LinearTexture(f"{argument.name}_texture", array, **dataclasses.asdict(argument.fetch))
    except ValueError as error:
        raise KernelFileError(f"{argument.position}: {error}") from None


def lower(file: KernelFile, sizes: Mapping[str, int], config: Mapping[str, Value], arch: str = "") -> GeneratedKernel:
    """Return the kernel of a configuration.

    Args:
        file: Kernel file.
        sizes: Sizes of the problem.
        config: Values of all parameters; it may also have values of attributes.
        arch: Architecture such as "sm_90a"; "" if unknown.

    Returns:
        The generated kernel.

    Raises:
        KernelFileError: The type of a scalar cannot hold its value.
    """
    file, values = file.under(config), file.values(sizes, config)
    first, *later = (_launch(file, step, values) for step in file.steps)
    return GeneratedKernel(
        **first,
        then=tuple(Launch(**launch) for launch in later),
        source=source_of(file, values),
        headers=Headers.of(dict(file.headers)),
        # Line information maps machine code to the source, for estimates and profilers. It does not change the code.
        compile_options=tuple(dict.fromkeys((*file.options, "-lineinfo"))),
        limits=file.limits,
        symbols=tuple(operand(argument, values) for argument in file.arguments if argument.kind == "constant"),
        arch=arch,
    )


def _launch(file: KernelFile, step: PipelineStep, values: Mapping[str, Result]) -> dict[str, Any]:
    """Return the arguments with which ``Launch`` describes one launch."""
    by_name = {a.name: a for a in file.arguments}
    (shared,) = step.named((SHARED,))
    return {
        "entry": entry_of(step.entry, _spelled(file, values)),
        "arguments": tuple(_argument(by_name[name], values) for name in step.arguments),
        "grid": _size(values, step.named(GRID)),
        "block": _size(values, step.named(BLOCK)),
        "cluster": _size(values, step.named(CLUSTER)),
        "dynamic_shared_bytes": int(values[shared]),
        **dict.fromkeys(step.flags, True),
    }


def _argument(argument: KernelArgument, values: Mapping[str, Result]) -> Argument:
    if argument.fetch is not None:
        return texture(argument, operand(argument, values))
    if argument.struct is not None:
        content = bytearray(argument.struct.content)
        for f in argument.struct.fields:
            stored = _number(argument, f.dtype, f.value.value(values)).stored.tobytes()
            content[f.offset : f.offset + len(stored)] = stored
        return BytesArgument(argument.name, bytes(content))
    if argument.value is None:
        return operand(argument, values)
    return _number(argument, argument.dtype, argument.value.value(values))


def _number(argument: KernelArgument, dtype: DType, value: Result) -> ScalarArgument:
    kind = "f" if dtype.is_float else np.dtype(dtype.storage).kind
    passed = bool(value) if kind == "b" else float(value) if kind == "f" else int(value)
    try:
        return ScalarArgument(argument.name, dtype, passed)
    except ValueError:
        prefix = f"{argument.position}: " if argument.position else ""
        raise KernelFileError(f"{prefix}{argument.name} is {value}, which {dtype.name} cannot hold") from None


def _size(values: Mapping[str, Result], names: tuple[str, ...]) -> tuple[int, int, int]:
    x, y, z = (int(values[name]) for name in names)
    return x, y, z


def entry_of(entry: str, values: Mapping[str, Result]) -> str:
    """Return the entry function; names of parameters in its template arguments are replaced by their values."""
    name, bracket, arguments = entry.partition("<")
    filled = re.sub(r"[A-Za-z_]\w*", lambda m: token(values[m[0]]) if m[0] in values else m[0], arguments)
    return name + bracket + filled


def source_of(file: KernelFile, values: Mapping[str, Result]) -> str:
    """Return one line for each parameter, attribute and define, followed by the user's source.

    A ``#line`` directive preserves the line numbers of the user's source.
    """
    values = _spelled(file, values)
    names = [p.name for p in file.parameters] + [a.name for a in file.attributes]
    passed = {name: values[name] for name in names} if file.passing != "template" else {}
    source, lines = file.source, []
    if file.generator is not None and file.generator.callable_object is not None:
        source = str(file.generator.callable_object(dict(values)))
    if file.passing == "struct":
        members = "".join(f"  static {_constant(name, value)}\n" for name, value in passed.items())
        lines.append(f"struct Config {{\n{members}}};")
    elif file.passing == "constexpr":
        lines += [_constant(name, value) for name, value in passed.items()]
    else:
        for name, value in passed.items():
            # Macros are not expanded in "#pragma unroll", so insert the factor. Drop the pragma if the factor is 0,
            # which is invalid.
            if name.startswith("loop_unroll_factor") and value == 0:
                source = re.sub(rf"^[ \t]*#pragma[ \t]+unroll[ \t]+{name}\b.*$", "", source, flags=re.MULTILINE)
            elif name.startswith("loop_unroll_factor"):
                lines.append(_constant(name, value))
            else:
                lines.append(f"#define {name} {token(value)}")
    lines += [f"#define {d.name} {token(d.expression.value(values))}" for d in file.defines]
    # Include CUDA's headers before the macros are defined, because macros with short names would change the headers'
    # code.
    headers = dict(file.headers)  # the user's headers, and replacements for headers that NVRTC does not provide
    for name in reversed(dict.fromkeys(_INCLUDE.findall(source))):
        if headers[name] == STAND_INS.get(name) if name in headers else name.startswith(_OF_CUDA):
            lines.insert(0, f"#include <{name}>")
    return "".join(f"{line}\n" for line in (*lines, f'#line 1 "{file.source_name}"')) + source


def _spelled(file: KernelFile, values: Mapping[str, Result]) -> Mapping[str, Result]:
    """Return the values, with names of types in C++ spelling."""
    return {**values, **{name: in_source(str(values[name])) for name in file.named_types}}


def token(value: Result) -> str:
    """Return a value as C++ source: texts unchanged, negative numbers in parentheses."""
    if isinstance(value, str):
        return value
    text = repr(int(value)) if isinstance(value, int) else repr(value)
    text += "ll" if isinstance(value, int) and not -(2**31) < value < 2**31 else ""
    return f"({text})" if text.startswith("-") else text


def _constant(name: str, value: Result) -> str:
    wide = isinstance(value, int) and not -(2**31) < value < 2**31
    kind = "double" if isinstance(value, float) else "long long" if wide else "int"
    return f"constexpr {kind} {name} = {token(value)};"
