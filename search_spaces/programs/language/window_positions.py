"""Replace moves of windows: each load and store gets a window whose position is an explicit index."""

from __future__ import annotations

import dataclasses

from search_spaces.programs.language import ir
from search_spaces.programs.language.index import ZERO, Index
from search_spaces.programs.language.ir import ProgramError

Offsets = dict[int, tuple[Index, Index]]  # (rows, columns) by which each window has moved, by window id


def resolve(trace: ir.Trace) -> ir.Trace:
    """Return an equivalent trace without ``Move``. Raises ProgramError if no index can express a window's position."""
    return dataclasses.replace(trace, operations=_resolved(trace.operations, {}, None))


def indices(operation: ir.Operation) -> tuple[Index, ...]:
    """Return the indices that an operation itself uses, excluding those that operations in its body use."""
    match operation:
        case ir.LoadTile() | ir.StoreTile() | ir.AtomicRmw() | ir.Prefetch():
            below = operation.rows_below if isinstance(operation, ir.StoreTile) else None
            return (*operation.window.array.lead, *operation.window.at, *(() if below is None else (below,)))
        case ir.Loop():
            return operation.first, operation.stop
        case ir.If():
            return (operation.index,)
        case ir.Coordinates():
            return (operation.base,)
        case ir.LoadScalar():
            return operation.at
        case ir.FindTile():
            return (operation.tile,)
        case ir.FetchPart():
            return (operation.part,)
    return ()


def _resolved(
    operations: tuple[ir.Operation, ...], offsets: Offsets, loop: _LoopOffsets | None
) -> tuple[ir.Operation, ...]:
    """Return the operations without moves of windows: later positions of these windows include the moves.

    Args:
        operations: The operations.
        offsets: Offsets of windows before the operations. The function changes this mapping to the offsets after the
            operations.
        loop: The loop whose body consists of these operations, if any.
    """
    resolved: list[ir.Operation] = []
    for operation in operations:
        match operation:
            case ir.Move(window, by):
                rows, columns = offsets.get(window.id, (ZERO, ZERO))
                offsets[window.id] = rows + by[0], columns + by[1]
            case ir.Loop():
                resolved.append(_loop(operation, offsets))
            case ir.If():
                resolved.append(_if(operation, offsets, loop))
            case ir.LoadTile() | ir.StoreTile() | ir.AtomicRmw() | ir.Prefetch():
                window = operation.window
                rows, columns = offsets.get(window.id, (ZERO, ZERO))
                at = window.at[0] + rows, window.at[1] + columns
                resolved.append(dataclasses.replace(operation, window=dataclasses.replace(window, at=at)))
            case _:
                resolved.append(operation)
    return tuple(resolved)


@dataclasses.dataclass(frozen=True)
class _LoopOffsets:
    """A loop whose body moves windows under conditions. ``bases`` are the offsets of these windows before the loop."""

    loop: ir.Loop
    bases: Offsets

    def period(self, condition: ir.If) -> int:
        """Return n if a condition holds in every n-th iteration, starting with iteration 0.

        Raises ProgramError if the condition does not have the form ``at % n == 0``.
        """
        loop, index = self.loop, condition.index
        iteration = Index("loop", loop.number)
        at = loop.first + iteration * loop.step
        if index.kind == "mod" and condition.equals == 0 and loop.first == ZERO:
            if index.args[0] == iteration:
                return index.number
            if index.args[0] == at and index.number % loop.step == 0:
                return index.number // loop.step
        raise ProgramError(
            f"{condition.source}: when: a window can only move under a condition that holds in every n-th iteration: "
            f"use at % n, with n a multiple of the step {loop.step}"
        )


def _if(condition: ir.If, offsets: Offsets, loop: _LoopOffsets | None) -> ir.If:
    moved = _moves(condition.body)
    inside = dict(offsets)
    if moved and loop is None:
        raise ProgramError(
            f"{condition.source}: when: a condition outside of loops cannot move a window: use a window at another "
            "position instead"
        )
    if moved and loop is not None:
        times = Index("loop", loop.loop.number) // loop.period(condition)
        for window, by in moved.items():
            base = loop.bases.get(window, (ZERO, ZERO))
            inside[window] = base[0] + times * by[0], base[1] + times * by[1]
            offsets[window] = base[0] + (times + 1) * by[0], base[1] + (times + 1) * by[1]
    return dataclasses.replace(condition, body=_resolved(condition.body, inside, None))


def _moves(body: tuple[ir.Operation, ...]) -> dict[int, tuple[int, int]]:
    """Return, by window id, how many rows and columns the body of a condition moves each window."""
    moves: dict[int, tuple[int, int]] = {}
    for operation in body:
        if isinstance(operation, ir.Move):
            rows, columns = moves.get(operation.window.id, (0, 0))
            moves[operation.window.id] = rows + operation.by[0], columns + operation.by[1]
        elif isinstance(operation, ir.If) and _moves(operation.body):
            raise ProgramError(f"{operation.source}: when: a nested condition moves a window: use a single condition")
    return moves


def _loop(loop: ir.Loop, offsets: Offsets) -> ir.Loop:
    conditions = [o for o in loop.body if isinstance(o, ir.If)]
    periodic = {window: c for c in conditions for window in _moves(c.body)}
    plain = tuple(o for o in loop.body if not isinstance(o, ir.If))
    moved: Offsets = {}
    _resolved(plain, moved, None)
    for window, condition in periodic.items():
        if window in moved or sum(window in _moves(c.body) for c in conditions) > 1:
            raise ProgramError(
                f"{condition.source}: when: the loop also moves this window outside this condition: move it only here"
            )
    each: dict[int, tuple[int, int]] = {}
    for window, by in moved.items():
        if any(i.kind != "constant" for i in by):
            raise ProgramError(
                f"{loop.source}: steps: an inner loop moves a window by a distance that is not constant: use a window "
                "at an index"
            )
        each[window] = by[0].number, by[1].number
    iteration = Index("loop", loop.number)
    inside: Offsets = dict(offsets)
    count = (loop.stop - loop.first + (loop.step - 1)) // loop.step
    for window, (rows, columns) in each.items():
        before = offsets.get(window, (ZERO, ZERO))
        inside[window] = before[0] + iteration * rows, before[1] + iteration * columns
        offsets[window] = before[0] + count * rows, before[1] + count * columns
    own = _LoopOffsets(loop, {window: offsets.get(window, (ZERO, ZERO)) for window in periodic})
    for window, condition in periodic.items():
        period, (row, column), (rows, columns) = (
            own.period(condition),
            own.bases[window],
            _moves(condition.body)[window],
        )
        times, all_times = (iteration + (period - 1)) // period, (count + (period - 1)) // period
        inside[window] = row + times * rows, column + times * columns
        offsets[window] = row + all_times * rows, column + all_times * columns
    return dataclasses.replace(loop, body=_resolved(loop.body, inside, own))
