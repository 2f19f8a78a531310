"""The ``[launch]`` of a kernel file, or the ``[[step]]`` tables of a pipeline: blocks, grids and arguments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from autosched.user_kernels.arithmetic import Type
from autosched.user_kernels.document import DocumentTable
from autosched.user_kernels.expressions import Expression, from_function, suggestion
from autosched.user_kernels.kernel_file import (
    BLOCK,
    CLUSTER,
    GRID,
    LAUNCH_FLAGS,
    SHARED,
    KernelArgument,
    NamedExpression,
    PipelineStep,
)

_MOST_STEPS = 16
_OF_STEP = (
    *("entry", "grid", "block", "cluster", "shared_bytes", "problem_size"),
    *(f"grid_div_{axis}" for axis in "xyz"),
    *LAUNCH_FLAGS,
)


class Launches:
    """Reader of the launches in the document ``top``.

    ``types`` maps the names that expressions may use to their types. The reader adds the launches' attributes to this
    mapping.
    """

    def __init__(self, top: DocumentTable, types: dict[str, Type]) -> None:
        self._top, self._types = top, types
        self.flags: dict[int, tuple[str, ...]] = {}  # step number: attributes of the launch, a subset of LAUNCH_FLAGS

    def read(self) -> tuple[NamedExpression, ...]:
        """Return the expressions of grid, block, cluster and shared memory for the launch, or for every step."""
        tables = self._top.tables("step")
        if not tables:
            return self._launch(self._top.table("launch"), PipelineStep("", ()))
        if "launch" in self._top:
            self._top.fail("with [[step]] each step has its own grid and block: leave [launch] out", "launch")
        if len(tables) > _MOST_STEPS:
            self._top.fail(f"a pipeline has at most {_MOST_STEPS} steps", "step")
        expressions: list[NamedExpression] = []
        for number, table in enumerate(tables, 1):
            expressions += self._launch(table, PipelineStep("", (), number), within=True)
        return tuple(expressions)

    def steps(self, entries: Sequence[str], arguments: Sequence[KernelArgument]) -> tuple[PipelineStep, ...]:
        """Return the steps of a pipeline with their arguments.

        A step without a list of arguments takes all arguments except constants.
        """
        tables = self._top.tables("step")
        by_name = {a.name: a for a in arguments if a.kind != "constant"}
        steps, passed = [], set[str]()
        for number, (table, entry) in enumerate(zip(tables, entries, strict=False), 1):
            names = table.listed("arguments") or list(by_name)
            for name in names:
                if not isinstance(name, str) or name not in by_name:
                    table.fail(f"unknown argument {name!r}: {suggestion(str(name), by_name)}", "arguments")
            passed.update(names)
            steps.append(PipelineStep(entry, tuple(names), number, self.flags[number]))
            for key in _OF_STEP:  # mark the keys as read, because their values are read in ``read`` instead
                _ = key in table
            table.done()
        unused = [name for name in by_name if name not in passed]
        if tables and unused:
            self._top.fail(
                f"no [[step]] uses the argument {unused[0]}: add it to the arguments of a step, or remove it", "step"
            )
        return tuple(steps)

    def _launch(self, table: DocumentTable, step: PipelineStep, within: bool = False) -> tuple[NamedExpression, ...]:
        usual = [n if n in self._types else 1 for n in ("block_size_x", "block_size_y", "block_size_z")]
        if "block" not in table and usual[0] == 1:
            table.fail('block is missing: give the threads of a block, such as block = ["block_x", "block_y"]')
        if ("grid" in table) == ("problem_size" in table):
            table.fail("give either grid (number of blocks along x, y and z) or problem_size (with grid_div_x, ...)")
        expressions = [
            *(
                self._divided(table, usual, step)
                if "problem_size" in table
                else self._axes(table, "grid", step.named(GRID))
            ),
            *self._axes(table, "block", step.named(BLOCK), usual),
            *self._axes(table, "cluster", step.named(CLUSTER)),
        ]
        shared = table.values.get("shared_bytes")
        if "shared_bytes" not in table or not callable(shared):
            shared = table.get("shared_bytes", (str, int), "an expression", 0)
        (name,) = step.named((SHARED,))
        expressions.append(NamedExpression(name, table.expression("shared_bytes", shared, self._types, ("int",))))
        flags = tuple(flag for flag in LAUNCH_FLAGS if table.get(flag, bool, "true or false", False))
        if len(flags) > 1:
            table.fail("a launch is either cooperative or dependent: leave one of them out", flags[1])
        self.flags[step.number] = flags
        if not within:
            table.done()
        for axis in expressions:
            if axis.name in self._types:
                table.fail(f"the name {axis.name!r} is used for a grid or block of a step: choose another")
        self._types |= dict.fromkeys((axis.name for axis in expressions), "int")
        return tuple(expressions)

    def _axes(
        self, table: DocumentTable, key: str, names: Sequence[str], usual: Sequence[object] = ()
    ) -> list[NamedExpression]:
        raw = table.listed(key) or list(usual)
        if len(raw) > 3:
            table.fail("at most three axes are allowed: x, y and z", key)
        texts = (*raw, 1, 1, 1)[:3]
        return [
            NamedExpression(n, table.expression(key, text, self._types, ("int",)))
            for n, text in zip(names, texts, strict=True)
        ]

    def _divided(self, table: DocumentTable, usual: Sequence[object], step: PipelineStep) -> list[NamedExpression]:
        """Return Kernel Tuner's grid: each axis of the problem size, divided by the axis's divisors and rounded up."""
        axes = []
        sizes = (*table.listed("problem_size"), 1, 1, 1)[:3]
        for name, axis, size, block in zip(step.named(GRID), "xyz", sizes, usual, strict=True):
            key = f"grid_div_{axis}"
            divisors = table.listed(key) if key in table else [block]
            # First parse extent and divisors separately, so that errors show the original texts.
            extent = table.expression("problem_size", size, self._types, ("int", "float"))
            by = [table.expression(key, divisor, self._types, ("int", "float")) for divisor in divisors]
            if callable(size) or any(map(callable, divisors)):
                quotient = _quotient(extent, by, self._types)
            else:
                product = " * ".join(f"({d})" for d in divisors) or "1"
                quotient = table.expression(key, f"ceil(({size}) / ({product}))", self._types, ("int",))
            axes.append(NamedExpression(name, quotient))
        return axes


def _quotient(extent: Expression, by: Sequence[Expression], types: dict[str, Type]) -> Expression:
    """Return the expression of one axis of a grid if its extent or a divisor is a Python function."""

    def blocks(values: dict[str, Any]) -> int:
        return math.ceil(float(extent.value(values)) / math.prod(float(d.value(values)) for d in by))

    return from_function(blocks, f"ceil({extent.text} / {' / '.join(d.text for d in by) or 1})", "int", types)
