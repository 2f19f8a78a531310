"""Read Kernel Tuner's input files as kernel files. Their format is the FAIR JSON "T1" (kernel_tuner/schema/T1/1.0.0).

Kernel Tuner's conventions for names apply. ``block_size_x/y/z`` are the extents of a block, ``GridDivX/Y/Z`` divide the
problem size, and the macros ``grid_size_*``, ``block_size_*`` and ``kernel_tuner`` are defined. Files of the older
benchmark suite BAT are also supported: their keys may have any case, and ``GlobalSize`` may replace the problem size.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from autosched.user_kernels import KernelFileError
from autosched.user_kernels.document import DocumentTable, KeyPositions, Keys, read_text
from autosched.user_kernels.expressions import Result, parse, value_list
from autosched.user_kernels.kernel_file import launch_macros
from measurements.files.npy import MOST_BYTES

_AXES = ("x", "y", "z")
_TYPES = {"half": "f16", "float": "f32", "double": "f64", "bool": "bool", "int": "i32", "uint": "u32"}
_ACCESS = {"ReadOnly": "input", "WriteOnly": "output", "ReadWrite": "inout"}
# values for the names of device limits that BAT's conditions use
_LIMITS = {"MAX_THREADS": 1024, "MAX_SHARED_MEMORY_BLOCK": 49152}
_TYPE = re.compile(r"(u?)int(8|16|32|64)|(half|float|double|bool|u?int)(\d*)")
_DEEPEST = 40  # maximum nesting depth of a document

_SPELLINGS = (
    *("General", "BenchmarkName", "ConfigurationSpace", "TuningParameters", "Conditions", "Expression", "Parameters"),
    *("KernelSpecification", "Language", "CompilerOptions", "KernelName", "KernelFile", "GlobalSizeType", "LocalSize"),
    *("GlobalSize", "GridDivX", "GridDivY", "GridDivZ", "ProblemSize", "SharedMemory", "Arguments", "Name", "Type"),
    *("Values", "Default", "MemoryType", "AccessType", "FillType", "FillValue", "Size", "MemType", "Output"),
    *("DataSource", "ReferenceArguments", "TargetName", "ValidationMethod", "ValidationThreshold", "Budget"),
)
_CANONICAL = {name.lower(): name for name in _SPELLINGS} | {
    "blocksize": "LocalSize",
    "gridsize": "GlobalSize",
    "length": "Size",
    "value": "FillValue",
    "path": "DataSource",
}


def t1_document(path: str | Path) -> tuple[dict[str, Any], dict[Keys, int], Path]:
    """Return the kernel of a T1 file as a document with the structure of a TOML kernel file.

    The reference is ``ReferenceArguments`` if the file has them, otherwise the kernel itself with default parameters.

    Returns:
        The document with the keys of a TOML file, their lines, and the folder of its files.

    Raises:
        KernelFileError: The T1 file is invalid, or uses T1 features without an equivalent in kernel files.
    """
    path = Path(path)
    text = read_text(path, DocumentTable({}, KeyPositions(path.name or str(path))), "")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", 1)
        raise KernelFileError(f"{path.name}:{line}: this is not JSON: {getattr(error, 'msg', error)}") from None
    return _T1(DocumentTable(_canonical(document, path.name), KeyPositions(path.name)), text).read(path)


def _canonical(value: Any, name: str, depth: int = 0) -> Any:
    """Return the document with its keys spelled as in the schema."""
    if depth > _DEEPEST:
        raise KernelFileError(f"{name}: the document has more than {_DEEPEST} nested levels")
    if isinstance(value, dict):
        return {_CANONICAL.get(k.lower(), k): _canonical(v, name, depth + 1) for k, v in value.items()}
    if isinstance(value, list):
        return [_canonical(v, name, depth + 1) for v in value]
    return value


class _T1:
    def __init__(self, top: DocumentTable, text: str) -> None:
        self.top, self.text = top, text
        self.spec, self.space = top.table("KernelSpecification"), top.table("ConfigurationSpace")
        self.values: dict[str, list[Result]] = {}
        self.lines: dict[Keys, int] = {}
        self.source = ""
        self.folder = Path()

    def read(self, path: Path) -> tuple[dict[str, Any], dict[Keys, int], Path]:
        spec = self.spec
        if (language := spec.text("Language", "CUDA")) != "CUDA":
            spec.fail(f"{language} kernels are not supported: only CUDA can be tuned", "Language")
        file, entry = spec.text("KernelFile"), spec.text("KernelName")
        folder = next((f for f in (path.parent, path.parent.parent) if (f / file).is_file()), path.parent)
        self.folder = folder
        if (folder / file).is_file():
            self.source = read_text(folder / file, spec, "KernelFile")
        name = self.top.table("General").values.get("BenchmarkName", entry)
        parameters = self._parameters()
        sizes, launch = self._launch()
        arguments, local_bytes = self._arguments()
        if local_bytes:
            launch["shared_bytes"] = " + ".join([f"({launch['shared_bytes']})", *local_bytes])
        document: dict[str, Any] = {
            "kernel": {"name": name, "source": file, "entry": entry, "options": spec.listed("CompilerOptions")},
            "sizes": sizes,
            "parameters": parameters,
            "rule": self._rules(),
            "launch": launch,
            "argument": arguments,
            "defines": self._defines(),
            **self._reference(arguments),
        }
        self._note("KernelFile", "kernel", "source")
        self._note(entry, "kernel", "entry")
        return document, self.lines, folder

    def _note(self, text: object, *path: str | int) -> None:
        """Record the line of the first occurrence of ``text`` as the position of ``path``."""
        position = self.text.find(json.dumps(text))
        if position >= 0:
            self.lines[path] = self.text.count("\n", 0, position) + 1

    def _parameters(self) -> dict[str, Any]:
        parameters: dict[str, Any] = {}
        for table in self.space.tables("TuningParameters"):
            name, raw = table.text("Name"), table.get("Values", (str, list), "a list of values")
            self.values[name] = raw if isinstance(raw, list) else table.attempt("Values", value_list, raw)
            default = table.values.get("Default")
            # in some files the default is not among the values: ignore it
            known = {"default": default} if default in self.values[name] else {}
            parameters[name] = {"values": self.values[name], **known}
            self._note(name, "parameters", name)
        return parameters

    def _rules(self) -> list[dict[str, str]]:
        rules: dict[str, None] = {}
        for table in self.space.tables("Conditions"):
            text = table.text("Expression")
            self._note(text, "rule", len(rules))
            # a dict, so that duplicate conditions are dropped
            rules[self._translated(table, "Expression", text)] = None
        return [{"expr": text} for text in rules]

    def _launch(self) -> tuple[dict[str, int], dict[str, Any]]:
        spec, sizes = self.spec, {}
        launch: dict[str, Any] = {"shared_bytes": spec.values.get("SharedMemory") or 0}
        local, block = spec.values.get("LocalSize"), ["1", "1", "1"]
        if isinstance(local, Mapping):
            block = [str(local.get(axis.upper(), 1)) for axis in _AXES]
        if "block_size_x" not in self.values and isinstance(local, Mapping):
            launch["block"] = block
        axes: list[str] = []
        for axis, raw in zip(_AXES, spec.listed("ProblemSize"), strict=False):
            axes.append(f"problem_size_{axis}" if isinstance(raw, int) else str(raw))
            if isinstance(raw, int):
                sizes[axes[-1]] = raw
        if not axes:
            return sizes, launch | {"grid": self._grid(block)}
        launch["problem_size"] = axes
        for axis in _AXES[: len(axes)]:
            if divisors := spec.listed(f"GridDiv{axis.upper()}"):
                launch[f"grid_div_{axis}"] = [d for d in divisors if d is not None] or [1]
        self._note("ProblemSize", "sizes")
        self._note("ProblemSize", "launch")
        return sizes, launch

    def _grid(self, block: list[str]) -> list[str]:
        """Return the grid that ``GlobalSize`` describes, in blocks; in OpenCL files it is given in threads."""
        spec = self.spec
        raw = spec.values.get("GlobalSize")
        if not isinstance(raw, Mapping) or not raw:
            spec.fail("give either GlobalSize or ProblemSize (the size of the problem along x, y and z)")
        self._note("GlobalSize", "launch")
        sizes = [str(raw.get(axis.upper(), 1)) for axis in _AXES]
        if spec.values.get("GlobalSizeType") == "OpenCL":
            return [f"ceil_div({size}, {threads})" for size, threads in zip(sizes, block, strict=True)]
        return sizes

    def _arguments(self) -> tuple[list[dict[str, Any]], list[str]]:
        """Return the arguments, and the total bytes of the entries that describe dynamic shared memory."""
        arguments: list[dict[str, Any]] = []
        local: list[str] = []
        for i, table in enumerate(self.spec.tables("Arguments")):
            argument = self._argument(table, i)
            symbol = rf"__constant__[^;]*\b{re.escape(argument.get('name', ''))}\b"
            if table.values.get("MemType") == "Constant" and re.search(symbol, self.source):
                # Kernel Tuner copies these arrays to constant memory, and also passes them as arguments.
                self._note(argument["name"], "argument", len(arguments))
                arguments.append({**argument, "kind": "constant", "fill": self._fill(table)})
                argument = {**argument, "name": f"{argument['name']}_argument"}
            if argument["kind"] == "local":
                local.append(f"({argument['shape'][0]}) * {argument['bytes']}")
                continue
            self._note(table.values.get("Name"), "argument", len(arguments))
            arguments.append(argument)
        return arguments, local

    def _argument(self, table: DocumentTable, index: int) -> dict[str, Any]:
        name, memory = table.text("Name", f"argument_{index}"), table.text("MemoryType").capitalize()
        match = _TYPE.fullmatch(table.text("Type"))
        if match is None:
            table.fail(f"the type {table.text('Type')!r} is not supported", "Type")
        dtype = self._dtype(table)
        if memory == "Scalar":
            if match[4]:
                table.fail("vectors by value are not supported", "Type")
            value = table.get("FillValue", (int, float, str), "the scalar's value")
            return {"name": name, "kind": "scalar", "dtype": dtype, "value": value}
        if memory not in ("Vector", "Local", "Symbol"):
            table.fail(f"memory of the type {memory!r} is not known: use Scalar, Vector, Local or Symbol", "MemoryType")
        size = self._translated(table, "Size", str(table.get("Size", (int, str), "the number of elements")))
        shape = f"({size}) * {match[4]}" if match[4] else size
        if memory == "Local":
            return {"kind": "local", "shape": [shape], "bytes": np.dtype(_storage(dtype)).itemsize}
        if memory == "Symbol":
            return {"name": name, "kind": "constant", "dtype": dtype, "shape": [shape], "fill": self._fill(table)}
        access = table.text("AccessType", "ReadOnly")
        if access not in _ACCESS:
            table.fail(f"{access!r} is not known: use one of {', '.join(_ACCESS)}", "AccessType")
        argument: dict[str, Any] = {"name": name, "kind": _ACCESS[access], "dtype": dtype, "shape": [shape]}
        if access != "WriteOnly":
            argument["fill"] = self._fill(table)
        return argument

    def _dtype(self, table: DocumentTable) -> str:
        match = _TYPE.fullmatch(table.text("Type"))
        assert match is not None  # unreachable, because other types were rejected above
        return f"{match[1] or 'i'}{match[2]}" if match[2] else _TYPES[match[3]]

    def _fill(self, table: DocumentTable) -> Any:
        match str(table.values.get("FillType", "Random")).capitalize():
            case "Constant":
                return {"constant": table.values.get("FillValue", 0)}
            case "Uninitialized":
                return "zeros"
            case "Random":
                return "integers" if "int" in table.text("Type") else "normal"
            case "Generator":
                return {"python": self._generator(table)}
            case "File" | "Binaryraw":
                return self._file(table)
        kind = table.values["FillType"]
        table.fail(f"the fill {kind!r} is not supported: use Constant, Random, Generator or File", "FillType")

    def _file(self, table: DocumentTable) -> Any:
        """Return the contents of an array file in the folder of the T1 file.

        The file is .npy, raw values of the argument's type, or text with numbers separated by spaces.
        """
        name = table.text("DataSource")
        path = self.folder / name
        if PurePath(name).is_absolute() or ".." in PurePath(name).parts:
            table.fail(f"{name!r} is outside the folder of the T1 file: move the file into it", "DataSource")
        if path.suffix == ".npy":
            return {"file": name}
        if not path.is_file():
            table.fail(f"the file {name!r} does not exist next to the T1 file", "DataSource")
        if path.stat().st_size > MOST_BYTES:
            table.fail(f"{name} has more than {MOST_BYTES >> 30} GiB", "DataSource")
        try:
            if table.text("FillType").capitalize() == "File":
                return {"array": np.loadtxt(path, ndmin=1).reshape(-1)}
            return {"array": np.fromfile(path, _storage(self._dtype(table)))}
        except (ValueError, OSError) as error:
            table.fail(f"{name} does not contain the numbers of an array: {' '.join(str(error).split())}", "DataSource")

    def _generator(self, table: DocumentTable) -> Any:
        """Return a function that fills an array: each element is the value of an expression of its index."""
        expression = table.expression("DataSource", table.values.get("DataSource"), {"i": "int"}, ("int", "float"))
        size = self._translated(table, "Size", str(table.values.get("Size", 1)))
        known: dict[str, Any] = {f"problem_size_{axis}": "int" for axis in _AXES}
        extent = table.attempt("Size", parse, size, known)
        text = f"{expression.text} for {extent.text}"

        def generated(text: str = text, **sizes: Any) -> Any:
            count = int(extent.value({n: v for n, v in sizes.items() if n in extent.names}))
            if not expression.names:
                return np.full(count, expression.value({}))
            return expression.columns({"i": np.arange(count)}, {})[0]

        return generated

    def _reference(self, arguments: list[dict[str, Any]]) -> dict[str, Any]:
        """Return the constants of ``ReferenceArguments`` and their tolerances; {} if the file has no such arguments."""
        fills: dict[str, float] = {}
        tolerances: dict[str, Any] = {}
        for table in self.spec.tables("ReferenceArguments"):
            target = table.text("TargetName", table.text("Name"))
            if not any(a["name"] == target for a in arguments):
                table.fail(f"unknown argument {target!r}", "TargetName")
            if table.text("FillType") != "Constant":
                table.fail(
                    "only the fill Constant is supported: write a TOML file with a [reference] instead", "FillType"
                )
            fills[target] = float(table.get("FillValue", (int, float), "the reference's value"))
            threshold = table.values.get("ValidationThreshold", 0)
            relative = table.values.get("ValidationMethod") == "SideBySideRelativeComparison"
            tolerances[target] = {"rtol": threshold} if relative else {"atol": threshold}
        if not fills:
            return {}
        written = [a["name"] for a in arguments if a["kind"] in ("output", "inout")]
        missing = [name for name in written if name not in fills]
        if missing:
            self.spec.fail(
                f"no reference value for {', '.join(missing)}: give one for each output, as for {', '.join(fills)}"
            )
        return {"reference": {"constants": fills}, "tolerance": tolerances}

    def _defines(self) -> dict[str, Any]:
        return {**launch_macros(self.values), "kernel_tuner": 1}

    def _translated(self, table: DocumentTable, key: str, text: str) -> str:
        """Replace ``ProblemSize[0]`` by a size's name, and ``max(filter_width)`` by the parameter's largest value."""
        try:
            tree = ast.parse(text.strip(), mode="eval")
            return ast.unparse(_Names(self.values).visit(tree))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            table.fail(f'"{text}" is not an expression', key)


def _storage(dtype: str) -> str:
    return {"f16": "float16", "f32": "float32", "f64": "float64", "bool": "bool"}.get(
        dtype, f"{dtype[0]}{int(dtype[1:]) // 8}"
    )


class _Names(ast.NodeTransformer):
    def __init__(self, values: Mapping[str, list[Result]]) -> None:
        self.values = values

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        match node:
            case ast.Subscript(value=ast.Name(id="ProblemSize"), slice=ast.Constant(value=int() as axis)) if axis < 3:
                return ast.Name(f"problem_size_{_AXES[axis]}")
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        known = node.id in _LIMITS and node.id not in self.values
        return ast.Constant(_LIMITS[node.id]) if known else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        match node:
            case ast.Call(func=ast.Name(id="max" | "min" as name), args=[ast.Name(id=of)]) if of in self.values:
                return ast.Constant({"max": max, "min": min}[name](self.values[of]))
        return self.generic_visit(node)
