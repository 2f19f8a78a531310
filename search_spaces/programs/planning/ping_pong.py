"""Loops in which two warpgroups alternate: one uses the tensor cores while the other executes other operations.

An iteration of such a loop has two groups of products, and the operands of the second group depend on the results of
the first. A warpgroup uses the tensor cores from the second group of an iteration until the end of the first group of
the next iteration.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from search_spaces.programs.inference.inference import Inference
from search_spaces.programs.language import ir
from search_spaces.programs.planning.memory import stage_names
from search_spaces.programs.planning.splits import shared_loop
from search_spaces.spaces.parameters import Value

PARAMETER = "ping_pong"
WARPGROUPS = 2


@cache
def phases(inference: Inference, number: int) -> tuple[int, int] | None:
    """Return the ids of the last product of the first group and of the first product of the second group.

    The operands of the second group depend on results of the first group.

    Args:
        inference: Inference of the program at one choice of sizes.
        number: Id of the loop.

    Returns:
        The two ids, or None if an iteration does not consist of two such groups, one after the other.
    """
    # for each value, the largest group number of the products from which the value is computed
    groups: dict[int, int] = {}
    products: list[tuple[int, int]] = []
    for operation in inference.loops[number].body:
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
def alternating(inference: Inference) -> int | None:
    """Return the id of the loop in which two warpgroups can alternate, or None."""
    shared = shared_loop(inference)
    # With p.split, a second loop combines the parts.
    if inference.trace.shared or len(inference.loops) != (1 if shared is None else 2):
        return None
    return next((number for number in stage_names(inference) if phases(inference, number) is not None), None)


def alternates(values: Mapping[str, Value]) -> bool:
    """Return True if a schedule lets two warpgroups alternate."""
    return bool(values.get(PARAMETER, 0))
