"""Find states whose reads and accumulations need no copy of the registers."""

from __future__ import annotations

from collections import Counter
from functools import cache

from search_spaces.programs.inference.inference import Inference
from search_spaces.programs.language import ir


@cache
def uses(inference: Inference) -> Counter[int]:
    """Return how many operations use each value, by the value's id."""
    return Counter(value.id for operation, _ in inference.trace.walk() for value in ir.inputs(operation))


@cache
def read_in_place(inference: Inference) -> frozenset[int]:
    """Return the results of those reads that need no copy: the state does not change while the result may be used."""
    walked = list(inference.trace.walk())
    sets = [(o.state, position, around) for position, (o, around) in enumerate(walked) if isinstance(o, ir.Set)]
    values = set()
    for position, (operation, around) in enumerate(walked):
        if isinstance(operation, ir.Read):
            loops = {r for r in around if isinstance(r, ir.Loop)}
            later = any(
                state == operation.state and (at > position or loops & set(regions)) for state, at, regions in sets
            )
            if not later:
                values.add(operation.result.id)
    return frozenset(values) | summed(inference)


@cache
def summed(inference: Inference) -> frozenset[int]:
    """Return the results of reads that need no copy: reads of ``state`` in accumulations ``state = a @ b + state``.

    The loop must not read or set the state anywhere else.
    """
    values = set()
    for loop in inference.loops.values():
        reads = {o.result.id: o for o in loop.body if isinstance(o, ir.Read)}
        states = Counter(o.state for o in ir.walk_body(loop.body) if isinstance(o, ir.Read | ir.Set))
        products = {o.result.id: o for o in loop.body if isinstance(o, ir.Mma)}
        for operation in loop.body:
            if not isinstance(operation, ir.Set) or states[operation.state] != 2:
                continue
            product = products.get(operation.value.id)
            if product is None or product.c is None or uses(inference)[product.c.id] != 1:
                continue
            read = reads.get(product.c.id)
            same = inference.natural[product.result.id] == inference.states[operation.state]
            if read is not None and read.state == operation.state and same:
                values.add(read.result.id)
    return frozenset(values)
