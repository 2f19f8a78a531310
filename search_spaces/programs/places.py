"""Where each access of a program lies: windows that move become windows at an index, and moves are gone."""

from __future__ import annotations

import dataclasses

from search_spaces.programs import ir
from search_spaces.programs.index import ZERO, Index
from search_spaces.programs.ir import ProgramError

Offsets = dict[int, tuple[Index, Index]]  # how far each window has moved


def resolve(trace: ir.Trace) -> ir.Trace:
    """The same program without ``Move``. Raises ProgramError for a window that moves by what no index can say."""
    return dataclasses.replace(trace, operations=_resolved(trace.operations, {}))


def _resolved(operations: tuple[ir.Operation, ...], offsets: Offsets) -> tuple[ir.Operation, ...]:
    """``offsets`` are those in front of the operations, and become those behind them."""
    found: list[ir.Operation] = []
    for operation in operations:
        match operation:
            case ir.Move(window, by):
                rows, columns = offsets.get(window.id, (ZERO, ZERO))
                offsets[window.id] = rows + by[0], columns + by[1]
            case ir.Loop():
                found.append(_loop(operation, offsets))
            case ir.Load() | ir.Store() | ir.AtomicRmw() | ir.Prefetch():
                window = operation.window
                rows, columns = offsets.get(window.id, (ZERO, ZERO))
                at = window.at[0] + rows, window.at[1] + columns
                found.append(dataclasses.replace(operation, window=dataclasses.replace(window, at=at)))
            case _:
                found.append(operation)
    return tuple(found)


def _loop(loop: ir.Loop, offsets: Offsets) -> ir.Loop:
    moved: Offsets = {}
    _resolved(loop.body, moved)
    each: dict[int, tuple[int, int]] = {}
    for window, by in moved.items():
        if any(i.kind != "constant" for i in by):
            raise ProgramError(f"{loop.source}: steps: a window moves in an inner loop by what is not a constant")
        each[window] = by[0].number, by[1].number
    turn = Index("loop", loop.number)
    inside: Offsets = dict(offsets)
    turns = (loop.stop - loop.first + (loop.step - 1)) // loop.step
    for window, (rows, columns) in each.items():
        before = offsets.get(window, (ZERO, ZERO))
        inside[window] = before[0] + turn * rows, before[1] + turn * columns
        offsets[window] = before[0] + turns * rows, before[1] + turns * columns
    return dataclasses.replace(loop, body=_resolved(loop.body, inside))
