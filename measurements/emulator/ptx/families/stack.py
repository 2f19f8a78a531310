"""Convert alloca, stacksave and stackrestore to runtime instructions (``Form``; PTX ISA 9.7.12).

These instructions manage local memory whose size is only known at run time.
"""

from __future__ import annotations

from measurements.emulator.ptx.forms import Form, SourceOperand, Unsupported, number
from measurements.emulator.ptx.syntax import TYPE_BYTES, Instruction


def stack_form(i: Instruction) -> Form | None:
    """Return the ``Form`` for a stack instruction; None for another instruction. Raises Unsupported."""
    if i.opcode == "stacksave":
        return Form("stacksave", 0, [i.operands[0]])
    if i.opcode == "stackrestore":
        return Form("stackrestore", 0, (), [SourceOperand(i.operands[0])])
    return _alloca(i) if i.opcode == "alloca" else None


def _alloca(i: Instruction) -> Form:
    alignment = number(i.operands[2]) if len(i.operands) > 2 else 0
    if alignment < 0 or alignment & (alignment - 1):
        raise Unsupported  # ptxas requires a power of two
    return Form("alloca", 0, [i.operands[0]], [SourceOperand(i.operands[1], TYPE_BYTES[i.qualifiers[0]])], [alignment])
