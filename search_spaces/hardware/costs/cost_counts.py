"""Counts of a kernel's work per thread block, the only input of cost models from a kernel template."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CostCounts:
    """Counts for one run of one schedule; none of them is a time.

    Per-block numbers include the waste of partial tiles, as a block computes its whole tile. ``shared_wavefronts`` are
    cycles of the 128-byte-wide L1, which includes shared memory: bank conflicts, and for global memory the lines that
    each request touches. ``load_bytes`` and ``store_bytes`` are traffic between L2 and the SM in 32-byte sectors,
    ``dram_bytes`` between DRAM and L2 for the whole launch. All numbers are those of the first launch of a pipeline.
    """

    blocks: int
    threads: int  # per block
    shared_bytes: int  # per block, dynamic
    registers: int  # per thread, estimated before compiling
    unit: str  # name in ``units.UNITS`` of the unit that does the arithmetic
    operand_dtype: (
        str  # type that the unit multiplies, such as "f16", "tf32", "e4m3" or "i8"; "f16_f16": accumulated in f16
    )
    flops: float  # per block
    instructions: float  # warp instructions issued per block (math, loads, address arithmetic), approximate
    shared_wavefronts: float  # per block
    load_bytes: float  # per block
    store_bytes: float  # per block
    dram_bytes: float  # per launch
    iterations: int  # steps of the main loop, per block
    stages: int  # pipeline stages; 1 means that loads and arithmetic do not overlap
    barriers_per_iteration: float
    cluster: int = 1  # blocks that start together, on SMs of one GPC
    refills: bool = True  # whether the arithmetic after a barrier waits for its operands from shared memory
    chained: bool = False  # whether a step multiplies results of another product of the same step
    exposed_products: float = 1.0  # share of a chained step's math for which its warps wait, doing nothing else
    ping_pong: bool = False  # whether two warpgroups alternate: one multiplies while the other does everything else
    loads_last: bool = False  # whether a load is issued after the arithmetic whose operands it overwrites
    special: float = 0.0  # warp instructions of the unit for special functions (ex2, rcp, tanh) per block, approximate
    launches: int = 1  # successive launches of the kernel; the counts above cover all of them
    alone_bytes: float = 0.0  # moved by a last block after all others are done
    staged_bytes: float = 0.0  # DRAM bytes of a preceding launch that rearranges operands
    alone_trips: float = 0.0  # sequential round trips of that block to L2
    copying_cycles: float = 0.0  # cycles per step in which copying warps wait for their copies
    multicast_bytes: float = 0.0  # per block, received in addition to load_bytes: L2 reads them for another block
    drains: int = 0  # number of results for which a block's arithmetic stops until they have left the registers
    drain_instructions: float = 0.0  # warp instructions of a block during these stops
    boxed: int = 0  # results of a block that pass through shared memory and are stored by TMA
    boxes: int = 1  # boxes per such result and warpgroup, stored one after another
    box_buffers: int = 1  # buffers for them, so that one is written while others are stored
    restarts: int = 0  # number of times that a block restarts its loads and waits for them
    round_trips: float = 0.0  # sequential round trips of a block to L2 during which it is idle
    longest: float = 1.0  # work of the block with the most work, relative to the average
    run_bytes: float = 128.0  # contiguous DRAM bytes that neighbouring threads read or write, whichever is smaller
    then: tuple[CostCounts, ...] = ()  # counts of further launches, in order
