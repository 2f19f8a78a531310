"""Tensor memory of a schedule: the columns in which tcgen05 accumulates products, and which programs can use it.

Products must add to states in one loop that does nothing else. Their sums stay in tensor memory over all iterations.
After the loop they are read to registers and added to the initial values of the states.
"""

from __future__ import annotations

from functools import cache

from search_spaces.programs.inference.inference import Inference
from search_spaces.programs.language import ir
from search_spaces.programs.planning.splits import accumulating
from search_spaces.programs.planning.ways import rows_of


@cache
def why_not_in_tensor_memory(found: Inference) -> str | None:
    """Return the reason why a program cannot use tcgen05 in any schedule; None if it can."""
    products = _products(found)
    if not products:
        return "the program multiplies no matrices"
    loops = {found.inside[operation.result.id] for operation in products}
    outermost = {o.number for o in found.trace.operations if isinstance(o, ir.Loop)}
    if len(loops) == 1 and all(len(around) == 1 and set(around) <= outermost & accumulating(found) for around in loops):
        return None
    return (
        f"tcgen05 keeps sums in tensor memory over a loop that does nothing but add up products of loaded tiles, and "
        f"that is in no other loop: the mma at {products[0].source} is elsewhere"
    )


def tensor_columns(found: Inference, intrinsic: str) -> dict[int, int]:
    """Return the columns of tensor memory in which each product accumulates, by its result."""
    columns = {}
    for operation in _products(found):
        m, n = found.products[found.product_of[operation.result.id]].shape
        columns[operation.result.id] = m // rows_of(intrinsic) * n
    return columns


def _products(found: Inference) -> list[ir.Mma]:
    return [operation for operation in found.made.values() if isinstance(operation, ir.Mma)]
