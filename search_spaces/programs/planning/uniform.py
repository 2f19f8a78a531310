"""Conditions on positions that hold for a whole tile, so that some blocks can skip the mask."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from search_spaces.programs.inference.inference import Inference
from search_spaces.programs.language import ir
from search_spaces.programs.language.index import Index, constant


@dataclass(frozen=True)
class _Range:
    low: Index
    high: Index


def always(operation: ir.Map, found: Inference, turns: dict[int, int]) -> str | None:
    """Return CUDA C++ for "the condition of a ``where`` holds everywhere in the tile".

    Returns "true" if it always does, and None if it depends on data.
    """
    condition = operation.arguments[0]
    assert isinstance(condition, ir.Value)
    tests = _tests(condition, found)
    if tests is None:
        return None
    open_tests = []
    for low, high, strict in tests:
        _, most = low.interval(found.trace.most_blocks, turns)
        least, _ = high.interval(found.trace.most_blocks, turns)
        if not (most < least if strict else most <= least):
            open_tests.append(f"{low.code} {'<' if strict else '<='} {high.code}")
    return " && ".join(open_tests) or "true"


def is_never_negative(value: ir.Value, found: Inference, turns: Mapping[int, int]) -> bool:
    """Return True if a tile consists of positions of which none is negative."""
    positions = _range(value, found)
    return positions is not None and positions.low.interval(found.trace.most_blocks, turns)[0] >= 0


def _tests(value: ir.Value, found: Inference) -> list[tuple[Index, Index, bool]] | None:
    """Return comparisons that must all hold, as (maximum of the left, minimum of the right, True for <)."""
    operation = found.made[value.id]
    if isinstance(operation, ir.Broadcast):
        return _tests(operation.value, found)
    if not isinstance(operation, ir.Map):
        return None
    if operation.function == "and":
        parts = [_tests(a, found) for a in operation.arguments if isinstance(a, ir.Value)]
        joined: list[tuple[Index, Index, bool]] = []
        for part in parts:
            if part is None:
                return None
            joined += part
        return joined
    if operation.function in ("less", "less_equal"):
        left, right = (_range(a, found) for a in operation.arguments)
        if left is None or right is None:
            return None
        return [(left.high, right.low, operation.function == "less")]
    return None


def _range(argument: ir.Value | float, found: Inference) -> _Range | None:
    """Return the smallest and largest element of a tile of positions."""
    if not isinstance(argument, ir.Value):
        return _Range(constant(int(argument)), constant(int(argument))) if argument == int(argument) else None
    operation = found.made[argument.id]
    match operation:
        case ir.Broadcast(_, value):
            return _range(value, found)
        case ir.Coordinates(result, _, base):
            return _Range(base, base + (max(result.shape) - 1))
        case ir.Map(_, "add", (first, second)):
            one, two = _range(first, found), _range(second, found)
            return None if one is None or two is None else _Range(one.low + two.low, one.high + two.high)
    return None
