"""Orders in which the row_reduction template adds the elements of a row.

A thread adds the vectors of its row one after another. Lanes combine their sums by shuffles, warps through shared
memory, and blocks of a split row through global memory or the cluster. The schedule determines the order. If row
lengths are not multiples of the vector, rows may be peeled: the vectors of a row then begin at aligned addresses. The
elements at which vectors begin then depend on the position of the row in memory.
"""

from __future__ import annotations

from search_spaces.hardware.devices import Device
from search_spaces.operators.row_reduction import Reduce, RowProblem
from search_spaces.spaces.sum_order import EXACT, OrderPart
from search_spaces.templates.row_reduction.space import chunk_length, positions_before

_BY_VECTOR = ("SoftmaxOnePass", "LayerNormOnePass")  # operators that update the state with a whole vector at a time
# Operators whose merge of states is not symmetric, so that lanes end with slightly different states.
_BY_LANE = "LayerNormOnePass"


def row_parts(problem: RowProblem, device: Device) -> tuple[OrderPart, ...]:
    """Return the components that describe the order in which a row reduction adds elements."""
    if isinstance(problem, Reduce) and problem.kind in ("max", "argmax"):
        return (OrderPart("sums", (), lambda: f"{EXACT}, a maximum"),)
    contiguous, length = problem.reduces_contiguous, problem.length

    def by_vector(passes: str) -> bool:
        return problem.functor(passes) in _BY_VECTOR

    def span(vector_x: int, peel: str) -> int:
        return length + int(positions_before(vector_x, peel == "yes"))

    def threads(lanes_k: int, subgroups_k: int, unroll: int, vector_x: int, passes: str) -> str:
        vector = vector_x if contiguous else 1
        if lanes_k == subgroups_k == 1:  # one thread adds the whole row in ascending order
            return f"one thread, vectors of {vector}" if by_vector(passes) else "one thread"
        one_tree = subgroups_k <= lanes_k and (unroll == 1 or subgroups_k == 1)
        # First lanes, then warps are combined pairwise with their neighbours. Merging states other than sums is not
        # symmetric: the compiler fuses one of two products into an FMA, so the bits differ between lanes.
        if one_tree and not by_vector(passes):
            return f"{subgroups_k * lanes_k} threads, vectors of {vector}"
        loads = f", {unroll} vectors in a row" if subgroups_k > 1 else ""
        return f"{subgroups_k} warps, {lanes_k} lanes, vectors of {vector}{loads}"

    def parts(split_k: int, vector_x: int, peel: str, lanes_k: int) -> str:
        whole = span(vector_x, peel)
        chunk = int(chunk_length(whole, contiguous, split_k))
        if chunk >= whole:
            return ""
        return f"parts of {chunk}" + (f", joined by {lanes_k} lanes" if split_k > lanes_k else "")

    def peeled(vector_x: int, peel: str) -> str:
        return f"vectors of {vector_x} begin where memory is aligned" if peel == "yes" and vector_x > 1 else ""

    def finish(finish: str, split_k: int, passes: str) -> str:
        own = problem.functor(passes) == _BY_LANE and split_k > 1 and finish == "last_block"
        return "one block normalizes the row" if own else ""

    order_parts = [
        OrderPart("threads along a row", ("lanes_k", "subgroups_k", "unroll", "vector_x", "passes"), threads),
        OrderPart("blocks along a row", ("split_k", "vector_x", "peel", "lanes_k"), parts),
        OrderPart("peeling", ("vector_x", "peel"), peeled, lambda vector_x, peel: bool(peeled(vector_x, peel))),
    ]
    if len(problem.passes) > 1:
        order_parts.append(OrderPart("passes", ("passes",), lambda passes: str(passes)))
        order_parts.append(OrderPart("finish", ("finish", "split_k", "passes"), finish))
    return tuple(order_parts)
