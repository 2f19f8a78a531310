"""A tile program on numpy: its outputs in float64, with a bound on the rounding errors of any schedule.

Products are added up in f32 in any order; casts round where the program says so; bounds are carried operation by
operation (running error analysis). The tile sizes do not change the result beyond float64's own rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from search_spaces.arrays import FloatArray
from search_spaces.hardware.dtypes import F32, SMALLEST, DType
from search_spaces.operators.problem import Array, sum_growth
from search_spaces.programs import ir
from search_spaces.programs.functions import FUNCTIONS, U

Bounded = tuple[FloatArray, FloatArray]  # values, and how far a kernel's may be from them


def interpret(trace: ir.Trace, inputs: Mapping[str, Array]) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
    """Outputs, and the largest absolute error allowed for each element; elements that no block stores are NaN."""
    arrays = {a.name: a.dtype.load(inputs[a.name]).reshape(a.shape) for a in trace.arrays if a.role == "input"}
    outputs = {a.name: np.full(a.shape, np.nan) for a in trace.arrays if a.role == "output"}
    bounds = {name: np.zeros_like(values) for name, values in outputs.items()}
    with np.errstate(all="ignore"):
        for row in range(trace.blocks[0]):
            for column in range(trace.blocks[1]):
                _Block((row, column), arrays, outputs, bounds).run(trace.operations)
    shapes = {a.name: a.shape if len(a.sizes) == 2 else a.shape[1:] for a in trace.arrays}
    return (
        {name: values.reshape(shapes[name]) for name, values in outputs.items()},
        {name: values.reshape(shapes[name]) for name, values in bounds.items()},
    )


@dataclass
class _Block:
    block: tuple[int, int]
    arrays: Mapping[str, FloatArray]
    outputs: Mapping[str, FloatArray]
    bounds: Mapping[str, FloatArray]
    values: dict[int, Bounded] = field(default_factory=dict)
    states: dict[int, Bounded] = field(default_factory=dict)
    moved: dict[int, tuple[int, int]] = field(default_factory=dict)

    def run(self, operations: tuple[ir.Operation, ...]) -> None:
        for operation in operations:
            match operation:
                case ir.Loop():
                    for _ in range(operation.steps):
                        self.run(operation.body)
                case ir.Move(window, by):
                    rows, columns = self.moved.get(window.id, (0, 0))
                    self.moved[window.id] = (rows + by[0], columns + by[1])
                case ir.Store(value, window):
                    self._store(self.values[value.id], window)
                case ir.Set(state, value):
                    self.states[state] = self.values[value.id]
                case _:
                    self.values[operation.result.id] = self._result(operation)

    def _result(self, operation: ir.Operation) -> Bounded:
        match operation:
            case ir.Load(result, window):
                return self._loaded(window), np.zeros(result.shape)
            case ir.Fill(result, number):
                return np.full(result.shape, number), np.zeros(result.shape)
            case ir.Read(_, state):
                return self.states[state]
            case ir.Transpose(_, value):
                values, bounds = self.values[value.id]
                return values.T, bounds.T
            case ir.Broadcast(result, value):
                values, bounds = self.values[value.id]
                return np.broadcast_to(values, result.shape), np.broadcast_to(bounds, result.shape)
            case ir.Mma():
                return self._product(operation)
            case ir.Map(result, "cast", arguments):
                return rounded(result.dtype, self._argument(arguments[0], result.shape))
            case ir.Map(result, function, arguments):
                given = [self._argument(a, result.shape) for a in arguments]
                row = FUNCTIONS[function]
                values = row.on_numpy(*(g[0] for g in given))
                return values, row.bound(tuple(g[0] for g in given), tuple(g[1] for g in given), values)
        raise TypeError(f"{operation} has no result")

    def _argument(self, argument: ir.Value | float, shape: tuple[int, int]) -> Bounded:
        if isinstance(argument, ir.Value):
            return self.values[argument.id]
        return np.full(shape, float(np.float32(argument))), np.zeros(shape)

    def _product(self, operation: ir.Mma) -> Bounded:
        (a, a_bound), (b, b_bound) = self.values[operation.a.id], self.values[operation.b.id]
        c, c_bound = (0.0, 0.0) if operation.c is None else self.values[operation.c.id]
        size = np.abs(a) @ np.abs(b)
        bound = np.abs(a) @ b_bound + a_bound @ (np.abs(b) + b_bound) + c_bound
        return a @ b + c, bound + sum_growth(a.shape[1]) * U * (size + np.abs(c))

    def _place(self, window: ir.Window) -> tuple[slice, slice, slice, slice]:
        """The part of the array, then that of the tile, which lie in both."""
        found = []
        moved = self.moved.get(window.id, (0, 0))
        for place, by, size, extent in zip(window.at, moved, window.shape, window.extent, strict=True):
            start = place.at(self.block) + by
            low, high = max(start, 0), min(start + size, extent)
            high = max(high, low)
            found.append((slice(low, high), slice(low - start, high - start)))
        return found[0][0], found[1][0], found[0][1], found[1][1]

    def _loaded(self, window: ir.Window) -> FloatArray:
        array = self.arrays[window.array.name]
        array = array.T if window.column else array
        rows, columns, at_rows, at_columns = self._place(window)
        tile = np.zeros(window.shape)
        tile[at_rows, at_columns] = array[rows, columns]
        return tile

    def _store(self, value: Bounded, window: ir.Window) -> None:
        rows, columns, at_rows, at_columns = self._place(window)
        for kept, given in zip((self.outputs, self.bounds), value, strict=True):
            array = kept[window.array.name]
            (array.T if window.column else array)[rows, columns] = given[at_rows, at_columns]


def rounded(type_: DType, value: Bounded) -> Bounded:
    """A cast: the reference keeps its digits, and the bound has the rounding."""
    values, bounds = value
    if type_ == F32:
        return value
    largest = np.abs(values) + bounds
    return values, bounds + type_.unit_roundoff * largest + SMALLEST[type_.name]
