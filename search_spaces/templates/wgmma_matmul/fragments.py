"""Source of wgmma's A operand: shared memory, or registers that the consumers load from shared memory.

Registers support operands that descriptors cannot express: 4-byte elements that are contiguous along m. If both sources
are possible, registers are slower: they need the same reads of shared memory and additional load instructions, and
cannot be reloaded while a multiplication that reads them is in flight. In this case a search only tries shared memory,
although registers are legal.
"""

from __future__ import annotations

import numpy as np

from search_spaces.arrays import IntArray
from search_spaces.hardware.wgmma import K_BYTES, ROWS, TRANSPOSED_BYTES
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.columns import TextColumn
from search_spaces.spaces.config import Config
from search_spaces.spaces.parameters import Parameter, categorical
from search_spaces.spaces.rules import Rule
from search_spaces.templates.common.boxes import along_k

SHARED, REGISTERS = "shared", "registers"  # values of a_operand_source
FRAGMENT_REGISTERS = 4  # number of registers per thread that hold A for one wgmma
HEADER = "autosched/ptx/wgmma/of_registers.cuh"
# Instructions of a warp (SASS) that load A for one wgmma. FRAGMENT: one load of four registers, including address and
# fence. WORDS: loads of single registers, whose addresses are the same in all steps.
ISSUED_PER_FRAGMENT, ISSUED_PER_WORDS = 4, 6
# Number of lanes that access the same bank in loads of single registers: with a 128-byte swizzle, a warp reads 32 bytes
# of each of four lines.
WORDS_CONFLICT = 2


def descriptors_take(problem: Matmul) -> bool:
    """Return True if wgmma can read A from shared memory."""
    return along_k(problem, "a") or problem.input_dtype.bytes == TRANSPOSED_BYTES


def a_operand_source(problem: Matmul) -> Parameter:
    """Return the parameter ``a_operand_source``: the memory from which wgmma reads A."""
    values = (SHARED, REGISTERS) if descriptors_take(problem) else (REGISTERS,)
    return categorical(
        "a_operand_source",
        values,
        "memory from which wgmma reads operand a: registers or shared memory",
        before=values[0],
    )


def fragment_registers(
    problem: Matmul, tile_m: IntArray, tile_k: IntArray, sharing: IntArray, a_operand_source: TextColumn
) -> IntArray:
    """Return the registers of A that a consumer's thread holds until the multiplications of a k-tile have completed.

    Args:
        problem: Provides the type.
        tile_m: [n], rows of the tile.
        tile_k: [n], extent along k.
        sharing: [n], consumers that share the rows.
        a_operand_source: [n], "registers" or "shared" (0 registers).
    """
    steps = tile_k * problem.input_dtype.bytes // K_BYTES
    held: IntArray = np.where(a_operand_source == REGISTERS, FRAGMENT_REGISTERS * steps * tile_m // (ROWS * sharing), 0)
    return held


def fragment_rules() -> tuple[Rule, ...]:
    """Return the rule that registers of A are not overwritten while wgmma reads them."""
    return (
        Rule(
            "a_operand_source",
            lambda a_operand_source, in_flight: (a_operand_source == SHARED) | (in_flight == 0),
            "with {in_flight} k-tiles in flight, loads of the next k-tile would overwrite registers of A that wgmma "
            "still reads",
        ),
    )


def fragment_pruning(problem: Matmul) -> tuple[Rule, ...]:
    """Return the rule that A is read from shared memory if possible."""
    if not descriptors_take(problem):
        return ()
    return (
        Rule(
            "a_operand_source_shared",
            lambda a_operand_source: a_operand_source == SHARED,
            "wgmma can read a from shared memory, so loading a into registers only adds instructions",
        ),
    )


def loading(problem: Matmul, config: Config, multiplications: float, wavefronts_of_a: float) -> tuple[float, float]:
    """Return the warp instructions that load A for a k-tile, and the shared-memory wavefronts in addition to wgmma's.

    Args:
        problem: Provides type and storage order.
        config: Provides the source of A.
        multiplications: wgmma instructions per k-tile.
        wavefronts_of_a: Wavefronts of reading A once without conflicts.
    """
    if config.text("a_operand_source") == SHARED:
        return 0.0, 0.0
    if descriptors_take(problem):
        return ISSUED_PER_FRAGMENT * 4.0 * multiplications, 0.0
    return ISSUED_PER_WORDS * 4.0 * multiplications, (WORDS_CONFLICT - 1) * wavefronts_of_a
