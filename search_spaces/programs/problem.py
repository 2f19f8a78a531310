"""Problems of tile programs. Each program has a problem type, whose fields are the program's sizes and scalars."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from typing import Any, ClassVar, Self

import numpy as np

from search_spaces.arrays import Array, BoolArray, FloatArray
from search_spaces.launches.operand import Operand
from search_spaces.operators.input_cases import StressInputs
from search_spaces.operators.part import Indices, grid, rectangles
from search_spaces.operators.problem import EarlierReference, Problem, ProblemPart, option, standard_normal
from search_spaces.programs.builder import Program
from search_spaces.programs.language import ir
from search_spaces.programs.language.any_order import interpret_in_any_order
from search_spaces.programs.language.bounded import rounded
from search_spaces.programs.language.edge_inputs import edge_inputs
from search_spaces.programs.language.independence import independent
from search_spaces.programs.language.index_inputs import IndexInput, index_inputs, scale_inputs
from search_spaces.programs.language.interpret import interpret
from search_spaces.programs.language.ir import Trace
from search_spaces.programs.language.parameters import Number
from search_spaces.programs.language.product_flops import product_flops
from search_spaces.programs.language.scalar_inputs import ScalarInput, scalar_inputs

# Dynamic sizes to verify, as pairs (number of whole tiles, additional elements). AROUND_LINES is for the last extents
# of matrices. It includes multiples of 8 and 16, for which kernels use wide accesses.
AROUND_TILES = ((0, 1), (1, -1), (1, 0), (1, 1), (3, 5))
AROUND_LINES = ((0, 1), (1, -8), (1, 0), (1, 16), (3, 5))
# Unused elements between rows of strided arrays in verification, for different alignments of rows.
MORE_COLUMNS = (0, 1, 8, 16, 5)


class ProgramProblem(Problem):
    """Base class of the problem types that ``problem_type`` returns."""

    program: ClassVar[Program]

    @property
    def sizes(self) -> dict[str, int]:
        """Sizes by name."""
        return {name: getattr(self, name) for name in self.program.sizes}

    @property
    def values(self) -> dict[str, Number]:
        """Sizes and values of scalars, by name."""
        return {**self.sizes, **{name: getattr(self, name) for name in self.scalar_fields}}

    def __post_init__(self) -> None:
        """Check the fields, and replace row strides of 0 by the number of columns.

        Raises:
            ValueError: If a size is not a positive whole number, a scalar is out of range, or tracing the program
                fails.
        """
        for array, stride in self.program.strides.items():
            least = getattr(self, self._sizes_of(array)[-1])
            if getattr(self, stride) == 0:
                object.__setattr__(self, stride, least)
            if isinstance(least, int) and self._whole(stride) < least:
                raise ValueError(
                    f"invalid {stride}={getattr(self, stride)}: use at least {least}, the number of columns of {array}"
                )
        self._take_extents(*self.program.sizes)
        for name, scalar in self.program.scalars:
            object.__setattr__(self, name, scalar.checked(name, getattr(self, name)))
        self.usual_trace()

    def _whole(self, name: str) -> int:
        self._take_extents(name)
        return int(getattr(self, name))

    def _sizes_of(self, array: str) -> tuple[str, ...]:
        return dict(self.program.arguments)[array].sizes

    def usual_trace(self) -> Trace:
        """Return the trace with the largest tile sizes, for callers to which tile sizes do not matter."""
        return _trace(self, False)

    def least_trace(self) -> Trace:
        """Return the trace with the smallest tile sizes."""
        return _trace(self, True)

    @property
    def described(self) -> str:
        """The operator's name, sizes, and scalars that differ from their defaults, as text."""
        usual = {name: scalar.default for name, scalar in self.program.scalars}
        stated = {name: value for name, value in self.values.items() if usual.get(name) != value}
        return " ".join((self.operator, *(f"{name}={value}" for name, value in stated.items())))

    def operands(self) -> tuple[Operand, ...]:
        """Return the arrays of the program, inputs first."""
        strides, operands = self.program.strides, list[Operand]()
        for name, a in sorted(self.program.arguments, key=lambda item: item[1].role != "input"):
            shape, columns = tuple(self.sizes[s] for s in a.sizes), None
            if name in strides:
                shape, columns = (*shape[:-1], self.sizes[strides[name]]), shape[-1]
            operands.append(Operand(name, a.role, a.dtype, shape, columns=columns))
        return tuple(operands)

    def expected(self, inputs: Mapping[str, Array]) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
        """Return the expected outputs and their error bounds, by name.

        The outputs are computed by the user's reference, or by the interpreter if there is no reference. The
        interpreter computes the bounds, which include the rounding to the outputs' types.
        """
        values, bounds = interpret_in_any_order(self.usual_trace(), inputs, self.unordered)
        if self.program.reference is not None:
            stored = {o: np.asarray(inputs[o.name])[..., : o.columns] for o in self.operands() if o.role != "output"}
            arrays = {o.name: o.dtype.load(np.ascontiguousarray(array)) for o, array in stored.items()}
            shapes = {o.name: (*o.shape[:-1], o.columns or o.shape[-1]) for o in self.operands() if o.role != "input"}
            values = {**values, **self.program.reference(self.values, arrays, shapes)}
        operands = {o.name: o for o in self.operands()}
        both = {name: rounded(operands[name].dtype, (values[name], bound)) for name, bound in bounds.items()}
        for name, (value, bound) in both.items():
            columns = operands[name].columns
            if columns is not None:
                whole = operands[name].dtype.load(np.asarray(inputs[name])).astype(np.float64)
                errors = np.zeros_like(whole)
                whole[..., :columns], errors[..., :columns] = value, bound
                both[name] = whole, errors
        return {name: value for name, (value, _) in both.items()}, {name: bound for name, (_, bound) in both.items()}

    def unchanged(self, inputs: Mapping[str, Array]) -> Mapping[str, BoolArray]:
        """Return masks of the elements between rows of strided arrays, which kernels must not change."""
        return {
            o.name: np.broadcast_to(np.arange(o.shape[-1]) >= o.columns, o.shape)
            for o in self.operands()
            if o.role == "inout" and o.columns is not None
        }

    @property
    def dynamic_sizes(self) -> tuple[str, ...]:
        """Names of the dynamic sizes."""
        return self.program.dynamic

    @property
    def scalar_fields(self) -> tuple[str, ...]:
        """Names of the scalars."""
        return tuple(name for name, _ in self.program.scalars)

    def at_other_sizes(self, values: Mapping[str, Any]) -> tuple[Self, ...]:
        """Return problems with other dynamic sizes and scalars, such as sizes just below and above whole tiles."""
        if not self.program.dynamic and not self.program.scalars:
            return ()
        chosen = {name: values[name] for name in self.program.domains(self.values) if name in values}
        trace = self.program.trace(self.values, chosen)
        tiles = {size.number: tile for size, tile in zip(trace.dynamic, trace.tile, strict=False) if size is not None}
        loops = [o for o, _ in trace.walk() if isinstance(o, ir.Loop) and o.stop.kind == "size"]
        tiles = {**{loop.stop.number: loop.step for loop in loops}, **tiles}
        lines = {a.sizes[-1] for _, a in self.program.arguments if len(a.sizes) > 1}
        edges = {name: scalar.edges for name, scalar in self.program.scalars}
        problems = list[Self]()
        for at in range(len(AROUND_TILES)):
            other: dict[str, Number] = {}
            strides = {stride: array for array, stride in self.program.strides.items()}
            for number, name in enumerate(self.program.dynamic):  # different sizes get different edge cases
                if name in strides:
                    columns = self._sizes_of(strides[name])[-1]
                    least = int(other.get(columns, getattr(self, columns)))
                    other[name] = -(-least // 16) * 16 + MORE_COLUMNS[(at + number) % len(MORE_COLUMNS)]
                    continue
                around = AROUND_LINES if name in lines else AROUND_TILES
                tiles_, more = around[(at + number) % len(around)]
                other[name] = max(1, tiles_ * tiles.get(self.program.sizes.index(name), 1) + more)
            for number, (name, ends) in enumerate(edges.items()):
                other[name] = ends[(at + number) % len(ends)]
            problems.append(dataclasses.replace(self, **other))
        return tuple(dict.fromkeys(p for p in problems if p != self and p._is_defined()))

    def _is_defined(self) -> bool:
        """Return True if, with these values of the scalars, error bounds are finite for random inputs."""
        if not self.program.scalars:
            return True
        _, bounds = interpret(self.usual_trace(), self.random_inputs(0))
        return all(bool(np.isfinite(bound).all()) for bound in bounds.values())

    @property
    def unordered(self) -> tuple[str, ...]:
        """Names of the vectors whose elements verification may compare in any order."""
        return tuple(name for name, a in self.program.arguments if a.unordered)

    @property
    def checks_outputs(self) -> bool:
        """True if some array is unordered, so that its elements must be sorted before the comparison."""
        return bool(self.unordered)

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        """Return the expected outputs by name, in float64."""
        return self.expected(inputs)[0]

    def tolerance(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        """Return the largest absolute error allowed for each element, by output."""
        return self.expected(inputs)[1]

    def random_inputs(self, seed: int) -> dict[str, Array]:
        """Return random inputs.

        Floats have a standard normal distribution. 8-bit integers have the range of their type; wider integers are
        nonnegative and less than the problem's largest size. Most indices are inside of the indexed array. Scalars that
        are loaded as indices are in their declared range.
        """
        rng = np.random.default_rng(seed)
        saying: dict[str, IndexInput | ScalarInput] = {
            **index_inputs(self.usual_trace()),
            **scalar_inputs(self.usual_trace()),
        }
        inputs: dict[str, Array] = {}
        scales = scale_inputs(self.usual_trace())
        for o in self.operands():
            if o.role == "output":
                continue
            if o.dtype.is_float:
                inputs[o.name] = standard_normal(rng, o.shape, o.dtype)
            elif o.name in scales:
                inputs[o.name] = scales[o.name].store(np.exp2(rng.uniform(-4.0, 4.0, o.shape))).astype(o.dtype.storage)
            elif o.name in saying:
                inputs[o.name] = saying[o.name].draw(rng, o.shape).astype(o.dtype.storage)
            else:
                low, high = {"i8": (-128, 128), "u8": (0, 256)}.get(o.dtype.name, (0, max(self.sizes.values())))
                inputs[o.name] = rng.integers(low, high, o.shape).astype(o.dtype.storage)
        return inputs

    def stress_inputs(self, seed: int) -> Iterator[StressInputs]:
        """Yield inputs that provoke errors, such as extreme values and indices, with names of the cases."""
        return self.edge_cases(seed, self.random_inputs(seed))

    def edge_cases(self, seed: int, usual: Mapping[str, Array]) -> Iterator[StressInputs]:
        """Yield inputs with edge cases in one array at a time.

        Cases for which the result of the program is undefined are excluded. Loaded scalars are also set to numbers
        outside of their range, except if the user gave a reference, which might not clamp them.

        Args:
            seed: Random seed of the cases.
            usual: Contents of the other arrays.
        """
        scalars = scalar_inputs(self.usual_trace())
        indices = {n: of for n, of in index_inputs(self.usual_trace()).items() if n not in scalars}
        saying = {*indices, *scalars}
        for name, of in scalars.items():
            cases = list(of.edge_cases(usual[name].shape))
            if self.program.reference is None and not of.ordered:
                cases.append(("outside", of.outside(np.random.default_rng((seed, 2)), usual[name].shape)))
            yield from (StressInputs((f"{name}: {case}",), {**usual, name: numbers}) for case, numbers in cases)
        for name, array in indices.items():
            if not array.distinct:
                # edges() cycles through four indices: two calls with different starts produce all four, even in
                # vectors of two elements
                for first in (0, 2):
                    yield StressInputs((f"{name}: edges",), {**usual, name: array.edges(usual[name].shape, first)})
        traces = list(dict.fromkeys((self.usual_trace(), self.least_trace())))

        def expected(inputs: Mapping[str, Array]) -> Iterator[tuple[FloatArray, FloatArray]]:
            for trace in traces:
                values, bounds = interpret(trace, inputs)
                yield _joined(values), _joined(bounds)

        varied = [o for o in self.operands() if o.role == "input" and o.name not in saying]
        yield from edge_inputs(varied, usual, seed, expected)

    def parts(self, positions: Indices) -> Iterator[ProblemPart]:
        """Yield smaller problems that together compute the first output at ``positions``.

        Nothing is yielded if results are not independent along rows or columns.
        """
        first = next((o.name for o in self.operands() if o.role != "input"), "")
        return self.further_parts(first, positions)

    def further_parts(self, name: str, positions: Indices) -> Iterator[ProblemPart]:
        """Yield the problems that ``parts`` yields, but for the output ``name`` instead of the first output."""
        trace, operands = self.usual_trace(), {o.name: o for o in self.operands()}
        of = {operand: argument.sizes for operand, argument in self.program.arguments}
        names, free, out = of[name], independent(trace), operands[name]
        shared = set(names).intersection(*(of[o.name] for o in operands.values() if o.role != "input"))
        if self.program.strides or any(o.role == "inout" for o in operands.values()) or len(names) not in (1, 2):
            return
        if not free.keys() & shared:
            return
        needed = [o.name for o in operands.values() if o.role == "input"] + [name]
        single = len(names) == 1
        for rows, columns in [(positions, np.zeros(1, np.int64))] if single else rectangles(positions, out.shape[1]):
            chosen = {n: at for n, at in zip(names, (rows, columns), strict=False) if n in free.keys() & shared}
            every = {n: chosen[n] if n in chosen else np.arange(size) for n, size in self.sizes.items()}
            problem = dataclasses.replace(self, **{n: at.size for n, at in chosen.items()})
            selected = {o: _lattice(operands[o], of[o], every) for o in needed}
            yield ProblemPart(problem, {n: at for n, at in selected.items() if n != name}, {name: selected[name]})

    @property
    def multiplied_as(self) -> str:
        """Type of the operands of products; "" if there are no products."""
        types = {o.a.dtype.name for o, _ in self.usual_trace().walk() if isinstance(o, ir.Mma)}
        return types.pop() if types else ""

    @property
    def flops(self) -> float:
        """Number of floating-point operations of the products; if there are none, one per input element."""
        return _product_flops(self) or float(sum(o.size for o in self.operands() if o.role == "input"))

    def to_json(self) -> dict[str, Any]:
        """Return the sizes, the scalars that differ from their defaults, and the program's digest (``computes``)."""
        usual = {name: scalar.default for name, scalar in self.program.scalars}
        fields = {name: v for name, v in super().to_json().items() if name not in usual or v != usual[name]}
        return {**fields, "computes": computes(self.program)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Restore a problem.

        Raises:
            ValueError: As in Problem.
            EarlierReference: If ``data`` was recorded for another version of the program.
        """
        if data.get("computes") != computes(cls.program):
            raise EarlierReference(f"recorded for another version of the program {cls.program.name}")
        return super().from_json({k: v for k, v in data.items() if k != "computes"})


def _lattice(operand: Operand, names: tuple[str, ...], every: Mapping[str, Indices]) -> Indices:
    """Return row-major indices of selected elements of an operand. ``every`` has the positions along each extent."""
    strides = [math.prod(operand.shape[d + 1 :]) for d in range(len(names))]
    return grid(0, *((every[name], stride) for name, stride in zip(names, strides, strict=True)))


def _joined(arrays: Mapping[str, FloatArray]) -> FloatArray:
    return np.concatenate([values.reshape(-1) for values in arrays.values()])


@lru_cache(maxsize=256)
def _trace(problem: ProgramProblem, least: bool) -> Trace:
    """Return the trace with the smallest (``least``) or largest tile sizes."""
    chosen = {name: values[0 if least else -1] for name, values in problem.program.domains(problem.values).items()}
    return problem.program.trace(problem.values, chosen)


@lru_cache(maxsize=256)
def _product_flops(problem: ProgramProblem) -> float:
    return product_flops(problem.usual_trace())


@lru_cache(maxsize=256)
def computes(program: Program) -> str:
    """Return sixteen hex digits, a digest of the program's text."""
    return hashlib.sha256(program.content.encode()).hexdigest()[:16]


@cache
def problem_type(program: Program) -> type[ProgramProblem]:
    """Return the problem type of a program: a frozen dataclass with a field for each size and each scalar."""
    # The default stride 0 means that rows follow one another without gaps.
    known = {**dict(program.defaults), **dict.fromkeys(program.strides.values(), 0)}
    fields = [
        (name, "int", option(f"the size {name}", *([known[name]] if name in known else []))) for name in program.sizes
    ]
    fields += [
        (name, "int" if scalar.dtype == "i32" else "float", option(f"the scalar {name}", scalar.default))
        for name, scalar in program.scalars
    ]
    namespace = {"operator": program.name, "summary": program.summary, "program": program, "__module__": __name__}
    return dataclasses.make_dataclass(
        f"ProgramProblem[{program.name}]",
        fields,
        bases=(ProgramProblem,),
        namespace=namespace,
        frozen=True,
        kw_only=True,  # allows fields without defaults after fields with defaults (sizes of listings)
    )
