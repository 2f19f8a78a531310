"""Pad the depth of products to a multiple of the instruction's: both operands are loaded wider, with trailing zeros.

If a window ends where its array ends, the load fills in the zeros. If the array continues, as in a loop with step 40,
the surplus elements are replaced by zeros in registers.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from search_spaces.hardware.dtypes import F32, I32
from search_spaces.programs.language import ir
from search_spaces.programs.language.functions import BOOL
from search_spaces.programs.language.index import ZERO

STEP_BYTES = 32  # bytes along k per instruction for 16-bit and 8-bit types
STEP_TF32 = 8  # elements along k per instruction


def pad_depths(operations: tuple[ir.Operation, ...], first_id: int) -> tuple[ir.Operation, ...]:
    """Return a program in which the depth of each product is a multiple of the instruction's.

    Args:
        operations: Operations of the program.
        first_id: First id that is not used yet.
    """
    found = _Depths(itertools.count(first_id))
    for operation in ir.walk_body(operations):
        if isinstance(operation, ir.Move):
            found.moved |= {(operation.window.id, d) for d in (0, 1) if operation.by[d]}
        elif isinstance(operation, ir.LoadTile | ir.TransposeTile):
            found.made[operation.result.id] = operation
    for operation in ir.walk_body(operations):
        if isinstance(operation, ir.Mma):
            found.widen(operation)
    return found.rebuilt(operations) if found.wider else operations


@dataclass
class _Depths:
    """Widened values and loads of a program.

    Attributes:
        wider: The widened copy of a value, by the value's id and the widened dimension.
        cut: Loads, by the same keys, whose window ends before the end of its array.
    """

    ids: Iterator[int]
    made: dict[int, ir.LoadTile | ir.TransposeTile] = field(default_factory=dict)
    moved: set[tuple[int, int]] = field(default_factory=set)
    wider: dict[tuple[int, int], ir.Value] = field(default_factory=dict)
    cut: set[tuple[int, int]] = field(default_factory=set)

    def widen(self, product: ir.Mma) -> None:
        """Widen the operands of a product whose depth is not a multiple of the instruction's."""
        depth, type_ = product.a.shape[1], product.a.dtype
        if type_ == F32 and not product.tf32:
            return  # FMA accepts any depth
        step = STEP_TF32 if type_ == F32 else STEP_BYTES // type_.bytes
        size = -(-depth // step) * step
        if size != depth and self._is_loaded(product.a) and self._is_loaded(product.b):
            self._add(product.a, 1, size)
            self._add(product.b, 0, size)

    def _is_loaded(self, value: ir.Value) -> bool:
        """Return True if a value is loaded from an input with zero padding, so that a wider load is possible."""
        operation = self.made.get(value.id)
        if isinstance(operation, ir.TransposeTile):
            return self._is_loaded(operation.value)
        if operation is None:
            return False
        window = operation.window
        plain = window.map is None and window.index is None
        return operation.padding == 0.0 and window.array.role == "input" and plain

    def _ends(self, window: ir.Window, d: int) -> bool:
        """Return True if a window ends along ``d`` at or beyond the end of its array."""
        place = window.at[d]
        fixed = place.kind == "constant" and (window.id, d) not in self.moved and window.dynamic(d) is None
        return fixed and place.number + window.shape[d] >= window.extent[d]

    def _add(self, value: ir.Value, d: int, size: int) -> None:
        operation = self.made[value.id]
        if isinstance(operation, ir.TransposeTile):
            self._add(operation.value, 1 - d, size)
        elif not self._ends(operation.window, d):
            self.cut.add((value.id, d))
        shape = (size, value.shape[1]) if d == 0 else (value.shape[0], size)
        before = self.wider.get((value.id, d))
        self.wider[value.id, d] = before or ir.Value(next(self.ids), shape, value.dtype)

    def rebuilt(self, operations: tuple[ir.Operation, ...]) -> tuple[ir.Operation, ...]:
        """Return the operations with widened loads and products."""
        found: list[ir.Operation] = []
        for operation in operations:
            match operation:
                case ir.Loop() | ir.If():
                    found.append(replace(operation, body=self.rebuilt(operation.body)))
                case ir.Mma(_, a, b):
                    both = self.wider.get((a.id, 1)), self.wider.get((b.id, 0))
                    if both[0] is not None and both[1] is not None and both[0].shape[1] == both[1].shape[0]:
                        operation = replace(operation, a=both[0], b=both[1])
                    found.append(operation)
                case ir.LoadTile() | ir.TransposeTile():
                    found += [operation, *self._second(operation)]
                case _:
                    found.append(operation)
        return tuple(found)

    def _second(self, operation: ir.LoadTile | ir.TransposeTile) -> Iterator[ir.Operation]:
        for d in (0, 1):
            value = self.wider.get((operation.result.id, d))
            if value is None:
                continue
            if isinstance(operation, ir.TransposeTile):
                yield replace(operation, result=value, value=self.wider[operation.value.id, 1 - d])
            else:
                # Both windows have the same id, so that one ``Move`` shifts both.
                load = replace(operation, result=value, window=replace(operation.window, shape=value.shape))
                depth = operation.window.shape[d]
                yield from self._zeroed(load, d, depth) if (operation.result.id, d) in self.cut else (load,)

    def _zeroed(self, load: ir.LoadTile, d: int, depth: int) -> Iterator[ir.Operation]:
        """Yield a wide load and the operations that zero its elements beyond the program's own depth."""
        result, source = load.result, load.source
        line = (result.shape[0], 1) if d == 0 else (1, result.shape[1])
        loaded = ir.Value(next(self.ids), result.shape, result.dtype)
        place, inside = ir.Value(next(self.ids), line, I32), ir.Value(next(self.ids), line, BOOL)
        mask = ir.Value(next(self.ids), result.shape, BOOL)
        yield replace(load, result=loaded)
        yield ir.Coordinates(place, d, ZERO, source)
        yield ir.Map(inside, "less", (place, float(depth)), source)
        yield ir.Broadcast(mask, inside, 1 - d, source)
        yield ir.Map(result, "where", (mask, loaded, 0.0), source)
