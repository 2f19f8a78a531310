"""What each kind of finding means, for people: docs/generate.py makes a reference page of it."""

from __future__ import annotations

from collections.abc import Mapping

from measurements.emulator.findings import FindingKind as K

MEANINGS: Mapping[K, str] = {
    K.OUT_OF_BOUNDS_GLOBAL: "an access outside every array; a read gives 0xFF bytes, a write is dropped",
    K.OUT_OF_BOUNDS_SHARED: "an access outside the launch's shared memory, with the same results",
    K.OUT_OF_BOUNDS_LOCAL: (
        "an access outside a thread's own arrays, not from one of them into the next: PTX keeps all in one "
        "`.local` depot, without bounds"
    ),
    K.MISALIGNED_ACCESS: (
        "an address that is not a multiple of the access (ldmatrix rows: 16 bytes, wmma: what a lane holds of the "
        "fragment, at most 32)"
    ),
    K.UNINITIALIZED_SHARED_READ: "bytes that nobody has written in this block, where what is made of them is used",
    K.UNINITIALIZED_GLOBAL_READ: (
        "elements of an output or a workspace that nobody has written, where what is made of them is used; a note "
        "where nothing is"
    ),
    K.SHARED_RACE: "two threads access a place in shared memory, one of them writes, and nothing orders the two",
    K.GLOBAL_RACE: "the same in global memory; or two blocks update a place, one of them by an atomic of block scope",
    K.ASYNC_READ_BEFORE_WAIT: (
        "bytes that a `cp.async` or a bulk copy has not delivered: nobody has waited yet, or not this thread"
    ),
    K.BARRIER_NOT_REACHED: (
        "a barrier that some threads never reach, or go around; says where the others are, and ends the launch "
        "where nobody can go on"
    ),
    K.MISSING_LANES: "the same of a warp-wide instruction",
    K.WRITE_TO_INPUT: "a store to an input",
    K.READ_ONLY_LOAD_OF_WRITTEN: (
        "`ld.global.nc` of what the same launch writes; a note where the value was used before"
    ),
    K.LOST_WRITE: "an output element that two threads write, with the first value never read",
    K.UNWRITTEN_OUTPUT: "an output element that nobody writes",
    K.WORKSPACE_NOT_ZERO: "a `zeroed` workspace that is not zero again after the launch",
    K.INVALID_ARGUMENT: (
        "an operand that the PTX ISA forbids; a barrier that two groups of warps use with nothing to order them"
    ),
    K.UNDEFINED_REGISTER: (
        "bits of a register or a local variable are used that were never written on the path taken; a note where "
        "a vector is stored with elements left out, or where they choose a value that is dropped"
    ),
    K.WRONG_STATE_SPACE: "a pointer to one kind of memory used as one to another",
    K.TRAP: "a trap, a failed assertion, calls nested over 4,096 deep",
    K.UNROUNDED_TF32: (
        "a tf32 operand whose low 13 bits are not zero (not in what LLVM has made: Triton leaves it to the tensor "
        "core to drop them)"
    ),
    K.WGMMA_IN_FLIGHT: "registers, or shared memory, of a wgmma that has not been waited for are touched",
    K.BULK_COPY_IN_FLIGHT: (
        "the source of a bulk store is overwritten, or its block ends, before the wait; a load that nobody waits for"
    ),
    K.MISSING_WGMMA_FENCE: "wgmma uses registers that were written since the last `wgmma.fence`",
    K.MISSING_PROXY_FENCE: (
        "wgmma or a bulk store reads what threads have written, or `cp.async` has copied, without `fence.proxy.async`"
    ),
    K.MBARRIER_MISUSE: (
        "an arrival that the phase does not expect, a waiter that was lapped, use before or without "
        "initialization, a plain access to an mbarrier"
    ),
    K.MISSING_MBARRIER_FENCE: (
        "a bulk copy tells an mbarrier of another block of the cluster, and no `fence.mbarrier_init` or "
        "`fence.proxy.async` stands behind its initialization; a note to PTX without its source"
    ),
    K.BLOCK_EXITED: "shared memory of a block of the cluster that may have exited",
    K.HEAP_MISUSE: "device code uses or frees what was freed, or frees what `malloc` did not return",
    K.UNSET_SYMBOL: (
        "a `__constant__` or `__device__` variable that is read and that neither the host nor the kernel sets"
    ),
    K.DEADLOCK: (
        "threads that ask memory for what nobody ever writes: blocks that wait for each other in the wrong order, "
        "or for one that finds no room; ends the launch"
    ),
    K.LAUNCH_LIMIT: "more than 227 KiB of shared memory for a block (99 KiB for sm_120)",
    K.TCGEN05_IN_FLIGHT: "what a tcgen05 instruction that has not been waited for reads or writes is touched",
    K.MISSING_TCGEN05_FENCE: "two threads synchronize around tcgen05 instructions without `tcgen05.fence`",
    K.MISSING_TCGEN05_WAIT: "registers of a `tcgen05.ld` are touched before `tcgen05.wait::ld`",
    K.TENSOR_MEMORY_MISUSE: "tensor memory that is not allocated, not freed, or of another warp's lanes",
    K.UNINITIALIZED_TENSOR_MEMORY: "tensor memory that nobody has written is read",
    K.CRASH: "the runner was ended by a signal, which is a fault of the emulator",
    K.TIMEOUT: "not done within the time limit; says who waits for what",
}
