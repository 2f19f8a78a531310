"""Bytes of shared memory for exchanges.

The search space includes these bytes in ``shared_bytes``. The lowering reserves memory only for the exchanges listed in
this module. Any other exchange raises an error, so a kernel never uses more than ``shared_bytes``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from search_spaces.programs.inference.inference import Inference
from search_spaces.programs.language import ir
from search_spaces.programs.planning import estimates
from search_spaces.programs.planning.memory import ALIGNMENT, Exchange, OuterLoop, exchange_bytes
from search_spaces.programs.planning.splits import shared_loop, split_of
from search_spaces.spaces.parameters import Value

LAST_BLOCK: Exchange = "last_block"  # key of the flag that is 1 in the block that is the last to finish a shared tile
WMMA_SUMS: Exchange = None


def loops_of_sum(inference: Inference, number: int) -> dict[str, OuterLoop]:
    """Return, for each value of the sum's parameter, the outermost loop in which the partial sums are combined."""
    around = inference.inside[list(inference.sums.values())[number].result.id]
    return {
        estimates.INSIDE: estimates.outermost(inference, around),
        estimates.AFTER: estimates.outermost(inference, around[:-1]),
    }


def loops_of_stores(inference: Inference) -> dict[str, OuterLoop]:
    """Return the outermost loop around each store. Keys are the names of the stores' parameters, such as "store_1"."""
    around = enumerate(inference.stored_in, 1)
    return {f"store_{number}": estimates.outermost(inference, loops) for number, loops in around}


def flag_bytes(inference: Inference) -> int:
    """Return the bytes to reserve for the flag LAST_BLOCK; 0 if the program does not split a loop."""
    return ALIGNMENT if shared_loop(inference) is not None else 0


def scratch_bytes(exchange: str, tiles: Iterable[ir.Shape], other_bytes: Iterable[int]) -> int:
    """Return the bytes of the memory for exchanges.

    Exchanges use the same memory one after another, so the largest exchange determines the size.

    Args:
        exchange: Layout of exchanged tiles.
        tiles: Shapes of exchanged tiles.
        other_bytes: Bytes of each of the other exchanges.
    """
    return max([0, *other_bytes, *(exchange_bytes(exchange, shape) for shape in tiles)])


def exchanges(inference: Inference, values: Mapping[str, Value]) -> dict[OuterLoop, dict[Exchange, int]]:
    """Return the bytes of each exchange of a schedule, by the outermost loop around it."""
    needs, layout = estimates.needs(inference, values), str(values.get("exchange", "identity"))
    listed: dict[OuterLoop, dict[Exchange, int]] = {None: {}, **{loop: {} for loop in inference.loops}}
    for outer_loop, shapes in needs.tiles.items():
        listed[outer_loop] |= {shape: exchange_bytes(layout, shape) for shape in shapes}
    for outer_loop, joined in needs.joined.items():
        listed[outer_loop] |= {result: size for result, size in joined.items()}
    for number, (size, reduction) in enumerate(zip(needs.sums.values(), inference.sums.values(), strict=True)):
        time = str(values[estimates.sum_name(number)])
        listed[loops_of_sum(inference, number)[time]][reduction.result.id] = size
    for (name, outer_loop), store in zip(loops_of_stores(inference).items(), inference.stores, strict=True):
        if values.get(name) == "turned":
            listed[outer_loop][store.value.shape] = exchange_bytes(layout, store.value.shape)
    if split_of(inference, values) is not None:
        listed[None][LAST_BLOCK] = ALIGNMENT
    return listed
