"""Options of ``autosched.KernelSpec``: the contents of a kernel file, with Python values instead of TOML."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from search_spaces.short_repr import short_repr

Texts = str | int | Sequence[str | int]


@dataclass(frozen=True, kw_only=True)
class LaunchOptions:
    """Options for the launch of a kernel. Texts are expressions of sizes and parameters.

    Attributes:
        block: One to three expressions, in threads.
        grid: One to three expressions, in blocks.
        problem_size: Size of the problem, which is divided by ``grid_div_x`` and so on to give the grid, as in Kernel
            Tuner. Replaces ``grid``.
        grid_div_x: Expressions that divide ``problem_size`` along x. Default: the block's size.
        grid_div_y: Expressions that divide ``problem_size`` along y.
        grid_div_z: Expressions that divide ``problem_size`` along z.
        cluster: One to three expressions, in blocks.
        shared_bytes: Dynamic shared memory of a block in bytes, an expression.
        cooperative: Cooperative launch: all blocks run at the same time, as ``grid.sync()`` needs.
        dependent: Programmatic dependent launch (sm_90 and newer): the kernel may start before the previous kernel in
            the stream has ended, and waits for that kernel's end with ``griddepcontrol.wait``.
    """

    block: Texts = ()
    grid: Texts = ()
    problem_size: Texts = ()
    grid_div_x: Texts | None = None
    grid_div_y: Texts | None = None
    grid_div_z: Texts | None = None
    cluster: Texts = ()
    shared_bytes: str | int = 0
    cooperative: bool = False
    dependent: bool = False

    def launch_table(self) -> dict[str, Any]:
        """Return the table ``launch`` of a kernel file."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(LaunchOptions)}
        return {n: v for n, v in values.items() if (v is not None if n.startswith("grid_div_") else v)}


@dataclass(frozen=True, kw_only=True)
class CompileOptions:
    """Options for the compilation of a kernel.

    Attributes:
        defines: Macros by name.
        parameters_as: How the source receives parameters. Default: as macros, or as template arguments if ``entry`` has
            some.
        options: Compiler options.
        compiler: "nvrtc" or "nvcc". Default: NVRTC, or nvcc if NVRTC does not find a header.
        compile_time_limit: Limit of one compilation in CPU seconds; 0 for the default.
        compile_memory_limit: Limit of one compilation in GiB of memory; 0 for the default.
        include: Folders in which headers are found.
    """

    defines: Mapping[str, str | int | float] | None = None
    parameters_as: str = ""
    options: Sequence[str] = ()
    compiler: str = ""
    compile_time_limit: float = 0.0
    compile_memory_limit: float = 0.0
    include: Sequence[str] = ()

    def compile_table(self) -> dict[str, Any]:
        """Return the compiler's entries in the table ``kernel`` of a kernel file."""
        always = {"options": list(self.options), "include": list(self.include)}
        values = {
            "parameters_as": self.parameters_as,
            "compiler": self.compiler,
            "compile_time_limit": self.compile_time_limit,
            "compile_memory_limit": self.compile_memory_limit,
        }
        return always | {name: value for name, value in values.items() if value}


@dataclass(frozen=True, kw_only=True)
class KernelOptions(LaunchOptions, CompileOptions):
    """Options of ``autosched.KernelSpec``, in addition to options of the launch and the compilation.

    Attributes:
        parameters: For each parameter, a list of its values, or a text such as "range(1, 9)".
        arguments: A table for each argument, in the order of the function's parameters.
        steps: Launches of a pipeline, each with ``entry``, ``block``, ``grid`` and the names of its ``arguments``.
            Replaces the options of the same names.
        sizes: Sizes of the default problem, by name.
        problems: Sizes of further problems.
        attributes: Named expressions that other expressions may use.
        rules: Expressions that must hold, each optionally with a reason for messages.
        reference: Function that computes the expected outputs, or a table as in a kernel file.
        verify: Function that replaces ``reference``. It receives inputs and outputs by name, and returns True if the
            outputs are correct, else False or a text that names the error.
        tolerance: Tolerances of the comparison: ``atol`` and ``rtol``, as in a kernel file.
        metrics: Named metrics: expressions that may use ``time``.
        cost: Work of a launch, as expressions with the keys of a kernel file's table ``cost``.
        proxy: Smaller sizes that are verified in place of large sizes.
        name: Name of the operator. Default: the name of the function.
        summary: One-line description.
    """

    parameters: Mapping[str, Any]
    arguments: Sequence[Mapping[str, Any]]
    steps: Sequence[Mapping[str, Any]] = ()
    sizes: Mapping[str, int] | None = None
    problems: Sequence[Mapping[str, int]] = ()
    attributes: Mapping[str, str] | None = None
    rules: Sequence[str | tuple[str, str] | Mapping[str, str]] = ()
    reference: Callable[..., Any] | Mapping[str, Any] | None = None
    verify: Callable[..., Any] | None = None
    tolerance: Mapping[str, Any] | None = None
    metrics: Mapping[str, str] | None = None
    cost: Mapping[str, str] | None = None
    proxy: Mapping[str, str | int] | None = None
    name: str = ""
    summary: str = ""

    __repr__ = short_repr

    @property
    def reference_function(self) -> Callable[..., Any] | None:
        """Return ``reference`` if it is a function, else None."""
        return self.reference if callable(self.reference) else None

    def document(self, entry: str, path: str) -> dict[str, Any]:
        """Return the equivalent kernel file as a dict of its tables.

        Args:
            entry: Name of the function; "" for a pipeline.
            path: Path of the source; "" if the source is a text.
        """
        named = {"name": self.name_of(entry), "entry": entry, "source": path, "summary": self.summary}
        launch = self.launch_table()
        document: dict[str, Any] = {
            "kernel": {"name": named["name"]} | self.compile_table() | {n: v for n, v in named.items() if v},
            "sizes": self.sizes or {},
            "problem": list(self.problems),
            "parameters": {
                n: v if isinstance(v, (str, Mapping)) else plain_values(v) for n, v in self.parameters.items()
            },
            "attributes": self.attributes or {},
            "defines": self.defines or {},
            "rule": [_rule(rule) for rule in self.rules],
            "step": [dict(step) for step in self.steps],
            "launch": launch,
            "argument": list(self.arguments),
            "tolerance": self.tolerance or {},
            "reference": {} if self.reference is None or callable(self.reference) else self.reference,
            "metrics": self.metrics or {},
            "cost": self.cost or {},
            "proxy": self.proxy or {},
        }
        if self.steps and not launch:
            del document["launch"]
        return document

    def name_of(self, entry: str) -> str:
        """Return the name of the operator."""
        called = entry or next((str(step.get("entry", "")) for step in self.steps), "")
        return self.name or called.partition("<")[0].rpartition("::")[2].strip()


def plain_values(values: Any) -> list[Any]:
    """Convert lists, ranges and arrays to lists of Python numbers and texts, as in a kernel file."""
    return [v.item() if isinstance(v, np.generic) else v for v in values]


def _rule(rule: str | tuple[str, str] | Mapping[str, str]) -> Any:
    if isinstance(rule, str):
        return {"expr": rule}
    return dict(zip(("expr", "reason"), rule, strict=False)) if isinstance(rule, tuple) else rule
