"""How a decoded mma.sp.sync, whose A is sparse (PTX ISA 9.7.14.6), becomes a row of the machine."""

from __future__ import annotations

from measurements.emulator.ptx.forms import FLAGS, MULTIPLIED, Form, Source, Unsupported
from measurements.emulator.ptx.syntax import Instruction, Number, Operand, Vector

# By the type of a: its bits, the k of m16n8k, those of A for each 2 bits of metadata, and types of d.
_TYPES: dict[str, tuple[int, tuple[int, ...], int, tuple[str, ...]]] = {
    "tf32": (32, (8, 16), 1, ("f32",)),
    "f16": (16, (16, 32), 2, ("f16", "f32")),
    "bf16": (16, (16, 32), 2, ("f32",)),
    **dict.fromkeys(("e4m3", "e5m2"), (8, (64,), 2, ("f32",))),
    **dict.fromkeys(("s8", "u8"), (8, (32, 64), 2, ("s32",))),
    **dict.fromkeys(("s4", "u4"), (4, (64, 128), 4, ("s32",))),
}
_FAMILIES = (("s8", "u8"), ("s4", "u4"), ("e4m3", "e5m2"))  # b may be of another type than a
_KINDS = ("sp", "sp::ordered_metadata")


def sparse_mma_form(i: Instruction) -> Form | None:
    """None for another instruction. Raises Unsupported.

    Immediates: 1 whole warp, k, types of d, a, b and c, registers of d, a, b and c, the selector of the lanes that have
    the metadata, and whether its indices must ascend.
    """
    if i.opcode != "mma" or not set(_KINDS) & set(i.qualifiers):
        return None
    if i.qualifiers[0] not in _KINDS or i.qualifiers[1:3] != ("sync", "aligned") or len(i.operands) != 6:
        raise Unsupported
    types = [q for q in i.qualifiers if q in MULTIPLIED]
    shape = next((q for q in i.qualifiers if q.startswith("m16n8k")), "")
    if len(types) != 4 or types[1] not in _TYPES:
        raise Unsupported
    d_type, a_type, b_type, c_type = types
    bits, depths, of_field, sums = _TYPES[a_type]
    k = next((depth for depth in depths if shape == f"m16n8k{depth}"), 0)
    like = next((family for family in _FAMILIES if a_type in family), (a_type,))
    if not k or b_type not in like or d_type not in sums or c_type != d_type:
        raise Unsupported
    known = {i.qualifiers[0], "sync", "aligned", shape, "row", "col", *types}
    if {"row", "col"} - set(i.qualifiers) or set(i.qualifiers) - known - ({"satfinite"} if d_type == "s32" else set()):
        raise Unsupported
    d, a, b, c = (_items(operand) for operand in i.operands[:4])
    metadata, selector = i.operands[4:]
    if [len(x) for x in (d, a, b, c)] != [held := 2 if d_type == "f16" else 4, k * bits // 128, k * bits // 128, held]:
        raise Unsupported
    selectors = 32 * of_field // k  # all lanes have metadata, or one or two of each four
    if not isinstance(selector, Number) or selector.kind != "i" or selector.bits >= selectors:
        raise Unsupported
    ordered = int(i.qualifiers[0] == "sp::ordered_metadata")
    immediates = [1, k, *map(MULTIPLIED.index, types), len(d), len(a), len(b), len(c), selector.bits, ordered]
    flags = FLAGS["satfinite"] if "satfinite" in i.qualifiers else 0
    return Form("mma.sp", flags, d, [Source(o, 4) for o in (*a, *b, *c, metadata)], immediates)


def _items(operand: Operand) -> tuple[Operand, ...]:
    return operand.items if isinstance(operand, Vector) else (operand,)
