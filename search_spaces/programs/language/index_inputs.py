"""Generate arrays of indices into other arrays; most indices are valid, and a few are out of range."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from search_spaces.arrays import IntArray
from search_spaces.hardware.dtypes import DType
from search_spaces.programs.language import ir
from search_spaces.programs.language.functions import FUNCTIONS

BEYOND = 1.125  # upper limit of random indices, as a multiple of the number of valid indices


@dataclass(frozen=True)
class IndexInput:
    """An array of indices, valid from 0 to ``count`` - 1.

    ``distinct``: indices must not repeat, as the program stores to these positions.
    """

    count: int
    distinct: bool

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> IntArray:
        """Return random indices, a few of which are out of range."""
        size, drawn = int(np.prod(shape)), max(1, int(self.count * BEYOND))
        if self.distinct:
            return rng.permutation(max(size, drawn))[:size].reshape(shape).astype(np.int32)
        return rng.integers(0, drawn, shape).astype(np.int32)

    def edges(self, shape: tuple[int, ...], first: int) -> IntArray:
        """Return an array that repeats the sequence (count, -1, count - 1, 0), starting at its element ``first``."""
        ends = np.roll([self.count, -1, self.count - 1, 0], -first)
        return np.resize(ends, shape).astype(np.int32)


def index_inputs(trace: ir.Trace) -> Mapping[str, IndexInput]:
    """Return the index arrays of a trace, by name."""
    operations = {o.result.id: o for o, _ in trace.walk() if isinstance(o, ir.Computing)}
    inputs: dict[str, IndexInput] = {}
    for operation, _ in trace.walk():
        if not isinstance(operation, ir.LoadTile | ir.StoreTile | ir.AtomicRmw) or operation.window.index is None:
            continue
        window, index = operation.window, operation.window.index
        assert index is not None
        rows, columns = window.array.matrix
        extent = columns if len(window.indexed) == 2 else rows
        for name in _loaded(index, operations):
            count = _count(index, operations, name, extent)
            before = inputs.get(name)
            stored = isinstance(operation, ir.StoreTile)
            if before is not None:
                count, stored = min(count, before.count), stored or before.distinct
            inputs[name] = IndexInput(count, stored)
    return inputs


def scale_inputs(trace: ir.Trace) -> Mapping[str, DType]:
    """Return the types of the scales of products, by the names of the arrays that hold the scales."""
    operations = {o.result.id: o for o, _ in trace.walk() if isinstance(o, ir.Computing)}
    dtypes: dict[str, DType] = {}
    for operation in operations.values():
        if isinstance(operation, ir.Mma) and operation.blocks is not None:
            names = (_loaded(scale, operations) for scale in operation.scales or ())
            dtypes |= dict.fromkeys(set[str]().union(*names), operation.blocks.scale)
    return dtypes


def _count(index: ir.Value, operations: Mapping[int, ir.Computing], name: str, extent: int) -> int:
    """Return how many values of an input (0, 1, ...) lead to an index below ``extent``."""

    def inside(number: int) -> bool:
        return 0 <= _index_value(index, operations, name, number) < extent

    low, high = 0, extent
    while high - low > 1 and not inside(high - 1):
        middle = (low + high) // 2
        low, high = (middle, high) if inside(middle - 1) else (low, middle)
    return max(high if inside(high - 1) else low, 1)


def _loaded(value: ir.Value, operations: Mapping[int, ir.Computing]) -> set[str]:
    """Return the names of the integer inputs that a value is computed from, except inputs used only in conditions."""
    operation = operations[value.id]
    if isinstance(operation, ir.Map) and operation.function == "where":
        read_values = [a for a in operation.arguments[1:] if isinstance(a, ir.Value)]
        return set[str]().union(*(_loaded(v, operations) for v in read_values))
    if isinstance(operation, ir.LoadTile):
        array = operation.window.array
        own = {array.name} if array.role == "input" and not array.dtype.is_float else set()
        return own.union(*(_loaded(v, operations) for v in ir.inputs(operation)))
    return set[str]().union(*(_loaded(v, operations) for v in ir.inputs(operation)))


def _index_value(value: ir.Value, operations: Mapping[int, ir.Computing], name: str, number: int) -> float:
    """Return an element of ``value``, assuming that all elements of input ``name`` are ``number``.

    Other inputs and coordinates are assumed to be 0.
    """
    operation = operations[value.id]
    match operation:
        case ir.LoadTile(_, window):
            return number if window.array.name == name else 0.0
        case ir.Fill(_, filled):
            return filled
        case ir.Map(_, "cast", (first,)):
            return _index_value(first, operations, name, number) if isinstance(first, ir.Value) else first
        case ir.Map(_, function, arguments):
            values = [_index_value(a, operations, name, number) if isinstance(a, ir.Value) else a for a in arguments]
            return float(np.asarray(FUNCTIONS[function].on_numpy(*map(np.float64, values))))
        case ir.Broadcast(_, inner) | ir.TransposeTile(_, inner) | ir.Convert(_, inner):
            return _index_value(inner, operations, name, number)
    return 0.0
