"""Conversion of wmma accumulators, whose register layout is unspecified, to values with a known distribution.

If a loop only accumulates products, the sums are converted after the loop. Other products are converted immediately.
For the conversion, each warp stores a fragment to shared memory and loads it in the distribution of
``instructions.fragments``.
"""

from __future__ import annotations

from functools import cache

from search_spaces.programs.inference.inference import Inference, Spread
from search_spaces.programs.language import ir
from search_spaces.programs.planning.splits import accumulating

WARP_BYTES = 16 * (16 + 8) * 4  # a 16x16 f32 fragment, with padding of 8 elements per row (tile/opaque.cuh)


@cache
def why_not_wmma(inference: Inference) -> str | None:
    """Return why a program cannot use wmma in any schedule; None if it can."""
    for operation in inference.definitions.values():
        if not isinstance(operation, ir.Mma):
            continue
        number = inference.product_of[operation.result.id]
        for side, value in (("left", operation.a), ("right", operation.b)):
            spread = Spread(side, value.shape, number)  # type: ignore[arg-type]
            if not is_staged(inference, value, spread):
                name = "a" if side == "left" else "b"
                return (
                    f"wmma reads operands from shared memory, so loads must copy them there: {name} of the mma at "
                    f"{operation.source} is computed, or its window cannot be copied to shared memory"
                )
        if operation.c is not None and not _adds_up(inference, operation):
            return (
                "wmma can only accumulate products in a loop that starts from a constant, because the register layout "
                f"of its accumulators is unspecified: the mma at {operation.source} adds to another value"
            )
    return None


def is_staged(inference: Inference, value: ir.Value, spread: Spread) -> bool:
    """Return True if ``value`` is a staged operand, or the transpose of a staged operand."""
    return staged_key(inference, value, spread) in inference.staged


def staged_key(inference: Inference, value: ir.Value, spread: Spread) -> tuple[int, Spread]:
    """Return the key of a value in ``Inference.staged``; for a transposed value, the key of the original tile."""
    operation = inference.definitions[value.id]
    if isinstance(operation, ir.TransposeTile):
        return operation.value.id, spread.swap()
    return value.id, spread


def loop_to_read_after(inference: Inference, operation: ir.Mma) -> int | None:
    """Return the id of the loop after which a product's sums are converted; None if they are converted immediately."""
    around = inference.inside[operation.result.id]
    return around[-1] if operation.c is not None and around and around[-1] in accumulating(inference) else None


def _adds_up(inference: Inference, operation: ir.Mma) -> bool:
    """Return True if a product is added to a state of its loop.

    All elements of the state must start at the same constant.
    """
    loop = loop_to_read_after(inference, operation)
    if loop is None:
        return False
    (state,) = {o.state for o in inference.loops[loop].body if isinstance(o, ir.Set) and o.value == operation.result}
    return _constant_before(inference, inference.trace.operations, loop, state) is True


def _sets(operations: tuple[ir.Operation, ...], state: int) -> bool:
    return any(
        _sets(o.body, state) if isinstance(o, ir.Region) else isinstance(o, ir.Set) and o.state == state
        for o in operations
    )


def _constant_before(inference: Inference, operations: tuple[ir.Operation, ...], loop: int, state: int) -> bool | None:
    """Return True if the last assignment of a state before the loop is a constant.

    The assignment must be in the same region as the loop. Return None if ``operations`` do not contain the loop.
    """
    constant = False
    for operation in operations:
        match operation:
            case ir.Loop() if operation.number == loop:
                return constant
            case ir.Loop() | ir.If():
                inner = _constant_before(inference, operation.body, loop, state)
                if inner is not None:
                    return inner
                if _sets(operation.body, state):
                    constant = False
            case ir.Set() if operation.state == state:
                constant = isinstance(inference.definitions[operation.value.id], ir.Fill)
            case _:
                pass
    return None
