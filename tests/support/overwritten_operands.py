"""Machine code that overwrites the operand of a wgmma in registers before the next turn reads it again.

The emulator runs PTX, so what ptxas does wrong stays unseen there.
"""

import re
from collections.abc import Sequence

from measurements.compiler.disassembly import Instruction, loops

_WRITES_NONE = ("ST", "RED", "BRA", "BAR", "SYNCS", "UTMA", "WARPGROUP", "DEPBAR", "EXIT", "NOP", "FENCE")
_WIDE = re.compile(r"\.(?:128|64|WIDE)\b|^CS2R$")
_MATRICES = re.compile(r"\.M(?:T)?88\.(\d)")


def written(instruction: Instruction) -> range:
    """Return the registers that an instruction writes, but for those that a wgmma adds to."""
    if instruction.opcode.startswith((*_WRITES_NONE, "HGMMA")):
        return range(0)
    found = re.match(r"R(\d+)\b", instruction.operands)
    if found is None:
        return range(0)
    count = 1
    if wide := _WIDE.search(instruction.opcode):
        count = 4 if wide.group() == ".128" else 2
    if matrices := _MATRICES.search(instruction.opcode):
        count = int(matrices[1])
    return range(int(found[1]), int(found[1]) + count)


def overwritten(code: Sequence[Instruction]) -> list[str]:
    """Return, of each loop, the instructions that write a register of a wgmma's first operand behind it, where nothing
    writes the register again before the next turn's."""
    wrong = []
    for body in loops(code):
        for at, wgmma in enumerate(body):
            of_registers = re.match(r"R\d+,\s*R(\d+)\b", wgmma.operands)
            if not wgmma.opcode.startswith("HGMMA") or of_registers is None:
                continue
            first = int(of_registers[1])
            before = {register for i in body[:at] for register in written(i)}
            wrong += [
                f"{i.opcode} {i.operands} behind {wgmma.opcode} {wgmma.operands}"
                for i in body[at + 1 :]
                if set(written(i)) & set(range(first, first + 4)) - before
            ]
    return wrong
