"""Rules for registers of wgmma matmuls: how many a consumer needs, how many it can get, and when ptxas spills."""

from __future__ import annotations

import numpy as np

from search_spaces.arrays import BoolArray, IntArray
from search_spaces.hardware.devices import Device, register_limit
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.rules import Rule

REGISTER_STEP = 8  # setmaxnreg accepts only multiples of this number (PTX ISA, "setmaxnreg")
# a consumer thread has at least this number of registers in addition to accumulators (ptxas message C7602)
REGISTER_OVERHEAD = 26
END_REGISTERS = 16  # additional registers for a scale or bias per column, or for an activation of many instructions
# Additional registers of a consumer that stores ``out`` from boxes in shared memory: this number for one box, and twice
# this number for several boxes. With 32 registers in addition to 208 accumulators, some kernels spilled 4 to 56 bytes.
# With 40 registers in addition to 192 accumulators, kernels with two boxes spilled 4 bytes (NVRTC 13.5, 2026-11-22). Of
# 60 kernels sampled near these limits, two still spill 4 bytes. With the main loop of 2026-11-24, only one of ten
# kernels beyond the limit spills: 256x192 with a long activation (272 bytes).
STORE_REGISTERS = 8
# Additional registers for boxes of out with stream-K, if a block has one consumer and no register reallocation. A tile
# of 128x176 with 29 spare registers spilled 4 bytes, and a tile of 192x128 with 5 spare registers spilled 104 bytes
# (f32 out, bias+gelu, NVRTC 13.5, 2026-11-28).
STREAM_K_REGISTERS = 40
# largest number of registers of a consumer thread, if a block has two consumers and a copying warpgroup
MOST_REGISTERS = 240


def consumer_limit(device: Device, threads: IntArray, min_blocks: IntArray, consumer_registers: IntArray) -> IntArray:
    """Return the largest number of registers that a consumer's thread can have.

    Args:
        device: The GPU, which limits the registers of a launch.
        threads: [n], threads of a block.
        min_blocks: [n], blocks per SM for which the compiler limits registers.
        consumer_registers: [n], registers per consumer thread after reallocation from the producer; 0 without
            reallocation.
    """
    return np.where(consumer_registers > 0, consumer_registers, register_limit(device, threads, min_blocks))


def register_rules(problem: Matmul, device: Device) -> tuple[Rule, ...]:
    """Return the validity constraints on registers."""
    return (
        Rule(
            "setmaxnreg",
            lambda threads, min_blocks, producer_registers, consumer_registers: (
                np.equal(producer_registers, 0) | (consumer_registers > register_limit(device, threads, min_blocks))
            ),
            "with {threads} threads and {min_blocks} blocks per SM, each thread is launched with at least as many "
            f"registers as setmaxnreg could give to a consumer (at most {MOST_REGISTERS})",
        ),
        Rule(
            "consumer_registers",
            lambda needed_registers, threads, min_blocks, consumer_registers: (
                needed_registers <= consumer_limit(device, threads, min_blocks, consumer_registers)
            ),
            lambda needed_registers, threads, min_blocks, consumer_registers: (
                f"a consumer needs {needed_registers} registers per thread, and has "
                f"{int(consumer_limit(device, threads, min_blocks, consumer_registers))} with {min_blocks} blocks of "
                f"{threads} threads per SM"
            ),
        ),
        Rule(
            "instruction_registers",
            lambda tile_n, threads, min_blocks: (
                tile_n // (2 * problem.sums_of_register) + REGISTER_OVERHEAD
                <= register_limit(device, threads, min_blocks)
            ),
            f"a wgmma of n = {{tile_n}} holds {{tile_n}} / {2 * problem.sums_of_register} registers of accumulators, "
            "which do not fit in the registers of {threads} threads at launch with {min_blocks} blocks per SM; ptxas "
            "does not consider registers that setmaxnreg adds later",
        ),
    )


def spill_rules(device: Device) -> tuple[Rule, ...]:
    """Return the pruning rules that exclude schedules for which ptxas would spill registers."""

    def boxes_fit(
        needed_registers: IntArray, store_buffers: IntArray, threads: IntArray, min_blocks: IntArray,
        consumer_registers: IntArray, consumer_warpgroups: IntArray, stream_k: IntArray,
    ) -> BoolArray:  # fmt: skip
        alone = np.equal(consumer_warpgroups, 1) & np.equal(consumer_registers, 0)
        needed = needed_registers + STORE_REGISTERS * np.minimum(store_buffers, 2)
        needed = needed + STREAM_K_REGISTERS * (alone & (stream_k > 0))
        limit = consumer_limit(device, threads, min_blocks, consumer_registers)
        return np.asarray((needed <= limit) | np.equal(store_buffers, 0))

    return (
        Rule(
            "store_registers",
            boxes_fit,
            f"a consumer needs {{needed_registers}} registers per thread, {STORE_REGISTERS} more to store one box of "
            f"out (twice as many for several boxes), and {STREAM_K_REGISTERS} more for stream-K if the block has one "
            "consumer and does not reallocate registers: ptxas would spill",
        ),
    )
