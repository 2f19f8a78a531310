"""Depths of products that no instruction divides: both operands are loaded wider, with zeros behind the array's end."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from search_spaces.hardware.dtypes import F32
from search_spaces.programs.language import ir

STEP_BYTES = 32  # along k, of an instruction that multiplies 16 or 8 bits
STEP_TF32 = 8  # elements


def pad_depths(operations: tuple[ir.Operation, ...], first_id: int) -> tuple[ir.Operation, ...]:
    """Return a program in which windows that end where their array does reach beyond it, as far as products need.

    Args:
        operations: Of the program.
        first_id: From which on no value and no window has a number.
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
    """``wider`` are the values that get a second, wider one: by their number and the dimension."""

    ids: Iterator[int]
    made: dict[int, ir.LoadTile | ir.TransposeTile] = field(default_factory=dict)
    moved: set[tuple[int, int]] = field(default_factory=set)
    wider: dict[tuple[int, int], ir.Value] = field(default_factory=dict)

    def widen(self, product: ir.Mma) -> None:
        depth, type_ = product.a.shape[1], product.a.dtype
        if type_ == F32 and not product.tf32:
            return  # FMA takes them one by one
        step = STEP_TF32 if type_ == F32 else STEP_BYTES // type_.bytes
        size = -(-depth // step) * step
        if size != depth and self._ends(product.a, 1) and self._ends(product.b, 0):
            self._add(product.a, 1, size)
            self._add(product.b, 0, size)

    def _ends(self, value: ir.Value, d: int) -> bool:
        """Whether a value was loaded from a window that ends along ``d`` where its array does, or behind that."""
        operation = self.made.get(value.id)
        if isinstance(operation, ir.TransposeTile):
            return self._ends(operation.value, 1 - d)
        if operation is None:
            return False
        window = operation.window
        return (
            operation.padding == 0.0
            and window.array.role == "input"
            and window.map is None
            and window.index is None
            and window.at[d].kind == "constant"
            and (window.id, d) not in self.moved
            and window.at[d].number + window.shape[d] >= window.extent[d]
        )

    def _add(self, value: ir.Value, d: int, size: int) -> None:
        operation = self.made[value.id]
        if isinstance(operation, ir.TransposeTile):
            self._add(operation.value, 1 - d, size)
        shape = (size, value.shape[1]) if d == 0 else (value.shape[0], size)
        before = self.wider.get((value.id, d))
        self.wider[value.id, d] = before or ir.Value(next(self.ids), shape, value.dtype)

    def rebuilt(self, operations: tuple[ir.Operation, ...]) -> tuple[ir.Operation, ...]:
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
                # A move of the window moves both: they have one number.
                yield replace(operation, result=value, window=replace(operation.window, shape=value.shape))
