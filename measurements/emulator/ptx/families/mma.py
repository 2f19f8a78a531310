"""Convert three variants of mma.sync to runtime instructions (``Form``).

The variants are mma.sync with block scales (PTX ISA 9.7.14.3, sm_120a), mma.sp.sync, whose A is sparse (9.7.14.6), and
mma.sync.m8n8k4 of f16, which computes four products (9.7.14.5.1).
"""

from __future__ import annotations

from measurements.emulator.ptx.forms import FLAGS, MULTIPLIED, Form, SourceOperand, Unsupported
from measurements.emulator.ptx.syntax import Instruction, Number, Operand, Vector

_BYTES = ("e4m3", "e5m2", "e2m1", "e2m3", "e3m2")
# One row per kind qualifier: the shape; the types allowed for a and b; the allowed scale types, by the number of scales
# along k; and the default number of scales along k.
_KINDS: dict[str, tuple[str, tuple[str, ...], dict[int, tuple[str, ...]], int]] = {
    "kind::mxf8f6f4": ("m16n8k32", _BYTES, {1: ("ue8m0",)}, 1),
    "kind::mxf4": ("m16n8k64", ("e2m1",), {2: ("ue8m0",)}, 2),
    "kind::mxf4nvf4": ("m16n8k64", ("e2m1",), {2: ("ue8m0",), 4: ("ue4m3", "ue8m0")}, 2),
}
_ELEMENTS = _BYTES  # in the order of the type numbers in isa/matrix/block_scaled.cpp


def block_scaled_form(i: Instruction) -> Form | None:
    """Return the ``Form`` for mma with block scales; None for another instruction. Raises Unsupported.

    Immediates: 1 (whole warp); k; types of a and b; scales per row; 1 if scales are ue4m3. Then two immediates for a
    and two for b: the index of the first byte with scales, and which lanes of each group of four hold the scales.
    """
    if i.opcode != "mma" or "block_scale" not in i.qualifiers:
        return None
    kind = next((q for q in i.qualifiers if q in _KINDS), None)
    if kind is None or i.qualifiers[:2] != ("sync", "aligned") or {"sp", "sp::ordered_metadata"} & set(i.qualifiers):
        raise Unsupported
    shape, elements, scales, usual = _KINDS[kind]
    num_scales = next((int(q[len("scale_vec::")]) for q in i.qualifiers if q.startswith("scale_vec::")), usual)
    types = [q for q in i.qualifiers if q in _ELEMENTS]
    scale = i.qualifiers[-1]
    if (
        shape not in i.qualifiers
        or len(types) != 2
        or not set(types) <= set(elements)
        or scale not in scales.get(num_scales, ())
    ):
        raise Unsupported
    if "row" not in i.qualifiers or "col" not in i.qualifiers or i.qualifiers.count("f32") != 2 or len(i.operands) != 8:
        raise Unsupported
    d, a, b, c = (_items(operand) for operand in i.operands[:4])
    if (len(d), len(a), len(b), len(c)) != (4, 4, 2, 4):
        raise Unsupported
    scale_a, where_a, scale_b, where_b = i.operands[4:]
    selected = [*_selector(where_a, num_scales, 2), *_selector(where_b, num_scales, 4)]
    immediates = [
        1,
        int(shape.partition("k")[2]),
        *map(_ELEMENTS.index, types),
        num_scales,
        int(scale == "ue4m3"),
        *selected,
    ]
    return Form("mma.block_scale", 0, d, [SourceOperand(o, 4) for o in (*a, *b, *c, scale_a, scale_b)], immediates)


# Rows by type of a: bits of this type; supported k of shape m16n8k; elements of A per 2-bit metadata field; types
# allowed for d.
_SPARSE: dict[str, tuple[int, tuple[int, ...], int, tuple[str, ...]]] = {
    "tf32": (32, (8, 16), 1, ("f32",)),
    "f16": (16, (16, 32), 2, ("f16", "f32")),
    "bf16": (16, (16, 32), 2, ("f32",)),
    **dict.fromkeys(("e4m3", "e5m2"), (8, (64,), 2, ("f16", "f32"))),
    **dict.fromkeys(("s8", "u8"), (8, (32, 64), 2, ("s32",))),
    **dict.fromkeys(("s4", "u4"), (4, (64, 128), 4, ("s32",))),
}
_FAMILIES = (("s8", "u8"), ("s4", "u4"), ("e4m3", "e5m2"))  # a and b may have different types of one family
_VARIANTS = ("sp", "sp::ordered_metadata")


def sparse_mma_form(i: Instruction) -> Form | None:
    """Return the ``Form`` for sparse mma; None for another instruction. Raises Unsupported.

    Immediates: 1 (whole warp); k; types of d, a, b and c; numbers of registers of d, a, b and c; the selector of the
    lanes that have the metadata; and whether the metadata's indices must ascend.
    """
    if i.opcode != "mma" or not set(_VARIANTS) & set(i.qualifiers):
        return None
    if i.qualifiers[0] not in _VARIANTS or i.qualifiers[1:3] != ("sync", "aligned") or len(i.operands) != 6:
        raise Unsupported
    types = [q for q in i.qualifiers if q in MULTIPLIED]
    shape = next((q for q in i.qualifiers if q.startswith("m16n8k")), "")
    if len(types) != 4 or types[1] not in _SPARSE:
        raise Unsupported
    d_type, a_type, b_type, c_type = types
    bits, depths, of_field, sums = _SPARSE[a_type]
    k = next((depth for depth in depths if shape == f"m16n8k{depth}"), 0)
    like = next((family for family in _FAMILIES if a_type in family), (a_type,))
    if not k or b_type not in like or d_type not in sums or c_type != d_type:
        raise Unsupported
    known = {i.qualifiers[0], "sync", "aligned", shape, "row", "col", *types}
    if a_type in ("e4m3", "e5m2"):
        known.add("kind::f8f6f4")
    if {"row", "col"} - set(i.qualifiers) or set(i.qualifiers) - known - ({"satfinite"} if d_type == "s32" else set()):
        raise Unsupported
    d, a, b, c = (_items(operand) for operand in i.operands[:4])
    metadata, selector = i.operands[4:]
    if [len(x) for x in (d, a, b, c)] != [
        num_registers := 2 if d_type == "f16" else 4,
        k * bits // 128,
        k * bits // 128,
        num_registers,
    ]:
        raise Unsupported
    selectors = 32 * of_field // k  # depending on the type, metadata is in all lanes, or in 1 or 2 of every 4 lanes
    if not isinstance(selector, Number) or selector.kind != "i" or selector.bits >= selectors:
        raise Unsupported
    ordered = int(i.qualifiers[0] == "sp::ordered_metadata")
    immediates = [1, k, *map(MULTIPLIED.index, types), len(d), len(a), len(b), len(c), selector.bits, ordered]
    flags = FLAGS["satfinite"] if "satfinite" in i.qualifiers else 0
    return Form("mma.sp", flags, d, [SourceOperand(o, 4) for o in (*a, *b, *c, metadata)], immediates)


def quad_mma_form(i: Instruction) -> Form | None:
    """Return the ``Form`` for mma.m8n8k4 of f16; None for another instruction. Raises Unsupported.

    Immediates: 1 (whole warp); whether d is f32; whether c is f32; whether a is row-major; whether b is row-major.
    """
    if i.opcode != "mma" or "m8n8k4" not in i.qualifiers or "f16" not in i.qualifiers:
        return None
    layouts, types = i.qualifiers[3:5], i.qualifiers[5:]
    if i.qualifiers[:3] != ("sync", "aligned", "m8n8k4") or not set(layouts) <= {"row", "col"} or len(types) != 4:
        raise Unsupported
    d_type, c_type = types[0], types[3]
    if types[1:3] != ("f16", "f16") or (d_type, c_type) not in (("f16", "f16"), ("f32", "f16"), ("f32", "f32")):
        raise Unsupported
    d, a, b, c = (_items(operand) for operand in i.operands)
    registers = {"f16": 4, "f32": 8}
    if (len(d), len(a), len(b), len(c)) != (registers[d_type], 2, 2, registers[c_type]):
        raise Unsupported
    immediates = [1, *(int(t == "f32") for t in (d_type, c_type)), *(int(layout == "row") for layout in layouts)]
    return Form("mma.m8n8k4", 0, d, [SourceOperand(o, 4) for o in (*a, *b, *c)], immediates)


def _items(operand: Operand) -> tuple[Operand, ...]:
    return operand.items if isinstance(operand, Vector) else (operand,)


def _selector(operand: Operand, scales: int, lanes: int) -> tuple[int, int]:
    """Return the first byte and the lanes of the scales. They must be constants."""
    items = _items(operand)
    if len(items) != 2 or not all(isinstance(item, Number) and item.kind == "i" for item in items):
        raise Unsupported
    byte, lane = (item.bits for item in items if isinstance(item, Number))
    if byte % scales or byte >= 4 or lane >= lanes:
        raise Unsupported
    return byte, lane
