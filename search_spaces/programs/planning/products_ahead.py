"""Loops whose first product is computed one iteration ahead, so that the last product overlaps with other operations.

The operand of the last product of an iteration is computed from the result of the first product, as in attention. With
``products_ahead``, a warpgroup issues the last product of an iteration together with the first product of the next
iteration, and waits only for the first product. The last product is then computed while the next iteration computes the
operand of its own last product (FlashAttention-3, arXiv 2407.08608, section 3.2).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from search_spaces.programs.inference.inference import Inference
from search_spaces.programs.language import ir
from search_spaces.programs.planning.ping_pong import alternating
from search_spaces.spaces.parameters import Value

PARAMETER = "products_ahead"


@dataclass(frozen=True)
class Ahead:
    """A loop whose first product can be computed one iteration ahead.

    Attributes:
        loop: The loop.
        first: The product that is computed ahead. Operand a is a tile from outside the loop; b is a tile that the loop
            copies.
        last: The last product. Operand a depends on ``first``; b is a tile that the loop copies.
        state: Id of the state to which ``last`` is assigned.
        late: Values that are used only by ``last``: its left operand, and values that depend on the state, such as its
            addend. ``last`` accesses the registers of these values until it has finished. So these values are computed
            after ``last`` of the previous iteration has finished.
    """

    loop: ir.Loop
    first: ir.Mma
    last: ir.Mma
    state: int
    late: frozenset[int]


@cache
def ahead(inference: Inference) -> Ahead | None:
    """Return the loop whose first product can be computed one iteration ahead, or None."""
    number = alternating(inference)
    if number is None:
        return None
    loop = inference.loops[number]
    products = [o for o in loop.body if isinstance(o, ir.Mma)]
    if len(products) != 2:
        return None
    first, last = products
    if first.c is not None or number in inference.inside[first.a.id] or not _is_copied(inference, first.b, number):
        return None
    states = [o.state for o in loop.body if isinstance(o, ir.Set) and o.value.id == last.result.id]
    if len(states) != 1 or last.c is None or not _is_copied(inference, last.b, number):
        return None
    cast = inference.definitions[last.a.id]
    if not isinstance(cast, ir.Map) or cast.function != "cast" or cast not in loop.body:
        return None
    late = _depending(loop, states[0]) | {last.a.id}
    users = {
        id_: [o for o in loop.body if any(value.id == id_ for value in ir.inputs(o))] for id_ in {*late, last.result.id}
    }
    only_last_uses_late = all(
        o is last or (isinstance(o, ir.Computing) and o.result.id in late) for id_ in late for o in users[id_]
    )
    if not only_last_uses_late or users[last.a.id] != [last] or len(users[last.result.id]) != 1:
        return None
    if last.c.id not in late:
        return None
    return Ahead(loop, first, last, states[0], late)


def _is_copied(inference: Inference, value: ir.Value, loop: int) -> bool:
    """Return True if each iteration of the loop copies the tile to a ring in shared memory."""
    definition = inference.definitions[value.id]
    source = definition.value.id if isinstance(definition, ir.TransposeTile) else value.id
    return any(
        id_ == source and staged.loop == loop and staged.advance in ("major", "minor")
        for (id_, _), staged in inference.staged.items()
    )


def _depending(loop: ir.Loop, state: int) -> frozenset[int]:
    """Return the ids of the results in a loop that depend on a state; dependence through a product does not count."""
    late: set[int] = set()
    for operation in loop.body:
        if (isinstance(operation, ir.Read) and operation.state == state) or (
            isinstance(operation, ir.Computing)
            and not isinstance(operation, ir.Mma)
            and any(value.id in late for value in ir.inputs(operation))
        ):
            late.add(operation.result.id)
    return frozenset(late)


def runs_ahead(values: Mapping[str, Value]) -> bool:
    """Return True if a schedule computes the first product one iteration ahead."""
    return bool(values.get(PARAMETER, 0))


@cache
def exposed_products(inference: Inference) -> float:
    """Return the fraction of an iteration's multiplications that a warpgroup waits for: those of the first product.

    The program must have a loop whose first product can be computed ahead.
    """
    of = ahead(inference)
    assert of is not None
    first, last = (o.result.shape[0] * o.result.shape[1] * o.a.shape[1] for o in (of.first, of.last))
    return first / (first + last)
