"""Convert texture and surface accesses to runtime instructions (``Form``).

Texture and surface objects are 64-bit handles (PTX ISA 9.7.10 and 9.7.11).
"""

from __future__ import annotations

from collections.abc import Callable

from measurements.emulator.ptx.forms import Form, SourceOperand, Unsupported, address_of, values_of
from measurements.emulator.ptx.syntax import TYPE_BYTES, Address, Instruction, Operand

# For each geometry: number of coordinates, and whether the first coordinate is a layer.
_GEOMETRIES = {"1d": (1, 0), "2d": (2, 0), "3d": (3, 0), "a1d": (1, 1), "a2d": (2, 1)}
_COORDINATES = ("s32", "f32")  # types of coordinates and results, in the order of the runtime's numbers for them
_RESULTS = ("f32", "s32", "u32")
_QUERIES = ("width", "height", "depth", "channel_data_type", "channel_order", "normalized_coords", "array_size")
_BORDERS = ("trap", "clamp", "zero")  # behaviour of out-of-bounds surface accesses


def texture_form(i: Instruction) -> Form | None:
    """Return the ``Form`` for a texture or surface access; None for all other instructions. Raises Unsupported."""
    form = _TEXTURES.get(i.opcode)
    return form(i) if form is not None else None


def _handle_and_coordinates(operand: Operand) -> tuple[Address, tuple[Operand, ...]]:
    at = address_of(operand)
    return at, at.coordinates


def _geometry(i: Instruction) -> tuple[int, int]:
    geometries = [q for q in i.qualifiers if q in _GEOMETRIES]
    if len(geometries) != 1:
        raise Unsupported  # cube maps and multisampling are not supported
    return _GEOMETRIES[geometries[0]]


def _tex(i: Instruction) -> Form:
    """Return the ``Form`` for ``tex.2d.v4.f32.f32 {r, g, b, a}, [handle, {x, y}]``; ``.level`` adds the level."""
    *_, result, coordinate = i.qualifiers
    dimensions, layered = _geometry(i)
    at, coordinates = _handle_and_coordinates(i.operands[1])
    used = coordinates[: dimensions + layered]
    if result not in _RESULTS or coordinate not in _COORDINATES or "v4" not in i.qualifiers or "grad" in i.qualifiers:
        raise Unsupported
    if len(used) != dimensions + layered or len(i.operands) > (3 if "level" in i.qualifiers else 2):
        raise Unsupported
    immediates = [dimensions, layered, _COORDINATES.index(coordinate), _RESULTS.index(result)]
    return Form(
        "tex",
        0,
        values_of(i.operands[0]),
        [SourceOperand(at.base, 8), *(SourceOperand(c, 4) for c in used)],
        immediates,
    )


def _surface(i: Instruction) -> Form:
    """Return the ``Form`` for ``suld.b.2d.v2.b32.trap {r, g}, [handle, {x, y}]`` or a surface store.

    A surface store is ``sust.b... [handle, {x, y}], {r, g}``. x is in bytes.
    """
    load = i.opcode == "suld"
    kind, border = i.qualifiers[-2:]
    dimensions, layered = _geometry(i)
    at, coordinates = _handle_and_coordinates(i.operands[1 if load else 0])
    used = coordinates[: dimensions + layered]
    if i.qualifiers[0] != "b" or border not in _BORDERS or len(used) != dimensions + layered:
        raise Unsupported  # sust.p is not supported
    values = values_of(i.operands[0 if load else 1])
    immediates = [dimensions, layered, TYPE_BYTES[kind], _BORDERS.index(border), len(used)]
    sources = [SourceOperand(at.base, 8), *(SourceOperand(c, 4) for c in used)]
    if load:
        return Form("suld", 0, values, sources, immediates)
    return Form("sust", 0, (), [*sources, *(SourceOperand(v, max(TYPE_BYTES[kind], 2)) for v in values)], immediates)


def _query(i: Instruction) -> Form:
    attribute = i.qualifiers[0]
    if attribute not in _QUERIES[:3]:
        raise Unsupported
    at, _ = _handle_and_coordinates(i.operands[1])
    return Form("txq", 0, [i.operands[0]], [SourceOperand(at.base, 8)], [_QUERIES.index(attribute)])


_TEXTURES: dict[str, Callable[[Instruction], Form]] = {
    "tex": _tex, "suld": _surface, "sust": _surface, "txq": _query, "suq": _query,
}  # fmt: skip
