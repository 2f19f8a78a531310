"""C++ header of an export: a ``Kernel`` constant (``runtime/autosched_launch.hpp``) with the cubin of each kernel."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence

import numpy as np

from autosched.aot.exported import ExportedKernel, driver_name, fields
from autosched.aot.expressions import to_cpp
from autosched.aot.portable import PortableStep
from autosched.verify import stored
from search_spaces.hardware.dtypes import DType
from search_spaces.launches.launch import Argument, ScalarArgument
from search_spaces.launches.operand import Operand
from search_spaces.launches.tensor_map import ELEMENT_BYTES, TensorMap

# Names of enum values of cuda.h; the index of a name is its value.
_ELEMENTS = (
    "UINT8", "UINT16", "UINT32", "INT32", "UINT64", "INT64", "FLOAT16", "FLOAT32", "FLOAT64", "BFLOAT16",
    "FLOAT32_FTZ", "TFLOAT32", "TFLOAT32_FTZ",
)  # fmt: skip
_INTERLEAVES, _SWIZZLES = ("NONE", "16B", "32B"), ("NONE", "32B", "64B", "128B")
_PROMOTIONS, _FILLS = ("NONE", "L2_64B", "L2_128B", "L2_256B"), ("NONE", "NAN_REQUEST_ZERO_FMA")
assert set(_ELEMENTS) == set(ELEMENT_BYTES)
_CPP_SCALARS = {"f32": "float", "f64": "double"}
_BYTES_OF_LINE = 32
_PTX_PIECE = 8000  # maximum number of characters of a string literal that all compilers accept


def header(kernels: Sequence[ExportedKernel]) -> str:
    """Return the text of ``autosched_kernels.hpp``."""
    parts = [
        "// Kernels of `autosched export --cubin`. Include this header in one source file; see autosched_launch.hpp.",
        "#pragma once",
        '#include "autosched_launch.hpp"',
        "",
        "namespace autosched::exported {",
        "using namespace autosched::expression;",
    ]
    modules: dict[str, int] = {}
    for kernel in kernels:
        if kernel.digest not in modules:
            modules[kernel.digest] = len(modules)
            parts += _module(kernel, modules[kernel.digest])
    for number, kernel in enumerate(kernels):
        parts += _kernel(kernel, number, modules[kernel.digest])
    names = ", ".join(f"kernel_{n}" for n in range(len(kernels)))
    parts += [
        f"inline const Kernel all[] = {{{names}}};",
        "}  // namespace autosched::exported",
        "",
        "namespace autosched {",
        f"inline constexpr Kernels kernels{{exported::all, {len(kernels)}}};",
        "}  // namespace autosched",
        "",
    ]
    return "\n".join(parts)


def _module(kernel: ExportedKernel, number: int) -> list[str]:
    cubin = kernel.cubin
    lines = [f"alignas(64) inline const unsigned char cubin_{number}[] = {{"]
    lines += [",".join(map(str, cubin[at : at + _BYTES_OF_LINE])) + "," for at in range(0, len(cubin), _BYTES_OF_LINE)]
    lines.append("};")
    if kernel.ptx is not None:
        pieces = [kernel.ptx[at : at + _PTX_PIECE] for at in range(0, len(kernel.ptx), _PTX_PIECE)]
        lines += [f"inline const char ptx_{number}[] ="] + [f"    {_literal(piece)}" for piece in pieces]
        lines[-1] += ";"
    return lines


def _kernel(kernel: ExportedKernel, number: int, module: int) -> list[str]:
    launch, expressions = kernel.launch, kernel.portable
    stated = fields(kernel.problem)
    sizes = [(name, value, otherwise) for name, value, otherwise in stated if type(value) is int]
    texts = [(name, value, otherwise) for name, value, otherwise in stated if type(value) is not int]
    spelled = {name: f"s[{i}]" for i, (name, _, _) in enumerate(sizes)}
    operands = list(launch.operands)
    passed = [a for step in launch.steps for a in step.arguments]
    maps = [a for a in passed if isinstance(a, TensorMap)]
    scalars = list(dict.fromkeys(a for a in passed if isinstance(a, ScalarArgument)))

    def cpp(text: str) -> str:
        return to_cpp(text, spelled)

    lines = [f"// {kernel.text} on {kernel.device.name}"]
    lines += _table(
        "Size",
        f"sizes_{number}",
        [
            f"{{{_literal(name)}, {value}, {_bool(otherwise is not None)}, {otherwise or 0}, "
            f"{_bool(name in expressions.free)}, {_bool(name in kernel.padded)}}}"
            for name, value, otherwise in sizes
        ],
    )
    lines += _table(
        "Text",
        f"texts_{number}",
        [
            f"{{{_literal(name)}, {_literal(str(value))}, {_bool(value == otherwise)}}}"
            for name, value, otherwise in texts
        ],
    )
    lines += _table(
        "Operand",
        f"operands_{number}",
        [
            f"{{{_literal(o.name)}, Role::{o.role}, {_literal(o.dtype.name)}, {_bool(o.zeroed)}, "
            f"{_bool(o in launch.symbols)}}}"
            for o in operands
        ],
    )

    def passing(a: Argument) -> str:
        if isinstance(a, Operand):
            return f"{{Pass::array, {operands.index(a)}}}"
        if isinstance(a, ScalarArgument):
            return f"{{Pass::scalar, {scalars.index(a)}}}"
        assert isinstance(a, TensorMap)  # exports do not support textures
        return f"{{Pass::tensor_map, {maps.index(a)}}}"

    lines += _table("Scalar", f"passed_{number}", [_passed(a) for a in scalars])
    lines += _table("TensorMap", f"maps_{number}", [_map(m, operands.index(m.operand)) for m in maps])
    then = []
    for position, (step, texts_of) in enumerate(zip(launch.steps, expressions.steps, strict=True)):
        own = f"{number}_{position}" if position else f"{number}"
        lines += _table("Argument", f"arguments_{own}", [passing(a) for a in step.arguments])
        lines += _shape(f"shape_{own}", texts_of, cpp)
        listed = ", ".join(_list(f"arguments_{own}", step.arguments))
        then += [f"{{{_literal(step.entry)}, {listed}, shape_{own}}}"] if position else []
    lines += _table("Step", f"then_{number}", then)
    bytes_of = []
    for i, (operand, shape) in enumerate(zip(operands, expressions.shapes, strict=True)):
        text = f"Int{{{operand.dtype.bytes}}}"
        for extent in shape:
            text = f"multiply({text}, {cpp(extent)}, ok)"
        bytes_of.append(f"to[{i}] = {text};")
    lines += _function(
        f"void bytes_{number}(const Int* s, Int* to)", ["bool ok = true;", *bytes_of, "(void)ok, (void)s;"]
    )
    stores = [f"store(to[{i}], {_scalar(a, expressions.scalars[a.name], cpp)});" for i, a in enumerate(scalars)]
    lines += _function(
        f"void scalars_{number}(const Int* s, unsigned char (*to)[8])",
        ["bool ok = true;", *stores, "(void)ok, (void)s, (void)to;"],
    )
    checks = [
        f"if (const bool holds = static_cast<bool>({cpp(text)}); !holds || !ok) return {_literal(why)};"
        for text, why in expressions.guards
    ]
    lines += _function(
        f"const char* refuses_{number}(const Int* s)",
        ["bool ok = true;", *checks, "(void)ok, (void)s;", "return nullptr;"],
    )
    verification = "none" if kernel.verification is None else stored.brief(kernel.verification)
    provenance = json.dumps(kernel.provenance.to_json(), sort_keys=True)
    sm, exact = _sm(kernel.device.arch)
    values = [
        *(_literal(t) for t in (kernel.problem.operator, kernel.text, driver_name(kernel.device), launch.entry)),
        *(_literal(t) for t in (kernel.digest, verification, provenance)),
        str(sm), _bool(exact),
        *_list(f"sizes_{number}", sizes), *_list(f"texts_{number}", texts), *_list(f"operands_{number}", operands),
        *_list(f"arguments_{number}", launch.arguments), f"maps_{number}" if maps else "nullptr",
        str(len(scalars)), str(launch.launches), _bool(launch.grid_may_shrink),
        f"cubin_{module}", "nullptr" if kernel.ptx is None else f"ptx_{module}", f"{kernel.seconds!r}",
        *(f"{name}_{number}" for name in ("shape", "bytes", "scalars", "refuses")), *_list(f"then_{number}", then),
        f"passed_{number}" if scalars else "nullptr",
    ]  # fmt: skip
    lines.append(f"inline const Kernel kernel_{number}{{{', '.join(values)}}};")
    return lines


def _shape(name: str, step: PortableStep, cpp: Callable[[str], str]) -> list[str]:
    assigned = [
        f"to.{field}[{axis}] = side({cpp(text)}, ok);"
        for field, size in (("grid", step.grid), ("block", step.block), ("cluster", step.cluster))
        for axis, text in enumerate(size)
    ]
    assigned += [f"to.shared = side({cpp(step.dynamic_shared_bytes)}, ok);", "to.defined = ok;"]
    return _function(f"void {name}(const Int* s, Shape& to)", ["bool ok = true;", *assigned, "(void)s;"])


def _table(kind: str, name: str, rows: Sequence[str]) -> list[str]:
    return [f"inline constexpr {kind} {name}[] = {{{', '.join(rows)}}};"] if rows else []


def _list(name: str, rows: Sequence[object]) -> tuple[str, str]:
    return name if rows else "nullptr", str(len(rows))


def _function(head: str, body: Sequence[str]) -> list[str]:
    return [f"inline {head} {{", *(f"  {line}" for line in body), "}"]


def _map(m: TensorMap, operand: int) -> str:
    def numbers(values: Sequence[int]) -> str:
        return "{" + ", ".join(map(str, values)) + "}"

    choices = (
        _INTERLEAVES.index(m.interleave), _SWIZZLES.index(m.swizzle), _PROMOTIONS.index(m.l2_promotion),
        _FILLS.index(m.fill),
    )  # fmt: skip
    head = f"{operand}, {_ELEMENTS.index(m.element)}, {len(m.sizes)}"
    lists = ", ".join(map(numbers, (m.sizes, m.strides, m.box, m.element_strides)))
    return f"{{{head}, {lists}, {', '.join(map(str, choices))}}}"


def _passed(scalar: ScalarArgument) -> str:
    """Return name, type and range of a scalar; the name is "" if callers must not set the scalar."""
    if scalar.limits is None:
        return '{"", false, 0, 0}'
    low, high = (_double(end) for end in scalar.limits)
    return f"{{{_literal(scalar.name)}, {_bool(not scalar.dtype.is_float)}, {low}, {high}}}"


def _double(number: float) -> str:
    if math.isinf(number):
        return f"{'-' if number < 0 else ''}std::numeric_limits<double>::infinity()"
    return repr(float(number))


def _scalar(scalar: ScalarArgument, text: str, cpp: Callable[[str], str]) -> str:
    """Return the value of a scalar as a C++ expression of the kernel's type.

    For types that C++ does not have, the expression is the value's bits, and the value must not depend on sizes.
    """
    kind = _CPP_SCALARS.get(scalar.dtype.name) or _integer(scalar.dtype)
    if kind:
        return f"static_cast<{kind}>({cpp(text)})"
    bits = int.from_bytes(scalar.stored.tobytes(), "little")
    return f"static_cast<std::uint{8 * scalar.dtype.bytes}_t>({bits}ull)"


def _integer(dtype: DType) -> str:
    storage = np.dtype(dtype.storage)
    if dtype.is_float or storage.kind not in "iub":
        return ""
    return "bool" if storage.kind == "b" else f"std::{'u' if storage.kind == 'u' else ''}int{8 * storage.itemsize}_t"


def _sm(arch: str) -> tuple[int, bool]:
    """Return an architecture's compute capability, and whether it is architecture-specific (90, True for "sm_90a")."""
    digits = "".join(c for c in arch if c.isdigit())
    return int(digits), not arch[-1].isdigit()


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _literal(text: str) -> str:
    escaped = "".join(
        {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "?": "\\?"}.get(c)
        or (c if 32 <= ord(c) < 127 else "".join(f"\\{b:03o}" for b in c.encode()))
        for c in text
    )
    return f'"{escaped}"'
