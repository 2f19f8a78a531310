"""What a tile program computes, as a Problem: one type for each program, whose fields are its sizes."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any, ClassVar, Self

from search_spaces.arrays import FloatArray
from search_spaces.operators.problem import Array, Operand, Problem, option
from search_spaces.programs.analysis import Analysis, analyse
from search_spaces.programs.builder import Program
from search_spaces.programs.interpret import interpret, rounded
from search_spaces.programs.ir import Trace


class ProgramProblem(Problem):
    """The base of the types that ``problem_type`` makes. Their JSON holds the sizes, and ``computes`` for the rest."""

    program: ClassVar[Program]

    @property
    def sizes(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in self.program.sizes}

    def __post_init__(self) -> None:
        """Raises ValueError for sizes that are no whole numbers from 1 up, and where the program refuses them."""
        self._take_extents(*self.program.sizes)
        self.usual_trace()

    def usual_trace(self) -> Trace:
        """The program with the largest of its tile sizes, which computes the same as with all others."""
        largest = {name: values[-1] for name, values in self.program.domains(self.sizes).items()}
        return self.program.trace(self.sizes, largest)

    def operands(self) -> tuple[Operand, ...]:
        return tuple(
            Operand(name, "output" if a.is_output else "input", a.dtype, tuple(self.sizes[s] for s in a.sizes))
            for name, a in sorted(self.program.arguments, key=lambda item: item[1].is_output)
        )

    def expected(self, inputs: Mapping[str, Array]) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
        """What the interpreter gives, and its bound with the rounding to the outputs' types."""
        values, bounds = interpret(self.usual_trace(), inputs)
        types = {o.name: o.dtype for o in self.operands()}
        return values, {name: rounded(types[name], (values[name], bound))[1] for name, bound in bounds.items()}

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        return self.expected(inputs)[0]

    def tolerance(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        return self.expected(inputs)[1]

    @property
    def multiplied_as(self) -> str:
        """The type that the products multiply; "" for a program that is not compiled."""
        found = self._analysed
        return "" if found is None else found.operands[0].array.dtype.name

    @property
    def _analysed(self) -> Analysis | None:
        try:
            return analyse(self.usual_trace())
        except ValueError:
            return None

    @property
    def flops(self) -> float:
        """Of the products; 0 for a program that is not compiled."""
        found = self._analysed
        if found is None:
            return 0.0
        m, n = found.trace.extent
        return 2.0 * m * n * found.depth * len(found.products)

    def to_json(self) -> dict[str, Any]:
        return {**super().to_json(), "computes": computes(self.program)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Raises ValueError as Problem does, and for one recorded when the program was another one."""
        if data.get("computes") != computes(cls.program):
            raise ValueError(f"this was recorded when the program {cls.program.name} was another one")
        return super().from_json({k: v for k, v in data.items() if k != "computes"})


@lru_cache(maxsize=256)
def computes(program: Program) -> str:
    """Sixteen hex digits that stand for the program's text."""
    return hashlib.sha256(program.content.encode()).hexdigest()[:16]


@cache
def problem_type(program: Program) -> type[ProgramProblem]:
    """A frozen dataclass with a field for each size."""
    fields = [(name, "int", option(f"the size {name}")) for name in program.sizes]
    namespace = {"operator": program.name, "summary": program.summary, "program": program, "__module__": __name__}
    return dataclasses.make_dataclass(
        f"ProgramProblem[{program.name}]", fields, bases=(ProgramProblem,), namespace=namespace, frozen=True
    )
