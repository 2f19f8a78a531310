"""Loops whose first product runs an iteration ahead, so that the last product overlaps with other operations.

An iteration of such a loop multiplies a result of its first product. With ``products_ahead``, a warpgroup issues the
first product of the next iteration together with the last product of this one, and waits only for the former. The
last product then runs while the next iteration computes its operand (FlashAttention-3, arXiv 2407.08608, section 3.2).
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
    """A loop whose first product can run ahead.

    Attributes:
        loop: The loop.
        first: The product that runs an iteration ahead: of a tile from outside the loop and a copied tile.
        last: The product of a value that depends on ``first``, and a copied tile.
        state: Number of the state to which ``last`` is assigned.
        late: Results that only ``last`` uses: its addend, which depends on the state, and its left operand. They are
            computed after ``last`` of the previous iteration has finished, as that still reads and writes registers.
    """

    loop: ir.Loop
    first: ir.Mma
    last: ir.Mma
    state: int
    late: frozenset[int]


@cache
def ahead(inference: Inference) -> Ahead | None:
    """Return the loop whose first product can run ahead, or None."""
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
    """Return True if an iteration copies the tile to shared memory by itself."""
    made = inference.definitions[value.id]
    source = made.value.id if isinstance(made, ir.TransposeTile) else value.id
    return any(
        id_ == source and staged.loop == loop and staged.advance in ("major", "minor")
        for (id_, _), staged in inference.staged.items()
    )


def _depending(loop: ir.Loop, state: int) -> frozenset[int]:
    """Return the results in a loop that depend on reads of a state, without products."""
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
    """Return True if a schedule lets the first product run ahead."""
    return bool(values.get(PARAMETER, 0))


@cache
def exposed_products(inference: Inference) -> float:
    """Return the share of the multiplications of an iteration for which a warpgroup waits: those of the first product.

    It must be able to run ahead.
    """
    of = ahead(inference)
    assert of is not None
    first, last = (o.result.shape[0] * o.result.shape[1] * o.a.shape[1] for o in (of.first, of.last))
    return first / (first + last)
