"""Base class of problems that are computed by a sequence of tile programs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from search_spaces.arrays import Array, FloatArray
from search_spaces.launches.operand import Operand
from search_spaces.operators.input_cases import StressInputs
from search_spaces.operators.problem import standard_normal
from search_spaces.tile_operators.tile_problem import TileOperator, program_problem

if TYPE_CHECKING:
    from search_spaces.programs.problem import ProgramProblem


@dataclass(frozen=True)
class ProgramStep:
    """A tile program of a pipeline.

    Attributes:
        name: Name of the step, and prefix of the names of its decisions.
        compute: Function that writes the program. Its arguments are the builder, the options, and the arrays by name.
        operands: Arrays of the program. An array that a later step reads is an output here and an input of that step.
        views: Extents of each array as the program sees it, by name.
    """

    name: str
    compute: Callable[..., None]
    operands: tuple[Operand, ...]
    views: Mapping[str, str]


class TilePipeline(TileOperator):
    """A problem whose kernel template consists of several tile programs, launched one after another.

    Arrays that are not operands of the operator are workspaces, which pass results to later programs.
    """

    @abstractmethod
    def steps(self) -> tuple[ProgramStep, ...]:
        """Return the programs in the order of their launches."""

    @property
    def varied(self) -> tuple[str, ...]:
        """Names of the arrays that get edge cases: all inputs, unless overridden."""
        return tuple(o.name for o in self.operands() if o.role == "input")

    def programs(self) -> Mapping[str, ProgramProblem]:
        """Return the program problem of each step. Equal pipelines share the cached result."""
        return _programs(self)

    def interpreted(
        self, inputs: Mapping[str, Array], least: bool = False
    ) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
        """Interpret all steps. Return results with error bounds, which include errors of earlier steps."""
        from search_spaces.programs.language.bounded import cast
        from search_spaces.programs.language.interpret import interpret

        arrays: dict[str, Array] = dict(inputs)
        values, bounds, errors = dict[str, FloatArray](), dict[str, FloatArray](), dict[str, FloatArray]()
        for own in self.programs().values():
            outputs, unsure = interpret(own.least_trace() if least else own.usual_trace(), arrays, errors=errors)
            for o in (o for o in own.operands() if o.role != "input"):
                values[o.name], bounds[o.name] = outputs[o.name], unsure[o.name]
                held, errors[o.name] = cast(o.dtype, (outputs[o.name], unsure[o.name]))
                with np.errstate(all="ignore"):
                    arrays[o.name] = o.dtype.store(held)
        return values, bounds

    def random_inputs(self, seed: int) -> dict[str, Array]:
        """Return standard normal numbers for all inputs."""
        rng = np.random.default_rng(seed)
        return {o.name: standard_normal(rng, o.shape, o.dtype) for o in self.operands() if o.role != "output"}

    def edge_cases(self, inputs: Mapping[str, Array], seed: int) -> Iterator[StressInputs]:
        """Yield inputs in which a ``varied`` array has edge cases, and for which all steps have defined results."""
        from search_spaces.programs.language.edge_inputs import edge_inputs

        outputs = [o.name for o in self.operands() if o.role != "input"]

        def expected(inputs: Mapping[str, Array]) -> Iterator[tuple[FloatArray, FloatArray]]:
            for least in (False, True):
                values, bounds = self.interpreted(inputs, least)
                yield _joined(values, outputs), _joined(bounds, outputs)

        varied = [self.operand(name) for name in self.varied]
        yield from edge_inputs(varied, inputs, seed, expected)


def _joined(arrays: Mapping[str, FloatArray], names: list[str]) -> FloatArray:

    return np.concatenate([arrays[name].reshape(-1) for name in names])


@lru_cache(maxsize=256)
def _programs(problem: TilePipeline) -> Mapping[str, ProgramProblem]:
    own, options = type(problem), tuple(problem.options().items())
    return {
        step.name: program_problem(
            f"{own.operator}_{step.name}", own.summary, step.compute, step.operands, step.views, problem.extents(),
            options,
        )
        for step in problem.steps()
    }  # fmt: skip
