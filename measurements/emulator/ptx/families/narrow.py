"""Translate narrow conversions and mixed arithmetic to runtime instructions (``Form``).

Narrow conversions are cvt instructions from or to pairs of numbers of 4 to 8 bits. Mixed arithmetic has both f32 and
16-bit operands. PTX ISA 9.7.9.22 and 9.7.5, sm_100 and later.
"""

from __future__ import annotations

from measurements.emulator.ptx.forms import FLAGS, ROUNDING, Form, SourceOperand, Unsupported
from measurements.emulator.ptx.syntax import Instruction

# The order must equal the order of Type in runtime/isa/arithmetic/narrow.cpp.
_NARROW = ("e2m1x2", "e2m3x2", "e3m2x2", "ue8m0x2")
_SCALES = "ue8m0x2"
_HALVES = ("f16", "bf16")


def narrow_form(i: Instruction) -> Form | None:
    """Return the ``Form`` for a narrow conversion or mixed arithmetic; None for others. Raises Unsupported."""
    if i.opcode == "cvt" and set(_NARROW) & set(i.qualifiers):
        return _conversion(i)
    if i.opcode in ("add", "sub", "fma") and i.qualifiers[-2:-1] == ("f32",) and i.qualifiers[-1] in _HALVES:
        return _mixed(i)
    return None


def _flags(i: Instruction, known: tuple[str, ...]) -> int:
    """Return the flags for the qualifiers before the two types. Raises Unsupported."""
    flags = 0
    for q in i.qualifiers[:-2]:
        if q not in known:
            raise Unsupported
        flags |= FLAGS.get(q, 0) | ROUNDING.get(q, 0)
    return flags


def _conversion(i: Instruction) -> Form:
    to, from_ = i.qualifiers[-2:]
    if to in _NARROW:
        flags = _flags(i, ("rz", "rp", "satfinite") if to == _SCALES else ("rn", "satfinite", "relu"))
        pair = from_ == "bf16x2" and to == _SCALES
        if from_ != "f32" and not pair:
            raise Unsupported
        sources = [SourceOperand(o, 4) for o in i.operands[1:]]
        if len(sources) != (1 if pair else 2):
            raise Unsupported
        return Form("cvt.to_narrow", flags, [i.operands[0]], sources, [_NARROW.index(to), int(not pair)])
    if to != ("bf16x2" if from_ == _SCALES else "f16x2"):
        raise Unsupported
    flags = _flags(i, ("rn",) if from_ == _SCALES else ("rn", "relu"))
    return Form("cvt.from_narrow", flags, [i.operands[0]], [SourceOperand(i.operands[1], 2)], [_NARROW.index(from_)])


def _mixed(i: Instruction) -> Form:
    """Return the ``Form`` for arithmetic with the operands ``d, a, c`` or ``d, a, b, c``, where c and d are f32."""
    flags = _flags(i, ("rn", "rz", "rm", "rp", "sat"))
    *narrow, last = i.operands[1:]
    sources = [*(SourceOperand(o, 2) for o in narrow), SourceOperand(last, 4)]
    return Form(f"{i.opcode}.mixed", flags, [i.operands[0]], sources, [_HALVES.index(i.qualifiers[-1])])
