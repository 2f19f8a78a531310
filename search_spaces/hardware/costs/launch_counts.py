"""What a launch executes and moves, counted while some of its blocks were emulated: all that its time is estimated by.

Whatever was launched can be counted so: a user's CUDA, PTX of any compiler, a Triton kernel.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LaunchCounts:
    """Averages over the blocks that were run, per block where nothing else is said.

    Args:
        blocks: of the whole grid.
        threads: of a block.
        sampled: blocks that were run.
        code: different instructions that they executed, but for those that vanish in machine code.
        executed: how often warps executed each PTX operation ("fma.rn.f32"), divergent groups of lanes each for itself.
        chain_cycles: of a warp: its longest chain of dependent instructions, by a compiler that orders each basic block
            as well as can be, and loads that find in L1 what their block has asked for before.
        shared_wavefronts: of shared memory, bank conflicts included.
        requests: of global memory; its ``wavefronts`` in L1 are the lines of 128 bytes that they touch.
        load_sectors: of 32 bytes, that loads ask L1 for; ``unique_sectors`` are those that the block had not asked for
            before.
        store_sectors: that stores send to L2.
        atomic_sectors: that atomics update there.
        constant_requests: loads of constant memory, one for each different address of a warp.
        dram_bytes: of the whole launch: what it reads and writes at least.
        dynamic_shared_bytes: that the launch asks for.
        operand_bytes: of all arrays.
        spilled_words: of four bytes a lane, that warps spill or load again; None where it is not known how often.
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
