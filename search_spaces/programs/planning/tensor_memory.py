"""Tensor memory: which programs can use tcgen05, and the columns in which products accumulate.

If one loop contains all products and only adds them to states, the sums stay in tensor memory during the loop. After
the loop, the sums are loaded to registers and added to the initial values of the states. In all other programs, each
product is loaded to registers immediately and then added to the addend. Left operands that are computed in registers
are stored to shared memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Literal

from search_spaces.programs.inference.inference import Inference, Spread
from search_spaces.programs.language import ir
from search_spaces.programs.planning.instructions import rows_of
from search_spaces.programs.planning.splits import accumulating, shared_loop
from search_spaces.programs.planning.wmma import is_staged

STORED_BITS = 16  # bits per element of left operands that are computed in registers


@cache
def why_not_in_tensor_memory(inference: Inference) -> str | None:
    """Return why a program cannot use tcgen05 in any schedule; None if it can."""
    products = _products(inference)
    if not products:
        return "the program has no matrix products"
    if sums_stay(inference):
        return None
    shared = shared_loop(inference)
    if shared is not None and any(
        inference.inside[operation.result.id] != (shared[0].number,) for operation in products
    ):
        return "a split loop frees tensor memory at its end, and the program has products outside of this loop"
    right = next((o for o in products if not is_staged(inference, o.b, _spread(inference, o, "right"))), None)
    if right is not None:
        return (
            f"tcgen05 reads b from shared memory, so a load must copy it there: b of the mma at {right.source} is "
            "computed, or its window cannot be copied to shared memory"
        )
    for operation in products:
        if operation.a.dtype.bits != STORED_BITS and is_computed(inference, operation):
            return (
                f"if operand a is computed in registers, tcgen05 needs {STORED_BITS}-bit elements: a of the mma at "
                f"{operation.source} has {operation.a.dtype.bits} bits"
            )
    return None


@cache
def sums_stay(inference: Inference) -> bool:
    """Return True if sums can stay in tensor memory during the only loop with products."""
    loops = {inference.inside[operation.result.id] for operation in _products(inference)}
    outermost = {o.number for o in inference.trace.operations if isinstance(o, ir.Loop)}
    if len(loops) != 1:
        return False
    (around,) = loops
    return len(around) == 1 and set(around) <= outermost & accumulating(inference)


def is_computed(inference: Inference, operation: ir.Mma) -> bool:
    """Return True if the left operand of a product is computed in registers and must be stored to shared memory."""
    return not is_staged(inference, operation.a, _spread(inference, operation, "left"))


def _spread(inference: Inference, operation: ir.Mma, side: Literal["left", "right"]) -> Spread:
    shape = (operation.a if side == "left" else operation.b).shape
    return Spread(side, shape, inference.product_of[operation.result.id])


@cache
def waits_for_readers(inference: Inference, operation: ir.Mma) -> bool:
    """Return True if a barrier is needed before a product overwrites sums in tensor memory.

    Outside of loops, no barrier is needed. If each iteration stores a computed left operand, no additional barrier is
    needed, because this store already has one.
    """
    around = inference.inside[operation.result.id]
    conditional = {o.result.id for i, _ in inference.trace.walk() if isinstance(i, ir.If) for o in _within(i)}
    products = (
        o for o in _products(inference) if inference.inside[o.result.id] == around and o.result.id not in conditional
    )
    return bool(around) and not any(is_computed(inference, o) for o in products)


def _within(region: ir.Region) -> Iterator[ir.Mma]:
    """Yield the products in a region, including nested regions."""
    for operation in region.body:
        if isinstance(operation, ir.Region):
            yield from _within(operation)
        elif isinstance(operation, ir.Mma):
            yield operation


def stored_bytes(inference: Inference, operation: ir.Mma) -> int:
    """Return the bytes of shared memory for a computed left operand; 0 for a loaded left operand."""
    rows, depth = operation.a.shape
    return rows * depth * STORED_BITS // 8 if is_computed(inference, operation) else 0


def stored_swizzle(operation: ir.Mma) -> int:
    """Return the hardware swizzle, in bytes, of a left operand that is computed and stored to shared memory."""
    line = operation.a.shape[1] * STORED_BITS // 8
    return next(swizzle for swizzle in (128, 64, 32) if line % swizzle == 0)


def tensor_columns(inference: Inference, intrinsic: str) -> dict[int, int]:
    """Return the number of tensor-memory columns of each product, by the id of its result."""
    columns = {}
    for operation in _products(inference):
        m, n = inference.products[inference.product_of[operation.result.id]].shape
        columns[operation.result.id] = m // rows_of(intrinsic) * n
    return columns


def _products(inference: Inference) -> list[ir.Mma]:
    return [operation for operation in inference.definitions.values() if isinstance(operation, ir.Mma)]
