"""Detection of sums with at most one nonzero term in tile programs, such as selecting the label's column of a row."""

from __future__ import annotations

from collections.abc import Iterator

from search_spaces.programs.inference.inference import Inference
from search_spaces.programs.language import ir
from search_spaces.programs.language.index import Index


def has_one_term(inference: Inference, operation: ir.ReduceTile | ir.Scan) -> bool:
    """Return True if the terms of a sum are ``where(position == number, x, 0)``, of which at most one is not 0.

    A sum that is carried from one loop iteration to the next may be accumulated per lane until the loop ends. Such a
    sum has only one term if the iterations compare disjoint positions with the same number.

    Args:
        inference: Distributions of the program.
        operation: The sum.
    """
    if not isinstance(operation, ir.ReduceTile):
        return False
    picked = inference.definitions.get(operation.value.id)
    if not isinstance(picked, ir.Map) or picked.function != "where" or not _is_zero(inference, picked.arguments[2]):
        return False
    matches = list(_matches(inference, picked.arguments[0], operation.dimension))
    if operation not in inference.sums.values():
        return bool(matches)
    loop, size = inference.inside[operation.result.id][-1], operation.value.shape[operation.dimension]
    return any(
        _is_apart(positions.base, loop, size) and (wanted is None or loop not in inference.inside[wanted.id])
        for positions, wanted in matches
    )


def _is_zero(inference: Inference, value: ir.Value | float) -> bool:
    if isinstance(value, ir.Value):
        operation = inference.definitions.get(value.id)
        return isinstance(operation, ir.Fill) and operation.number == 0.0
    return value == 0.0


def _matches(
    inference: Inference, condition: ir.Value | float, dimension: int
) -> Iterator[tuple[ir.Coordinates, ir.Value | None]]:
    """Yield pairs of positions along ``dimension`` and an operand to which a position must be equal.

    The equalities are necessary for ``condition``. An operand is the same for all positions; None stands for a literal.
    """
    operation = inference.definitions.get(condition.id) if isinstance(condition, ir.Value) else None
    if not isinstance(operation, ir.Map):
        return
    if operation.function == "and":
        for part in operation.arguments:
            yield from _matches(inference, part, dimension)
    if operation.function != "equal":
        return
    for one, other in (operation.arguments, operation.arguments[::-1]):
        positions = inference.definitions.get(one.id) if isinstance(one, ir.Value) else None
        while isinstance(positions, ir.Broadcast) and positions.dimension != dimension:
            positions = inference.definitions.get(positions.value.id)
        if not isinstance(positions, ir.Coordinates) or positions.dimension != dimension:
            continue
        if not isinstance(other, ir.Value):
            yield positions, None
            continue
        spread = inference.definitions.get(other.id)
        if isinstance(spread, ir.Broadcast) and spread.dimension == dimension and spread.value.shape[dimension] == 1:
            yield positions, spread.value


def _is_apart(base: Index, loop: int, size: int) -> bool:
    """Return True if the ranges of ``size`` positions that begin at ``base`` do not overlap between loop iterations."""
    return base.kind == "multiply" and abs(base.number) >= size and base.args[0] == Index("loop", loop)
