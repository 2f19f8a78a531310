"""Kernel Tuner's input files: JSON of the FAIR "T1" format (kernel_tuner/schema/T1/1.0.0), read as kernel files.

What Kernel Tuner fixes by names holds here too: ``block_size_x/y/z`` make the block, ``GridDivX/Y/Z`` divide the
problem, and the macros ``grid_size_*``, ``block_size_*`` and ``kernel_tuner`` are defined.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autosched.user_kernels.document import KernelFileError, Keys, Places, Table, read_text
from autosched.user_kernels.expressions import Result, value_list
from autosched.user_kernels.kernel_file import BLOCK, GRID, KernelFile
from autosched.user_kernels.reading import read_document

_AXES = ("x", "y", "z")
_TYPES = {"half": "f16", "float": "f32", "double": "f64", "bool": "bool"}
_ACCESS = {"ReadOnly": "input", "WriteOnly": "output", "ReadWrite": "inout"}


def read_t1(path: str | Path) -> KernelFile:
    """The kernel of a T1 file. Its reference is the kernel itself at the parameters' defaults: T1 has none that can be
    computed here. Raises KernelFileError for what is no T1 file, and for what T1 can say and a kernel file cannot."""
    path = Path(path)
    text = read_text(path, Table({}, Places(path.name or str(path))), "")
    try:
        document = json.loads(text)
    except ValueError as error:
        line = getattr(error, "lineno", 1)
        raise KernelFileError(f"{path.name}:{line}: this is no JSON: {getattr(error, 'msg', error)}") from None
    return _T1(Table(document, Places(path.name)), text).read(path)


class _T1:
    def __init__(self, top: Table, text: str) -> None:
        self.top, self.text = top, text
        self.spec, self.space = top.table("KernelSpecification"), top.table("ConfigurationSpace")
        self.values: dict[str, list[Result]] = {}
        self.lines: dict[Keys, int] = {}

    def read(self, path: Path) -> KernelFile:
        spec = self.spec
        if (language := spec.text("Language", "CUDA")) != "CUDA":
            spec.fail(f"{language} kernels cannot be tuned here, only CUDA", "Language")
        file, entry = spec.text("KernelFile"), spec.text("KernelName")
        folder = next((f for f in (path.parent, path.parent.parent) if (f / file).is_file()), path.parent)
        name = self.top.table("General").text("BenchmarkName", entry)
        parameters = self._parameters()
        sizes, launch = self._launch()
        document: dict[str, Any] = {
            "kernel": {"name": name, "source": file, "entry": entry, "options": spec.listed("CompilerOptions")},
            "sizes": sizes,
            "parameters": parameters,
            "rule": self._rules(),
            "launch": launch,
            "argument": [self._argument(a, i) for i, a in enumerate(spec.tables("Arguments"))],
            "defines": self._defines(),
        }
        self._note("KernelFile", "kernel", "source")
        self._note(entry, "kernel", "entry")
        return read_document(document, Places(path.name, self.lines), folder)

    def _note(self, text: object, *path: str | int) -> None:
        """Where the first mention of ``text`` stands is where ``path`` is complained about."""
        found = self.text.find(json.dumps(text))
        if found >= 0:
            self.lines[path] = self.text.count("\n", 0, found) + 1

    def _parameters(self) -> dict[str, Any]:
        parameters: dict[str, Any] = {}
        for table in self.space.tables("TuningParameters"):
            name, text = table.text("Name"), table.text("Values")
            self.values[name] = table.attempt("Values", value_list, text)
            default = table.values.get("Default")
            known = {"default": default} if default in self.values[name] else {}  # some files name another value
            parameters[name] = {"values": self.values[name], **known}
            self._note(name, "parameters", name)
        return parameters

    def _rules(self) -> list[dict[str, str]]:
        rules: dict[str, None] = {}
        for table in self.space.tables("Conditions"):
            text = table.text("Expression")
            self._note(text, "rule", len(rules))
            rules[self._translated(table, "Expression", text)] = None  # one that is there twice says nothing new
        return [{"expr": text} for text in rules]

    def _launch(self) -> tuple[dict[str, int], dict[str, Any]]:
        spec, sizes = self.spec, {}
        launch: dict[str, Any] = {"shared_bytes": spec.values.get("SharedMemory") or 0}
        local = spec.values.get("LocalSize")
        if "block_size_x" not in self.values and isinstance(local, Mapping):
            launch["block"] = [str(local.get(axis.upper(), 1)) for axis in _AXES]
        axes: list[str] = []
        for axis, given in zip(_AXES, spec.listed("ProblemSize"), strict=False):
            axes.append(f"problem_size_{axis}" if isinstance(given, int) else str(given))
            if isinstance(given, int):
                sizes[axes[-1]] = given
        if not axes:
            spec.fail("ProblemSize is missing: give the size of the problem along x, y and z")
        launch["problem_size"] = axes
        for axis in _AXES:
            if divisors := spec.listed(f"GridDiv{axis.upper()}"):
                launch[f"grid_div_{axis}"] = [d for d in divisors if d is not None] or [1]
        self._note("ProblemSize", "sizes")
        self._note("ProblemSize", "launch")
        return sizes, launch

    def _argument(self, table: Table, index: int) -> dict[str, Any]:
        name, memory = table.text("Name", f"argument_{index}"), table.text("MemoryType")
        self._note(name, "argument", index)
        found = re.fullmatch(r"(u?)int(8|16|32|64)|(half|float|double|bool)(\d*)", table.text("Type"))
        if found is None:
            table.fail(f"the type {table.text('Type')!r} cannot be passed on", "Type")
        dtype = f"{found[1] or 'i'}{found[2]}" if found[2] else _TYPES[found[3]]
        if memory == "Scalar":
            if found[4]:
                table.fail("a vector cannot be passed by value", "Type")
            value = table.get("FillValue", (int, float), "the scalar's value")
            return {"name": name, "kind": "scalar", "dtype": dtype, "value": value}
        if memory != "Vector" or table.values.get("MemType") == "Constant":
            table.fail(f"{name} is in memory of its own, which is not filled here: make it a pointer", "MemoryType")
        access = table.text("AccessType", "ReadOnly")
        if access not in _ACCESS:
            table.fail(f"{access!r} is not known: use one of {', '.join(_ACCESS)}", "AccessType")
        size = self._translated(table, "Size", str(table.get("Size", (int, str), "the number of elements")))
        shape = f"({size}) * {found[4]}" if found[4] else size
        argument: dict[str, Any] = {"name": name, "kind": _ACCESS[access], "dtype": dtype, "shape": [shape]}
        if access != "WriteOnly":
            fill = table.text("FillType", "Random")
            if fill not in ("Constant", "Random"):
                table.fail(f"inputs cannot be filled by {fill!r} here: use Constant or Random", "FillType")
            argument["fill"] = {"constant": table.values.get("FillValue", 0)} if fill == "Constant" else "normal"
        return argument

    def _defines(self) -> dict[str, Any]:
        macros = {f"block_size_{axis}": name for axis, name in zip(_AXES, BLOCK, strict=True)}
        macros |= {f"grid_size_{axis}": name for axis, name in zip(_AXES, GRID, strict=True)}
        return {**{n: text for n, text in macros.items() if n not in self.values}, "kernel_tuner": 1}

    def _translated(self, table: Table, key: str, text: str) -> str:
        """``ProblemSize[0]`` as the size that it is, and ``max(filter_width)`` as the largest value of a parameter."""
        try:
            tree = ast.parse(text.strip(), mode="eval")
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            table.fail(f'"{text}" is no expression', key)
        return ast.unparse(_Names(self.values).visit(tree))


class _Names(ast.NodeTransformer):
    def __init__(self, values: Mapping[str, list[Result]]) -> None:
        self.values = values

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        match node:
            case ast.Subscript(value=ast.Name(id="ProblemSize"), slice=ast.Constant(value=int() as axis)) if axis < 3:
                return ast.Name(f"problem_size_{_AXES[axis]}")
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        match node:
            case ast.Call(func=ast.Name(id="max" | "min" as name), args=[ast.Name(id=of)]) if of in self.values:
                return ast.Constant({"max": max, "min": min}[name](self.values[of]))
        return self.generic_visit(node)
