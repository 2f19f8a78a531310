"""Comparison of the code that two compilers generate from one kernel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from measurements.compiler.disassembly import LoopMix

LOOP_GROWTH = 0.05  # allowed growth of a main loop's instructions, as a fraction


@dataclass(frozen=True)
class CompiledCode:
    """Properties of a compiled kernel that are compared between compilers.

    Attributes:
        spill_bytes: Bytes that registers spill to local memory.
        registers: Registers per thread.
        blocks: Blocks that fit on a multiprocessor.
        loop: The main loop; None if it cannot be disassembled here.
    """

    spill_bytes: int
    registers: int
    blocks: int
    loop: LoopMix | None


def worse_code(here: CompiledCode, there: CompiledCode, growth: float = LOOP_GROWTH) -> Iterator[str]:
    """Yield one line for each property that is worse with the other compiler: spills, blocks, main loop.

    Args:
        here: Code of this environment's compiler.
        there: Code of the other one.
        growth: Fraction by which the main loop may grow, at least LOOP_GROWTH.
    """
    if there.spill_bytes > here.spill_bytes:
        yield f"bytes of spills to local memory: {here.spill_bytes} here, {there.spill_bytes} there"
    if there.blocks < here.blocks:
        yield (
            f"blocks on a multiprocessor: {here.blocks} here, {there.blocks} there "
            f"(registers: {here.registers} here, {there.registers} there)"
        )
    if here.loop is None or there.loop is None:
        return
    allowed = 1 + max(growth, LOOP_GROWTH)
    if there.loop.instructions > here.loop.instructions * allowed:
        grown = [
            f"{kind}: {here.loop.count(kind)} here, {count} there"
            for kind, count in there.loop.kinds
            if count > here.loop.count(kind) * allowed
        ]
        yield (
            f"instructions of the main loop: {here.loop.instructions} here, {there.loop.instructions} there"
            + (f" ({'; '.join(grown)})" if grown else "")
        )
