"""Counts of a launch's instructions and memory traffic, from which its time is estimated.

The emulator counts them in some blocks of the launch, for CUDA, PTX of any compiler, and Triton.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LaunchCounts:
    """Averages over the blocks that were run, per block unless stated otherwise.

    Args:
        blocks: Blocks of the whole grid.
        threads: Threads of a block.
        sampled: Blocks that were run.
        code: Distinct instructions that they executed, without those that have no machine code.
        executed: How often warps executed each PTX operation ("fma.rn.f32"); divergent groups of lanes count
            separately.
        chain_cycles: Cycles of a warp's longest chain of dependent instructions, assuming that the compiler orders each
            basic block ideally, and that data which the block has loaded before hit in L1.
        shared_wavefronts: Wavefronts of shared memory, bank conflicts included.
        requests: Requests to global memory.
        wavefronts: The 128-byte lines in L1 that these requests touch.
        load_sectors: 32-byte sectors that loads request from L1.
        unique_sectors: Sectors among them that the block had not requested before.
        store_sectors: Sectors that stores send to L2.
        atomic_sectors: Sectors that atomics update in L2.
        constant_requests: Loads of constant memory, one per distinct address of a warp.
        dram_bytes: Minimum of bytes that the whole launch reads and writes.
        dynamic_shared_bytes: Dynamic shared memory of the launch.
        operand_bytes: Bytes of all arrays.
        spilled_words: 4-byte words per lane that warps spill or reload; None if unknown.
    """

    blocks: int
    threads: int
    sampled: int
    code: int
    executed: tuple[tuple[str, float], ...]
    chain_cycles: float
    shared_wavefronts: float
    requests: float
    wavefronts: float
    load_sectors: float
    unique_sectors: float
    store_sectors: float
    atomic_sectors: float
    constant_requests: float
    dram_bytes: float
    dynamic_shared_bytes: int
    operand_bytes: int
    spilled_words: float | None = None
