"""How a decoded mma.sync with block scales (PTX ISA 9.7.14.3, sm_120a) becomes a row of the machine."""

from __future__ import annotations

from measurements.emulator.ptx.forms import Form, Source, Unsupported
from measurements.emulator.ptx.syntax import Instruction, Number, Operand, Vector

_BYTES = ("e4m3", "e5m2")
# By kind: (m, n, k), types of a and b, those of scales by how many a row of k has, and how many there are unless said.
# The narrow types of mxf8f6f4 lie a value to a byte, which the machine does not know.
_KINDS: dict[str, tuple[str, tuple[str, ...], dict[int, tuple[str, ...]], int]] = {
    "kind::mxf8f6f4": ("m16n8k32", _BYTES, {1: ("ue8m0",)}, 1),
    "kind::mxf4": ("m16n8k64", ("e2m1",), {2: ("ue8m0",)}, 2),
    "kind::mxf4nvf4": ("m16n8k64", ("e2m1",), {2: ("ue8m0",), 4: ("ue4m3", "ue8m0")}, 2),
}
_ELEMENTS = ("e4m3", "e5m2", "e2m1")  # in the order of ptx_block_scaled.cpp


def block_scaled_form(i: Instruction) -> Form | None:
    """None for another instruction. Raises Unsupported.

    Immediates: 1 whole warp, k, types of a and b, scales of a row, whether they are ue4m3, and of a and of b the first
    byte of the scales and the lanes of each four that have them.
    """
    if i.opcode != "mma" or "block_scale" not in i.qualifiers:
        return None
    kind = next((q for q in i.qualifiers if q in _KINDS), None)
    if kind is None or i.qualifiers[:2] != ("sync", "aligned") or {"sp", "sp::ordered_metadata"} & set(i.qualifiers):
        raise Unsupported
    shape, elements, scales, usual = _KINDS[kind]
    said = next((int(q[len("scale_vec::")]) for q in i.qualifiers if q.startswith("scale_vec::")), usual)
    types = [q for q in i.qualifiers if q in _ELEMENTS]
    scale = i.qualifiers[-1]
    if (
        shape not in i.qualifiers
        or len(types) != 2
        or not set(types) <= set(elements)
        or scale not in scales.get(said, ())
    ):
        raise Unsupported
    if "row" not in i.qualifiers or "col" not in i.qualifiers or i.qualifiers.count("f32") != 2 or len(i.operands) != 8:
        raise Unsupported
    d, a, b, c = (_items(operand) for operand in i.operands[:4])
    if (len(d), len(a), len(b), len(c)) != (4, 4, 2, 4):
        raise Unsupported
    scale_a, where_a, scale_b, where_b = i.operands[4:]
    selected = [*_selector(where_a, said, 2), *_selector(where_b, said, 4)]
    immediates = [1, int(shape.partition("k")[2]), *map(_ELEMENTS.index, types), said, int(scale == "ue4m3"), *selected]
    return Form("mma.block_scale", 0, d, [Source(o, 4) for o in (*a, *b, *c, scale_a, scale_b)], immediates)


def _items(operand: Operand) -> tuple[Operand, ...]:
    return operand.items if isinstance(operand, Vector) else (operand,)


def _selector(operand: Operand, scales: int, lanes: int) -> tuple[int, int]:
    """Return the first byte, and which of so many groups of lanes: constants, the byte a multiple of ``scales``."""
    items = _items(operand)
    if len(items) != 2 or not all(isinstance(item, Number) and item.kind == "i" for item in items):
        raise Unsupported
    byte, lane = (item.bits for item in items if isinstance(item, Number))
    if byte % scales or byte >= 4 or lane >= lanes:
        raise Unsupported
    return byte, lane
