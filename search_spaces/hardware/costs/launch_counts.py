"""Counts of a launch's instructions and memory traffic, from which its time is estimated.

The emulator runs a sample of the launch's blocks, and counts their instructions and memory traffic. This works for
CUDA, for PTX of any compiler, and for Triton.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LaunchCounts:
    """Averages per block over the sampled blocks, unless stated otherwise.

    Args:
        blocks: Number of blocks of the whole grid.
        threads: Threads of a block.
        sampled: Number of sampled blocks, which the emulator ran.
        code: Number of distinct instructions that the sampled blocks executed; instructions without machine code do not
            count.
        executed: Number of executions of each PTX operation ("fma.rn.f32") by warps. Divergent groups of lanes are
            counted separately.
        chain_cycles: Cycles of a warp's longest chain of dependent instructions. Assumptions: the compiler orders each
            basic block ideally, and L1 contains all data that the block has loaded before.
        shared_wavefronts: Wavefronts of shared memory, bank conflicts included.
        requests: Requests to global memory.
        wavefronts: Number of 128-byte lines in L1 that the requests to global memory touch.
        load_sectors: 32-byte sectors that loads request from L1.
        unique_sectors: Distinct sectors that the loads of a block request.
        store_sectors: Sectors that stores send to L2.
        atomic_sectors: Sectors that atomics update in L2.
        constant_requests: Loads of constant memory, one per distinct address of a warp.
        dram_bytes: Minimum number of bytes that the whole launch reads and writes.
        dynamic_shared_bytes: Dynamic shared memory of the launch.
        operand_bytes: Total bytes of all arrays.
        spilled_words: Number of 4-byte words per lane that warps spill or reload; None if unknown.
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
