"""Convert four-bit numbers and bytes to pairs of 16-bit numbers in words."""

from __future__ import annotations

from search_spaces.hardware.dtypes import DType
from search_spaces.programs.language import ir
from search_spaces.programs.language.distribution import Distribution
from search_spaces.programs.lowering.emit_base import EmitterBase
from search_spaces.programs.lowering.refs import Ref

STEP = 16  # columns that one pair of each word of a span yields


def fours(emitter: EmitterBase, operation: ir.Map, arguments: list[Ref], of: Distribution) -> Ref:
    """Emit the unpacking of an operand's numbers.

    Neighbouring registers are an even column and the next one, whose numbers come from one word, one row and one scale.

    Args:
        emitter: Emitter of the kernel.
        operation: A map with the function "nibble_T" or "fp4_T".
        arguments: Words, columns, the first pair of a word and the number of pairs; then the zero point and the factor,
            or the scale.
        of: Distribution of the numbers.
    """
    words, column, first, count, other, *times = arguments
    to, code = operation.result.dtype, emitter.code
    name = emitter.declare("w", "unsigned", of.registers // 2)
    columns, last = of.of_registers(1), int(of.of_threads(1, emitter.distributions.warps).max())
    of_registers_alone = all(c % STEP + last < STEP for c in columns)  # then steps are known here, not to the compiler
    steps = tuple(c // STEP % int(count.name) + int(first.name) for c in columns)
    function = f"nibbles<{to.c_name}, {times[0].name}>" if times else f"fp4_pair<{to.c_name}>"

    def text(r: str) -> str:
        step = code.at(steps, r)
        if not of_registers_alone:
            step = f"({column.text(code, r)}) / {STEP} % {count.name} + {first.name}"
        return f"{name}[{r} / 2] = tile::{function}({words.text(code, r)}, {step}, {other.text(code, r)});"

    scattered = [*words.scattered, *other.scattered]
    code.each(of.registers, text, operation.source, width=2, writes=name, scattered=scattered)
    return Ref("packed", name, to)


def stored_bytes(value: Ref) -> Ref | None:
    """Return the packed bytes from which a value is converted, if pairs are adjacent; else None."""
    bytes_ = value.parts[0] if value.kind == "inline" and value.name == "float({0})" else value
    if bytes_.kind != "packed" or bytes_.dtype.bits != 8:
        return None
    table = bytes_.table
    if table is not None and any(a % 2 or b != a + 1 for a, b in zip(table[::2], table[1::2], strict=True)):
        return None
    return bytes_


def widened(emitter: EmitterBase, bytes_: Ref, to: DType, count: int, source: ir.Source) -> Ref:
    """Emit bytes as ``count`` numbers of f16 or bf16."""
    code, name = emitter.code, emitter.declare("w", "unsigned", count // 2)

    def text(r: str) -> str:
        at = r if bytes_.table is None else code.at(bytes_.table, r)
        pair = f"{bytes_.name}[({at}) / 4], ({at}) % 4 == 2"
        return f"{name}[{r} / 2] = tile::widened<{to.c_name}, {bytes_.dtype.c_name}>({pair});"

    code.each(count, text, source, width=2, writes=name, scattered=bytes_.scattered)
    return Ref("packed", name, to)
