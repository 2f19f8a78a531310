"""Decide which operands of products are loaded through shared memory: once, or one tile per iteration of a loop.

If an operand is stored in the type of the product, it is read from shared memory as fragments of the instruction. An
operand of another type, such as 4-bit or 8-bit weights, is copied to shared memory unconverted. Threads then read their
elements and convert them in registers.
"""

from __future__ import annotations

from math import gcd, prod

from search_spaces.hardware.dtypes import I32, DType
from search_spaces.programs.inference.inference import Advance, Inference, Spread, Staged
from search_spaces.programs.inference.row_numbers import indices_of_rows
from search_spaces.programs.language import ir
from search_spaces.programs.language.index import Index
from search_spaces.programs.language.ir import line_dimension

LEAST_BYTES = 128  # smallest converted tile: 4 bytes per lane of a warp


def linear(index: Index, loop: int) -> tuple[Index, int] | None:
    """Return ``index`` as (loop-invariant part, increment per iteration), or None if it is not linear in the loop."""
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


def stage_loads(inference: Inference) -> None:
    """Stage operands of products, and tiles of narrow types from which operands are computed."""
    names: list[str] = []
    factors = {
        inference.product_of[o.result.id]: o.a.dtype for o in inference.definitions.values() if isinstance(o, ir.Mma)
    }
    converted: dict[int, Staged] = {}
    for id_, operation in list(inference.definitions.items()):
        if not isinstance(operation, ir.LoadTile):
            continue
        for spread in inference.wanted.get(id_, []):
            if not spread.base.operand:
                continue
            base = spread.of if spread.kind == "swap" and spread.of is not None else spread
            stored, factor = operation.window.array.dtype, factors[spread.base.number]
            if base.operand and (stored.bits, stored.is_float) == (factor.bits, factor.is_float):
                staged = _staged(inference, operation, base, spread.kind == "swap", names)
            elif id_ in converted:
                inference.staged[id_, spread] = converted[id_]
                continue
            elif _worth_copying(operation, stored, factor) and inference.inside[id_]:
                staged = _staged(inference, operation, Spread("left", operation.result.shape), False, names, True)
                if staged is not None:
                    converted[id_] = staged
            else:
                continue
            if staged is not None:
                inference.staged[id_, spread] = staged
                names.append(staged.name)


def _worth_copying(load: ir.LoadTile, stored: DType, factor: DType) -> bool:
    """Return True if a tile of narrow or packed numbers is large enough to be copied before it is converted."""
    narrow = stored.bits < factor.bits or (stored == I32 and factor.is_float)
    return narrow and min(load.result.shape) > 1 and prod(load.result.shape) * stored.bytes >= LEAST_BYTES


def _staged(
    inference: Inference, load: ir.LoadTile, spread: Spread, turned: bool, names: list[str], converted: bool = False
) -> Staged | None:
    window, around = load.window, inference.inside[load.result.id]
    if window.array.role != "input" or any(number not in inference.loops for number in around):
        return None
    if load.padding != 0.0 or len(around) > 1 or (len(window.array.full) == 1 and window.array.dynamic is not None):
        return None
    indices = _indices(inference, window)
    if indices is None or (window.index is not None and not around):
        return None
    if around and any(i.scalars & scalars_inside(inference, around[0]) & inference.uniform.keys() for i in indices):
        return None  # copies start some iterations ahead, when these scalars are not known yet
    trace, iterations = inference.trace, inference.trace.iterations()
    anywhere = False
    for d in (d for d in (0, 1) if d not in window.indexed):
        low, high = window.at[d].interval(trace.most_blocks, iterations)
        if low < 0:
            return None
        anywhere = anywhere or (
            window.dynamic(d) is not None
            or (window.extent[d] % window.shape[d] == 0 and high + window.shape[d] > window.extent[d])
        )
    start, advance = _walk(inference, window, around[0]) if around else (window.at, "")
    shape, order = spread.shape, window.array.order
    if order is not None:
        if advance in ("placed", "gathered"):
            return None
        shape, start = order.shape(*shape), (start[0] // order.rows, start[1] * order.rows)
    if trace.is_dynamic and advance in ("placed", "gathered"):
        return None
    name = window.array.name
    if name in names:
        name = f"{name}_{sum(n.split('_')[0] == name for n in names) + 1}"
        while name in names:
            name += "_"
    line = line_dimension(window)
    row_major = (line == 1) != turned
    alignment = gcd(window.array.line_divisor, window.at[line].divisor) or window.array.line_divisor
    if order is not None:
        alignment *= order.rows
    return Staged(
        name=name,
        load=load,
        side="a" if spread.kind == "left" else "b",
        product=spread.number,
        shape=shape,
        row_major=row_major,
        loop=around[0] if around else None,
        advance=advance,
        start=start,
        alignment=alignment,
        anywhere=anywhere,
        converted=converted,
    )


def _indices(inference: Inference, window: ir.Window) -> tuple[Index, ...] | None:
    """Return the indices that a tile's position depends on; None if a copying thread cannot compute gathered rows."""
    own = (*window.array.lead, *window.at)
    if window.index is None:
        return own
    rows = indices_of_rows(inference, window.index) if len(window.indexed) == 1 else None
    return None if rows is None else (*own, *rows)


def scalars_inside(inference: Inference, loop: int) -> set[int]:
    """Return the scalars that a loop recomputes in each iteration."""
    return {number for number, around in inference.scalars_in.items() if loop in around}


def _walk(inference: Inference, window: ir.Window, loop: int) -> tuple[tuple[Index, Index], Advance]:
    """Return the position of the tile in iteration 0, and how the tile advances (``Staged.advance``)."""
    if window.index is not None:
        return window.at, "gathered"
    parts = [linear(at, loop) for at in window.at]
    inside = scalars_inside(inference, loop)
    steps = [(part[1], size) for part, size in zip(parts, window.shape, strict=True) if part is not None]
    whole = len(steps) == 2 and all(step in (0, size) for step, size in steps) and 0 in dict(steps)
    moves = any(loop in position.loops for position in window.array.lead)
    if moves or not whole or any(position.scalars & inside for position in (*window.array.lead, *window.at)):
        return window.at, "placed"
    line = line_dimension(window)
    (first, _), (second, _) = (part for part in parts if part is not None)
    if not any(step for step, _ in steps):
        return (first, second), ""
    return (first, second), "minor" if steps[line][0] else "major"
