"""Counts of a kernel's work, which a kernel template provides to cost models."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CostCounts:
    """Counts of the work in one launch of a schedule. No count is a time.

    Numbers per block include the waste of partial tiles, because a block computes its whole tile. L1 and shared memory
    are one array, 128 bytes wide. ``shared_wavefronts`` are the cycles of this array: those of shared-memory accesses,
    bank conflicts included, and one cycle per 128-byte line that a request to global memory touches. ``load_bytes`` and
    ``store_bytes`` are the traffic between L2 and the SM, in whole 32-byte sectors. ``dram_bytes`` is the whole
    launch's traffic between DRAM and L2. For a pipeline, the counts describe its first launch, and ``then`` has the
    counts of the further launches.
    """

    blocks: int
    threads: int  # threads per block
    shared_bytes: int  # dynamic shared memory per block
    registers: int  # registers per thread, estimated before compilation
    unit: str  # arithmetic unit, a name in ``units.UNITS``
    operand_dtype: (
        # type of operands that the unit multiplies, such as "f16", "tf32", "e4m3" or "i8"; "f16_f16" if f16 is
        # accumulated in f16
        str
    )
    flops: float  # floating-point operations per block
    instructions: float  # warp instructions issued per block (math, loads, address arithmetic), approximate
    shared_wavefronts: float  # cycles of L1 and shared memory per block
    load_bytes: float  # bytes that a block loads from L2
    store_bytes: float  # bytes that a block stores to L2
    dram_bytes: float  # DRAM traffic per launch
    iterations: int  # iterations of the main loop, per block
    stages: int  # pipeline stages; 1 means that loads and arithmetic do not overlap
    barriers_per_iteration: float
    cluster: int = 1  # blocks per cluster; all blocks of a cluster start at the same time, on SMs of one GPC
    refills: bool = True  # True if arithmetic after a barrier has to wait for operands from shared memory
    chained: bool = False  # True if an iteration multiplies results of another product of the same iteration
    # if ``chained``: fraction of an iteration's multiplications that warps wait for without doing other work
    exposed_products: float = 1.0
    # True if two warpgroups alternate: one warpgroup multiplies while the other one does all other work.
    ping_pong: bool = False
    loads_last: bool = False  # True if a load is issued only after the arithmetic whose operands it overwrites
    special: float = 0.0  # warp instructions of special functions (ex2, rcp, tanh) per block, approximate
    launches: int = 1  # number of consecutive launches of the kernel; the counts above include all of them
    alone_bytes: float = 0.0  # bytes that the last block moves alone, after all other blocks have finished
    staged_bytes: float = 0.0  # DRAM bytes of a preceding launch that rearranges operands in memory
    alone_trips: float = 0.0  # sequential round trips that the last block makes to L2 (see alone_bytes)
    copying_cycles: float = 0.0  # cycles per iteration in which copying warps wait for their copies
    # bytes per block that arrive by multicast; load_bytes excludes them, because L2 reads them for another block
    multicast_bytes: float = 0.0
    drains: int = 0  # number of result tiles that must leave a block's registers before its arithmetic can continue
    # warp instructions that a block executes for its ``drains``; its arithmetic waits for these instructions
    drain_instructions: float = 0.0
    boxed: int = 0  # number of a block's result tiles that are stored by TMA, through shared memory
    boxes: int = 1  # TMA boxes per result tile and warpgroup, stored one after another
    box_buffers: int = 1  # shared-memory buffers for boxes, so that one box is written while others are stored
    restarts: int = 0  # number of times that a block restarts its loads and waits for them
    round_trips: float = 0.0  # sequential round trips to L2 during which a block is idle
    longest: float = 1.0  # work of the block with the most work, divided by the average
    run_bytes: float = 128.0  # contiguous DRAM bytes that neighbouring threads access: the minimum of reads and writes
    then: tuple[CostCounts, ...] = ()  # counts of the further launches of a pipeline, in order
