"""The base of problems that a tile program computes."""

from __future__ import annotations

import dataclasses
import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from search_spaces.arrays import Array, FloatArray
from search_spaces.hardware.dtypes import DType
from search_spaces.launches.operand import Operand
from search_spaces.operators.input_cases import StressInputs
from search_spaces.operators.problem import Problem

if TYPE_CHECKING:  # the compiler of tile programs is imported when a program is needed
    from search_spaces.programs.builder import Program
    from search_spaces.programs.problem import ProgramProblem


@dataclasses.dataclass(frozen=True)
class ReducedLoops:
    """Minimum sizes of a reduced problem.

    Attributes:
        count: Sufficient number of iterations of each loop: pipelines are refilled, and every part of a split loop has
            some.
        chosen: Values of ``p.choose`` by name.
    """

    count: int
    chosen: Mapping[str, int]


def cut(size: int, tile: int) -> int:
    """Return the size of one whole tile and the same rest, or a whole one more; ``size`` where that is less."""
    return min(size, tile + (size % tile or tile))


class TileProblem(Problem):
    """A problem whose kernel template is a tile program.

    A subclass is a frozen dataclass of options, some of which are extents. It states operands as callers have them,
    the program's views of them (other shapes of the same dense memory), the reference and the program. The tolerance
    is the bound of the program's interpreter (a running error analysis over any order of sums), unless overridden.

    Attributes:
        inputs: Names of the arrays that a call takes, in order.
        optional_inputs: Names of arrays that a call may take by keyword.
        outputs: Number of arrays that a call gives.
        call_options: Keywords of a call with their defaults, which become fields of the problem.
        size_fields: Fields that the program knows as extents of its arrays alone. The program gets all others as
            ``options``, so that equal options share one program.
        scalar_fields: Fields of f32 that a launch passes by value, so that one kernel serves all their values. In the
            program's options they are tiles of one number.
    """

    inputs: ClassVar[tuple[str, ...]]
    optional_inputs: ClassVar[tuple[str, ...]] = ()
    outputs: ClassVar[int] = 1
    call_options: ClassVar[Mapping[str, Any]] = {}
    size_fields: ClassVar[tuple[str, ...]]
    scalar_fields: ClassVar[tuple[str, ...]] = ()

    @classmethod
    @abstractmethod
    def of_arrays(cls, shapes: Mapping[str, tuple[int, ...]], types: Mapping[str, str], **options: Any) -> Self:
        """Return the problem of a call on arrays of these shapes and types, by name.

        Sizes are taken from some of the arrays; the caller compares the rest with ``operands``.

        Raises:
            ValueError: Shapes or types that no problem has.
        """

    @abstractmethod
    def views(self) -> Mapping[str, str]:
        """Return the extents of each operand as the program sees it, by name: ``{"x": "m k"}``."""

    @abstractmethod
    def extents(self) -> Mapping[str, int]:
        """Return the size of each extent that ``views`` names."""

    @staticmethod
    @abstractmethod
    def compute(*arguments: Any, **arrays: Any) -> None:
        """Write the tile program: ``arguments`` are the builder and the options, ``arrays`` the program's arrays by
        the names of the operands."""

    def options(self) -> Mapping[str, Any]:
        """Return what the program gets as its options: all fields that are neither sizes nor scalars."""
        others = (*self.size_fields, *self.scalar_fields)
        fields = (f.name for f in dataclasses.fields(self) if f.name not in others)
        return {name: getattr(self, name) for name in fields}

    def reduced(self, turns: ReducedLoops) -> Self:
        """Return a smaller problem with the same remainders for the emulator; the problem itself where none is."""
        return self

    def grown(self) -> Iterator[tuple[str, Self]]:
        """Yield larger problems, by name, which a full verification emulates, too: long loops and many tiles."""
        return iter(())

    def pack(self, weights: Array) -> Array:
        """Return weights in the layout that kernels of this problem read. Raises ValueError where none are packed."""
        raise ValueError(f"kernels of {self.operator} take arrays as they are: pack none")

    def tile_problem(self) -> ProgramProblem:
        """Return the same as a problem of the tile program. Raises ValueError for what the program refuses."""
        return _tile_problem(self)

    def expected(self, inputs: Mapping[str, Array]) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
        """Return the reference as far as the outputs' types hold it, and the bound on rounding errors that the
        interpreter carries from operation to operation."""
        values, bounds, _ = self._judged(inputs)
        return values, bounds

    def _judged(self, inputs: Mapping[str, Array]) -> tuple[dict[str, FloatArray], dict[str, FloatArray], bool]:
        """Return what ``expected`` does, and whether the interpreter gives the same, within the bound."""
        from search_spaces.programs.language.bounded import rounded
        from search_spaces.programs.language.interpret import interpret

        interpreted, errors = interpret(self.tile_problem().usual_trace(), inputs)
        wanted, values, bounds, alike = self.reference(inputs), {}, {}, True
        for o in (o for o in self.operands() if o.role == "output"):
            own, error = interpreted[o.name].reshape(o.shape), errors[o.name].reshape(o.shape)
            values[o.name], bounds[o.name] = rounded(o.dtype, (wanted[o.name], error))
            other, _ = rounded(o.dtype, (own, error))
            with np.errstate(invalid="ignore"):
                near = np.abs(other - values[o.name]) <= bounds[o.name]
            both_nan = np.isnan(other) & np.isnan(values[o.name])
            alike = alike and bool((near | (other == values[o.name]) | both_nan).all())
        return values, bounds, alike

    def tolerance(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        return self.expected(inputs)[1]

    def random_inputs(self, seed: int) -> dict[str, Array]:
        return self._shaped(self.tile_problem().random_inputs(seed))

    def stress_inputs(self, seed: int) -> Iterator[StressInputs]:
        """Yield the edge cases of the program whose intermediate results f32 holds: where one overflows, or a number
        that must weigh nothing is NaN, the program's arithmetic is not that of the reference."""
        for given in self.tile_problem().edge_cases(seed, self.random_inputs(seed)):
            inputs = self._shaped(given.inputs)
            if self._judged(inputs)[2]:
                yield StressInputs(given.cases, inputs)

    def _shaped(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        return {o.name: arrays[o.name].reshape(o.shape) for o in self.operands() if o.role != "output"}

    def loaded(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        """Return inputs as float64, in the operands' shapes."""
        operands = (o for o in self.operands() if o.role != "output")
        return {o.name: o.dtype.load(inputs[o.name]).reshape(o.shape) for o in operands}

    @property
    def multiplied_as(self) -> str:
        """The type that the products multiply; "" without products."""
        return self.tile_problem().multiplied_as

    def operand(self, name: str) -> Operand:
        """Return an operand by name."""
        return next(o for o in self.operands() if o.name == name)


@lru_cache(maxsize=256)
def _tile_problem(problem: TileProblem) -> ProgramProblem:
    from search_spaces.programs.problem import problem_type

    own = type(problem)
    views = problem.views()
    arguments = tuple((o.name, views[o.name], o.dtype, o.role) for o in problem.operands())
    program = _program(own, arguments, tuple(problem.options().items()))
    extents = problem.extents()
    for name, view, *_ in arguments:
        count = math.prod(extents[extent] for extent in view.split())
        if count != problem.operand(name).size:
            raise ValueError(f"the view {view} of {name} has {count} elements, not {problem.operand(name).size}")
    scalars = {name: getattr(problem, name) for name in own.scalar_fields}
    return problem_type(program)(**{name: extents[name] for name in program.sizes}, **scalars)


@lru_cache(maxsize=256)
def _program(
    own: type[TileProblem], arguments: tuple[tuple[str, str, DType, str], ...], options: tuple[tuple[str, Any], ...]
) -> Program:
    """Return the program of some options; the same object for the same ones."""
    from search_spaces.programs.builder import Argument, Program, Scalar

    names = [name for name, *_ in arguments]
    usual: dict[str, Any] = {f.name: f.default for f in dataclasses.fields(own)}

    def function(p: Any, *given: Any) -> None:
        arrays, scalars = given[: len(names)], dict(zip(own.scalar_fields, given[len(names) :], strict=True))
        own.compute(p, SimpleNamespace(**dict(options), **scalars), **dict(zip(names, arrays, strict=True)))

    return Program(
        name=own.operator,
        function=function,
        arguments=tuple(
            (name, Argument(tuple(view.split()), dtype, role))  # type: ignore[arg-type]
            for name, view, dtype, role in arguments
        ),
        content=f"{arguments}\0{options}\0{Path(own.compute.__code__.co_filename).read_text('utf-8')}",
        summary=own.summary,
        scalars=tuple((name, Scalar("f32", float(usual[name]))) for name in own.scalar_fields),
    )
