"""What a program may not say beside what the builder refuses: one sentence, with place, operation and rule."""

from __future__ import annotations

from typing import NoReturn

from search_spaces.programs import ir
from search_spaces.programs.infer import Inference
from search_spaces.programs.ir import ProgramError, Source


def _refuse(source: Source, operation: str, reason: str) -> NoReturn:
    raise ProgramError(f"{source}: {operation}: {reason}")


def verify(found: Inference) -> None:
    """Raises ProgramError for a program that no schedule could run."""
    _check_scopes(found)
    _check_windows(found)
    _check_outputs(found)


def _check_scopes(found: Inference) -> None:
    """A value of a loop is gone behind it."""
    for operation, around in found.trace.walk():
        loops = tuple(loop.number for loop in around)
        for value in ir.inputs(operation):
            inside = found.inside.get(value.id, ())
            if loops[: len(inside)] != inside:
                name = type(operation).__name__.lower()
                _refuse(operation.source, name, "a value that a loop made is used behind it: carry it in a p.state")
        if isinstance(operation, ir.Read) and operation.state not in found.states:
            _refuse(operation.source, "state", "a state is read that was never set")


def _check_windows(found: Inference) -> None:
    """Windows begin inside of their arrays."""
    turns = found.trace.turns()
    for operation, _ in found.trace.walk():
        if not isinstance(operation, ir.Load | ir.Store | ir.AtomicRmw):
            continue
        window, name = operation.window, type(operation).__name__.lower()
        for d, axis in enumerate(("rows", "columns")):
            low, _ = window.at[d].interval(found.trace.blocks, turns)
            if low < 0:
                _refuse(
                    operation.source,
                    name,
                    f"the window begins {-low} {axis} before {window.array.name}: it may reach beyond the end alone",
                )
        for place, extent in zip(window.array.lead, window.array.full, strict=False):
            low, high = place.interval(found.trace.blocks, turns)
            if low < 0 or high >= extent:
                _refuse(
                    operation.source, name, f"{window.array.name}[{place}] reaches {low} to {high}, but it has {extent}"
                )


def _check_outputs(found: Inference) -> None:
    written = {store.window.array.name for store in found.stores}
    for array in found.trace.arrays:
        if array.role != "input" and array.name not in written:
            raise ProgramError(f"the output {array.name} is never stored")
