"""Masks of ``where`` that are true in the whole tile, so that a block can skip them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from search_spaces.programs.inference.inference import Inference
from search_spaces.programs.language import ir
from search_spaces.programs.language.index import Index, constant

# maximum numbers of blocks and of iterations that are sampled, to estimate how often masks are needed
MOST_BLOCKS, MOST_ITERATIONS = (
    8,
    32,
)


@dataclass(frozen=True)
class _Range:
    low: Index
    high: Index


def always(operation: ir.Map, inference: Inference, iterations: dict[int, int]) -> str | None:
    """Return a CUDA C++ test of whether the condition of a ``where`` holds for all elements of the tile.

    Return "true" if it holds in every block and iteration, and None if the condition depends on data.
    """
    condition = operation.arguments[0]
    assert isinstance(condition, ir.Value)
    tests = _tests(condition, inference)
    if tests is None:
        return None
    open_tests = []
    for low, high, strict in tests:
        _, most = low.interval(inference.trace.most_blocks, iterations)
        least, _ = high.interval(inference.trace.most_blocks, iterations)
        if not (most < least if strict else most <= least):
            open_tests.append(f"{low.code} {'<' if strict else '<='} {high.code}")
    return " && ".join(open_tests) or "true"


def is_never_negative(value: ir.Value, inference: Inference, iterations: Mapping[int, int]) -> bool:
    """Return True if ``value`` is a tile of positions that are never negative."""
    positions = _range(value, inference)
    return positions is not None and positions.low.interval(inference.trace.most_blocks, iterations)[0] >= 0


@cache
def masking(inference: Inference) -> Mapping[int, float]:
    """Return the fraction of blocks and iterations in which a ``where`` needs its mask, by the id of its result.

    The mapping also contains each condition that only such ``where`` operations use. Its value is the maximum of their
    fractions.
    """
    shares, users = dict[int, float](), dict[int, list[int]]()
    operations = [o for o, _ in inference.trace.walk() if isinstance(o, ir.Computing)]
    for operation in operations:
        for value in ir.inputs(operation):
            users.setdefault(value.id, []).append(operation.result.id)
        if (
            isinstance(operation, ir.Map)
            and operation.function == "where"
            and _is_constant(operation.arguments[2], inference)
        ):
            share = _needed(operation, inference)
            if share is not None:
                shares[operation.result.id] = share
    for operation in reversed(operations):
        of_users = users.get(operation.result.id, [])
        if operation.result.dtype.name == "bool" and of_users and all(user in shares for user in of_users):
            shares[operation.result.id] = max(shares[user] for user in of_users)
    return shares


def _is_constant(argument: ir.Value | float, inference: Inference) -> bool:
    return not isinstance(argument, ir.Value) or isinstance(inference.definitions[argument.id], ir.Fill)


def _needed(operation: ir.Map, inference: Inference) -> float | None:
    """Return the fraction of blocks and iterations in which a condition does not hold everywhere in the tile.

    Return None if the condition depends on data, or is in nested loops.
    """
    condition, around = operation.arguments[0], inference.inside[operation.result.id]
    assert isinstance(condition, ir.Value)
    tests = _tests(condition, inference)
    if tests is None or len(around) > 1:
        return None
    trace, needed, executed = inference.trace, 0, 0
    for position in np.linspace(0.0, 1.0, MOST_BLOCKS):
        block = tuple(round(position * (count - 1)) for count in trace.blocks)
        loops = [inference.loops[number] for number in around]
        count = loops[0].iterations(block, {}) if loops else 1
        step = max(1, count // MOST_ITERATIONS)
        # The samples include the last iteration, which needs a mask most often.
        for iteration in range(count - 1, -1, -step):
            at = {around[0]: iteration} if loops else {}
            executed += 1
            needed += not all(
                low.at(block, at) < high.at(block, at) if strict else low.at(block, at) <= high.at(block, at)
                for low, high, strict in tests
            )
    return needed / executed if executed else 1.0


def _tests(value: ir.Value, inference: Inference) -> list[tuple[Index, Index, bool]] | None:
    """Return the comparisons that must all hold, as triples (largest left side, smallest right side, True for <)."""
    operation = inference.definitions[value.id]
    if isinstance(operation, ir.Broadcast):
        return _tests(operation.value, inference)
    if not isinstance(operation, ir.Map):
        return None
    if operation.function == "and":
        parts = [_tests(a, inference) for a in operation.arguments if isinstance(a, ir.Value)]
        joined: list[tuple[Index, Index, bool]] = []
        for part in parts:
            if part is None:
                return None
            joined += part
        return joined
    if operation.function in ("less", "less_equal"):
        left, right = (_range(a, inference) for a in operation.arguments)
        if left is None or right is None:
            return None
        return [(left.high, right.low, operation.function == "less")]
    return None


def _range(argument: ir.Value | float, inference: Inference) -> _Range | None:
    """Return the smallest and largest element of a tile of positions."""
    if not isinstance(argument, ir.Value):
        return _Range(constant(int(argument)), constant(int(argument))) if argument == int(argument) else None
    operation = inference.definitions[argument.id]
    match operation:
        case ir.Broadcast(_, value):
            return _range(value, inference)
        case ir.Coordinates(result, _, base):
            return _Range(base, base + (max(result.shape) - 1))
        case ir.Map(_, "add", (first, second)):
            one, two = _range(first, inference), _range(second, inference)
            return None if one is None or two is None else _Range(one.low + two.low, one.high + two.high)
    return None
