"""Loads that go through shared memory: operands of products, whose windows a loop moves tile by tile or not at all."""

from __future__ import annotations

from math import gcd
from typing import Literal

from search_spaces.programs.inference.inference import Inference, Spread, Staged
from search_spaces.programs.language import ir
from search_spaces.programs.language.index import Index
from search_spaces.programs.language.ir import line_dimension


def linear(index: Index, loop: int) -> tuple[Index, int] | None:
    """``index`` as (what the loop's turn does not change, what each turn adds), or None."""
    if loop not in index.loops:
        return index, 0
    if index.kind == "loop":
        return Index("constant", 0), 1
    parts = [linear(a, loop) for a in index.args]
    if index.kind == "multiply" and parts[0] is not None:
        return parts[0][0] * index.number, parts[0][1] * index.number
    if index.kind == "add" and parts[0] is not None and parts[1] is not None:
        return parts[0][0] + parts[1][0], parts[0][1] + parts[1][1]
    return None


def stage_loads(found: Inference) -> None:
    """Stage what is multiplied as it is stored; what is cast from another width is converted in registers."""
    names: list[str] = []
    factors = {found.product_of[o.result.id]: o.a.dtype for o in found.made.values() if isinstance(o, ir.Mma)}
    for id_, operation in list(found.made.items()):
        if not isinstance(operation, ir.Load):
            continue
        for spread in found.wanted.get(id_, []):
            base = spread.of if spread.kind == "swap" and spread.of is not None else spread
            if not base.operand:
                continue
            stored, factor = operation.window.array.dtype, factors[base.number]
            if (stored.bits, stored.is_float) != (factor.bits, factor.is_float):
                continue
            staged = _staged(found, operation, base, spread.kind == "swap", names)
            if staged is not None:
                found.staged[id_, spread] = staged
                names.append(staged.name)


def _staged(found: Inference, load: ir.Load, spread: Spread, turned: bool, names: list[str]) -> Staged | None:
    window, around = load.window, found.inside[load.result.id]
    if window.array.role == "shared" or window.index is not None or any(number not in found.loops for number in around):
        return None
    if load.padding != 0.0 or len(around) > 1:
        return None
    start, steps = list(window.at), [0, 0]
    if around:
        for d in (0, 1):
            split = linear(window.at[d], around[0])
            if split is None:
                return None
            start[d], steps[d] = split
    trace = found.trace
    turns = trace.turns()
    for d in (0, 1):
        size, extent = window.shape[d], window.extent[d]
        if steps[d] not in (0, size):
            return None
        low, high = window.at[d].interval(trace.blocks, turns)
        if low < 0 or (extent % size == 0 and high + size > extent):
            return None
    if all(steps):
        return None
    line = line_dimension(window)
    advance: Literal["major", "minor", ""] = "" if not any(steps) else "minor" if steps[line] else "major"
    name = window.array.name
    if name in names:
        name = f"{name}_{sum(n.split('_')[0] == name for n in names) + 1}"
        while name in names:
            name += "_"
    row_major = (line == 1) != turned
    alignment = gcd(window.array.matrix[1], window.at[line].divisor) or window.array.matrix[1]
    return Staged(
        name=name,
        load=load,
        side="a" if spread.kind == "left" else "b",
        product=spread.number,
        shape=spread.shape,
        row_major=row_major,
        loop=around[0] if around else None,
        advance=advance,
        start=(start[0], start[1]),
        alignment=alignment,
    )
