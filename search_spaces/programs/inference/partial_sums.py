"""Find states that may hold one partial sum per thread during a loop. The sums are combined after the loop."""

from __future__ import annotations

from search_spaces.programs.inference.inference import Inference
from search_spaces.programs.language import ir


def find_sums(inference: Inference) -> None:
    """Find states that a loop uses only as a sum: each iteration may scale the state, and adds one reduction to it."""
    reads: dict[int, int] = {}
    uses: dict[int, int] = {}
    for operation, _ in inference.trace.walk():
        if isinstance(operation, ir.Read):
            reads[operation.result.id] = operation.state
        for value in ir.inputs(operation):
            uses[value.id] = uses.get(value.id, 0) + 1
    for loop in inference.loops.values():
        sets: dict[int, list[ir.Set]] = {}
        for operation in ir.walk_body(loop.body):
            if isinstance(operation, ir.Set):
                sets.setdefault(operation.state, []).append(operation)
        for state, assignments in sets.items():
            reads_inside = [r for r, s in reads.items() if s == state and loop.number in inference.inside[r]]
            if assignments[0] not in loop.body:
                continue
            if len(assignments) != 1 or len(reads_inside) != 1 or uses.get(reads_inside[0]) != 1:
                continue
            reduce = _added(inference, assignments[0].value, reads_inside[0], uses)
            if (
                reduce is not None
                and loop.number in inference.inside[reduce.result.id]
                and _starts_at_zero(inference, state, loop)
            ):
                inference.sums[state] = reduce


def _added(inference: Inference, value: ir.Value, read: int, uses: dict[int, int]) -> ir.ReduceTile | None:
    """Return the reduction if ``value`` is ``read + reduction`` or ``read * factor + reduction``, else None."""
    operation = inference.definitions.get(value.id)
    if not isinstance(operation, ir.Map) or operation.function != "add" or uses.get(value.id) != 1:
        return None
    for first, second in (operation.arguments, operation.arguments[::-1]):
        if not isinstance(first, ir.Value) or not isinstance(second, ir.Value):
            return None
        definition = inference.definitions[second.id]
        if isinstance(definition, ir.ReduceTile) and definition.kind == "add" and uses.get(second.id) == 1:
            scaled = inference.definitions[first.id]
            if first.id == read:
                return definition
            if isinstance(scaled, ir.Map) and scaled.function == "multiply" and uses.get(first.id) == 1:
                taken = [a for a in scaled.arguments if isinstance(a, ir.Value)]
                if any(a.id == read for a in taken):
                    return definition
    return None


def _starts_at_zero(inference: Inference, state: int, loop: ir.Loop) -> bool:
    """Return True if the state is known to be zero when the loop begins; False for any nested loop."""
    around_loop = next(around for operation, around in inference.trace.walk() if operation is loop)
    if any(isinstance(region, ir.Loop) for region in around_loop):
        return False
    for operation, around in inference.trace.walk():
        if operation is loop:
            return False
        if isinstance(operation, ir.Set) and operation.state == state:
            definition = inference.definitions[operation.value.id]
            return not around and isinstance(definition, ir.Fill) and definition.number == 0.0
    return False
