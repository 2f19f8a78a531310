"""Declare tile programs in Python. A program is a function whose operations on tiles are recorded (traced)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from inspect import signature
from pathlib import Path
from typing import Literal

from search_spaces.arrays import FloatArray
from search_spaces.hardware.dtypes import F32, DType, dtype
from search_spaces.layouts.wg_map import WgMap
from search_spaces.operators.problem import divisor_of
from search_spaces.programs.language import ir
from search_spaces.programs.language.depths import pad_depths
from search_spaces.programs.language.index import Index, constant
from search_spaces.programs.language.ir import ProgramError
from search_spaces.programs.language.memory import ARRAY_DTYPES, INPUT_DTYPES
from search_spaces.programs.language.parameters import Number, Scalar
from search_spaces.programs.language.tracing import Builder
from search_spaces.programs.language.values import Tile, located
from search_spaces.short_repr import short_repr

__all__ = ["ARRAY_DTYPES", "Argument", "Builder", "InOut", "Input", "Output", "Program", "Scalar", "program", "wg_map"]

Role = Literal["input", "output", "inout"]
# A user's reference implementation. It receives sizes, scalars, inputs (float64) and shapes of outputs, each as a
# mapping by name, and returns the expected outputs by name.
Reference = Callable[
    [Mapping[str, Number], Mapping[str, FloatArray], Mapping[str, tuple[int, ...]]], Mapping[str, FloatArray]
]


@dataclass(frozen=True)
class Argument:
    """An array parameter of a program, with one to four named extents, an element type and a role.

    Attributes:
        unordered: True if verification ignores the order of the elements.
        strided: True if the row stride is an argument of each launch: the distance between the starts of adjacent rows,
            in elements.
    """

    sizes: tuple[str, ...]
    dtype: DType
    role: Role
    unordered: bool = False
    strided: bool = False


def _argument(sizes: str, type_: str, role: Role) -> Argument:
    names = tuple(sizes.split())
    if not 1 <= len(names) <= 4 or not all(name.isidentifier() for name in names):
        raise ProgramError(f'invalid extents {sizes!r}: name one to four, such as "m k"')
    try:
        return Argument(names, dtype(type_, INPUT_DTYPES if role == "input" else ARRAY_DTYPES), role)
    except ValueError as error:
        raise ProgramError(str(error)) from error


def Input(sizes: str, dtype: str, *, strided: bool = False) -> Argument:
    """Declare an array that the program reads: ``Input("m k", "f16")``.

    Args:
        sizes: Names of the extents, such as "m k".
        dtype: Element type.
        strided: True if a caller may pass a column slice of a larger array, such as ``x[:, :n]``. The number of
            elements from one row to the next is then a dynamic size, named NAME_stride for the array NAME.

    Raises:
        ProgramError: If the type is unknown, there are no extents or more than four, or a vector is strided.
    """
    return _with_rows(_argument(sizes, dtype, "input"), strided)


def _with_rows(argument: Argument, strided: bool) -> Argument:
    if strided and len(argument.sizes) < 2:
        raise ProgramError(f"a strided array needs at least two extents, but only {argument.sizes[0]} is named")
    return replace(argument, strided=bool(strided))


def Output(sizes: str, dtype: str) -> Argument:
    """Declare an array that the program writes. Raises ProgramError as ``Input`` does."""
    return _argument(sizes, dtype, "output")


def InOut(sizes: str, dtype: str, *, unordered: bool = False, strided: bool = False) -> Argument:
    """Declare an array that the program updates: elements that it does not write keep the caller's values.

    Args:
        sizes: Names of the extents, such as "m n".
        dtype: Element type.
        unordered: True if verification ignores the order of a vector's elements. Queues need this, as blocks and
            threads append to them in any order.
        strided: True if a caller may pass a column slice of a larger array, as for ``Input``. The program does not
            change the columns outside the slice.

    Raises:
        ProgramError: If the type is unknown, there are no extents or more than four, a matrix is unordered, or a vector
            is strided.
    """
    argument = _argument(sizes, dtype, "inout")
    if unordered and len(argument.sizes) != 1:
        raise ProgramError(f"only a vector can be unordered, but this array has the extents {sizes}")
    return replace(_with_rows(argument, strided), unordered=bool(unordered))


def source_of(function: Callable[..., None]) -> ir.Source:
    """Return the file and line of a program's function, or of the function's first decorator."""
    code = function.__code__
    return ir.Source(Path(code.co_filename).name, code.co_firstlineno)


def wg_map(sg_layout: tuple[int, int] | list[int], sg_data: tuple[int, int] | list[int]) -> WgMap:
    """Return the wg_map of a tile (XeTile RFC, ``#wg_map<sg_layout, sg_data>``). Raises ValueError as WgMap does."""
    return WgMap(tuple(sg_layout), tuple(sg_data))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Program:
    """A tile program: the user's ``function(p, array, ...)``, its source text ``content``, and its parameters."""

    name: str
    function: Callable[..., None]
    arguments: tuple[tuple[str, Argument], ...]
    content: str
    summary: str
    defaults: tuple[tuple[str, int], ...] = ()  # default values of sizes, which a listing gives as numbers
    notes: tuple[str, ...] = ()  # for a listing: how its ambiguous statements were interpreted
    reference: Reference | None = None  # a user's reference implementation, used instead of the interpreter
    dynamic: tuple[str, ...] = ()  # names of the sizes that each launch passes
    scalars: tuple[tuple[str, Scalar], ...] = ()  # scalars that each launch passes by value
    # names of all parameters in the order of the function's signature; empty if all are arrays
    parameters: tuple[str, ...] = ()
    source: str = ""  # file and line of the program, for messages

    __repr__ = short_repr

    @property
    def location(self) -> str:
        """File and line of the program for messages, or its name if the file is unknown."""
        return self.source or self.name

    @property
    def sizes(self) -> tuple[str, ...]:
        """Names of all extents in the order of their first use, followed by the names of the strides."""
        return tuple(dict.fromkeys([*(s for _, a in self.arguments for s in a.sizes), *self.strides.values()]))

    @property
    def strides(self) -> Mapping[str, str]:
        """Names of the stride sizes, by array name."""
        return {name: f"{name}_stride" for name, a in self.arguments if a.strided}

    def domains(self, sizes: Mapping[str, Number]) -> Mapping[str, tuple[int, ...]]:
        """Return the candidate values of each ``p.choose``, by name. Raises ProgramError as ``trace`` does."""
        return self._run(sizes, {})[0].domains

    def trace(self, sizes: Mapping[str, Number], chosen: Mapping[str, int]) -> ir.Trace:
        """Trace the program at given sizes and choices.

        Args:
            sizes: Sizes by name. Values of scalars may be included and override the scalars' defaults.
            chosen: Values of ``p.choose`` by name.

        Raises:
            ProgramError: If the program breaks a rule of the language.
        """
        builder, arrays = self._run(sizes, chosen)
        if builder.extent is None:
            raise ProgramError(
                f"{self.location}: p.blocks is not called: call it once to divide the result among blocks"
            )
        written = ir.without_unused_values(tuple(builder.scopes[0]))
        operations = pad_depths(written, builder.unused_id)
        return ir.Trace(
            self.name,
            arrays,
            builder.extent,
            builder.tile,
            operations,
            tuple(sorted(builder.chosen.items())),
            builder.dynamic,
            self.location,
            () if operations is written else written,
        )

    def _size(self, name: str, sizes: Mapping[str, Number]) -> Index | None:
        """Return the symbolic index of a dynamic size; None for a constant size."""
        if name not in self.dynamic:
            return None
        value = int(sizes[name])
        return Index("size", self.sizes.index(name), (constant(value), constant(divisor_of(value))))

    def _array(self, name: str, argument: Argument, sizes: Mapping[str, Number]) -> ir.Array:
        """Return the array object that the traced function receives for an argument."""
        line = self._size(argument.sizes[-1], sizes) if len(argument.sizes) > 1 else None
        return ir.Array(
            name,
            argument.role,
            argument.dtype,
            argument.sizes,
            tuple(int(sizes[s]) for s in argument.sizes),
            dynamic=self._size(argument.sizes[0], sizes),
            line=line,
            pitch=self._size(self.strides[name], sizes) if argument.strided else line,
        )

    def _scalar(self, builder: Builder, number: int, sizes: Mapping[str, Number]) -> Tile | Index:
        """Return the tile or index that the traced function receives for a scalar."""
        name, scalar = self.scalars[number]
        value, (low, high) = sizes.get(name, scalar.default), scalar.limits
        if scalar.dtype == "i32":
            return Index("argument", number, tuple(constant(int(n)) for n in (value, low, high)))
        source = source_of(self.function)
        return builder.result((1, 1), F32, lambda v: ir.PassedScalar(v, name, float(value), source))

    def _run(self, sizes: Mapping[str, Number], chosen: Mapping[str, int]) -> tuple[Builder, tuple[ir.Array, ...]]:
        builder = Builder(chosen)
        arrays = tuple(self._array(name, a, sizes) for name, a in self.arguments)
        passed: dict[str, object] = {a.name: a for a in arrays}
        passed |= {name: self._scalar(builder, at, sizes) for at, (name, _) in enumerate(self.scalars)}
        arguments = [passed[name] for name in self.parameters or passed]
        try:
            signature(self.function).bind(builder, *arguments)
        except TypeError as error:
            names = ", ".join(("p", *(self.parameters or passed)))
            raise ProgramError(f"{self.location}: {self.name} must have the parameters {names}: {error}") from error
        try:
            self.function(builder, *arguments)
        except Exception as error:  # the user's code may raise any exception
            raise located(error, self.function) from error
        if len(builder.scopes) != 1:
            raise ProgramError(f"{self.location}: a loop over p.steps ended early: remove the break")
        return builder, arrays


def program(*, dynamic: str = "", **parameters: Argument | Scalar) -> Callable[[Callable[..., None]], Program]:
    """Turn a function into a tile program: ``@program(a=Input("m k", "f16"), .., c=Output("m n", "f32"))``.

    The function is called with ``p``, followed by the parameters in the order in which they are declared.

    Args:
        dynamic: Names of dynamic sizes, such as "m": one kernel serves every value of a dynamic size. Arrays with a
            dynamic size have at most two extents. The traced function receives a dynamic size as an index, not as an
            int.
        parameters: The arrays, and the scalars that each launch passes by value.

    Raises:
        ProgramError: If there is no output, an array of three or more extents has a dynamic size, or a scalar has the
            name of a size.
    """
    sizes = tuple(dynamic.split())
    arguments = {name: a for name, a in parameters.items() if isinstance(a, Argument)}
    scalars = {name: a for name, a in parameters.items() if isinstance(a, Scalar)}
    for name in parameters:
        if name not in arguments and name not in scalars:
            raise ProgramError(f"{name} must be an Input, Output, InOut or Scalar, not {parameters[name]!r}")
    for name in scalars:
        if any(name in a.sizes for a in arguments.values()):
            raise ProgramError(f"the scalar {name} has the name of a size: rename one of them")
    for name, argument in arguments.items():
        for size in sizes:
            if size in argument.sizes and len(argument.sizes) > 2:
                raise ProgramError(
                    f"{name}: a dynamic size is only supported in arrays with at most two extents, not "
                    f"{len(argument.sizes)}: make {size} a constant"
                )
    strides = {name: f"{name}_stride" for name, a in arguments.items() if a.strided}
    for name, size in strides.items():
        if size in parameters or any(size in a.sizes for a in arguments.values()):
            raise ProgramError(f"the name {size} is reserved for the stride of {name}: rename the extent or parameter")
    unknown = [size for size in sizes if all(size not in a.sizes for a in arguments.values())]
    if unknown:
        raise ProgramError(f"unknown dynamic size {unknown[0]}: use the name of an extent of an array")

    def declare(function: Callable[..., None]) -> Program:
        if all(a.role == "input" for a in arguments.values()):
            raise ProgramError(f"{source_of(function)}: a program needs an Output")
        try:
            content = Path(function.__code__.co_filename).read_text("utf-8")
        except OSError:  # no source file: the function was typed at a prompt
            content = repr((function.__code__.co_code, function.__code__.co_consts, function.__code__.co_names))
        identity = f"{arguments}\0{content}" + (f"\0{sizes}" if sizes else "") + (f"\0{scalars}" if scalars else "")
        summary = (function.__doc__ or "a tile program").strip().splitlines()[0]
        return Program(
            function.__name__,
            function,
            tuple(arguments.items()),
            identity,
            summary,
            dynamic=(*sizes, *strides.values()),
            scalars=tuple(scalars.items()),
            parameters=tuple(parameters) if scalars else (),
            source=str(source_of(function)),
        )

    return declare
