"""Base classes of problems that are computed by tile programs."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
import sys
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from search_spaces.arrays import Array, FloatArray
from search_spaces.hardware.dtypes import DType
from search_spaces.launches.operand import Operand
from search_spaces.operators.input_cases import StressInputs
from search_spaces.operators.part import Indices
from search_spaces.operators.problem import Problem, ProblemPart
from search_spaces.tile_operators.known_results import KnownResults, contents

if TYPE_CHECKING:  # only for type hints: the compiler of tile programs is imported when it is needed
    from search_spaces.programs.builder import Program
    from search_spaces.programs.problem import ProgramProblem


_BoundedResults = tuple[dict[str, FloatArray], dict[str, FloatArray], bool]
_KNOWN = KnownResults[_BoundedResults](most_bytes=2**27)


def _bytes(results: _BoundedResults) -> int:
    values, bounds, _ = results
    return sum(array.nbytes for array in (*values.values(), *bounds.values()))


@dataclasses.dataclass(frozen=True)
class ReducedLoops:
    """Minimum sizes of a reduced problem.

    Attributes:
        count: Number of iterations of each loop that suffices to refill pipelines and to run every part of a split
            loop.
        chosen: Values of ``p.choose`` by name.
        of_few_parts: The value of ``count`` if at most two blocks shared each loop; 0 if it is not known.
        streamed: True if blocks share the iterations of the last tiles (stream-K), which requires whole and partial
            waves of tiles.
    """

    count: int
    chosen: Mapping[str, int]
    of_few_parts: int = 0
    streamed: bool = False


def cut(size: int, tile: int) -> int:
    """Return the length of one whole tile plus the last tile of ``size``, which may be partial; at most ``size``."""
    return min(size, tile + (size % tile or tile))


class TileOperator(Problem):
    """A problem that one tile program computes (``TileProblem``), or several (``TilePipeline``).

    A subclass is a frozen dataclass of options, some of which are extents. It defines the operands as callers pass
    them, and the reference. Unless overridden, the tolerance is the error bound from the programs' interpreter. The
    interpreter computes this bound with a running error analysis. The bound holds for sums in any order.

    Attributes:
        inputs: Names of the arrays that a call takes, in order.
        optional_inputs: Names of arrays that a call may take by keyword.
        changed_inputs: Names of inputs that a call changes in place (operands with role "inout").
        outputs: Number of arrays that a call returns.
        call_options: Keywords of a call with their defaults, which become fields of the problem.
        size_fields: Fields that a program only receives as extents of arrays. Other fields are passed as ``options``,
            so that problems with equal options share one program.
        scalar_fields: Fields of f32 that each launch passes by value, so that one kernel supports all values. In the
            program's options, they are tiles with one value.
    """

    inputs: ClassVar[tuple[str, ...]]
    optional_inputs: ClassVar[tuple[str, ...]] = ()
    changed_inputs: ClassVar[tuple[str, ...]] = ()
    outputs: ClassVar[int] = 1
    call_options: ClassVar[Mapping[str, Any]] = {}
    size_fields: ClassVar[tuple[str, ...]]
    scalar_fields: ClassVar[tuple[str, ...]] = ()

    @classmethod
    @abstractmethod
    def of_arrays(cls, shapes: Mapping[str, tuple[int, ...]], types: Mapping[str, str], **options: Any) -> Self:
        """Return the problem of a call on arrays with these shapes and types.

        Sizes are derived from some of the arrays. The caller compares all other arrays with ``operands``.

        Args:
            shapes: Shape of each array, by name.
            types: Type of each array, such as "bf16", by name.
            options: Keywords of the call.

        Returns:
            The problem.

        Raises:
            ValueError: Unsupported shapes or types.
        """

    @abstractmethod
    def extents(self) -> Mapping[str, int]:
        """Return the size of each extent of the programs' arrays."""

    def options(self) -> Mapping[str, Any]:
        """Return the options of the programs: all fields that are neither sizes nor scalars."""
        other_fields = (*self.size_fields, *self.scalar_fields)
        fields = (f.name for f in dataclasses.fields(self) if f.name not in other_fields)
        return {name: getattr(self, name) for name in fields}

    def reduced(self, loops: ReducedLoops) -> Self:
        """Return a smaller problem for the emulator. Its partial tiles keep their sizes. Default: the same problem."""
        return self

    def reduced_to_long_loops(self, loops: ReducedLoops) -> Self | None:
        """Return a second reduced problem whose loops have ``loops.count`` iterations, if needed, else None.

        The default is None: the problem of ``reduced`` suffices.
        """
        return None

    def pack(self, weights: Array) -> Array:
        """Return weights in the layout that kernels read. Raises ValueError if kernels read unpacked weights."""
        raise ValueError(f"kernels of {self.operator} read unpacked arrays: call them without pack")

    @abstractmethod
    def programs(self) -> Mapping[str, ProgramProblem]:
        """Return the problems of the tile programs by name, in launch order. A single program is named "".

        Raises:
            ValueError: A program rejects the problem.
        """

    @abstractmethod
    def interpreted(
        self, inputs: Mapping[str, Array], least: bool = False
    ) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
        """Return the results of the tile-program interpreter and its bounds on rounding errors, by output.

        Args:
            inputs: Arrays by name.
            least: True if the programs use their smallest tile sizes instead of the largest.
        """

    @abstractmethod
    def edge_cases(self, inputs: Mapping[str, Array], seed: int) -> Iterator[StressInputs]:
        """Yield copies of ``inputs`` in which one array has edge cases."""

    def own_cases(self, inputs: Mapping[str, Array]) -> Iterator[StressInputs]:
        """Yield difficult inputs specific to this operator, based on ``inputs``."""
        return iter(())

    def expected(self, inputs: Mapping[str, Array]) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
        """Return the reference, rounded to the outputs' types, and the interpreter's bound on rounding errors."""
        values, bounds, _ = self._bounded(inputs)
        return values, bounds

    def _bounded(self, inputs: Mapping[str, Array]) -> tuple[dict[str, FloatArray], dict[str, FloatArray], bool]:
        """Return the result of ``expected``, and True if the interpreter agrees with the reference.

        The result is cached: the selection of inputs needs it, and many launches and schedules use the same inputs.
        """
        values, bounds, alike = _KNOWN.get((self, contents(inputs)), lambda: self._made_bounded(inputs), _bytes)
        return dict(values), dict(bounds), alike

    def _made_bounded(self, inputs: Mapping[str, Array]) -> _BoundedResults:
        from search_spaces.programs.language.bounded import rounded

        interpreted, errors = self.interpreted(inputs)
        wanted, values, bounds, alike = self.reference(inputs), {}, {}, True
        for o in (o for o in self.operands() if o.role != "input"):
            own, error = interpreted[o.name].reshape(o.shape), errors[o.name].reshape(o.shape)
            values[o.name], bounds[o.name] = rounded(o.dtype, (wanted[o.name], error))
            other, _ = rounded(o.dtype, (own, error))
            with np.errstate(invalid="ignore"):
                near = np.abs(other - values[o.name]) <= bounds[o.name]
            both_nan = np.isnan(other) & np.isnan(values[o.name])
            alike = alike and bool((near | (other == values[o.name]) | both_nan).all())
        for array in (*values.values(), *bounds.values()):
            array.flags.writeable = False
        return values, bounds, alike

    def tolerance(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        """Return the interpreter's bound on rounding errors."""
        return self.expected(inputs)[1]

    def stress_inputs(self, seed: int) -> Iterator[StressInputs]:
        """Yield the edge cases for which the program's results are defined.

        If an intermediate result overflows, or a NaN has weight 0, programs may differ from the reference.
        """
        usual = self.random_inputs(seed)
        for case in itertools.chain(self.own_cases(self._shaped(usual)), self.edge_cases(usual, seed)):
            inputs = self._shaped(case.inputs)
            if self._bounded(inputs)[2]:
                yield StressInputs(case.cases, inputs)

    def _shaped(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        return {o.name: arrays[o.name].reshape(o.shape) for o in self.operands() if o.role != "output"}

    def loaded(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        """Return inputs as float64, in the operands' shapes."""
        operands = (o for o in self.operands() if o.role != "output")
        return {o.name: o.dtype.load(inputs[o.name]).reshape(o.shape) for o in operands}

    @property
    def multiplied_as(self) -> str:
        """Type of the operands of the matrix products; "" without products."""
        types = (program.multiplied_as for program in self.programs().values())
        return next((name for name in types if name), "")

    def operand(self, name: str) -> Operand:
        """Return an operand by name."""
        return next(o for o in self.operands() if o.name == name)


class TileProblem(TileOperator):
    """A problem whose kernel template is a tile program.

    A subclass also defines the program, and the shapes in which the program views the operands' memory.
    """

    @abstractmethod
    def views(self) -> Mapping[str, str]:
        """Return, by operand, the names of the extents in the program, such as ``{"x": "m k"}``."""

    @staticmethod
    @abstractmethod
    def compute(*arguments: Any, **arrays: Any) -> None:
        """Write the tile program.

        Args:
            arguments: The builder and the options.
            arrays: Arrays of the program, by the names of the operands.
        """

    def programs(self) -> Mapping[str, ProgramProblem]:
        """Return the single program, named ""."""
        return {"": self.tile_problem()}

    def tile_problem(self) -> ProgramProblem:
        """Return the problem of the tile program. Raises ValueError if the program rejects it."""
        return _tile_problem(self)

    def interpreted(
        self, inputs: Mapping[str, Array], least: bool = False
    ) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
        """Interpret the program with its smallest or largest tile sizes."""
        from search_spaces.programs.language.interpret import interpret

        own = self.tile_problem()
        return interpret(own.least_trace() if least else own.usual_trace(), inputs)

    def random_inputs(self, seed: int) -> dict[str, Array]:
        """Return the tile program's random inputs in the operands' shapes."""
        return self._shaped(self.tile_problem().random_inputs(seed))

    def edge_cases(self, inputs: Mapping[str, Array], seed: int) -> Iterator[StressInputs]:
        """Yield the edge inputs of the tile program."""
        return self.tile_problem().edge_cases(seed, inputs)

    def parts(self, positions: Indices) -> Iterator[ProblemPart]:
        """Yield smaller problems for the results at ``positions``; none if the program has products."""
        return iter(()) if self.multiplied_as else self.tile_problem().parts(positions)

    def further_parts(self, name: str, positions: Indices) -> Iterator[ProblemPart]:
        """Yield smaller problems for the output ``name`` at ``positions``."""
        return self.tile_problem().further_parts(name, positions)


@lru_cache(maxsize=256)
def _tile_problem(problem: TileProblem) -> ProgramProblem:
    own, operands, options = type(problem), problem.operands(), tuple(problem.options().items())
    usual: dict[str, Any] = {field.name: field.default for field in dataclasses.fields(own)}
    return program_problem(
        own.operator,
        own.summary,
        own.compute,
        operands,
        problem.views(),
        problem.extents(),
        options,
        tuple((name, float(usual[name]), float(getattr(problem, name))) for name in own.scalar_fields),
    )


def program_problem(
    name: str,
    summary: str,
    compute: Callable[..., None],
    operands: Sequence[Operand],
    views: Mapping[str, str],
    extents: Mapping[str, int],
    options: tuple[tuple[str, Any], ...],
    scalars: tuple[tuple[str, float, float], ...] = (),
) -> ProgramProblem:
    """Return the problem of a tile program.

    Args:
        name: Name of the program.
        summary: One-line description.
        compute: Function that writes the program, given the builder, the options and the arrays by name.
        operands: Arrays of the program in order.
        views: By array, the names of the extents in the program.
        extents: Size of each extent.
        options: Options that ``compute`` receives.
        scalars: Name, default and value of each f32 that a launch passes by value; ``compute`` also receives each of
            them as an option: a tile of one element.

    Returns:
        The problem with these sizes and values.

    Raises:
        ValueError: The program rejects the arguments, or a view and its operand have different numbers of elements.
    """
    from search_spaces.programs.problem import problem_type

    arguments = tuple((o.name, views[o.name], o.dtype, o.role) for o in operands)
    usual = tuple((scalar, value) for scalar, value, _ in scalars)
    program = _program(name, summary, compute, arguments, options, usual)
    for o in operands:
        count = math.prod(extents[extent] for extent in views[o.name].split())
        if count != o.size:
            raise ValueError(f"the view {views[o.name]} of {o.name} has {count} elements, not {o.size}")
    values = {scalar: value for scalar, _, value in scalars}
    return problem_type(program)(**{size: extents[size] for size in program.sizes}, **values)


_SHARED = re.compile(r"^from (search_spaces\.tile_operators\.\w+) import", re.MULTILINE)


def program_text(compute: Callable[..., Any]) -> str:
    """Return the text of a program's file and of all modules of this package that it imports, even indirectly."""
    files = [Path(compute.__code__.co_filename)]
    for file in files:  # the loop appends to the list that it iterates over
        names = (name for name in _SHARED.findall(file.read_text("utf-8")) if name != __name__)
        imported = (Path(str(sys.modules[name].__file__)) for name in names)
        files += [other for other in dict.fromkeys(imported) if other not in files]
    return "\0".join(file.read_text("utf-8") for file in files)


@lru_cache(maxsize=256)
def _program(
    name: str,
    summary: str,
    compute: Callable[..., None],
    arguments: tuple[tuple[str, str, DType, str], ...],
    options: tuple[tuple[str, Any], ...],
    scalars: tuple[tuple[str, float], ...],
) -> Program:
    """Return the program for some options. Cached, so that equal options have the same program object."""
    from search_spaces.programs.builder import Argument, Program, Scalar

    names = [argument for argument, *_ in arguments]

    def function(p: Any, *arrays: Any) -> None:
        passed = dict(zip((scalar for scalar, _ in scalars), arrays[len(names) :], strict=True))
        chosen = SimpleNamespace(**dict(options), **passed)
        compute(p, chosen, **dict(zip(names, arrays[: len(names)], strict=True)))

    return Program(
        name=name,
        function=function,
        arguments=tuple(
            (argument, Argument(tuple(view.split()), dtype, role))  # type: ignore[arg-type]
            for argument, view, dtype, role in arguments
        ),
        content=f"{arguments}\0{options}\0{program_text(compute)}",
        summary=summary,
        scalars=tuple((scalar, Scalar("f32", value)) for scalar, value in scalars),
    )
