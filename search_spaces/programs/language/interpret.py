"""Interpret a tile program with numpy in float64. Error bounds include the rounding errors of every schedule.

The bounds assume that kernels sum products in f32 in any order, and round only where the program has a cast. Each
operation computes the bounds of its result from the bounds of its operands (running error analysis). A choice of tile
sizes changes the result only by float64 rounding.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from search_spaces.arrays import Array, BoolArray, FloatArray, IntArray
from search_spaces.hardware.dtypes import DType
from search_spaces.programs.language import ir
from search_spaces.programs.language.atomics import Added, before, combined, ordered, rounds
from search_spaces.programs.language.bounded import (
    LIMITS,
    Bounded,
    applied,
    block_scaled,
    cast,
    picked,
    product,
    reduced,
    rounded,
    scanned,
)
from search_spaces.programs.language.functions import FUNCTIONS
from search_spaces.programs.language.index import Index
from search_spaces.programs.language.window_positions import resolve


def interpret(
    trace: ir.Trace,
    inputs: Mapping[str, Array],
    order: int = 0,
    *,
    errors: Mapping[str, FloatArray] | None = None,
) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
    """Interpret a program.

    Args:
        trace: The program.
        inputs: Arrays by name, without the outputs.
        order: Order of blocks, and of elements that are combined at the same position. 0 is ascending, 1 descending,
            and any other number seeds a random order.
        errors: Error bounds, by name, of inputs that are results of another program.

    Returns:
        Outputs by name, and the largest absolute error allowed for each element. Elements that no block stores are NaN.
    """
    arrays = {
        a.name: _numbers(a.dtype, _without_gaps(a, np.asarray(inputs[a.name]))).reshape(a.full)
        for a in trace.arrays
        if a.role != "output"
    }
    outputs = {a.name: np.full(a.full, np.nan) for a in trace.arrays if a.role == "output"}
    outputs |= {a.name: arrays[a.name].copy() for a in trace.arrays if a.role == "inout"}
    bounds = {name: np.zeros_like(values) for name, values in outputs.items()}
    input_errors = {name: error.reshape(arrays[name].shape) for name, error in (errors or {}).items() if name in arrays}
    combined = {name: Added.of(values) for name, values in outputs.items()}
    operations = resolve(trace).operations
    arrays |= {
        a.name: np.asarray(a.order.unpack(arrays[a.name], a.matrix), dtype=np.float64)
        for a in trace.packed
        if a.order is not None
    }
    with np.errstate(all="ignore"):
        for block in ordered(list(itertools.product(*map(range, trace.blocks))), order):
            _Block(block, arrays, input_errors, outputs, bounds, combined, order).run(operations)
    types = {a.name: a.dtype for a in trace.arrays}
    for name, added in combined.items():
        bounds[name] += added.bound(types[name])
    return outputs, bounds


def _without_gaps(array: ir.Array, stored: Array) -> Array:
    """Return the elements of a strided array without the gaps between rows; return other arrays unchanged."""
    return stored if array.pitch in (None, array.line) else stored[..., : array.full[-1]]


def _numbers(dtype: DType, stored: Array) -> FloatArray:
    """Return the numbers of a stored array as float64. Packed pairs remain bytes; only products unpack them."""
    return stored.astype(np.float64) if dtype.values > 1 else dtype.load(stored)


@dataclass
class _Block:
    block: tuple[int, ...]
    arrays: Mapping[str, FloatArray]
    errors: Mapping[str, FloatArray]  # error bounds of inputs that another program computed
    outputs: Mapping[str, FloatArray]
    bounds: Mapping[str, FloatArray]
    combined: Mapping[str, Added]
    order: int = 0
    values: dict[int, Bounded] = field(default_factory=dict)
    states: dict[int, Bounded] = field(default_factory=dict)
    # States of each block at the end of its iterations of a split loop.
    parts: list[dict[int, Bounded]] = field(default_factory=list)
    loops: dict[int, int] = field(default_factory=dict)
    shared: dict[str, tuple[FloatArray, FloatArray]] = field(default_factory=dict)
    # Unrounded arguments of casts, by the result's id.
    unrounded: dict[int, tuple[DType, Bounded]] = field(default_factory=dict)

    def run(self, operations: tuple[ir.Operation, ...]) -> None:
        """Execute the operations in this block."""
        for operation in operations:
            match operation:
                case ir.Loop():
                    self._run_loop(operation)
                case ir.FetchPart(states, copies, part):
                    held = self.parts[part.at(self.block, self.loops)]
                    self.states |= {other: held[state] for state, other in zip(states, copies, strict=True)}
                case ir.If():
                    if operation.index.at(self.block, self.loops) == operation.equals:
                        self.run(operation.body)
                case ir.StoreTile(value, window) if window.array.role == "shared":
                    self._keep(self.values[value.id], window)
                case ir.StoreTile(value, window):
                    self._store(self._to_store(value, window), window, operation.rows_below)
                case ir.AtomicRmw(kind, value, window):
                    before = self._combine(kind, self.values[value.id], window)
                    if isinstance(operation, ir.AtomicFetch):
                        self.values[operation.result.id] = before
                case ir.Set(state, value):
                    self.states[state] = self.values[value.id]
                case ir.LoadScalar():
                    self.loops[operation.index.number] = self._scalar(operation)
                case ir.Uniform(index, value):
                    number = int(self.values[value.id][0][0, 0])
                    self.loops[index.number] = min(max(number, index.args[0].number), index.args[1].number)
                case ir.FindTile():
                    self._find_tile(operation)
                case ir.Prefetch() | ir.Move():
                    pass
                case _:
                    self.values[operation.result.id] = self._result(operation)

    def _run_loop(self, loop: ir.Loop) -> None:
        iterations, before = loop.iterations(self.block, self.loops), dict(self.states)
        count = max(loop.parts, 1)
        for part in range(count):
            self.states = dict(before)
            for iteration in range(part * iterations // count, (part + 1) * iterations // count):
                self.loops[loop.number] = iteration
                self.run(loop.body)
            if loop.parts:
                self.parts.append(self.states)
        if loop.parts:
            self.states = dict(self.parts[0])

    def _result(self, operation: ir.Computing) -> Bounded:
        match operation:
            case ir.LoadTile(result, window) if window.array.role == "shared":
                contents = self.shared.get(window.array.name)
                if contents is None:
                    return np.full(result.shape, np.nan), np.full(result.shape, np.inf)
                parts = [self._matrix({window.array.name: of}, window)[0].copy() for of in contents]
                return parts[0], parts[1]
            case ir.LoadTile(result, window, padding) if window.index is not None:
                inside, positions = self._scattered(window)
                values = np.where(inside, self._lines(self._held(window), window)[positions], padding)
                unsure = np.broadcast_to(self.values[window.index.id][1] > 0, result.shape)
                inexact = self.bounds if window.array.role == "inout" else self.errors
                errors = self._lines(inexact, window)[positions] if window.array.name in inexact else 0.0
                return values, np.where(unsure, np.inf, np.where(inside, errors, 0.0))
            case ir.LoadTile(result, window, padding):
                if window.array.role == "inout":
                    return self._loaded(self.outputs, window, padding), self._loaded(self.bounds, window, 0.0)
                if window.array.name in self.errors:
                    return self._loaded(self.arrays, window, padding), self._loaded(self.errors, window, 0.0)
                return self._loaded(self.arrays, window, padding), np.zeros(result.shape)
            case ir.Fill(result, number):
                return rounded(result.dtype, (np.full(result.shape, number), np.zeros(result.shape)))
            case ir.PassedScalar(result, _, number):
                return rounded(result.dtype, (np.full(result.shape, np.float32(number)), np.zeros(result.shape)))
            case ir.Coordinates(result, _, base):
                first = base.at(self.block, self.loops)
                return first + np.arange(max(result.shape), dtype=np.float64).reshape(result.shape), np.zeros(
                    result.shape
                )
            case ir.Read(_, state):
                return self.states[state]
            case ir.TransposeTile(_, value):
                return self._moved(operation, value, lambda x: x.T)
            case ir.Reshape(result, value):
                return self._moved(operation, value, lambda x: x.reshape(result.shape))
            case ir.Convert(_, value):
                return self._moved(operation, value, lambda x: x)
            case ir.PadTile(result, value):
                more = [(0, after - before) for before, after in zip(value.shape, result.shape, strict=True)]
                return self._moved(operation, value, lambda x: np.pad(x, more))
            case ir.Broadcast(_, value, dimension):
                return self._moved(operation, value, lambda x: x.repeat(operation.size, dimension))
            case ir.ReduceTile():
                return self._reduced(operation)
            case ir.Scan(_, _, value):
                return scanned(operation, self.values[value.id])
            case ir.Mma():
                return self._product(operation)
            case ir.Map(result, "cast", arguments):
                argument = self._argument(arguments[0], result.shape)
                self.unrounded[result.id] = result.dtype, argument
                return cast(result.dtype, argument)
            case ir.Map(result, function, arguments):
                return applied(FUNCTIONS[function], result.dtype, [self._argument(a, result.shape) for a in arguments])
        raise TypeError(f"{operation} has no result")

    def _moved(self, operation: ir.Computing, value: ir.Value, move: Callable[[FloatArray], FloatArray]) -> Bounded:
        """Return a value rearranged by ``move``. The unrounded argument of a cast is rearranged, too."""
        if value.id in self.unrounded:
            dtype, (numbers, errors) = self.unrounded[value.id]
            self.unrounded[operation.result.id] = dtype, (move(numbers), move(errors))
        values, bounds = self.values[value.id]
        return move(values), move(bounds)

    def _argument(self, argument: ir.Value | float, shape: ir.Shape) -> Bounded:
        if isinstance(argument, ir.Value):
            return self.values[argument.id]
        return np.full(shape, float(np.float32(argument))), np.zeros(shape)

    def _reduced(self, operation: ir.ReduceTile) -> Bounded:
        operand = self.values[operation.value.id]
        rows, columns = operation.value.shape
        if operation.dimension == 0:
            cut, axis = (rows // operation.size, operation.size, columns), 1
        else:
            cut, axis = (rows, columns // operation.size, operation.size), 2
        elements = operand[0].reshape(cut), operand[1].reshape(cut)
        if operation.index is None:
            return reduced(operation, *elements, axis)
        positions, unsure = self.values[operation.index.id]
        return picked(operation, elements, (positions.reshape(cut), unsure.reshape(cut)), axis)

    def _product(self, operation: ir.Mma) -> Bounded:
        a, b = self.values[operation.a.id], self.values[operation.b.id]
        zeros = np.zeros(operation.result.shape)
        c = (zeros, zeros) if operation.c is None else self.values[operation.c.id]
        row = operation.blocks
        if operation.scales is not None and row is not None:
            by_a, by_b = (self.values[scale.id] for scale in operation.scales)
            a, b = block_scaled(row, a, by_a, 1), block_scaled(row, b, by_b, 0)
        return product(operation, a, b, c)

    def _overlap(self, window: ir.Window) -> tuple[tuple[int | slice, ...], tuple[slice, slice]]:
        """Return the region in which a window overlaps its array, as slices of the array and as slices of the tile."""
        of_array, of_tile = [], []
        for index, size, extent in zip(window.at, window.shape, window.extent, strict=True):
            start = index.at(self.block, self.loops)
            low = max(start, 0)
            high = max(min(start + size, extent), low)
            of_array.append(slice(low, high))
            of_tile.append(slice(low - start, high - start))
        return (*(i.at(self.block, self.loops) for i in window.array.lead), *of_array), (of_tile[0], of_tile[1])

    def _matrix(self, arrays: Mapping[str, FloatArray], window: ir.Window) -> tuple[FloatArray, tuple[slice, slice]]:
        """Return a view of the array elements inside the window, and the slices of the tile with these elements."""
        region, tile = self._overlap(window)
        lead, rows, columns = region[:-2], region[-2], region[-1]
        matrix = arrays[window.array.name][lead].reshape(window.array.matrix)
        return (matrix.T if window.turned else matrix)[rows, columns], tile

    def _scattered(self, window: ir.Window) -> tuple[BoolArray, tuple[IntArray, IntArray]]:
        """Return a mask of an indexed window's elements that are inside the array, and the elements' rows and columns.

        For elements outside of the array, row and column are 0, so that they can be used as indices.
        """
        assert window.index is not None
        values, _ = self.values[window.index.id]
        indices = np.broadcast_to(values.astype(np.int64), window.shape)
        at: list[IntArray] = []
        for d, axis in ((0, np.arange(window.shape[0])[:, None]), (1, np.arange(window.shape[1])[None, :])):
            own = window.at[d].at(self.block, self.loops) + axis
            at.append(indices if d in window.indexed else np.broadcast_to(own, window.shape))
        if len(window.indexed) == 2:
            rows, columns = np.zeros_like(indices), indices
        else:
            rows, columns = at[::-1] if window.turned else at
        height, width = window.array.matrix
        inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
        return inside, (np.where(inside, rows, 0), np.where(inside, columns, 0))

    def _lines(self, arrays: Mapping[str, FloatArray], window: ir.Window) -> FloatArray:
        """Return a view of the matrix to which the window belongs, never transposed."""
        lead = tuple(i.at(self.block, self.loops) for i in window.array.lead)
        matrix: FloatArray = arrays[window.array.name][lead].reshape(window.array.matrix)
        return matrix

    def _held(self, window: ir.Window) -> Mapping[str, FloatArray]:
        """Return the arrays by name, among them the current contents of the window's array."""
        return self.outputs if window.array.role == "inout" else self.arrays

    def _loaded(self, arrays: Mapping[str, FloatArray], window: ir.Window, padding: float) -> FloatArray:
        part, overlap = self._matrix(arrays, window)
        tile = np.full(window.shape, padding)
        tile[overlap] = part
        return tile

    def _keep(self, value: Bounded, window: ir.Window) -> None:
        """Store to shared memory, where elements that were never written are NaN."""
        array = window.array
        contents = self.shared.setdefault(array.name, (np.full(array.full, np.nan), np.zeros(array.full)))
        for of, tile in zip(contents, value, strict=True):
            self._matrix({array.name: of}, window)[0][...] = tile

    def _scalar(self, operation: ir.LoadScalar) -> int:
        at = tuple(index.at(self.block, self.loops) for index in operation.at)
        inside = all(0 <= index < extent for index, extent in zip(at, operation.array.full, strict=True))
        number = int(self.arrays[operation.array.name][at]) if inside else operation.low
        return min(max(number, operation.low), operation.high)

    def _find_tile(self, operation: ir.FindTile) -> None:
        offsets = np.clip(self.arrays[operation.array.name], 0, operation.high).astype(np.int64)
        upto = np.cumsum(np.maximum(-(-np.diff(offsets) // operation.size), 0))
        before = upto[upto <= operation.tile.at(self.block, self.loops)]
        self.loops[operation.group.number] = len(before)
        self.loops[operation.first.number] = int(before[-1]) if len(before) else 0

    def _to_store(self, value: ir.Value, window: ir.Window) -> Bounded:
        """Return the value to store. If the program casts it to the output's type, return the value before the cast.

        ``ProgramProblem.expected`` adds the rounding error of this cast to the output's bound. If only some kernels
        round the value to infinity, the bound stays finite. The comparison accepts infinity if the smallest number that
        rounds to infinity is within the bound.
        """
        values, bounds = self.values[value.id]
        dtype, (numbers, errors) = self.unrounded.get(value.id, (None, (values, bounds)))
        array = window.array
        if dtype != array.dtype or not array.dtype.is_float or array.role != "output":
            return values, bounds
        held = np.isfinite(values) & np.isfinite(errors)
        if array.dtype.name in LIMITS:  # these types saturate, so their largest numbers may stand for larger values
            held &= (numbers > LIMITS[array.dtype.name][0]) & (numbers < LIMITS[array.dtype.name][1])
        return np.where(held, numbers, values), np.where(held, errors, bounds)

    def _store(self, value: Bounded, window: ir.Window, rows_below: Index | None) -> None:
        if rows_below is not None:
            left = rows_below.at(self.block, self.loops) - window.at[0].at(self.block, self.loops)
            shape = max(0, min(left, window.shape[0])), window.shape[1]
            window = dataclasses.replace(window, shape=shape)
            value = value[0][: shape[0]], value[1][: shape[0]]
        if window.index is not None:
            inside, (rows, columns) = self._scattered(window)
            for contents, tile in zip((self.outputs, self.bounds), value, strict=True):
                self._lines(contents, window)[rows[inside], columns[inside]] = tile[inside]
            return
        for contents, tile in zip((self.outputs, self.bounds), value, strict=True):
            part, overlap = self._matrix(contents, window)
            part[...] = tile[overlap]

    def _combine(self, kind: str, value: Bounded, window: ir.Window) -> Bounded:
        """Combine a tile with the elements of its window, and return the old elements."""
        added, type_ = self.combined[window.array.name], window.array.dtype
        old, unsure = np.zeros(window.shape), np.zeros(window.shape)
        totals = [{window.array.name: a} for a in (added.sizes, added.counts)]
        arrays = [self.outputs, self.bounds, *totals]
        if window.index is None:
            overlap = self._matrix(self.outputs, window)[1]
            parts = [self._matrix(a, window)[0] for a in arrays]
            old[overlap], unsure[overlap] = before(type_, parts)
            joined = combined(kind, type_, parts, value[0][overlap], value[1][overlap])
            for part, result in zip(parts, joined, strict=True):
                part[...] = result
            return old, unsure
        inside, (rows, columns) = self._scattered(window)
        lines = [self._lines(a, window) for a in arrays]
        positions, values, error = (
            rows[inside] * lines[0].shape[1] + columns[inside],
            value[0][inside],
            value[1][inside],
        )
        olds, errors = np.zeros(positions.size), np.zeros(positions.size)
        # combine in rounds, because several elements may have the same position
        for chosen in rounds(positions, self.order):
            at = np.unravel_index(positions[chosen], lines[0].shape)
            parts = [a[at] for a in lines]
            olds[chosen], errors[chosen] = before(type_, parts)
            for line, result in zip(lines, combined(kind, type_, parts, values[chosen], error[chosen]), strict=True):
                line[at] = result
        old[inside], unsure[inside] = olds, errors
        return old, unsure
