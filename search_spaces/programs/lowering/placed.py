"""Copies of a loop whose every turn says where its tile begins: the function of the turn, and what calls it."""

from __future__ import annotations

from search_spaces.programs.language.index import Index
from search_spaces.programs.lowering.emit_base import EmitterBase
from search_spaces.programs.planning.boxes import BoxedNumbers
from search_spaces.programs.planning.staging import StagedNumbers

PLACED = "placed"


def copy_type(n: StagedNumbers | BoxedNumbers) -> str:
    """Return the type of an operand in the loads of its ring."""
    name = n.staged.name
    if n.staged.advance != PLACED:
        return f"Operand_{name}"
    kind = "PlacedBoxes" if isinstance(n, BoxedNumbers) else "PlacedOperand"
    return f"tile::{kind}<Operand_{name}, decltype(place_{name})>"


def place_lines(emitter: EmitterBase, n: StagedNumbers | BoxedNumbers) -> list[str]:
    """Return the function ``place_NAME`` of the turn; nothing for tiles that follow each other."""
    staged = n.staged
    if staged.advance != PLACED or staged.loop is None:
        return []
    window = staged.load.window
    array, loop = window.array, staged.loop
    by_tma = isinstance(n, BoxedNumbers) and n.tma
    places = ", ".join(emitter.places(staged))
    matrix = lead_code(array.lead, array.full) if by_tma else emitter.base(array)
    type_ = "tile::BoxedPlace" if by_tma else f"tile::TilePlace<{array.dtype.c_name}>"
    needed = {number for place in (*array.lead, *window.at) for number in place.scalars}
    loaded = [
        emitter.scalar(operation)
        for number, operation in emitter.found.scalars.items()
        if number in needed and loop in emitter.found.scalars_in[number]
    ]
    return [
        f"const auto place_{staged.name} = [&](int turn) {{",
        f"  {emitter.turn_of(loop, 'turn')}",
        *(f"  {line}" for line in loaded),
        f"  return {type_}{{{matrix}, {places}}};",
        "};",
    ]


def lead_code(lead: tuple[Index, ...], full: tuple[int, ...]) -> str:
    """Return the number of a matrix among those of an array."""
    code = "0"
    for extent, place in zip(full[: len(lead)], lead, strict=True):
        code = f"({code}) * {extent} + {place.code}" if code != "0" else place.code
    return code
