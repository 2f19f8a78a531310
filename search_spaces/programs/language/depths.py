"""Pad the depth (extent along k) of products to a multiple of the instruction's depth, with zeros in both operands.

- If an operand is loaded, a wider window is loaded. If the original window ends where the array ends, the load fills in
  the zeros. If the array continues, as in a loop with step 40, the additional elements are replaced by zeros in
  registers.
- If an operand is computed element by element from loads, a wider operand is computed from wider loads. The additional
  elements are then replaced by zeros, because a function of padding may be nonzero.
- Zeros are appended to any other operand, such as a function of another product (``PadTile``).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from search_spaces.hardware.dtypes import F32, I32
from search_spaces.programs.language import ir
from search_spaces.programs.language.functions import BOOL
from search_spaces.programs.language.index import ZERO

STEP_BYTES = 32  # bytes of k that one instruction multiplies, for 16-bit and 8-bit types
STEP_TF32 = 8  # elements of k that one tf32 instruction multiplies

Side = tuple[int, int]  # (id of a value or window, dimension)


def pad_depths(operations: tuple[ir.Operation, ...], first_id: int) -> tuple[ir.Operation, ...]:
    """Return the operations, with operands padded so that product depths are multiples of the instruction's depth.

    Args:
        operations: Operations of the program.
        first_id: First unused id for new values.
    """
    depths = _Depths(itertools.count(first_id))
    for operation in ir.walk_body(operations):
        if isinstance(operation, ir.Move):
            depths.moved |= {(operation.window.id, d) for d in (0, 1) if operation.by[d]}
        elif isinstance(operation, ir.Computing):
            depths.definitions[operation.result.id] = operation
    for operation in ir.walk_body(operations):
        if isinstance(operation, ir.Mma):
            depths.widen(operation)
    return depths.rebuilt(operations) if depths.products else operations


@dataclass
class _Depths:
    """Padded values of a program.

    Attributes:
        definitions: The operation that computes each value, by id.
        wider: Wider copies of values.
        cut: Loads whose additional elements lie inside the array and must be replaced by zeros.
        ending: Padded operands that are not loads; zeros are appended to them.
        products: Products whose operands are padded.
    """

    ids: Iterator[int]
    definitions: dict[int, ir.Computing] = field(default_factory=dict)
    moved: set[Side] = field(default_factory=set)  # ids of windows that move, and the dimensions of the moves
    wider: dict[Side, ir.Value] = field(default_factory=dict)
    cut: set[Side] = field(default_factory=set)
    ending: dict[Side, ir.Value] = field(default_factory=dict)
    products: set[int] = field(default_factory=set)

    def widen(self, product: ir.Mma) -> None:
        """Pad the operands of a product if its depth is not a multiple of the instruction's depth."""
        depth, type_ = product.a.shape[1], product.a.dtype
        if product.scales is not None or (type_ == F32 and not product.tf32):
            return  # the depth of block-scaled products is always a multiple of the step; FMA accepts any depth
        step = STEP_TF32 if type_ == F32 else STEP_BYTES // type_.bytes
        size = -(-depth // step) * step
        if size == depth:
            return
        self.products.add(product.result.id)
        for value, d in ((product.a, 1), (product.b, 0)):
            loaded = self._is_loaded(value, d)
            if loaded or self._is_widened(value, d):
                self._add(value, d, size, loaded)
            if not loaded and (value.id, d) not in self.ending:
                self.ending[value.id, d] = self._new(value, d, size)

    def _is_loaded(self, value: ir.Value, d: int) -> bool:
        """Return True if a value is loaded from an input with zero padding, so that a wider load is possible."""
        operation = self.definitions[value.id]
        if isinstance(operation, ir.TransposeTile):
            return self._is_loaded(operation.value, 1 - d)
        return isinstance(operation, ir.LoadTile) and operation.padding == 0.0 and self._is_longer(operation.window, d)

    def _is_longer(self, window: ir.Window, d: int) -> bool:
        """Return True if a load can be extended along ``d`` without changing its first elements."""
        plain = window.map is None and window.array.order is None and d not in window.indexed
        return window.array.role == "input" and plain

    def _is_widened(self, value: ir.Value, d: int) -> bool:
        """Return True if a value is computed element by element from loads, so that a wider copy can be computed."""
        operation = self.definitions[value.id]
        match operation:
            case ir.LoadTile(_, window):
                return self._is_longer(window, d)
            case ir.TransposeTile(_, inner):
                return self._is_widened(inner, 1 - d)
            case ir.Broadcast(result, inner, dimension) if result.map is None:
                return inner.shape[d] == 1 if dimension == d else self._is_widened(inner, d)
            case ir.Map():
                return all(self._is_widened(inner, d) for inner in ir.inputs(operation))
            case ir.Fill():
                return True
            case ir.Coordinates(_, dimension):
                return dimension == d
        return False

    def _ends(self, window: ir.Window, d: int) -> bool:
        """Return True if a window ends along ``d`` at or beyond the end of its array."""
        position = window.at[d]
        fixed = position.kind == "constant" and (window.id, d) not in self.moved and window.dynamic(d) is None
        return fixed and position.number + window.shape[d] >= window.extent[d]

    def _new(self, value: ir.Value, d: int, size: int) -> ir.Value:
        shape = (size, value.shape[1]) if d == 0 else (value.shape[0], size)
        return ir.Value(next(self.ids), shape, value.dtype)

    def _add(self, value: ir.Value, d: int, size: int, cut: bool) -> None:
        """Add a wider copy of a value, and of the values from which it is computed.

        ``cut``: True if the additional elements of loads must be zeros.
        """
        operation = self.definitions[value.id]
        match operation:
            case ir.TransposeTile(_, inner):
                self._add(inner, 1 - d, size, cut)
            case ir.Map():
                for inner in ir.inputs(operation):
                    self._add(inner, d, size, cut)
            case ir.Broadcast(_, inner, dimension) if dimension != d:
                self._add(inner, d, size, cut)
            case ir.LoadTile(_, window) if cut and not self._ends(window, d):
                self.cut.add((value.id, d))
        if (value.id, d) not in self.wider:
            self.wider[value.id, d] = self._new(value, d, size)

    def _operand(self, value: ir.Value, d: int) -> ir.Value:
        return self.ending.get((value.id, d)) or self.wider[value.id, d]

    def rebuilt(self, operations: tuple[ir.Operation, ...]) -> tuple[ir.Operation, ...]:
        """Return the operations, with the operands of products replaced by padded operands."""
        padded: list[ir.Operation] = []
        for operation in operations:
            if isinstance(operation, ir.Region):
                operation = replace(operation, body=self.rebuilt(operation.body))
            elif isinstance(operation, ir.Mma) and operation.result.id in self.products:
                operation = replace(operation, a=self._operand(operation.a, 1), b=self._operand(operation.b, 0))
            padded.append(operation)
            if isinstance(operation, ir.Computing):
                padded += self._padded(operation)
        return tuple(padded)

    def _padded(self, operation: ir.Computing) -> Iterator[ir.Operation]:
        """Yield the operations that compute the padded copies of an operation's result."""
        result, source = operation.result, operation.source
        for d in (0, 1):
            side = result.id, d
            if side in self.wider:
                yield from self._widened(operation, self.wider[side], d)
            if side in self.ending:
                yield ir.PadTile(self.ending[side], result, d, source, self.wider.get(side))

    def _widened(self, operation: ir.Computing, value: ir.Value, d: int) -> Iterator[ir.Operation]:
        """Yield the operations that compute ``value``, the wider copy of an operation's result."""
        match operation:
            case ir.TransposeTile(_, inner):
                yield replace(operation, result=value, value=self.wider[inner.id, 1 - d])
            case ir.Map(_, _, arguments):
                wide = (self.wider[a.id, d] if isinstance(a, ir.Value) else a for a in arguments)
                yield replace(operation, result=value, arguments=tuple(wide))
            case ir.Broadcast(_, inner, dimension):
                yield replace(operation, result=value, value=inner if dimension == d else self.wider[inner.id, d])
            case ir.LoadTile():
                # The wider window keeps the id of the original window, so that one ``Move`` shifts both windows.
                load = replace(operation, result=value, window=replace(operation.window, shape=value.shape))
                if (operation.result.id, d) in self.cut:
                    loaded = ir.Value(next(self.ids), value.shape, value.dtype)
                    yield replace(load, result=loaded)
                    yield from self._zeroed(loaded, value, d, operation.window.shape[d], operation.source)
                else:
                    yield load
            case ir.Fill() | ir.Coordinates():
                yield replace(operation, result=value)

    def _zeroed(
        self, value: ir.Value, result: ir.Value, d: int, depth: int, source: ir.Source
    ) -> Iterator[ir.Operation]:
        """Yield the operations that replace the elements of a value beyond ``depth`` with zeros."""
        line = (result.shape[0], 1) if d == 0 else (1, result.shape[1])
        position, inside = ir.Value(next(self.ids), line, I32), ir.Value(next(self.ids), line, BOOL)
        mask = ir.Value(next(self.ids), result.shape, BOOL)
        yield ir.Coordinates(position, d, ZERO, source)
        yield ir.Map(inside, "less", (position, float(depth)), source)
        yield ir.Broadcast(mask, inside, 1 - d, source)
        yield ir.Map(result, "where", (mask, value, 0.0), source)
