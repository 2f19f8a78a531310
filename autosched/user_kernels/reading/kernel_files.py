"""Convert a document of tables to a KernelFile, section by section."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from autosched.user_kernels import KernelFileError
from autosched.user_kernels.arithmetic import Type
from autosched.user_kernels.document import (
    DocumentTable,
    KeyPositions,
    read_text,
    read_toml,
    refuse_too_many,
    refuse_unprintable,
)
from autosched.user_kernels.expressions import Expression, suggestion, value_list
from autosched.user_kernels.kernel_file import (
    BLOCK,
    CLUSTER,
    GRID,
    SHARED,
    FileRule,
    KernelArgument,
    KernelFile,
    KernelReference,
    NamedExpression,
    UserFunction,
)
from autosched.user_kernels.reading.arguments import (
    IDENTIFIER,
    check_declared,
    check_files,
    check_shapes,
    read_arguments,
)
from autosched.user_kernels.reading.kernel_tuner_files import t1_document
from autosched.user_kernels.reading.launches import Launches
from autosched.user_kernels.reading.sources import (
    callable_reference,
    python_reference,
    read_compile_limits,
    read_compiler,
    read_entries,
    read_headers,
    read_limits,
    read_options,
)
from autosched.user_kernels.signature import declared_line, declared_parameters
from search_spaces.operators.problem import Problem, whole_number
from search_spaces.spaces.parameters import Parameter, Value

# names that a file must not define, because metrics and launches use them
RESERVED = ("time", "flops", "bytes", *GRID, *BLOCK, *CLUSTER, SHARED)
_VALUE = (int, float, str, bool)
_RESERVED = (
    "file",
    "sizes",
    "self",
    "operator",
    "summary",
    "seed",
)  # names that sizes must not have, because fields of problems and parameters of functions use them
_MOST_REFERENCES = 20  # maximum length of a chain of kernels, each of which is the reference of another
_SECTIONS = (
    *("kernel", "sizes", "problem", "parameters", "attributes", "defines", "rule", "launch", "argument", "tolerance"),
    *("reference", "metrics", "cost", "proxy", "step"),
)
_NAME = re.compile(r"[A-Za-z_][\w.-]{0,99}", re.ASCII)
# names of built-in rules, which users' rules must not have
_OF_LAUNCH = re.compile(r"launch\..*|--set .*|.* is defined")


def read_file(path: str | Path, _within: tuple[Path, ...] = ()) -> KernelFile:
    """Return the kernel of a TOML file. For any error in the file, raises KernelFileError with file and line number."""
    path = Path(path)
    document, positions = read_toml(
        path.name, read_text(path, DocumentTable({}, KeyPositions(path.name or str(path))), "")
    )
    folder, within = path.parent, (*_within, path.resolve())
    kernel = document.get("kernel")
    if isinstance(kernel, dict) and "t1" in kernel:
        document, folder = _over_t1(DocumentTable(kernel, positions, ("kernel",)), document, folder)
    return read_document(document, positions, folder, default_name=path.stem, _within=within)


def read_t1(path: str | Path) -> KernelFile:
    """Return the kernel of Kernel Tuner's T1 file. Raises KernelFileError."""
    document, lines, folder = t1_document(path)
    return read_document(document, KeyPositions(Path(path).name, lines), folder)


def _over_t1(kernel: DocumentTable, document: dict[str, Any], folder: Path) -> tuple[dict[str, Any], Path]:
    """Return the document of the T1 file that ``t1`` names, overridden by the keys of the TOML file.

    Tables are merged key by key, and arguments by name. Other lists and values of the TOML file replace those of the T1
    file.
    """
    path = folder / kernel.text("t1")
    if not path.is_file():
        kernel.fail(f"the file {kernel.text('t1')!r} does not exist next to the kernel file", "t1")
    base, _, base_folder = t1_document(path)
    merged = dict(base)
    for key, value in document.items():
        if key == "argument" and isinstance(value, list):
            merged[key] = _arguments_over(base.get(key, []), value)
        elif key == "launch" and isinstance(value, dict) and {"grid", "problem_size"} & value.keys():
            launch_keys = {k: v for k, v in base[key].items() if k in ("block", "shared_bytes")}
            merged[key] = {**launch_keys, **value}
        elif key in ("parameters", "kernel", "defines", "launch", "sizes") and isinstance(value, dict):
            merged[key] = {**base.get(key, {}), **{k: v for k, v in value.items() if (key, k) != ("kernel", "t1")}}
        else:
            merged[key] = value
    return merged, base_folder


def _arguments_over(base: Sequence[Mapping[str, Any]], entries: Sequence[Any]) -> list[Any]:
    over = {a["name"]: a for a in entries if isinstance(a, Mapping) and isinstance(a.get("name"), str)}
    known = {a["name"] for a in base}
    merged = []
    for a in base:
        new = over.get(a["name"], {})
        other_kind = "kind" in new and new["kind"] != a["kind"] and new["kind"] in ("output", "scalar")
        merged.append({**{k: v for k, v in a.items() if not (other_kind and k == "fill")}, **new})
    return [*merged, *(a for a in entries if not isinstance(a, Mapping) or a.get("name") not in known)]


def read_document(
    document: Mapping[str, Any],
    positions: KeyPositions,
    folder: Path,
    *,
    default_name: str | None = None,
    source: str | None = None,
    reference: Callable[..., Any] | None = None,
    check: Callable[..., Any] | None = None,
    _within: tuple[Path, ...] = (),
) -> KernelFile:
    """Return the kernel that a document describes. The document has the keys of a kernel file in TOML.

    Args:
        document: Keys and values of the document.
        positions: Lines of the keys, for errors.
        folder: Folder to which file names are relative.
        default_name: Name of the kernel if the document has none; None if the document must have a name.
        source: Text that replaces the source file; None to read the file.
        reference: Function that replaces the one named by ``reference.python``.
        check: Function that replaces the one named by ``reference.verify``.

    Returns:
        The kernel.

    Raises:
        KernelFileError: The document is invalid; the message has the position.
    """
    reader = _KernelFileReader(DocumentTable(document, positions), folder)
    return reader.read(default_name, source, reference, check, _within)


class _KernelFileReader:
    """Reader of one kernel file.

    ``types`` maps the names that expressions may use (sizes, parameters and attributes) to their types.
    """

    def __init__(self, top: DocumentTable, folder: Path) -> None:
        self.top, self.folder = top, folder
        self.types: dict[str, Type] = {}

    def read(
        self,
        default_name: str | None,
        source: str | None,
        reference: Callable[..., Any] | None,
        check: Callable[..., Any] | None,
        within: tuple[Path, ...],
    ) -> KernelFile:
        top, kernel = self.top, self.top.table("kernel")
        refuse_too_many(top.positions.name, top.values)
        refuse_unprintable(top.values, top.positions)
        for section in top.values:
            if section not in _SECTIONS:
                top.fail(f"unknown key {section!r}, {suggestion(section, _SECTIONS)}", section)
        name = kernel.text("name", default_name)
        if not _NAME.fullmatch(name):
            kernel.fail(f'invalid name "{name[:60]}": use letters, digits, _ . and -, at most 100', "name")
        in_files = source is None
        files = self._source(kernel, name, source)
        path, source = files[0][0], "".join(text for _, text in files)
        headers = read_headers(kernel, source, self.folder, path.parent)
        compiler, headers = read_compiler(kernel, name, source, headers)
        sizes = self._sizes(top.table("sizes"))
        parameters, floats = self._parameters(top.table("parameters"))
        attributes = self._attributes(top.table("attributes"))
        launches = Launches(top, self.types)
        launch = launches.read()
        arguments = read_arguments(top, self.types, sizes, self.folder, parameters)
        arrays = {a.name for a in arguments if a.is_array}
        names = [p.name for p in parameters if self.types[p.name] == "text"]
        passing, entries = read_entries(kernel, top.tables("step"), (source, *(text for _, text in headers)), names)
        steps = launches.steps(entries, arguments)
        texts = (source, *(text for _, text in headers))
        check_declared(top, arguments, entries, [step.arguments for step in steps], texts)
        if passing == "define":
            used_names = {p.name for entry in entries for p in declared_parameters(entry, texts)}
            for section in ("parameters", "attributes", "defines"):
                for macro in top.table(section).values:
                    if macro in used_names and macro not in sizes:
                        top.table(section).fail(
                            f"the macro {macro} would replace the kernel's parameter of this name: "
                            'rename one of them, or write parameters_as = "constexpr"',
                            macro,
                        )
        cost = top.table("cost")
        flops = self._cost(cost, "flops", dict.fromkeys(sizes, "int"))
        moved = self._cost(cost, "bytes", self.types)
        cost.done()
        kernel_file = KernelFile(
            name=name,
            summary=kernel.text("summary", f"the kernel {name}"),
            source_name=path.name,
            source=source,
            headers=headers,
            entry=entries[0],
            passing=passing,  # type: ignore[arg-type]  # one of PASSINGS
            defined_at=_definition(entries[0], files) if in_files else ("", 0),
            options=read_options(kernel, compiler),
            limits=read_compile_limits(kernel),
            sizes=tuple(sizes.items()),
            problems=self._problems(sizes),
            parameters=parameters,
            floats=floats,
            attributes=attributes,
            defines=self._defines(top.table("defines")),
            rules=self._rules(),
            launch=launch,
            arguments=arguments,
            reference=self._reference(reference, check, parameters, arrays, within),
            metrics=self._metrics(top.table("metrics"), flops, moved),
            proxy=self._proxy(top.table("proxy"), sizes),
            flops=flops,
            bytes=moved,
            further=steps[1:],
            first=steps[0].arguments if steps else (),
            flags=launches.flags[1],
        )
        varying = next((a for a in arguments if a.kind == "output" and not _is_fixed(a, sizes)), None)
        if varying is not None and not kernel_file.reference.checks_outputs:
            raise KernelFileError(
                f"{varying.position}: the shape of {varying.name} depends on parameters, so no single array is correct "
                'for all configurations: check the outputs with [reference] verify = "file.py:function"'
            )
        kernel.done()
        top.done()
        for problem in (kernel_file.sizes, *kernel_file.problems):
            check_shapes(top, arguments, dict(problem))
        check_files(top, arguments, [dict(problem) for problem in (kernel_file.sizes, *kernel_file.problems)])
        return kernel_file

    def _source(self, kernel: DocumentTable, name: str, source: str | None) -> list[tuple[Path, str]]:
        """Return paths and texts of the source files, which are compiled as one translation unit in this order."""
        if source is not None:
            return [(self.folder / kernel.text("source", f"{name}.cu"), source)]
        paths = kernel.listed("source") or [kernel.text("source")]
        files: list[tuple[Path, str]] = []
        for file in paths:
            if not isinstance(file, str):
                kernel.fail(f"expected a file name or a list of file names, not {file!r}", "source")
            text = read_text(self.folder / file, kernel, "source")
            files.append((self.folder / file, text if not files else f'\n#line 1 "{Path(file).name}"\n{text}'))
        return files

    # -- names ---------------------------------------------------------------------------------------------------

    def _add(self, table: DocumentTable, name: str, kind: Type) -> None:
        if not IDENTIFIER.fullmatch(name):
            table.fail(f'invalid name "{name}": use letters, digits and _', name)
        if name in self.types or name in RESERVED:
            table.fail(f"the name {name!r} is already used: choose another", name)
        self.types[name] = kind

    def _sizes(self, table: DocumentTable) -> dict[str, int]:
        sizes = {}
        for name, value in table.items():
            self._add(table, name, "int")
            if hasattr(Problem, name) or name in _RESERVED or keyword.iskeyword(name) or name.startswith("_"):
                table.fail(f"a size cannot be named {name!r}: choose another name", name)
            sizes[name] = table.attempt(name, whole_number, name, value, 1)
        return sizes

    def _problems(self, sizes: Mapping[str, int]) -> tuple[tuple[tuple[str, int], ...], ...]:
        problems = []
        for table in self.top.tables("problem"):
            numbers = {n: table.get(n, int, "an integer", v) for n, v in sizes.items()}
            problems.append(tuple((n, table.attempt(n, whole_number, n, v, 1)) for n, v in numbers.items()))
            table.done()
        return tuple(problems) or (tuple(sizes.items()),)

    def _parameters(self, table: DocumentTable) -> tuple[tuple[Parameter, ...], frozenset[str]]:
        parameters: list[Parameter] = []
        floats = set()
        for name, raw in table.items():
            parameter, floating = _parameter(name, table if not isinstance(raw, Mapping) else table.table(name), raw)
            self._add(table, name, "float" if floating else "text" if parameter.is_text else "int")
            parameters.append(parameter)
            floats.update([name] if floating else [])
        if not parameters:
            table.fail("there is nothing to tune: give at least one parameter, such as block_x = [32, 64, 128]")
        return tuple(parameters), frozenset(floats)

    def _attributes(self, table: DocumentTable) -> tuple[NamedExpression, ...]:
        attributes = []
        for name, text in table.items():
            expression = table.expression(name, text, self.types, ("int", "bool"))
            self._add(table, name, expression.type)
            attributes.append(NamedExpression(name, expression))
        return tuple(attributes)

    def _defines(self, table: DocumentTable) -> tuple[NamedExpression, ...]:
        defines = []
        for name, text in table.items():
            if not IDENTIFIER.fullmatch(name) or (name in self.types and name not in self.top.table("sizes").values):
                table.fail(f"the macro {name!r} needs a unique name of letters, digits and _", name)
            defines.append(
                NamedExpression(name, table.expression(name, text, self.types, ("int", "bool", "float", "text")))
            )
        return tuple(defines)

    # -- rules, launch, cost -------------------------------------------------------------------------------------

    def _rules(self) -> tuple[FileRule, ...]:
        rules: list[FileRule] = []
        for table in self.top.tables("rule"):
            text = table.values.get("expr") if callable(table.values.get("expr")) and "expr" in table else None
            text = text or table.get("expr", str, 'an expression that must hold, such as "block_x * block_y <= 1024"')
            expression = table.expression("expr", text, self.types, ("bool", "int"))
            if not expression.names:
                table.fail(f'"{expression.text}" is constant: a rule must use sizes, parameters or attributes', "expr")
            if any(r.expression.text == expression.text for r in rules):
                table.fail(f'duplicate rule "{expression.text}": remove one', "expr")
            pruning = table.choice("kind", ("valid", "pruning"), "valid") == "pruning"
            reason, name = table.text("reason", ""), table.text("name", "")
            if any((r.name or r.expression.text) == (name or expression.text) for r in rules):
                table.fail(f"another rule is named {name or expression.text!r}: give this rule another name", "name")
            if _OF_LAUNCH.fullmatch(name):
                table.fail(f"a rule of the launch is named {name!r}: give this rule another name", "name")
            rules.append(FileRule(expression, reason, pruning, name))
            table.done()
        return tuple(rules)

    def _cost(self, table: DocumentTable, key: str, types: Mapping[str, Type]) -> Expression | None:
        return table.expression(key, table.values[key], types, ("int", "float")) if key in table else None

    def _metrics(
        self, table: DocumentTable, flops: Expression | None, moved: Expression | None
    ) -> tuple[NamedExpression, ...]:
        types: dict[str, Type] = {**self.types, "time": "float"}
        texts = {}
        for name, rate, cost in (("bytes", "GB/s", moved), ("flops", "GFLOP/s", flops)):
            if cost is not None:
                types[name], texts[rate] = "float", f"{name} / time / 1e9"
        metrics = []
        for name, text in {**texts, **dict(table.items())}.items():
            metrics.append(NamedExpression(name, table.expression(name, text, types, ("int", "float", "bool"))))
            if IDENTIFIER.fullmatch(name):
                types[name] = "float"
        return tuple(metrics)

    def _proxy(self, table: DocumentTable, sizes: Mapping[str, int]) -> tuple[NamedExpression, ...]:
        for name in table.values:
            if name not in sizes:
                table.fail(f"unknown size {name!r}: {suggestion(name, sizes)}", name)
        return tuple(NamedExpression(n, table.expression(n, text, self.types, ("int",))) for n, text in table.items())

    # -- reference -----------------------------------------------------------------------------------------------

    def _reference(
        self,
        function: Callable[..., Any] | None,
        check: Callable[..., Any] | None,
        parameters: Sequence[Parameter],
        arrays: set[str],
        within: tuple[Path, ...],
    ) -> KernelReference:
        table = self.top.table("reference")
        keys = [key for key in ("python", "kernel", "verify") if key in table]
        if "constants" in table:  # expected contents from a T1 file
            constants = {str(k): float(v) for k, v in table.table("constants").items()}
            return KernelReference(
                "constants", repr(constants), UserFunction("constants", callable_object=_constants(constants))
            )
        if len(keys) + (function is not None) + (check is not None) > 1:
            table.fail("give one reference: python, kernel, or verify")
        reference, limits = KernelReference() if function is None else callable_reference(function), read_limits(table)
        if check is not None:
            reference = replace(callable_reference(check), checks_outputs=True)
        if keys == ["verify"]:
            reference = replace(python_reference(table, self.folder, "verify", limits=limits), checks_outputs=True)
        if keys == ["python"]:
            reference = python_reference(table, self.folder, limits=limits)
        elif keys == ["kernel"]:
            path = self.folder / table.text("kernel")
            if path.resolve() in within:
                table.fail("the references form a cycle: end it with a Python function", "kernel")
            if len(within) >= _MOST_REFERENCES:
                table.fail(f"a chain of references has at most {_MOST_REFERENCES} kernels", "kernel")
            if not path.is_file():
                table.fail(f"the file {table.text('kernel')!r} does not exist next to the kernel file", "kernel")
            other = read_file(path, within)
            if {a.name for a in other.arrays} != arrays:
                table.fail(f"{path.name} has arrays other than {', '.join(sorted(arrays))}", "kernel")
            reference, parameters = KernelReference(path.name, kernel=other), other.parameters
        if "config" in table:
            if reference.function is not None:
                table.fail("config does not apply to a Python function: leave it out", "config")
            reference = KernelReference(
                reference.name, reference.content, None, reference.kernel, _config(table.table("config"), parameters)
            )
        if "memory_limit" in table and reference.function is None:
            table.fail("memory_limit does not apply if the reference is a kernel: leave it out", "memory_limit")
        table.done()
        return reference if reference.function is not None else replace(reference, time_limit=limits[0])


def _constants(values: Mapping[str, float]) -> Callable[..., Any]:
    return lambda: dict(values)


def _is_fixed(argument: KernelArgument, sizes: Mapping[str, int]) -> bool:
    return all(name in sizes for e in argument.shape for name in e.names)


def _config(table: DocumentTable, parameters: Sequence[Parameter]) -> tuple[tuple[str, Value], ...]:
    known = {p.name: p for p in parameters}
    config: dict[str, Value] = {}
    for name, raw in table.items():
        if name not in known:
            table.fail(f"unknown parameter {name!r}: {suggestion(name, known)}", name)
        table.get(name, _VALUE, "one of the parameter's values")
        config[name] = value = _stored(raw, isinstance(raw, float))
        table.attempt(name, known[name].code, value)
    return tuple(config.items())


def _stored(value: Any, floating: bool) -> Any:
    """Return a value as the space stores it: floats become strings, and true and false become 1 and 0."""
    if floating and type(value) in (int, float):
        return repr(float(value))
    return int(value) if isinstance(value, bool) else value


def _parameter(name: str, table: DocumentTable, raw: Any) -> tuple[Parameter, bool]:
    """Return the parameter, and True if its values are floats (which are stored as strings).

    ``table`` is the table of this parameter, or the table of all parameters if ``raw`` is only a list of values.
    """
    doc, kind, default, key = "", "", None, name
    if isinstance(raw, Mapping):
        doc, key = table.text("doc", ""), "values"
        kind = table.choice("kind", ("ordinal", "categorical", ""), "")
        default = table.get("default", _VALUE, "one of the values") if "default" in table else None
        raw = table.get("values", (list, tuple, str), 'a list, or a text such as "range(1, 9)"')
        table.done()
    values = table.attempt(key, value_list, raw) if isinstance(raw, str) else raw
    if not isinstance(values, (list, tuple)):
        table.fail('this must be a list of values, or a text such as "range(1, 9)"', key)
    kinds = {type(v) for v in values}
    floating = float in kinds and kinds <= {int, float}
    if not (floating or kinds in ({int}, {bool}, {str}, set())):
        table.fail("the values must be all numbers, all true or false, or all texts", key)
    if not all(v.isprintable() for v in values if isinstance(v, str)):
        table.fail("one of the texts has a character that cannot be printed", key)

    usual = "categorical" if kinds == {str} else "ordinal"
    parameter = table.attempt(
        key,
        Parameter,
        name,
        tuple(_stored(v, floating) for v in values),
        doc,
        "categorical" if (kind or usual) == "categorical" else "ordinal",
        None if default is None else _stored(default, floating),
    )
    return parameter, floating


__all__ = ["KernelFileError", "read_document", "read_file"]


def _definition(entry: str, files: Sequence[tuple[Path, str]]) -> tuple[str, int]:
    """Return the file and line of the entry function; the first file and 0 if its declaration is not recognised."""
    for number, (path, text) in enumerate(files):
        if line := declared_line(entry, text):
            return str(path), line - 2 * (
                number > 0
            )  # subtract the empty line and the #line directive that precede each further file
    return str(files[0][0]), 0
