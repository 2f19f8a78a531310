"""Where wgmma takes A from: shared memory, or registers that the consumers load from there.

Registers take what descriptors cannot say: elements of 4 bytes that lie along m. Where both can, they only cost: the
bytes that are read from shared memory are the same, loads take instructions, and no multiplication is in flight while
its registers are loaded anew. So a search takes shared memory then; the other one stays legal.
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
FRAGMENT_REGISTERS = 4  # of a thread, of A in one wgmma
HEADER = "autosched/ptx/wgmma/of_registers.cuh"
# Instructions of a warp in SASS: a load of four registers, its address and the fence; where each is a load of its own,
# addresses are the same for all steps.
ISSUED_PER_FRAGMENT, ISSUED_PER_WORDS = 4, 6
WORDS_CONFLICT = 2  # lanes that read a bank: of four lines under a swizzle of 128 bytes, 32 bytes each


def descriptors_take(problem: Matmul) -> bool:
    """Whether wgmma can read A from shared memory."""
    return along_k(problem, "a") or problem.input_dtype.bytes == TRANSPOSED_BYTES


def a_operand_source(problem: Matmul) -> Parameter:
    """``a_operand_source``: where wgmma takes A from."""
    values = (SHARED, REGISTERS) if descriptors_take(problem) else (REGISTERS,)
    return categorical("a_operand_source", values, "where wgmma takes a from", before=values[0])


def fragment_registers(
    problem: Matmul, tile_m: IntArray, tile_k: IntArray, sharing: IntArray, a_operand_source: TextColumn
) -> IntArray:
    """Return registers of A that a consumer's thread holds until the multiplications of a k-tile have been waited for.

    Args:
        problem: Has the type.
        tile_m: [n], rows of the tile.
        tile_k: [n], along k.
        sharing: [n], consumers that the rows are dealt out to.
        a_operand_source: [n], "registers" or "shared"; there are none of the latter.
    """
    steps = tile_k * problem.input_dtype.bytes // K_BYTES
    held: IntArray = np.where(a_operand_source == REGISTERS, FRAGMENT_REGISTERS * steps * tile_m // (ROWS * sharing), 0)
    return held


def fragment_rules() -> tuple[Rule, ...]:
    """Rules without which registers of A do not hold what is multiplied."""
    return (
        Rule(
            "a_operand_source",
            lambda a_operand_source, in_flight: (a_operand_source == SHARED) | (in_flight == 0),
            "{in_flight} k-tiles in flight read registers of A while those of the next one are loaded into them",
        ),
    )


def fragment_pruning(problem: Matmul) -> tuple[Rule, ...]:
    if not descriptors_take(problem):
        return ()
    return (
        Rule(
            "a_operand_source_shared",
            lambda a_operand_source: a_operand_source == SHARED,
            "wgmma can read a from shared memory, which takes no instructions to load it into registers",
        ),
    )


def loading(problem: Matmul, config: Config, multiplications: float, wavefronts_of_a: float) -> tuple[float, float]:
    """Return warp instructions that load A for a k-tile, and the wavefronts of shared memory besides those of wgmma.

    Args:
        problem: Has type and storage order.
        config: Says where A is multiplied from.
        multiplications: Instructions of a k-tile.
        wavefronts_of_a: Of reading A once without conflicts.
    """
    if config.text("a_operand_source") == SHARED:
        return 0.0, 0.0
    if descriptors_take(problem):
        return ISSUED_PER_FRAGMENT * 4.0 * multiplications, 0.0
    return ISSUED_PER_WORDS * 4.0 * multiplications, (WORDS_CONFLICT - 1) * wavefronts_of_a
