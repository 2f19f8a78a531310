"""Emit conversions of packed four-bit numbers and bytes to words with pairs of 16-bit numbers."""

from __future__ import annotations

from search_spaces.hardware.dtypes import DType
from search_spaces.programs.language import ir
from search_spaces.programs.language.distribution import Distribution
from search_spaces.programs.lowering.elements import Text
from search_spaces.programs.lowering.emit_base import EmitterBase
from search_spaces.programs.lowering.refs import Ref

FROM_BYTE = "float({0})"  # C++ expression that converts the stored byte {0} to f32
STEP = 16  # columns of the result per span and pair number (see ``Slices.nibbles``)


def fours(emitter: EmitterBase, operation: ir.Map, arguments: list[Ref], of: Distribution) -> Ref:
    """Emit the unpacking of an operand's four-bit numbers.

    Registers 2 i and 2 i + 1 hold an even column and the next column. Their numbers have the same row, word and scale.

    Args:
        emitter: Emitter of the kernel.
        operation: A map with the function "nibble_T" or "fp4_T".
        arguments: Arguments of the map: words, columns, index of the first pair, number of pairs; then the zero point
            and the factor ("nibble_T"), or the scale ("fp4_T").
        of: Distribution of the result.
    """
    words, column, first, count, other, *times = arguments
    to, code = operation.result.dtype, emitter.code
    name = emitter.declare("w", "unsigned", of.registers // 2)
    columns, last = of.of_registers(1), int(of.of_threads(1, emitter.distributions.warps).max())
    # True if the pair number of a register is equal in all threads
    of_registers_alone = all(c % STEP + last < STEP for c in columns)
    steps = tuple(c // STEP % int(count.name) + int(first.name) for c in columns)
    function = f"nibbles<{to.c_name}, {times[0].name}>" if times else f"fp4_pair<{to.c_name}>"
    last_of = (lambda r: other.text(code, r)) if times else _scales(emitter, other, to, operation.source)

    def text(r: str) -> str:
        step = code.at(steps, r)
        if not of_registers_alone:
            step = f"({column.text(code, r)}) / {STEP} % {count.name} + {first.name}"
        return f"{name}[{r} / 2] = tile::{function}({words.text(code, r)}, {step}, {last_of(r)});"

    scattered = [*words.scattered, *other.scattered]
    code.each(of.registers, text, operation.source, width=2, writes=name, scattered=scattered)
    return Ref("packed", name, to)


def _scales(emitter: EmitterBase, scale: Ref, to: DType, source: ir.Source) -> Text:
    """Emit the conversion of scales, in pairs if they are packed bytes.

    Args:
        emitter: Emitter of the kernel.
        scale: The scale of each number, equal for both numbers of a pair.
        to: "f16" or "bf16".
        source: Source position in the user's program.

    Returns:
        A function from a register's index to the last arguments of ``fp4_pair``.
    """
    code = emitter.code
    bytes_ = scale.parts[0] if scale.kind == "inline" and scale.name == FROM_BYTE else scale
    table = bytes_.table
    if bytes_.kind != "packed" or bytes_.dtype.bits != 8 or table is None:
        return lambda r: f"tile::fp4_scales<{to.c_name}>({scale.text(code, r)}), false"
    count = 2 * (max(table) // 2 + 1)
    name = emitter.declare("w", "unsigned", count // 2)

    def text(r: str) -> str:
        return f"{name}[{r} / 2] = tile::fp4_scales<{to.c_name}>({bytes_.name}[{r} / 4], {r} % 4 == 2);"

    code.each(count, text, source, width=2, writes=name)
    code.flush()  # end the loop over registers, as later statements read the scales in another order
    return lambda r: f"{name}[{code.at(table, r)} / 2], {code.at(table, r)} % 2 == 1"


def stored_bytes(value: Ref) -> Ref | None:
    """Return the packed bytes from which a value is converted.

    Return None unless the two elements of each pair come from adjacent bytes.
    """
    bytes_ = value.parts[0] if value.kind == "inline" and value.name == FROM_BYTE else value
    if bytes_.kind != "packed" or bytes_.dtype.bits != 8:
        return None
    table = bytes_.table
    if table is not None and any(a % 2 or b != a + 1 for a, b in zip(table[::2], table[1::2], strict=True)):
        return None
    return bytes_


def widened(emitter: EmitterBase, bytes_: Ref, to: DType, count: int, source: ir.Source) -> Ref:
    """Emit the conversion of packed bytes to ``count`` numbers of f16 or bf16."""
    code, name = emitter.code, emitter.declare("w", "unsigned", count // 2)

    def text(r: str) -> str:
        at = r if bytes_.table is None else code.at(bytes_.table, r)
        pair = f"{bytes_.name}[({at}) / 4], ({at}) % 4 == 2"
        return f"{name}[{r} / 2] = tile::widened<{to.c_name}, {bytes_.dtype.c_name}>({pair});"

    code.each(count, text, source, width=2, writes=name, scattered=bytes_.scattered)
    return Ref("packed", name, to)
