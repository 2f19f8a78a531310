"""For loads that gather rows: find row numbers that each copying thread can compute without other threads."""

from __future__ import annotations

from search_spaces.programs.inference.inference import Inference
from search_spaces.programs.language import ir
from search_spaces.programs.language.index import Index

_FUNCTIONS = (
    "add", "subtract", "multiply", "maximum", "minimum", "less", "less_equal", "equal", "and", "or", "not", "where",
    "bit_and", "bit_or", "bit_xor", "shift_right", "shift_left", "modulo", "floor_divide",
)  # fmt: skip


def indices_of_rows(inference: Inference, value: ir.Value) -> tuple[Index, ...] | None:
    """Return the indices that a row number depends on; None if a thread cannot compute the row number alone."""
    operation = inference.definitions[value.id]
    match operation:
        case ir.Fill():
            return ()
        case ir.Coordinates(_, _, base):
            return (base,)
        case ir.LoadTile(_, window) if window.index is None and window.array.role == "input" and not window.array.lead:
            return window.at
        case ir.LoadTile(_, window) if window.index is not None and len(window.array.full) == 1:
            return indices_of_rows(inference, window.index)
        case ir.Broadcast(_, inner):
            return indices_of_rows(inference, inner)
        case ir.Map(_, function, arguments) if function in _FUNCTIONS:
            parts = [indices_of_rows(inference, a) for a in arguments if isinstance(a, ir.Value)]
            joined: list[Index] = []
            for part in parts:
                if part is None:
                    return None
                joined += part
            return tuple(joined)
    return None
