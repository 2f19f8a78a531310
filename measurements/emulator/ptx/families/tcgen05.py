"""Convert tcgen05 instructions to runtime instructions (``Form``; PTX ISA 9.7.16, sm_100a and its family)."""

from __future__ import annotations

from collections.abc import Callable

from measurements.emulator.ptx.forms import Form, SourceOperand, Unsupported, address_of, number, values_of
from measurements.emulator.ptx.syntax import Address, Instruction, Vector

# Kinds of tcgen05.mma, in the order of Kind in runtime/isa/matrix/tcgen05_mma.cpp.
_KINDS = ("f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4")
# Number of values along k that share a scale, for each kind.
_BLOCKS = {"mxf8f6f4": (32,), "mxf4": (32,), "mxf4nvf4": (16, 32)}
_SCALE_VECTORS = {"mxf8f6f4": {"1X": 32}, "mxf4": {"2X": 32}, "mxf4nvf4": {"2X": 32, "4X": 16}}
# Registers per thread for .x1, in the order of Shape in runtime/isa/matrix/tcgen05.cpp.
_SHAPES = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4, "16x32bx2": 1}
# Shapes of tcgen05.cp, in the order of Copied in runtime/isa/matrix/tcgen05.cpp.
_COPIES = ("128x256b", "4x256b", "128x128b", "64x128b.warpx2::02_13", "64x128b.warpx2::01_23", "32x128b.warpx4")


def tcgen05_form(i: Instruction) -> Form | None:
    """Return the ``Form`` for a tcgen05 instruction; None for another instruction. Raises Unsupported."""
    if i.opcode != "tcgen05":
        return None
    action, *rest = i.qualifiers
    form = _FORMS.get(action.partition("::")[0])
    if form is None:
        raise Unsupported
    return form(i, rest)


def _group(qualifiers: list[str]) -> int:
    """Return the number of blocks in the qualifier cta_group: 1 or 2."""
    return 2 if "cta_group::2" in qualifiers else 1


def _alloc(i: Instruction, q: list[str]) -> Form:
    to = address_of(i.operands[0])
    return Form(
        "tcgen05.alloc", 0, (), [SourceOperand(to.base, 8), SourceOperand(i.operands[1], 4)], [1, to.offset, _group(q)]
    )


def _dealloc(i: Instruction, q: list[str]) -> Form:
    return Form("tcgen05.dealloc", 0, (), [SourceOperand(o, 4) for o in i.operands], [1, _group(q)])


def _relinquish(i: Instruction, q: list[str]) -> Form:
    return Form("tcgen05.relinquish_alloc_permit", immediates=[1, _group(q)])


def _move(i: Instruction, q: list[str]) -> Form:
    """Return the ``Form`` for a load or store of tensor memory.

    Immediates: 1 (whole warp); offset; Shape; columns between the halves of 16x32bx2; whether 16-bit values are packed.
    """
    loads = i.qualifiers[0] == "ld"
    if "red" in q or q[:2] != ["sync", "aligned"]:
        raise Unsupported
    shape, count = q[2], int(q[3].removeprefix("x"))
    at, *rest = i.operands[1:] if loads else i.operands
    at = address_of(at)
    if not loads:
        rest, values = rest[:-1], values_of(rest[-1])
    else:
        values = values_of(i.operands[0])
    if len(values) != _SHAPES[shape] * count or len(rest) != int(shape == "16x32bx2"):
        raise Unsupported
    packed = int("pack::16b" in q or "unpack::16b" in q)
    immediates = [1, at.offset, list(_SHAPES).index(shape), number(rest[0]) if rest else 0, packed]
    sources = [SourceOperand(at.base, 4)]
    if loads:
        return Form("tcgen05.ld", 0, values, sources, immediates)
    return Form("tcgen05.st", 0, (), [*sources, *(SourceOperand(v, 4) for v in values)], immediates)


def _wait(i: Instruction, q: list[str]) -> Form:
    return Form("tcgen05.wait", immediates=[1, int(i.qualifiers[0] == "wait::st")])


def _fence(i: Instruction, q: list[str]) -> Form:
    return Form("tcgen05.fence", immediates=[int(i.qualifiers[0] == "fence::after_thread_sync")])


def _commit(i: Instruction, q: list[str]) -> Form:
    if "mbarrier::arrive::one" not in q:
        raise Unsupported
    at = address_of(i.operands[0])
    multicast = "multicast::cluster" in q
    sources = [SourceOperand(at.base, 8), *([SourceOperand(i.operands[1], 2)] if multicast else [])]
    return Form("tcgen05.commit", 0, (), sources, [at.offset, _group(q), int(multicast)])


def _cp(i: Instruction, q: list[str]) -> Form:
    shape = ".".join(x for x in q if "cta_group" not in x)  # a source format would request that values are unpacked
    to = address_of(i.operands[0])
    sources = [SourceOperand(to.base, 4), SourceOperand(i.operands[1], 8)]
    return Form("tcgen05.cp", 0, (), sources, [to.offset, _group(q), _COPIES.index(shape)])


def _mma(i: Instruction, q: list[str]) -> Form:
    """Return the ``Form`` for ``[d], a, b, descriptor, {scales,} {lanes,} accumulate {, scale of d}``.

    a is a descriptor or ``[a]``. Immediates: blocks; Kind; values along k per scale (0: no scales); whether A is in
    tensor memory; whether there is a mask of disabled lanes; the power of two by which d is divided; and offsets of d,
    A and the scales. Sources are in the order of the operands.
    """
    kind = next((x.removeprefix("kind::") for x in q if x.startswith("kind::")), "")
    if kind not in _KINDS or {"ws", "sp"} & set(q):
        raise Unsupported
    d, a, b, descriptor, *rest = i.operands
    to = address_of(d)
    sources, offsets = [SourceOperand(to.base, 4)], [to.offset]
    in_tensor_memory = isinstance(a, Address)
    if isinstance(a, Address):
        sources.append(SourceOperand(a.base, 4))
        offsets.append(a.offset)
    else:
        sources.append(SourceOperand(a, 8))
        offsets.append(0)
    sources += [SourceOperand(b, 8), SourceOperand(descriptor, 4)]
    block = 0
    if kind in _BLOCKS:
        if "block_scale" not in q:
            raise Unsupported
        block = _block(kind, q)
        for scale in rest[:2]:
            at = address_of(scale)
            sources.append(SourceOperand(at.base, 4))
            offsets.append(at.offset)
        rest = rest[2:]
    masked = bool(rest) and isinstance(rest[0], Vector)
    if masked:
        lanes = values_of(rest.pop(0))
        if len(lanes) != 4 * _group(q):
            raise Unsupported
        sources += [SourceOperand(lane, 4) for lane in lanes]
    accumulate, *scale_of_d = rest
    sources.append(SourceOperand(accumulate))
    if scale_of_d and kind not in ("f16", "tf32"):
        raise Unsupported
    power = number(scale_of_d[0]) if scale_of_d else 0
    immediates = [_group(q), _KINDS.index(kind), block, int(in_tensor_memory), int(masked), power, *offsets]
    return Form("tcgen05.mma", 0, (), sources, immediates)


def _block(kind: str, q: list[str]) -> int:
    for x in q:
        if x.startswith("scale_vec::"):
            return _SCALE_VECTORS[kind][x.removeprefix("scale_vec::")]
        if x in ("block16", "block32"):
            size = int(x.removeprefix("block"))
            if size not in _BLOCKS[kind]:
                raise Unsupported
            return size
    return 32


_FORMS: dict[str, Callable[[Instruction, list[str]], Form]] = {
    "alloc": _alloc, "dealloc": _dealloc, "relinquish_alloc_permit": _relinquish, "ld": _move, "st": _move,
    "wait": _wait, "fence": _fence, "commit": _commit, "cp": _cp, "mma": _mma,
}  # fmt: skip
