"""Convert ldmatrix, stmatrix and movmatrix to runtime instructions (``Form``; PTX ISA 9.7.14)."""

from __future__ import annotations

from collections.abc import Sequence

from measurements.emulator.ptx.forms import Form, SourceOperand, Unsupported, address_of, values_of
from measurements.emulator.ptx.syntax import Instruction, Operand


def ldmatrix_form(i: Instruction) -> Form | None:
    """Return the ``Form`` for ldmatrix, stmatrix or movmatrix; None for another instruction. Raises Unsupported."""
    if i.opcode == "movmatrix":
        return Form("movmatrix", 0, [i.operands[0]], [SourceOperand(i.operands[1])], [1])
    return _load_or_store(i) if i.opcode in ("ldmatrix", "stmatrix") else None


def _sources(operands: Sequence[Operand]) -> list[SourceOperand]:
    return [SourceOperand(o, 4) for o in operands]


def _load_or_store(i: Instruction) -> Form:
    count = next((int(q[1:]) for q in i.qualifiers if q in ("x1", "x2", "x4")), 0)
    if not count:
        raise Unsupported
    if "m8n8" not in i.qualifiers or i.qualifiers[-1] != "b16":
        return _byte_matrix(i, count)
    load = i.opcode == "ldmatrix"
    operand, registers = (i.operands[1], i.operands[0]) if load else (i.operands[0], i.operands[1])
    address = address_of(operand)
    immediates = [1, address.offset, count, int("trans" in i.qualifiers)]
    values = values_of(registers)
    sources = [SourceOperand(address.base, 8), *(() if load else _sources(values))]
    return Form(i.opcode, 0, values if load else (), sources, immediates)


# Matrices of bytes. For each shape: rows, registers per matrix, supported numbers of matrices, and whether the matrices
# are transposed.
_BYTE_MATRICES = {
    ("ldmatrix", "m16n16"): (16, 2, (1, 2), True), ("ldmatrix", "m8n16"): (8, 1, (1, 2, 4), False),
    ("stmatrix", "m16n8"): (8, 1, (1, 2, 4), True),
}  # fmt: skip
_PACKED = {"b8": 0, "b8x16": 0, "b6x16_p32": 6, "b4x16_p64": 4}  # bits of a packed value in memory; 0 if not packed


def _byte_matrix(i: Instruction, count: int) -> Form:
    shape = next((q for q in i.qualifiers if q.startswith("m")), "")
    rows, registers, counts, transposed = _BYTE_MATRICES.get((i.opcode, shape), (0, 0, (), False))
    packed = _PACKED.get(i.qualifiers[-1], -1)
    load = i.opcode == "ldmatrix"
    address, values = i.operands if not load else reversed(i.operands)
    at, items = address_of(address), values_of(values)
    if count not in counts or packed < 0 or ("trans" in i.qualifiers) != transposed or (packed and not load):
        raise Unsupported
    if len(items) != count * registers or (not transposed and not packed):
        raise Unsupported
    immediates = [1, at.offset, count, rows, int(transposed), packed]
    sources = [SourceOperand(at.base, 8), *(() if load else _sources(items))]
    return Form(f"{i.opcode}.bytes", 0, items if load else (), sources, immediates)
