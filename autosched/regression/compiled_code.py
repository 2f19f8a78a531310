"""Comparison of the machine code that two compilers generate from the same kernel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from measurements.compiler.disassembly import LoopMix

LOOP_GROWTH = 0.05  # allowed growth of the number of instructions of a main loop, as a fraction


@dataclass(frozen=True)
class CompiledCode:
    """Properties of a compiled kernel by which compilers are compared.

    Attributes:
        spill_bytes: Bytes that registers spill to local memory.
        registers: Registers per thread.
        blocks: Number of blocks that fit on an SM.
        loop: The main loop; None if this machine cannot disassemble it.
    """

    spill_bytes: int
    registers: int
    blocks: int
    loop: LoopMix | None


def worse_code(installed: CompiledCode, other: CompiledCode, growth: float = LOOP_GROWTH) -> Iterator[str]:
    """Yield one line for each property (spills, blocks, main loop) that is worse with the other compiler.

    Args:
        installed: Code of this environment's compiler.
        other: Code of the other compiler.
        growth: Fraction by which the main loop may grow. Smaller values than LOOP_GROWTH are raised to it.
    """
    if other.spill_bytes > installed.spill_bytes:
        yield _compared("bytes of spills to local memory", installed.spill_bytes, other.spill_bytes)
    if other.blocks < installed.blocks:
        yield (
            _compared("blocks on a multiprocessor", installed.blocks, other.blocks)
            + f" (registers: {installed.registers} and {other.registers})"
        )
    if installed.loop is None or other.loop is None:
        return
    allowed = 1 + max(growth, LOOP_GROWTH)
    if other.loop.instructions > installed.loop.instructions * allowed:
        grown = [
            f"{kind}: {installed.loop.count(kind)} and {count}"
            for kind, count in other.loop.kinds
            if count > installed.loop.count(kind) * allowed
        ]
        yield (
            _compared("instructions of the main loop", installed.loop.instructions, other.loop.instructions)
            + (f" ({'; '.join(grown)})" if grown else "")
        )


def _compared(quantity: str, installed: int, other: int) -> str:
    return f"{quantity}: {installed} with this compiler, {other} with the other compiler"
