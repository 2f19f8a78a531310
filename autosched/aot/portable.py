"""Launches with expressions of the problem's sizes instead of numbers, for manifests.

Kernels of autosched's templates are compiled for fixed sizes (docs/decisions/0001), so their expressions are constants.
A user's kernel that receives sizes as arguments also supports other sizes, as far as the rules of its kernel file
allow.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from autosched.aot.expressions import PythonOnlyExpression, over_sizes, to_cpp
from autosched.user_kernels.expressions import Expression, Result
from autosched.user_kernels.kernel_file import BLOCK, CLUSTER, GRID, SHARED, KernelFile, PipelineStep
from autosched.user_kernels.problem import KernelProblem
from autosched.user_kernels.template import launch_rules
from search_spaces.hardware.devices import Device
from search_spaces.launches.launch import Launch, ScalarArgument
from search_spaces.operators.problem import Problem
from search_spaces.spaces.schedule import Schedule


@dataclass(frozen=True)
class PortableStep:
    """Launch of one function. Each number is stored as the text of an expression (``expressions.over_sizes``)."""

    grid: tuple[str, ...]
    block: tuple[str, ...]
    cluster: tuple[str, ...]
    dynamic_shared_bytes: str

    @property
    def texts(self) -> tuple[str, ...]:
        """All expressions of the step."""
        return (*self.grid, *self.block, *self.cluster, self.dynamic_shared_bytes)


@dataclass(frozen=True)
class PortableLaunch:
    """Launch of a kernel. Each number is stored as the text of an expression (``expressions.over_sizes``).

    ``steps`` are the launches of a pipeline, in order. ``free`` are the sizes on which the code does not depend.
    ``shapes`` are the shapes of operands, and ``scalars`` the values of scalars by name. ``guards`` are the conditions
    that sizes must satisfy if they differ from the problem's sizes, each with its reason.
    """

    steps: tuple[PortableStep, ...]
    shapes: tuple[tuple[str, ...], ...]
    scalars: Mapping[str, str]
    free: tuple[str, ...] = ()
    guards: tuple[tuple[str, str], ...] = ()


def portable(problem: Problem, schedule: Schedule, launch: Launch, device: Device) -> PortableLaunch:
    """Return the launch of ``schedule`` for the sizes of ``problem`` and all other sizes that the code supports.

    Args:
        problem: Problem that the kernel computes.
        schedule: A valid schedule of the problem.
        launch: Launch at the sizes of ``problem``.
        device: GPU for which the kernel is compiled.

    Returns:
        The launch. Its expressions depend on the sizes that may differ. If the code supports only the sizes of
        ``problem``, all expressions are numbers.
    """
    if isinstance(problem, KernelProblem):
        free = _free_sizes(problem.file, schedule)
        try:
            launch_of_sizes = _of_file(problem.file, problem.sizes, schedule, launch, device, free) if free else None
            if launch_of_sizes is not None:
                _check_cpp(launch_of_sizes, tuple(problem.sizes))
                return launch_of_sizes
        except PythonOnlyExpression:
            pass  # an expression cannot be exported: export its value for the sizes of ``problem`` instead
    return PortableLaunch(
        steps=tuple(_numbers(step) for step in launch.steps),
        shapes=tuple(tuple(map(str, o.shape)) for o in launch.operands),
        scalars={
            a.name: repr(a.value) for step in launch.steps for a in step.arguments if isinstance(a, ScalarArgument)
        },
    )


def _numbers(launch: Launch) -> PortableStep:
    grid, block, cluster = (tuple(map(str, size)) for size in (launch.grid, launch.block, launch.cluster))
    return PortableStep(grid, block, cluster, str(launch.dynamic_shared_bytes))


def _free_sizes(file: KernelFile, schedule: Schedule) -> tuple[str, ...]:
    """Return the sizes on which neither the source nor the name of the entry function depends."""
    if file.generator is not None:
        return ()
    definitions = {a.name: a.expression for a in file.derived}
    text = "\n".join(
        (file.source, *(text for _, text in file.headers), *file.options, *(step.entry for step in file.steps))
    )
    mentioned = set(re.findall(r"[A-Za-z_]\w*", text))
    used = set[str]()
    waiting = [a.name for a in file.attributes if a.name in mentioned]
    for step in file.steps:
        waiting += re.findall(r"[A-Za-z_]\w*", step.entry.partition("<")[2])
    waiting += [name for d in file.defines if d.name in mentioned for name in d.expression.names]
    while waiting:
        name = waiting.pop()
        if name not in used:
            used.add(name)
            waiting += definitions[name].names if name in definitions else ()
    return tuple(name for name, _ in file.sizes if name not in used)


def _of_file(
    file: KernelFile,
    sizes: Mapping[str, int],
    schedule: Schedule,
    launch: Launch,
    device: Device,
    free: tuple[str, ...],
) -> PortableLaunch:
    known: dict[str, Result] = {name: value for name, value in sizes.items() if name not in free}
    for p in file.parameters:
        known[p.name] = float(schedule[p.name]) if p.name in file.floats else schedule[p.name]
    definitions = {a.name: a.expression for a in file.derived}

    def text(expression: Expression) -> str:
        return over_sizes(expression, free, known, definitions)

    def of(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(text(definitions[name]) for name in names)

    shapes = {a.name: tuple(text(e) for e in a.shape) for a in file.arrays}
    rules = [rule for rule in (*file.rules, *launch_rules(file, device)) if not rule.pruning]
    guards = ((text(rule.expression), rule.reason or rule.expression.text) for rule in rules)

    def step_of(step: PipelineStep) -> PortableStep:
        grid, block, cluster = (of(step.named(names)) for names in (GRID, BLOCK, CLUSTER))
        return PortableStep(grid, block, cluster, *of(step.named((SHARED,))))

    return PortableLaunch(
        steps=tuple(map(step_of, file.steps)),
        shapes=tuple(shapes[o.name] for o in launch.operands),
        scalars={a.name: text(a.value) for a in file.arguments if a.value is not None},
        free=free,
        guards=tuple((holds, why) for holds, why in guards if holds not in ("True", "1")),
    )


def _check_cpp(launch: PortableLaunch, sizes: tuple[str, ...]) -> None:
    """Raise PythonOnlyExpression if an expression cannot be translated to C++."""
    spelled = {name: name for name in sizes}
    texts = [*(text for step in launch.steps for text in step.texts), *launch.scalars.values()]
    texts += [text for shape in launch.shapes for text in shape] + [text for text, _ in launch.guards]
    for text in texts:
        to_cpp(text, spelled)
