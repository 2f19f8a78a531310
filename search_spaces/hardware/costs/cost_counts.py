"""What a kernel demands of the machine, per thread block: all that cost models see of a kernel template."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CostCounts:
    """Counts for one run of one schedule; none of them is a time.

    Per-block numbers include the waste of partial tiles: a block computes its whole tile. ``shared_wavefronts`` are
    cycles of the 128-byte-wide L1, of which shared memory is a part: conflicts included, and for global memory the
    lines that each request touches. ``load_bytes`` and ``store_bytes`` go between L2 and the SM in 32-byte sectors,
    ``dram_bytes`` between DRAM and L2 for the whole launch. All numbers are those of the first launch of a pipeline.
    """

    blocks: int
    threads: int  # per block
    shared_bytes: int  # per block, dynamic
    registers: int  # per thread, estimated before compiling
    unit: str  # which of ``units.UNITS`` does the arithmetic
    operand_dtype: str  # such as "f16", "tf32", "e4m3" or "i8": what the unit multiplies; "f16_f16": and adds up in f16
    flops: float  # per block
    instructions: float  # warp instructions issued per block (math, loads, address arithmetic), roughly
    shared_wavefronts: float  # per block
    load_bytes: float  # per block
    store_bytes: float  # per block
    dram_bytes: float  # per launch
    iterations: int  # steps of the main loop, per block
    stages: int  # loads in flight ahead of the arithmetic; 1 means they do not overlap
    barriers_per_iteration: float
    cluster: int = 1  # blocks that start together, on SMs of one GPC
    refills: bool = True  # whether the arithmetic behind a barrier waits for its operands from shared memory
    chained: bool = False  # whether a step multiplies what the same step has computed from another product
    ping_pong: bool = False  # whether two warpgroups take turns: one multiplies while the other does all the rest
    copies_behind: bool = False  # whether a load is issued behind the arithmetic whose operands lie in its place
    special: float = 0.0  # warp instructions of the unit for special functions (ex2, rcp, tanh) per block, roughly
    launches: int = 1  # of the kernel, one after another; the counts above are those of all of them
    alone_bytes: float = 0.0  # moved by a last block after all others are done
    staged_bytes: float = 0.0  # of DRAM that a launch in front of the kernel moves to lay out its operands
    alone_trips: float = 0.0  # of that block to L2 and back, one after another
    copying_cycles: float = 0.0  # of a step, in which warps that copy its tiles wait for what they have begun
    multicast_bytes: float = 0.0  # per block, that arrive besides load_bytes: L2 reads them for another block
    drains: int = 0  # times that a block's arithmetic stops until a result has left the registers
    drain_instructions: float = 0.0  # warp instructions of a block that its arithmetic waits for then
    boxed: int = 0  # results of a block that its warpgroups pass through shared memory, from where TMA stores them
    boxes: int = 1  # of such a result, one after another, of each warpgroup
    box_buffers: int = 1  # of them that have room there, so that one is written while others are stored
    restarts: int = 0  # times that a block starts loads anew and waits for them with nothing else to do
    round_trips: float = 0.0  # of a block to L2 and back, one after another, with nothing else to do
    longest: float = 1.0  # work of the block that has most of it, over that of an average one
    run_bytes: float = (
        128.0  # of DRAM that neighbouring threads of a block read or write in one piece, the shorter of both
    )
    then: tuple[CostCounts, ...] = ()  # of further launches, each after the one before it
