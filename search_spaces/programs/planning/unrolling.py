"""Unroll factors of loops without a ring. With unrolling, loads of several iterations are in flight together."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from search_spaces.programs.inference.inference import Inference
from search_spaces.programs.language import ir
from search_spaces.programs.planning.memory import stage_names
from search_spaces.spaces.parameters import Value

UNROLLS = (1, 2, 4)


@cache
def unrollable(inference: Inference) -> dict[int, str]:
    """Return the unroll parameter's name for each loop that has no ring, product, inner loop or condition."""
    loops = [
        number
        for number, loop in inference.loops.items()
        if number not in stage_names(inference) and not any(isinstance(o, ir.Region | ir.Mma) for o in loop.body)
    ]
    return {loop: "unroll" if len(loops) == 1 else f"unroll_{i + 1}" for i, loop in enumerate(loops)}


def unroll_of(inference: Inference, values: Mapping[str, Value], loop: int) -> int | None:
    """Return the unroll factor of a loop; None if the compiler decides."""
    name = unrollable(inference).get(loop, "")
    return int(values[name]) if name in values else None
