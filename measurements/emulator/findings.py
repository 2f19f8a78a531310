"""Results of emulating a launch: findings, and memory transactions per source line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from measurements.emulator.memory import Flags
from search_spaces.arrays import Array
from search_spaces.short_repr import short_repr


class FindingKind(StrEnum):
    """Kind of a finding.

    runtime/machine/report.hpp has the same names, except ``crash``, ``timeout`` and the kinds for host code.
    """

    OUT_OF_BOUNDS_GLOBAL = "out_of_bounds_global"
    OUT_OF_BOUNDS_SHARED = "out_of_bounds_shared"
    MISALIGNED_ACCESS = "misaligned_access"
    UNINITIALIZED_SHARED_READ = "uninitialized_shared_read"
    # Reads unwritten elements of an output, or of a workspace that is not zeroed.
    UNINITIALIZED_GLOBAL_READ = "uninitialized_global_read"
    SHARED_RACE = "shared_race"
    GLOBAL_RACE = "global_race"
    ASYNC_READ_BEFORE_WAIT = "async_read_before_wait"  # reads bytes to which a cp.async is still in flight
    BARRIER_NOT_REACHED = "barrier_not_reached"  # this finding ends the launch
    MISSING_LANES = "missing_lanes"  # a warp-wide instruction that some lanes never reach; ends the launch
    WRITE_TO_INPUT = "write_to_input"
    READ_ONLY_LOAD_OF_WRITTEN = "read_only_load_of_written"  # ld.global.nc of data that the same launch has written
    LOST_WRITE = "lost_write"  # two threads write the same output element, and the first value is never read
    UNWRITTEN_OUTPUT = "unwritten_output"
    WORKSPACE_NOT_ZERO = "workspace_not_zero"  # a `zeroed` workspace is not zero again after the launch
    INVALID_ARGUMENT = (
        "invalid_argument"  # invalid argument of an instruction, such as a thread count that is not a multiple of 32
    )
    # a register or local variable is read before it is written on the executed path
    UNDEFINED_REGISTER = "undefined_register"
    WRONG_STATE_SPACE = "wrong_state_space"  # for example, a pointer to shared memory is used to access global memory
    OUT_OF_BOUNDS_LOCAL = "out_of_bounds_local"  # access outside of both the thread's own arrays and the parameters
    TRAP = "trap"  # a trap or a failed assertion; ends the launch
    UNROUNDED_TF32 = "unrounded_tf32"  # an operand of a tf32 instruction is not a tf32 value
    WGMMA_IN_FLIGHT = "wgmma_in_flight"  # accesses data that an unfinished wgmma reads or writes
    # The source of a bulk store is overwritten, or the storing block exits, before the wait.
    BULK_COPY_IN_FLIGHT = "bulk_copy_in_flight"
    MISSING_WGMMA_FENCE = "missing_wgmma_fence"  # wgmma uses registers written since the last wgmma.fence
    # No proxy fence between accesses by threads and accesses by the async proxy (wgmma or bulk copies).
    MISSING_PROXY_FENCE = "missing_proxy_fence"
    # wrong use of an mbarrier: too many arrivals, a missed phase, or use before its initialisation
    MBARRIER_MISUSE = "mbarrier_misuse"
    # No fence between the initialisation of an mbarrier and the use of the mbarrier by another block's copy.
    MISSING_MBARRIER_FENCE = "missing_mbarrier_fence"
    BLOCK_EXITED = "block_exited"  # accesses shared memory of another block of the cluster, which may have exited
    HEAP_MISUSE = "heap_misuse"  # uses memory that was freed, or that malloc did not return
    UNSET_SYMBOL = "unset_symbol"  # reads a __constant__ or __device__ variable that is never set
    DEADLOCK = "deadlock"  # threads poll memory for a value that is never written; ends the launch
    LAUNCH_LIMIT = "launch_limit"  # the launch needs more shared memory than a block can have
    TCGEN05_IN_FLIGHT = "tcgen05_in_flight"  # accesses data that an unfinished tcgen05 instruction reads or writes
    MISSING_TCGEN05_FENCE = "missing_tcgen05_fence"  # two threads synchronise without tcgen05.fence
    MISSING_TCGEN05_WAIT = "missing_tcgen05_wait"  # accesses registers of a tcgen05.ld before tcgen05.wait::ld
    # Use of tensor memory that is not allocated or belongs to another warp, tensor memory that is never freed, ...
    TENSOR_MEMORY_MISUSE = "tensor_memory_misuse"
    UNINITIALIZED_TENSOR_MEMORY = "uninitialized_tensor_memory"
    HOST_RACE = "host_race"  # unordered accesses of two streams, or of a stream and the host
    UNINITIALIZED_HOST_READ = "uninitialized_host_read"  # the host reads device memory that was never written
    CRASH = "crash"
    TIMEOUT = "timeout"


Grade = Literal["fault", "note"]


@dataclass(frozen=True)
class Finding:
    """A fault or a note at a line of the kernel's source. ``message`` describes the first occurrence.

    Attributes:
        file: Path relative to the include folder; empty, with ``line`` 0, if the line is unknown.
        instruction: PTX text of the instruction, if known.
        callers: Lines into which the line is inlined, the innermost first.
        grade: "fault", or "note" for a violation of the PTX ISA that is harmless on the kernel's target GPUs.
        other: Line of the other access, for findings about two accesses; otherwise "".
    """

    kind: FindingKind
    message: str
    file: str
    line: int
    count: int = 1
    instruction: str = ""
    callers: tuple[str, ...] = ()
    grade: Grade = "fault"
    other: str = ""

    __repr__ = short_repr

    @property
    def is_fault(self) -> bool:
        """True for a fault, False for a note."""
        return self.grade == "fault"

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}: " if self.file else ""
        where += "note: " if not self.is_fault else ""
        times = f" ({self.count} times)" if self.count > 1 else ""
        ptx = f" [{self.instruction}]" if self.instruction else ""
        called = f", inlined at {', '.join(self.callers)}" if self.callers else ""
        return f"{where}{self.kind}: {self.message}{times}{ptx}{called}"


class SharedSite(NamedTuple):
    """Shared-memory requests of one instruction at one source line in the whole launch.

    A request is one instruction of one warp. 16-byte accesses are served in phases of 8 lanes, 8-byte accesses in
    phases of 16 lanes, and other accesses in one phase of 32 lanes. ldmatrix is served in phases of 8 rows of 16 bytes.
    The number of wavefronts of a phase is the largest number of distinct 4-byte words in any bank. ``ideal`` is one
    wavefront per phase. wmma is counted like the instructions that nvcc generates for it. ``callers`` distinguish
    instances of a template.
    """

    file: str
    line: int
    callers: tuple[str, ...]  # the lines into which the line is inlined, the innermost first
    instruction: str
    bytes: int  # bytes per lane, or per row for ldmatrix
    requests: int
    wavefronts: int
    ideal: int

    @property
    def conflict_degree(self) -> float:
        """Wavefronts relative to the ideal; 1.0 without bank conflicts."""
        return self.wavefronts / self.ideal


class GlobalSite(NamedTuple):
    """Global-memory requests of one instruction at one source line in the whole launch. A sector is 32 aligned bytes.

    With the option ``count``, loads of constant memory appear as ``ld.const``. Their sectors are the distinct addresses
    per request.
    """

    file: str
    line: int
    callers: tuple[str, ...]  # the lines into which the line is inlined, the innermost first
    instruction: str
    bytes: int  # bytes per lane
    requests: int
    sectors: int
    unique: int = 0  # sectors that are new to the block; ``unique`` and ``fresh`` need ``count``
    fresh: int = 0  # sectors that no block had requested before

    @property
    def sectors_per_request(self) -> float:
        """Average sectors per request."""
        return self.sectors / self.requests


class ExecutedLine(NamedTuple):
    """How often warps executed a PTX operation on one source line, summed over ``instructions`` instructions.

    The file is named without its folder.
    """

    file: str
    line: int
    operation: str
    instructions: int
    times: int


# Kinds of findings about a missing fence or wait that compilers omit without a known effect on a GPU. Triton and
# CUTLASS's tutorials omit fences and waits that generate no machine code. The fence after mbarrier.init is unnecessary
# if a cluster barrier follows, because this barrier has release and acquire semantics.
_LEFT_OUT = frozenset(
    {FindingKind.MISSING_TCGEN05_FENCE, FindingKind.MISSING_TCGEN05_WAIT, FindingKind.MISSING_MBARRIER_FENCE}
)


def of_compiled_code(emulation: Emulation) -> Emulation:
    """Downgrade findings about missing fences and waits to notes. Called for PTX that a compiler generated.

    Compilers omit tcgen05.fence, tcgen05.wait and the fence after mbarrier.init.
    """
    graded = [replace(f, grade="note") if f.kind in _LEFT_OUT else f for f in emulation.findings]
    return emulation.with_findings(graded) if graded else emulation


# Kinds of findings that may occur at several lines because of one missing barrier or fence.
_OF_ORDER = frozenset(
    {
        FindingKind.SHARED_RACE,
        FindingKind.GLOBAL_RACE,
        FindingKind.ASYNC_READ_BEFORE_WAIT,
        FindingKind.UNINITIALIZED_SHARED_READ,
        FindingKind.LOST_WRITE,
    }
)


def by_cause(findings: Sequence[Finding]) -> list[list[Finding]]:
    """Return findings grouped by their likely cause, in the order of their first occurrence.

    Findings of a group have the same grade. Either they have the same kind and line, in different inlined copies, or
    they are races that have a line in common.
    """
    causes: list[tuple[set[str], list[Finding]]] = []
    for finding in findings:
        family = "order" if finding.kind in _OF_ORDER else str(finding.kind)
        lines = {f"{finding.file}:{finding.line}", finding.other} - {"", ":0"} or {finding.message}
        keys = {f"{finding.grade} {family} {line}" for line in lines}
        same = [cause for cause in causes if cause[0] & keys]
        first = same[0] if same else (set(), [])
        if not same:
            causes.append(first)
        for other in same[1:]:
            first[0].update(other[0])
            first[1].extend(other[1])
            causes.remove(other)
        first[0].update(keys)
        first[1].append(finding)
    order = {id(finding): k for k, finding in enumerate(findings)}
    return [sorted(cause, key=lambda f: order[id(f)]) for _, cause in causes]


EmulationStatus = Literal["ok", "findings", "timeout", "crashed", "compile_error", "compile_timeout", "unsupported"]


def status_of(findings: Sequence[Finding]) -> tuple[EmulationStatus, str]:
    """Return the status of a completed launch, and the reason for it."""
    faults = [f for f in findings if f.is_fault]
    if not faults:
        return "ok", ""
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return "findings", f"{faults[0]}{more}"


class WrittenElements(NamedTuple):
    """The elements of one output that some blocks wrote.

    Attributes:
        positions: Indices of the elements in memory, in ascending order.
        values: Values of the elements, in the output's storage type.
        blocks: For each element, the block that wrote it last.
    """

    positions: npt.NDArray[np.int64]
    values: Array
    blocks: npt.NDArray[np.uint32]


@dataclass(frozen=True, eq=False)
class Emulation:
    """Result of one emulated launch.

    Attributes:
        status: "ok" if the launch ended without a fault (``findings`` may contain notes). "unsupported" if the emulator
            does not support a feature that the kernel needs. "compile_timeout" if NVRTC exceeded its time limit.
        outputs: Output arrays by name, in the operands' storage types and shapes. Only set for status ok and findings.
            Elements that were never written have bytes of 0xFF.
        reason: One sentence for every status except ok.
        log: Output of the compiler if it failed.
        printed: Output of the kernel (``printf``).
        compile_seconds: Wall-clock time on the host.
        run_seconds: Wall-clock time on the host.
        from_cache: True if the compiled object was in the cache.
        defined: For each array with flags (memory.Memory): whether each byte is defined now.
        written: For each array with flags: whether the launch has written each byte.
        used: For each array with flags: how the launch has accessed each byte (host_order.Use).
        suppressed: Expected findings, each with the reason for its suppression (suppression.py).
        executed: How often warps executed each PTX operation ("fma.rn.f32"). ``executed``, ``lines``, ``chains`` and
            ``code`` are only set with the option ``count``.
        lines: How often warps executed each PTX operation, by source line.
        chains: Number of warps, and cycles of the longest chain of dependent instructions in each warp, summed over all
            warps.
        code: Number of distinct PTX instructions that generate machine code.
        unknown: Ranges (address, bytes) of an executable's memory that were undefined before the launch and still are
            (executables/executable_launch.py).
        uses: Ranges of an executable's memory that the launch has used: address, bytes, and kind of use
            (host_order.Use).
        variables: Digest of the final values of the kernel's variables. Only set if the launch uses undefined values
            (effect.py).
        elements: Written elements of each output by name. Only set for a launch of some blocks (sparse.py), which has
            no ``outputs``.
        waited: True if a dependent launch waited for earlier launches before it allowed later launches to start.
    """

    status: EmulationStatus
    outputs: dict[str, Array]
    findings: tuple[Finding, ...]  # faults come before notes
    shared_sites: tuple[SharedSite, ...]
    global_sites: tuple[GlobalSite, ...]
    reason: str = ""
    log: str = ""
    printed: str = ""
    compile_seconds: float = 0.0
    run_seconds: float = 0.0
    from_cache: bool = False
    defined: Mapping[str, Flags] = field(default_factory=dict)
    written: Mapping[str, Flags] = field(default_factory=dict)
    used: Mapping[str, npt.NDArray[np.uint8]] = field(default_factory=dict)
    suppressed: tuple[tuple[Finding, str], ...] = ()
    executed: tuple[tuple[str, int], ...] = ()
    lines: tuple[ExecutedLine, ...] = ()
    chains: tuple[int, int] = (0, 0)
    code: int = 0
    unknown: tuple[tuple[int, int], ...] = ()
    uses: tuple[tuple[int, int, int], ...] = ()
    variables: int = 0
    elements: Mapping[str, WrittenElements] = field(default_factory=dict)
    waited: bool = False

    __repr__ = short_repr

    @property
    def ok(self) -> bool:
        """True if the launch ended without a fault."""
        return self.status == "ok"

    def with_findings(self, findings: Sequence[Finding]) -> Emulation:
        """Return this launch with other findings. If the launch has ended, the findings determine the status."""
        ordered = tuple(sorted(findings, key=lambda f: not f.is_fault))
        if self.status not in ("ok", "findings"):
            return replace(self, findings=ordered)
        status, reason = status_of(ordered)
        return replace(self, status=status, reason=reason, findings=ordered)

    def without_arrays(self) -> Emulation:
        """Return this launch without its arrays, which may be large."""
        return replace(self, outputs={}, written={}, elements={})

    @property
    def faults(self) -> tuple[Finding, ...]:
        """Findings that are faults."""
        return tuple(f for f in self.findings if f.is_fault)

    @property
    def notes(self) -> tuple[Finding, ...]:
        """Findings that are notes."""
        return tuple(f for f in self.findings if not f.is_fault)

    @property
    def seconds(self) -> float:
        """Sum of ``compile_seconds`` and ``run_seconds``."""
        return self.compile_seconds + self.run_seconds


# Descriptions of the kinds for users.
MEANINGS: Mapping[FindingKind, str] = {
    FindingKind.OUT_OF_BOUNDS_GLOBAL: "access outside every array; a read returns 0xFF bytes, and a write is dropped",
    FindingKind.OUT_OF_BOUNDS_SHARED: (
        "access outside the launch's shared memory; a read returns 0xFF bytes, and a write is dropped"
    ),
    FindingKind.OUT_OF_BOUNDS_LOCAL: (
        "access outside a thread's local arrays. An access from one array into the next is not detected, "
        "because PTX places all arrays in one `.local` array without bounds. Memory from `alloca` has bounds, "
        "and is valid until its "
        "function returns"
    ),
    FindingKind.MISALIGNED_ACCESS: (
        "address that is not a multiple of the access size. ldmatrix rows and the start of a TMA box need 16 bytes. A "
        "wmma address must be a multiple of the number of bytes of the fragment that one lane holds. This alignment is"
        " never more than 32 bytes. For elements of up to 8 bits in shared memory, it is at least 16 bytes"
    ),
    FindingKind.UNINITIALIZED_SHARED_READ: (
        "use of shared memory that was not written in this block; only a note if the use does not affect the results "
        "of the launch"
    ),
    FindingKind.UNINITIALIZED_GLOBAL_READ: (
        "use of elements of an output or a workspace that were not written; a note if it does not affect the results"
    ),
    FindingKind.SHARED_RACE: (
        "two unordered accesses of two threads to the same shared memory, at least one of them a write"
    ),
    FindingKind.GLOBAL_RACE: (
        "two unordered accesses of two threads to the same global memory, at least one of them a write. "
        "Also reported if two blocks update the same memory and one of the updates is an atomic of block scope, and "
        "if a dependent launch accesses memory that the previous launch may still write"
    ),
    FindingKind.ASYNC_READ_BEFORE_WAIT: (
        "access to the destination of a `cp.async` or a bulk copy before this thread has waited for it"
    ),
    FindingKind.BARRIER_NOT_REACHED: (
        "barrier that some threads never reach; the finding states where these threads are. The launch ends if no "
        "thread can make progress"
    ),
    FindingKind.MISSING_LANES: "warp-wide instruction that some lanes of its mask never reach",
    FindingKind.WRITE_TO_INPUT: "store to an input",
    FindingKind.READ_ONLY_LOAD_OF_WRITTEN: (
        "`ld.global.nc` of memory that the same launch writes; a note if the value was used before the write"
    ),
    FindingKind.LOST_WRITE: "output element that two threads write, and whose first value was never read",
    FindingKind.UNWRITTEN_OUTPUT: "output element that was not written",
    FindingKind.WORKSPACE_NOT_ZERO: "`zeroed` workspace that is not zero again after the launch",
    FindingKind.INVALID_ARGUMENT: (
        "operand that the PTX ISA forbids or that an H100 does not support; barrier that is used by two groups of "
        "warps without an order between them"
    ),
    FindingKind.UNDEFINED_REGISTER: (
        "use of bits of a register or local variable that were not written on this path. The finding is only a note "
        "in three cases: a vector store includes elements that were not written; the bits are only used to select a "
        "value, and the selected value is not used; or the bits do not affect the results of the launch"
    ),
    FindingKind.WRONG_STATE_SPACE: "pointer to one state space that is used to access another",
    FindingKind.TRAP: "trap, failed assertion, or more than 4,096 nested calls",
    FindingKind.UNROUNDED_TF32: (
        "tf32 operand whose low 13 bits are not zero. The finding is only a note if the kernel rounds no operand to "
        "tf32, as in CUTLASS. It is not reported for code from LLVM, because Triton lets the tensor core drop the bits"
    ),
    FindingKind.WGMMA_IN_FLIGHT: "access to the registers or the shared memory of a wgmma before a wait for the wgmma",
    FindingKind.BULK_COPY_IN_FLIGHT: (
        "overwriting the source of a bulk store before the wait; exit of a block while its bulk store is in flight; "
        "bulk load without a wait"
    ),
    FindingKind.MISSING_WGMMA_FENCE: "wgmma with registers that were written since the last `wgmma.fence`",
    FindingKind.MISSING_PROXY_FENCE: (
        "missing `fence.proxy.async`: (1) after writes by threads or `cp.async`, before wgmma or a bulk store reads "
        "the data; (2) after accesses by threads, before a bulk copy overwrites the memory. Case 2 is only a note for "
        "PTX from Triton, which omits that fence"
    ),
    FindingKind.MBARRIER_MISUSE: (
        "arrival that the phase does not expect; wait that may miss a whole phase; use of an uninitialized "
        "mbarrier; plain access to an mbarrier"
    ),
    FindingKind.MISSING_MBARRIER_FENCE: (
        "bulk copy that signals an mbarrier of another block of the cluster, if the initialization of the mbarrier was "
        "not followed by `fence.mbarrier_init` or `fence.proxy.async`. The finding is only a note if the PTX has no "
        "source"
    ),
    FindingKind.BLOCK_EXITED: "access to the shared memory of another block of the cluster, which may have exited",
    FindingKind.HEAP_MISUSE: (
        "device code that uses or frees freed memory, or frees memory that `malloc` did not return"
    ),
    FindingKind.UNSET_SYMBOL: (
        "read of a `__constant__` or `__device__` variable that neither the host nor the kernel sets"
    ),
    FindingKind.DEADLOCK: (
        "threads that wait for a value that is never written, for example blocks that wait for each other in the "
        "wrong order or for a block that cannot start. This finding ends the launch"
    ),
    FindingKind.LAUNCH_LIMIT: "more than 227 KiB of shared memory for a block (99 KiB for sm_120)",
    FindingKind.TCGEN05_IN_FLIGHT: "access to data that a tcgen05 instruction in flight reads or writes",
    FindingKind.MISSING_TCGEN05_FENCE: "two threads synchronize around tcgen05 instructions without `tcgen05.fence`",
    FindingKind.MISSING_TCGEN05_WAIT: "access to registers of a `tcgen05.ld` before `tcgen05.wait::ld`",
    FindingKind.TENSOR_MEMORY_MISUSE: (
        "use of tensor memory that is not allocated or that belongs to the lanes of another warp; tensor memory that "
        "is never freed; allocation permit that is never relinquished (a note for PTX without source)"
    ),
    FindingKind.UNINITIALIZED_TENSOR_MEMORY: "read of tensor memory that was not written",
    FindingKind.HOST_RACE: (
        "two streams, or a stream and the host, access the same bytes, and at least one of them writes, but no event, "
        "wait or stream orders the accesses"
    ),
    FindingKind.UNINITIALIZED_HOST_READ: (
        "the host reads device memory that was not written. In executables, this is a copy from an allocation to the "
        "host. If part of the allocation was written, the finding is only a note, and the program does not fail. In "
        "torch, the host reads a value that depends on such memory"
    ),
    FindingKind.CRASH: "the runner was ended by a signal, which is a fault of the emulator",
    FindingKind.TIMEOUT: "the time limit was reached; the finding states which threads wait and for what",
}
