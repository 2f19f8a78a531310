"""A tile program as a kernel template of an existing operator. A search for the operator then includes the program."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from search_spaces.hardware.devices import Device
from search_spaces.hardware.dtypes import DType
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.launch import Argument
from search_spaces.launches.tensor_map import TensorMap
from search_spaces.operators.problem import Problem
from search_spaces.programs import template as programs
from search_spaces.programs.builder import Program
from search_spaces.programs.lowering.lowering import lower
from search_spaces.programs.planning.choices import choices_of
from search_spaces.programs.problem import ProgramProblem, problem_type
from search_spaces.programs.schedules.counts import counts
from search_spaces.programs.schedules.proxy import proxy
from search_spaces.programs.schedules.space import space
from search_spaces.spaces.config import Config
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.space import Space
from search_spaces.templates.template import KernelTemplate

ProgramAndSizes = tuple[Program, Mapping[str, int]] | ProgramProblem


@dataclass(frozen=True)
class ProgramTemplate:
    """A tile program that computes an existing operator.

    The program has the template's name. Its arrays have the names, types and numbers of elements of the operator's
    operands, but may have other shapes. Results are compared with the operator's reference.

    Attributes:
        make: Function from a problem of ``operator`` to the program and its sizes, or to the reason (one sentence) why
            the program does not support the problem.
        reduce: Function that returns the reduced problem to emulate for a schedule. By default, sizes that are fields
            of the problem are reduced.
        reduce_to_long_loops: Function that returns a second reduced problem with more iterations, or None if the
            problem of ``reduce`` has enough iterations.
        content: Text that the program depends on, such as a file's content; it is included in the template version.
    """

    name: str
    operator: str
    summary: str
    make: Callable[[Any], ProgramAndSizes | str]
    reduce: Callable[[Any, Schedule], Problem] | None = None
    reduce_to_long_loops: Callable[[Any, Schedule], Problem | None] | None = None
    content: str = ""

    def problem(self, problem: Problem) -> ProgramProblem | str:
        """Return the tile program's problem that is equal to an operator's problem, or the reason why there is none."""
        return _problem(self, problem)

    def template(self) -> KernelTemplate:
        """Return the kernel template."""
        return KernelTemplate(
            name=self.name,
            summary=self.summary,
            operators=(self.operator,),
            source=programs.SOURCE,
            space=self._space,
            lower=self._lower,
            supports=self._why_not,
            counts=self._counts,
            proxy=self._proxy,
            long_proxy=self._long_proxy if self.reduce_to_long_loops else None,
            content=f"{self.make.__module__}.{self.make.__qualname__}{self.content}",
            packages=programs.PACKAGES,
        )

    def _own(self, problem: Problem) -> ProgramProblem:
        problem_or_reason = self.problem(problem)
        if isinstance(problem_or_reason, str):
            raise ValueError(problem_or_reason)
        return problem_or_reason

    def _space(self, problem: Problem, device: Device) -> Space:
        return space(self._own(problem), device)

    def _lower(self, problem: Problem, config: Config, device: Device) -> GeneratedKernel:
        kernel, operands = lower(self._own(problem), config, device), {o.name: o for o in problem.operands()}

        def of_operator(argument: Argument) -> Argument:
            if isinstance(argument, TensorMap):
                return dataclasses.replace(argument, operand=operands[argument.operand.name])
            return operands.get(argument.name, argument)

        then = tuple(dataclasses.replace(s, arguments=tuple(map(of_operator, s.arguments))) for s in kernel.then)
        return dataclasses.replace(kernel, arguments=tuple(map(of_operator, kernel.arguments)), then=then)

    def _counts(self, problem: Problem, config: Config, device: Device) -> Any:
        """Return the program's cost counts.

        If the program's minimum DRAM traffic exceeds the operator's minimum, the difference is not counted.
        """
        own = self._own(problem)
        cost = counts(own, config, device)
        uncounted = own.min_bytes - problem.min_bytes
        return dataclasses.replace(cost, dram_bytes=cost.dram_bytes - uncounted) if uncounted else cost

    def _why_not(self, problem: Problem, device: Device) -> str | None:
        problem_or_reason = self.problem(problem)
        if isinstance(problem_or_reason, str):
            return problem_or_reason
        if _arrays(problem_or_reason) != _arrays(problem):
            return f"the arrays of the program {self.name} differ from the operands of {self.operator}"
        return programs.template(problem_or_reason.program).supports(problem_or_reason, device)

    def _proxy(self, problem: Problem, schedule: Schedule) -> Problem:
        own = self._own(problem)
        if self.reduce is not None:
            return self._if_alike(problem, self.reduce(problem, schedule), schedule)
        small = proxy(own, schedule)
        fields = {f.name for f in dataclasses.fields(problem)}
        smaller = dataclasses.replace(problem, **{n: v for n, v in small.sizes.items() if n in fields})
        same = self.problem(smaller)
        return smaller if isinstance(same, ProgramProblem) and same.sizes == small.sizes else problem

    def _long_proxy(self, problem: Problem, schedule: Schedule) -> Problem | None:
        assert self.reduce_to_long_loops is not None
        longer = self.reduce_to_long_loops(problem, schedule)
        return longer and self._if_alike(problem, longer, schedule)

    def _if_alike(self, problem: Problem, smaller: Problem, schedule: Schedule) -> Problem:
        """Return ``smaller`` if the schedule is also legal for ``smaller``, else ``problem``."""
        own = self.problem(smaller)
        if isinstance(own, str):
            return problem
        known = choices_of(self._own(problem))
        same = choices_of(own).domains == known.domains and [
            s.name for s in choices_of(own).inference(schedule.values).staged.values()
        ] == [s.name for s in known.inference(schedule.values).staged.values()]
        return smaller if same else problem


def _arrays(problem: Problem) -> list[tuple[str, str, DType, int]]:
    return [(o.name, o.role, o.dtype, o.size) for o in problem.operands()]


@lru_cache(maxsize=256)
def _problem(template: ProgramTemplate, problem: Problem) -> ProgramProblem | str:
    try:
        program_and_sizes = template.make(problem)
    except ValueError as error:
        return str(error)
    if isinstance(program_and_sizes, str | ProgramProblem):
        return program_and_sizes
    program, sizes = program_and_sizes
    try:
        return problem_type(program)(**sizes)
    except ValueError as error:
        return str(error)
