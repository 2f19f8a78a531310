"""Numbers of four bits, which become pairs of 16-bit numbers in words."""

from __future__ import annotations

from search_spaces.hardware.dtypes import DType
from search_spaces.programs.language import ir
from search_spaces.programs.language.distribution import Distribution
from search_spaces.programs.lowering.emit_base import EmitterBase
from search_spaces.programs.lowering.refs import Ref

STEP = 16  # columns of a pair of all words of a span


def nibbles(emitter: EmitterBase, to: DType, given: list[Ref], of: Distribution, source: ir.Source) -> Ref:
    """Emit the numbers of an operand. Registers side by side are an even column and the next one, whose numbers are of
    one word and of one row.

    Args:
        emitter: The kernel's.
        to: f16 or bf16.
        given: Words, columns, the first pair of a word and their count, the zero, and what differences are times.
        of: Distribution of the numbers.
        source: Line of the program.
    """
    words, column, first, count, zero, times = given
    code, name = emitter.code, emitter.declare("w", "unsigned", of.registers // 2)
    columns, last = of.of_registers(1), int(of.of_threads(1, emitter.numbers.warps).max())
    of_registers_alone = all(c % STEP + last < STEP for c in columns)  # the compiler would not see that
    steps = tuple(c // STEP % int(count.name) + int(first.name) for c in columns)

    def text(r: str) -> str:
        step = code.at(steps, r)
        if not of_registers_alone:
            step = f"({column.text(code, r)}) / {STEP} % {count.name} + {first.name}"
        pair = f"{words.text(code, r)}, {step}, {zero.text(code, r)}"
        return f"{name}[{r} / 2] = tile::nibbles<{to.c_name}, {times.name}>({pair});"

    scattered = [*words.scattered, *zero.scattered]
    code.each(of.registers, text, source, width=2, writes=name, scattered=scattered)
    return Ref("packed", name, to)
