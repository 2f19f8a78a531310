"""Convert wgmma to runtime instructions (``Form``; PTX ISA 9.7.15): dense, sparse and single-bit products."""

from __future__ import annotations

from measurements.emulator.ptx.forms import FLAGS, MULTIPLIED, Form, SourceOperand, Unsupported, number, values_of
from measurements.emulator.ptx.syntax import Instruction, Vector

_INTEGER_COLUMNS = (8, 16, 24, *range(32, 257, 16))  # supported n of shape m64nNk for 8-bit integers and single bits
_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "b1": 1}
_ROW_BITS = 256  # stored bits per row of A; a sparse A stores half of the k elements
_INTEGERS = ("s8", "u8", "b1")
_MOST_PENDING = 7  # maximum operand of wgmma.wait_group: groups that may stay pending


def wgmma_form(i: Instruction) -> Form | None:
    """Return the ``Form`` for a wgmma instruction; None for another instruction. Raises Unsupported."""
    if i.opcode != "wgmma":
        return None
    action, *q = i.qualifiers
    if action in ("fence", "commit_group"):
        return Form(f"wgmma.{action}", immediates=[1])
    if action == "wait_group":
        pending = number(i.operands[0])
        if pending < 0:  # ptxas rejects a negative number
            raise Unsupported
        return Form("wgmma.wait_group", immediates=[1, min(pending, _MOST_PENDING)])
    if action != "mma_async":
        raise Unsupported
    return _multiply(i, q)


def _multiply(i: Instruction, q: list[str]) -> Form:
    """Return the ``Form`` for a multiplication.

    Operands: ``d, a, b{, metadata, selector}, accumulate{, signs of a and b}{, whether a and b are transposed}``.
    """
    sparse = q[0] == "sp"
    shape = next(x for x in q if x.startswith("m64n"))
    columns, k = (int(n) for n in shape[4:].split("k"))
    d_type, a_type, b_type = (x for x in q if x in MULTIPLIED)
    if (a_type == "b1") != (q[-2:] == ["and", "popc"]) or (sparse and a_type == "b1"):
        raise Unsupported
    integer = a_type in _INTEGERS
    results = ("s32",) if integer else ("f32", "f16") if a_type in ("f16", "e4m3", "e5m2") else ("f32",)
    if d_type not in results or k * _BITS[a_type] != _ROW_BITS * (1 + sparse) or _BITS[a_type] != _BITS[b_type]:
        raise Unsupported
    if not 8 <= columns <= 256 or columns % 8 or (integer and columns not in _INTEGER_COLUMNS):
        raise Unsupported
    d, a, b, *rest = i.operands
    metadata, selector = [], 0
    if sparse:
        metadata, selector, rest = [SourceOperand(rest[0], 4)], number(rest[1]), rest[2:]
        if selector not in (
            (0,) if _BITS[a_type] == 8 else (0, 1)
        ):  # depending on the type, metadata is in all lanes, or in 2 of every 4 lanes
            raise Unsupported
    accumulate, *scales = rest
    registers = values_of(d)
    in_registers = isinstance(a, Vector)
    if len(registers) != columns // (4 if d_type == "f16" else 2) or (in_registers and len(values_of(a)) != 4):
        raise Unsupported
    numbers = [number(s) for s in scales]
    negated = [int(n == -1) for n in numbers[:2]] if not integer else [0, 0]
    transposed = numbers[2:]
    if any(n not in (1, -1) for n in numbers[:2]) or any(n not in (0, 1) for n in transposed):
        raise Unsupported  # ptxas rejects other signs and other transposition flags
    if in_registers:
        transposed = [0, *transposed]
    transposed = [*transposed, 0, 0][:2]
    if any(transposed) and a_type not in ("f16", "bf16"):
        raise Unsupported
    types = [MULTIPLIED.index(t) for t in (d_type, a_type, b_type)]
    sources = [
        *(SourceOperand(x, 4 if in_registers else 8) for x in values_of(a)), SourceOperand(b, 8),
        SourceOperand(accumulate), *metadata,
    ]  # fmt: skip
    flags = FLAGS["satfinite"] if "satfinite" in q else 0
    immediates = [1, columns, *types, int(in_registers), *transposed, *negated, int(sparse), selector]
    return Form("wgmma.mma_async", flags, registers, sources, immediates)
