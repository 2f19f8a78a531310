"""Copies of an operand's tiles to shared memory, by TMA or by threads of the producer warp or warpgroup.

TMA copies only matrices whose lines are a multiple of 16 bytes apart; one thread issues the copy of a box. Threads can
copy any operand by cp.async, 4, 8 or 16 bytes at a time (PTX ISA, "cp.async" and "Async proxy"). If lines are aligned
to less than 4 bytes, whole words are copied and shifted into place in shared memory.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from search_spaces.arrays import IntArray
from search_spaces.hardware.costs.transactions import SECTOR_BYTES
from search_spaces.hardware.devices import Device
from search_spaces.hardware.requirements import OperandSide
from search_spaces.hardware.wgmma import NO_SWIZZLE_BYTES, line_bytes
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.columns import ceil_div
from search_spaces.spaces.config import Config
from search_spaces.spaces.parameters import Parameter, categorical, ordinal
from search_spaces.spaces.rules import Attribute, Rule
from search_spaces.templates.common.boxes import SIDES, STRIDE_BYTES, aligned_bytes, line_extent
from search_spaces.templates.common.padded_operands import is_padded

# registers per thread: of a thread that only copies, and of a thread that also shifts lines
COPYING_REGISTERS, SHIFTING_REGISTERS = (
    48,
    64,
)
BY_TMA, BY_THREADS = "tma", "cp.async"  # values of copy_a and copy_b
_WARPGROUP = 4  # warps of a warpgroup
LEAST_COPY_BYTES = 4  # smallest size of a cp.async copy, in bytes
ISSUED_PER_COPY = 4  # number of instructions per copy, including the predicate and addresses
# To shift a word into place, a lane reads it, gets the next word from another lane, and writes the combined word. On
# an H100 (2026-11-27) a warp takes 90 cycles per word, including waits for its copy, regardless of other warps on the
# SM.
ISSUED_PER_SHIFT = 14
SHIFT_CYCLES = 90.0


def access(problem: Matmul, config: Config, side: OperandSide) -> int:
    """Return the alignment in bytes of the lines of an operand that threads copy; 0 if TMA copies it."""
    return 0 if config.text(f"copy_{side}") == BY_TMA else aligned_bytes(problem, side)


def copies(problem: Matmul) -> tuple[Parameter, ...]:
    """Return the parameters ``copy_a`` and ``copy_b``: how each operand is copied."""

    def copy(side: OperandSide) -> Parameter:
        if is_padded(problem, side):  # TMA can always copy an operand whose lines are padded
            by: tuple[str, ...] = (BY_TMA,)
        else:
            by = (BY_TMA, BY_THREADS) if aligned_bytes(problem, side) == STRIDE_BYTES else (BY_THREADS,)
        return categorical(f"copy_{side}", by, f"method of copying operand {side} to shared memory", before=by[0])

    return tuple(copy(side) for side in SIDES)


def _enough_registers(problem: Matmul) -> int:
    """Return the number of registers that a copying thread needs, which is larger if lines must be shifted."""
    return (
        SHIFTING_REGISTERS
        if any(aligned_bytes(problem, side) < LEAST_COPY_BYTES for side in SIDES)
        else COPYING_REGISTERS
    )


def producer_registers(problem: Matmul) -> Parameter:
    """Return the parameter ``producer_registers``: registers that threads of a copying warpgroup keep."""
    return ordinal(
        "producer_registers",
        (0, 24, 40, _enough_registers(problem)),
        "registers that a thread of the copying warpgroup keeps; 0: a single warp copies, and registers are not "
        "reallocated",
    )


def ends_bytes(problem: Matmul) -> Attribute:
    """Return the attribute for the additional word that each line of a box needs if lines are not aligned to words."""
    shifted = {side: aligned_bytes(problem, side) < LEAST_COPY_BYTES for side in SIDES}

    def total(stage_bytes_a: IntArray, stage_bytes_b: IntArray, swizzle_a: IntArray, swizzle_b: IntArray) -> IntArray:
        stages, swizzles = {"a": stage_bytes_a, "b": stage_bytes_b}, {"a": swizzle_a, "b": swizzle_b}
        none = np.zeros_like(np.asarray(stage_bytes_a))
        bytes_: IntArray = none + sum(
            (LEAST_COPY_BYTES * stages[side] // np.where(swizzles[side] == 0, NO_SWIZZLE_BYTES, swizzles[side]))
            for side in SIDES
            if shifted[side]
        )
        return bytes_

    return Attribute(
        "ends_bytes",
        total,
        "shared-memory bytes of the additional words after the lines of a stage, if lines are shifted",
    )


def movement_rules(problem: Matmul) -> tuple[Rule, ...]:
    """Return the rules for operands that are copied by threads and not by TMA."""
    enough = _enough_registers(problem)
    registers = Rule(
        "copying_registers",
        lambda producer_registers, copy_a, copy_b: (
            (producer_registers == 0) | (producer_registers >= enough) | ((copy_a == BY_TMA) & (copy_b == BY_TMA))
        ),
        f"{{producer_registers}} registers are too few for threads that copy an operand: use {enough} or more",
    )
    return registers, *(_alone_rule(side) for side in SIDES)


def _alone_rule(side: OperandSide) -> Rule:
    along = "n" if side == "a" else "m"
    return Rule(
        f"copied_{side}",
        lambda cluster, copy: (cluster == 1) | (copy == BY_TMA),
        f"the {{cluster}} blocks of a cluster along {along} cannot share {side}, which threads copy: only TMA can "
        "copy data to several blocks",
        names={"cluster": f"cluster_{along}", "copy": f"copy_{side}"},
    )


def copy_pruning(problem: Matmul, device: Device) -> tuple[Rule, ...]:
    """Return rules that exclude decisions without effect, and slow copies.

    Parameters of TMA have no effect if threads copy both operands. Registers for copying threads have no effect if TMA
    copies both. If all SMs are busy, copies by threads have no advantage, because they need more instructions than TMA.
    With fewer blocks, latency matters, so a search tries both kinds of copies.
    """
    enough = _enough_registers(problem)
    return (
        Rule(
            "l2_promotion",
            lambda l2_promotion, copy_a, copy_b: (l2_promotion == 128) | (copy_a == BY_TMA) | (copy_b == BY_TMA),
            "l2_promotion is {l2_promotion}, but TMA loads neither operand: use 128",
        ),
        Rule(
            "l2_evict_last_by_tma",
            lambda l2_evict_last, copy_a, copy_b: (l2_evict_last == "none") | (copy_a == BY_TMA) | (copy_b == BY_TMA),
            "l2_evict_last is {l2_evict_last}, but TMA loads neither operand",
        ),
        Rule(
            "registers_to_copy",
            lambda producer_registers, copy_a, copy_b: (
                (producer_registers < enough) | (copy_a == BY_THREADS) | (copy_b == BY_THREADS)
            ),
            "{producer_registers} registers are for threads that copy, but TMA loads both operands",
        ),
        *(_busy_rule(problem, device, side) for side in SIDES if aligned_bytes(problem, side) == STRIDE_BYTES),
    )


def _busy_rule(problem: Matmul, device: Device, side: OperandSide) -> Rule:
    return Rule(
        f"copy_{side}",
        lambda tile_m, tile_n, split_k, copy: (
            (copy == BY_TMA)
            | (problem.batch * ceil_div(problem.m, tile_m) * ceil_div(problem.n, tile_n) * split_k < device.sm_count)
        ),
        f"threads copy {side}, but TMA needs fewer instructions. Tiles of {{tile_m}} x {{tile_n}} in {{split_k}} "
        f"splits keep all {device.sm_count} SMs of {device.name} busy",
        names={"copy": f"copy_{side}"},
    )


@dataclass(frozen=True)
class Copying:
    """Cost of a copy by threads, per k-tile of one operand, in addition to the cost of the written bytes."""

    issued: float  # warp instructions, as if they were distributed evenly over the schedulers of an SM
    wavefronts: float  # wavefronts of L1, in addition to the wavefronts of the writes
    sector_share: float  # bytes of all sectors that are read, divided by the bytes that are copied
    cycles: float  # cycles in which copying warps wait for misaligned words and shift them


def copying(problem: Matmul, config: Config, side: OperandSide, device: Device) -> Copying | None:
    """Return the cost of copying an operand by threads, or None if TMA copies it.

    Args:
        problem: Provides type and storage order.
        config: Provides tiles and swizzles.
        side: "a" or "b".
        device: The GPU.
    """
    bytes_ = access(problem, config, side)
    if bytes_ == 0:
        return None
    stage_bytes = config.integer(f"stage_bytes_{side}")
    pieces = stage_bytes / max(bytes_, LEAST_COPY_BYTES) / device.warp_size  # number of warp instructions that copy
    # Even if the alignment is less than a word, some lines begin at a word and need no shift. For 16-bit elements, this
    # is every second line.
    shifted = 1 - bytes_ / LEAST_COPY_BYTES if bytes_ < LEAST_COPY_BYTES else 0.0
    issued = pieces * (ISSUED_PER_COPY + ISSUED_PER_SHIFT * shifted)
    line = line_bytes(config.integer(f"swizzle_{side}"))
    aligned = math.gcd(line_extent(problem, side) * problem.input_dtype.bytes, SECTOR_BYTES)
    return Copying(
        # A single copying warp uses only one of the SM's schedulers.
        issued if config.integer("producer_registers") else issued * device.schedulers_per_sm,
        (1 + 2 * shifted)
        * stage_bytes
        / device.shared_bytes_per_cycle,  # reads from L1, plus a second read and a write of shifted words
        ((line - aligned) / SECTOR_BYTES + 1) * SECTOR_BYTES / line if line >= SECTOR_BYTES else SECTOR_BYTES / line,
        SHIFT_CYCLES * pieces / (_WARPGROUP if config.integer("producer_registers") else 1) if shifted else 0.0,
    )
