"""Find machine code that overwrites a register operand of a wgmma before the next iteration reads it again.

The emulator runs PTX, so it cannot detect such errors of ptxas.
"""

import re
from collections.abc import Sequence

from measurements.compiler.disassembly import SassInstruction, loops

_WRITES_NONE = ("ST", "RED", "BRA", "BAR", "SYNCS", "UTMA", "WARPGROUP", "DEPBAR", "EXIT", "NOP", "FENCE")
_WIDE = re.compile(r"\.(?:128|64|WIDE)\b|^CS2R$")
_MATRICES = re.compile(r"\.M(?:T)?88\.(\d)")
_FIRST_REGISTER = re.compile(r"(?:U?P(?:\d|T)\s*,\s*)*R(\d+)\b")  # predicates may precede the first register


def written(instruction: SassInstruction) -> range:
    """Return the registers that an instruction writes, except for the accumulators of a wgmma."""
    if instruction.opcode.startswith((*_WRITES_NONE, "HGMMA")):
        return range(0)
    match = _FIRST_REGISTER.match(instruction.operands)
    if match is None:
        return range(0)
    count = 1
    if wide := _WIDE.search(instruction.opcode):
        count = 4 if wide.group() == ".128" else 2
    if matrices := _MATRICES.search(instruction.opcode):
        count = int(matrices[1])
    if instruction.opcode.startswith(("HMMA", "IMMA", "QMMA")):
        count = 2 if instruction.opcode.endswith(".F16") else 4
    return range(int(match[1]), int(match[1]) + count)


def operand(instruction: SassInstruction) -> range:
    """Return the registers of the operand that a wgmma reads from registers.

    The range is empty for other instructions and for a wgmma that reads shared memory.
    """
    match = re.match(r"R\d+,\s*R(\d+)\b", instruction.operands)
    if not instruction.opcode.startswith("HGMMA") or match is None:
        return range(0)
    return range(int(match[1]), int(match[1]) + 4)


def overwritten(code: Sequence[SassInstruction]) -> list[str]:
    """Return the writes in a loop that change the register operand of a wgmma before the wgmma reads it again.

    A write is not returned if another wgmma reads it first: then the write is the input of that wgmma. This is only
    valid if no two matmuls of the program share a register operand.
    """
    wrong = []
    for body in loops(code):
        for at, wgmma in enumerate(body):
            between = [*body[at + 1 :], *body[:at]]  # the instructions between two executions of this wgmma
            for register in operand(wgmma):
                writes = [i for i, other in enumerate(between) if register in written(other)]
                if writes and any(register in operand(other) for other in between[writes[-1] :]):
                    last = between[writes[-1]]
                    wrong.append(f"{last.opcode} {last.operands} in R{register} of {wgmma.opcode} {wgmma.operands}")
    return wrong
