"""Operators computed by a sequence of tile programs (steps): one generated kernel with a launch per step.

The schedule has the decisions of all steps; their names are prefixed by the step's name. Workspaces in global memory
pass results from one launch to later launches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeVar

from search_spaces.hardware.costs.cost_counts import CostCounts
from search_spaces.hardware.devices import Device
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.launch import Argument, Launch
from search_spaces.launches.operand import Operand
from search_spaces.launches.tensor_map import TensorMap
from search_spaces.operators.problem import Problem
from search_spaces.programs import template as programs
from search_spaces.programs.lowering.lowering import lower
from search_spaces.programs.planning.choices import choices_of
from search_spaces.programs.problem import ProgramProblem
from search_spaces.programs.schedules.counts import counts
from search_spaces.programs.schedules.space import space
from search_spaces.spaces.config import Config
from search_spaces.spaces.parameters import Value
from search_spaces.spaces.rules import Attribute, Rule
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.space import Space
from search_spaces.templates.template import KernelTemplate

Steps = Mapping[str, ProgramProblem]
_Column = TypeVar("_Column", Attribute, Rule)


@dataclass(frozen=True)
class Pipeline:
    """An operator computed by a sequence of tile programs.

    If an array of a step has the name of an operand of the operator, the array is this operand. Otherwise, the array is
    a workspace.

    Attributes:
        make: Function from a problem of the operator to the problems of the steps, by step name.
        reduce: Function that returns the reduced problem to emulate, given a problem and the schedules of all steps.
        content: Text that the programs depend on, such as a file's content; it is included in the template version.
    """

    operator: str
    summary: str
    make: Callable[[Any], Steps]
    reduce: Callable[[Any, Mapping[str, Schedule]], Problem]
    content: str = ""

    def template(self) -> KernelTemplate:
        """Return the kernel template."""
        return KernelTemplate(
            name=self.operator,
            summary=self.summary,
            operators=(self.operator,),
            source=programs.SOURCE,
            space=self._space,
            lower=self._lower,
            supports=self._why_not,
            counts=self._counts,
            proxy=self._proxy,
            content=f"{self.make.__module__}.{self.make.__qualname__}{self.content}",
            packages=programs.PACKAGES,
        )

    def _space(self, problem: Problem, device: Device) -> Space:
        return _joined_space(self, problem, device)

    def _lower(self, problem: Problem, config: Config, device: Device) -> GeneratedKernel:
        steps = self.make(problem)
        operands = {o.name: o for own in steps.values() for o in own.operands()}
        workspaces = {name: replace(o, role="workspace") for name, o in operands.items()}
        known = workspaces | {o.name: o for o in problem.operands()}
        kernels = {step: lower(own, part_of(config, step, own), device) for step, own in steps.items()}
        return _joined_kernel(kernels, known)

    def _counts(self, problem: Problem, config: Config, device: Device) -> CostCounts:
        steps = self.make(problem).items()
        first, *rest = (counts(own, part_of(config, step, own), device) for step, own in steps)
        return replace(first, then=tuple(rest))

    def _why_not(self, problem: Problem, device: Device) -> str | None:
        try:
            steps = self.make(problem)
        except ValueError as error:
            return str(error)
        reasons = (programs.template(own.program).supports(own, device) for own in steps.values())
        return next((reason for reason in reasons if reason is not None), None)

    def _proxy(self, problem: Problem, schedule: Schedule) -> Problem:
        steps = self.make(problem)
        schedules = {step: schedule_of(schedule, step, own) for step, own in steps.items()}
        smaller = self.reduce(problem, schedules)
        try:
            problems = self.make(smaller)
        except ValueError:
            return problem
        alike = all(_alike(steps[step], problems[step], schedules[step]) for step in steps)
        return smaller if alike else problem


def schedule_of(schedule: Schedule, step: str, own: ProgramProblem) -> Schedule:
    """Return the decisions of one step, with the prefix removed from their names."""
    return Schedule(own.program.name, tuple(_of_step(schedule.items, step)))


def part_of(config: Config, step: str, own: ProgramProblem) -> Config:
    """Return the decisions and attributes of one step, with the prefix removed from their names."""
    return Config(schedule_of(config.schedule, step, own), tuple(_of_step(config.attributes, step)))


_Item = TypeVar("_Item", bound=Value)


def _of_step(items: tuple[tuple[str, _Item], ...], step: str) -> list[tuple[str, _Item]]:
    return [(name.removeprefix(f"{step}_"), value) for name, value in items if name.startswith(f"{step}_")]


def _alike(own: ProgramProblem, other: ProgramProblem, schedule: Schedule) -> bool:
    """Return True if ``own`` and ``other``, two problems of a program, need the same decisions in a schedule."""
    one, two = choices_of(own), choices_of(other)
    names = [[s.name for s in of.inference(schedule.values).staged.values()] for of in (one, two)]
    return one.domains == two.domains and names[0] == names[1]


@lru_cache(maxsize=64)
def _joined_space(pipeline: Pipeline, problem: Problem, device: Device) -> Space:
    """Return the Cartesian product of the steps' spaces. No rule relates decisions of different steps."""
    spaces = {step: space(own, device) for step, own in pipeline.make(problem).items()}
    constraints = [_renamed(rule, step) for step, s in spaces.items() for rule in s.constraints]
    pruning = [_renamed(r, step) for step, s in spaces.items() for r in s.rules[len(s.constraints) :]]
    stratifying = [f"{step}_{name}" for step, s in spaces.items() for name in s.stratifying]
    return Space(
        pipeline.operator,
        [replace(p, name=f"{step}_{p.name}") for step, s in spaces.items() for p in s.parameters],
        [_renamed(attribute, step) for step, s in spaces.items() for attribute in s.attributes],
        constraints,
        pruning,
        stratified_by=next(iter(stratifying), None),
        covering=stratifying[1:],
        constants={f"{step}_{name}": value for step, s in spaces.items() for name, value in s.constants.items()},
    )


def _renamed(column: _Column, step: str) -> _Column:
    names = {parameter: f"{step}_{name}" for parameter, name in column.inputs.items()}
    return replace(column, name=f"{step}_{column.name}", names=names)


def _namespace(step: str) -> str:
    return f"step_{step}"


def _joined_kernel(kernels: Mapping[str, GeneratedKernel], known: Mapping[str, Operand]) -> GeneratedKernel:
    """Return one kernel with a launch per step; the code of each step is in its own namespace."""

    def of_operator(argument: Argument) -> Argument:
        if isinstance(argument, TensorMap):
            return replace(argument, operand=known[argument.operand.name])
        return known.get(argument.name, argument)

    includes, bodies = dict[str, None](), list[str]()
    for step, kernel in kernels.items():
        lines = kernel.source.split("\n")
        includes |= dict.fromkeys(line for line in lines if line.startswith("#include"))
        body = "\n".join(line for line in lines if not line.startswith("#include"))
        bodies.append(f"namespace {_namespace(step)} {{\n{body}\n}}\n")
    first, *rest = (replace(k, entry=f"{_namespace(step)}::{k.entry}") for step, k in kernels.items())
    headers = first.headers
    for kernel in rest:
        headers = headers | kernel.headers
    then = tuple(
        Launch(
            entry=kernel.entry,
            arguments=tuple(map(of_operator, kernel.arguments)),
            grid=kernel.grid,
            block=kernel.block,
            cluster=kernel.cluster,
            dynamic_shared_bytes=kernel.dynamic_shared_bytes,
        )
        for kernel in rest
    )
    return replace(
        first,
        source="".join(f"{line}\n" for line in includes) + "\n" + "".join(bodies),
        headers=headers,
        arguments=tuple(map(of_operator, first.arguments)),
        then=then,
    )
