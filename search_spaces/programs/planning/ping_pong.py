"""Loops in which two warpgroups take turns at the tensor cores: one multiplies while the other one does all the rest.

A turn of such a loop has two groups of products, and the operands of the second one follow from the results of the
first. A warpgroup holds the tensor cores from its second group through the first group of the next turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from search_spaces.programs.inference.inference import Inference
from search_spaces.programs.language import ir
from search_spaces.programs.planning.memory import stage_names
from search_spaces.spaces.parameters import Value

PARAMETER = "ping_pong"
WARPGROUPS = 2


@cache
def phases(found: Inference, number: int) -> tuple[int, int] | None:
    """Return the results of the last product of the first group and of the first one of the second, by number.

    Args:
        found: The program at some choice of sizes.
        number: Of the loop.

    Returns:
        None where the products of an iteration are not two such groups.
    """
    groups: dict[int, int] = {}  # of values, the group of the products that they follow from
    products: list[tuple[int, int]] = []
    for operation in found.loops[number].body:
        if isinstance(operation, ir.Loop | ir.If):
            return None
        if not isinstance(operation, ir.Computing):
            continue
        group = max((groups.get(value.id, 0) for value in ir.inputs(operation)), default=0)
        if isinstance(operation, ir.Mma):
            operands = max(groups.get(operation.a.id, 0), groups.get(operation.b.id, 0))
            group = max(group, operands + 1)
            products.append((group, operation.result.id))
        groups[operation.result.id] = group
    numbers = [group for group, _ in products]
    if set(numbers) != {1, 2} or numbers != sorted(numbers):
        return None
    at = numbers.index(2)
    return products[at - 1][1], products[at][1]


@cache
def alternating(found: Inference) -> int | None:
    """Return the loop of a program in which two warpgroups may take turns, or None."""
    if found.trace.shared or len(found.loops) != 1:
        return None
    return next((number for number in stage_names(found) if phases(found, number) is not None), None)


def alternates(values: Mapping[str, Value]) -> bool:
    """Whether a schedule says so."""
    return bool(values.get(PARAMETER, 0))
