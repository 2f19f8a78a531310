"""In realistic kernels, each fault is found at its line, and correct variants are never rejected.

Each kernel has the input ``a``, the output ``o`` and the counters ``c``; the kernel reads and writes the counters. With
BROKEN 1, the kernel has the listed finding at the line that ends in ``// found here``. With BROKEN 0, the kernel has no
finding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from needs import needs_cuda_headers

from measurements.emulator import Emulation, FindingKind, Order, emulate, emulate_ptx
from measurements.emulator.findings import Grade
from search_spaces.hardware.dtypes import F32, U32
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.launch import Launch
from search_spaces.launches.operand import Operand

K = FindingKind


@dataclass(frozen=True)
class Case:
    """A kernel and its finding. ``note``: the correct kernel gives a note. ``empty``: ``c`` starts unwritten."""

    kernel: str
    kind: FindingKind
    grade: Grade = "fault"
    note: bool = False
    grid: int = 1
    block: int = 64
    shared: int = 0
    empty: bool = False

    @property
    def threads(self) -> int:
        return self.grid * self.block


CASES = (
    Case("counter_cleared_late", K.SHARED_RACE),
    Case("total_cleared_by_a_block", K.GLOBAL_RACE, grid=4),
    Case("last_block_by_plain_read", K.GLOBAL_RACE, grid=4),
    Case("sum_by_compare_and_swap", K.GLOBAL_RACE, note=True, grid=4),
    Case("volatile_without_barrier", K.SHARED_RACE),
    Case("volatile_tree_of_a_warp", K.SHARED_RACE, block=32),
    Case("volatile_flag", K.SHARED_RACE),
    Case("volatile_handshake", K.SHARED_RACE),
    Case("flag_of_many", K.GLOBAL_RACE, "note", grid=2),
    Case("index_of_many", K.GLOBAL_RACE, grid=2),
    Case("tile_that_wraps_round", K.GLOBAL_RACE, note=True),
    Case("tile_of_what_is_written", K.GLOBAL_RACE, note=True),
    Case("tile_of_two_blocks", K.GLOBAL_RACE, note=True, grid=2),
    Case("replicas_in_place", K.GLOBAL_RACE, note=True),
    Case("sums_of_replicas_in_place", K.GLOBAL_RACE, note=True),
    Case("read_in_place_by_all", K.GLOBAL_RACE),
    Case("sums_of_replicas", K.SHARED_RACE, "note"),
    Case("lock_given_back", K.GLOBAL_RACE, grid=4),
    Case("ldmatrix_read_ahead", K.UNINITIALIZED_SHARED_READ, block=32, shared=256),
    Case("rows_beyond_the_matrix", K.UNINITIALIZED_SHARED_READ, block=32, shared=256),
    Case("columns_beyond_the_matrix", K.UNINITIALIZED_SHARED_READ, block=32, shared=256),
    Case("fragments_read_ahead", K.SHARED_RACE, note=True, shared=256),
    Case("vote_of_a_block", K.UNINITIALIZED_SHARED_READ, shared=256),
    Case("vote_that_is_known", K.UNINITIALIZED_SHARED_READ, shared=256),
    Case("rows_of_several_values", K.SHARED_RACE, note=True, shared=256),
    Case("values_written_again", K.SHARED_RACE, note=True, shared=256),
    Case("values_of_lanes_of_a_warp", K.SHARED_RACE, shared=256),
    Case("value_of_a_third_warp", K.SHARED_RACE, block=96, shared=256),
    Case("waits_with_barriers", K.DEADLOCK, grid=4, block=128),
    Case("leaves_before_barriers", K.SHARED_RACE),
    Case("shuffle_from_an_absent_lane", K.UNDEFINED_REGISTER, block=48),
    Case("padding_of_vectors", K.UNDEFINED_REGISTER, note=True),
    Case("wmma_of_bytes", K.MISALIGNED_ACCESS, block=32),
    Case("masked_padding", K.UNINITIALIZED_GLOBAL_READ, note=True, empty=True),
    Case("last_element_read_by_all", K.GLOBAL_RACE, note=True),
    Case("chosen_without_value", K.UNDEFINED_REGISTER, note=True),
    Case("sum_that_cancels", K.UNDEFINED_REGISTER, note=True),
    Case("choice_beyond_the_end", K.UNINITIALIZED_SHARED_READ, note=True),
    Case("equal_to_nothing", K.UNINITIALIZED_SHARED_READ, note=True),
    Case("difference_of_two", K.UNINITIALIZED_SHARED_READ, note=True),
    Case("largest_of_some", K.UNINITIALIZED_SHARED_READ),
    Case("least_of_some", K.UNINITIALIZED_SHARED_READ),
    Case("lanes_that_match", K.UNINITIALIZED_SHARED_READ),
    Case("exchange_for_nothing", K.UNINITIALIZED_SHARED_READ),
    Case("overwritten_by_chance", K.UNINITIALIZED_SHARED_READ),
    Case("lane_that_nobody_names", K.UNINITIALIZED_SHARED_READ),
    Case("function_that_nobody_names", K.UNINITIALIZED_SHARED_READ),
    Case("left_in_a_variable", K.UNINITIALIZED_SHARED_READ),
    Case("last_exchange", K.UNINITIALIZED_SHARED_READ),
    Case("nearly_the_largest", K.UNINITIALIZED_SHARED_READ),
    Case("bytes_of_a_word", K.GLOBAL_RACE),
    Case("in_place_after_use", K.READ_ONLY_LOAD_OF_WRITTEN, note=True),
    Case("tiles_compacted_in_place", K.GLOBAL_RACE, note=True, grid=4),
)

WITH_HEADERS = [
    pytest.param(c, marks=needs_cuda_headers, id=c.kernel) if c.kernel == "wmma_of_bytes" else c for c in CASES
]

MakeKernel = Callable[..., GeneratedKernel]
Source = Callable[[str], str]


def launched(case: Case, broken: bool, order: Order, kernel_of: MakeKernel, test_kernel: Source) -> Emulation:
    arguments = (
        Operand("a", "input", F32, (max(case.threads, 64),)),
        Operand("o", "output", F32, (case.threads,)),
        Operand("c", "workspace" if case.empty else "inout", U32, (64,)),
    )
    source = f"#define BROKEN {int(broken)}\n{test_kernel(case.kernel)}"
    kernel = kernel_of(source, arguments, grid=case.grid, block=case.block, shared=case.shared)
    a = np.arange(max(case.threads, 64), dtype=np.float32)
    inputs = {"a": a} if case.empty else {"a": a, "c": np.zeros(64, np.uint32)}
    return emulate(kernel, inputs, time_limit=20, order=order)


@pytest.mark.parametrize("case", WITH_HEADERS, ids=lambda case: case.kernel)
def test_the_fault_is_found_at_its_line(case: Case, kernel_of: MakeKernel, test_kernel: Source) -> None:
    done = launched(case, True, Order(), kernel_of, test_kernel)
    lines = f"#define BROKEN 1\n{test_kernel(case.kernel)}".splitlines()
    line = next(i for i, text in enumerate(lines, 1) if text.endswith("// found here"))
    findings = {(f.kind, f.line, f.grade) for f in done.findings}
    assert (case.kind, line, case.grade) in findings, [str(f) for f in done.findings]
    assert done.status == ("ok" if case.grade == "note" else "findings")


@pytest.mark.parametrize("case", WITH_HEADERS, ids=lambda case: case.kernel)
@pytest.mark.parametrize("order", [Order(), Order("random", 3)], ids=lambda order: order.name)
def test_the_sound_kernel_is_not_rejected(case: Case, order: Order, kernel_of: MakeKernel, test_kernel: Source) -> None:
    done = launched(case, False, order, kernel_of, test_kernel)
    assert done.ok, done.reason
    assert {f.kind for f in done.notes} == ({case.kind} if case.note else set()), [str(f) for f in done.findings]


@pytest.mark.parametrize(("broken", "status"), [(0, "ok"), (1, "findings")])
def test_indistinguishable_blocks_may_store_the_same_value(
    broken: int, status: str, kernel_of: MakeKernel, test_kernel: Source
) -> None:
    arguments = (Operand("a", "input", F32, (128,)), Operand("c", "inout", F32, (128,)))
    source = f"#define BROKEN {broken}\n{test_kernel('work_of_one_by_many_blocks')}"
    kernel = kernel_of(source, arguments, grid=(2, 3, 1), block=64)
    done = emulate(kernel, {"a": np.arange(128, dtype=np.float32), "c": np.zeros(128, np.float32)}, time_limit=20)
    assert done.status == status
    assert [(f.kind, f.line, f.grade) for f in done.findings] == [(K.GLOBAL_RACE, 5, "fault" if broken else "note")]


EXITS = """.version 8.5
.target TARGET
.address_size 64
.visible .entry kernel(.param .u64 out) {
.reg .pred %q; .reg .b32 %t; .reg .b64 %p;
mov.u32 %t, %tid.x;
setp.ge.u32 %q, %t, 40;
@%q ret;
bar.sync 0;
ret;
}
"""


COUNTS_ITS_QUESTIONS = """extern "C" __global__ void kernel(unsigned* c) {
  __shared__ unsigned there;
  unsigned asked = 0;
  do {
    __syncthreads();
    if (threadIdx.x == 0) there = atomicCAS(c, 5u, 5u);
    __syncthreads();
    ++asked;
  } while (there != 5);
  c[1 + threadIdx.x] = asked;
}
"""


def test_a_time_limit_names_the_load_of_an_input(kernel_of: MakeKernel) -> None:
    source = """extern "C" __global__ void kernel(const unsigned* a, unsigned* c) {
      unsigned read;
      c[threadIdx.x] = 1;
      do {
        asm volatile("ld.global.u32 %0, [%1];" : "=r"(read) : "l"(a + threadIdx.x));
      } while (read != 5);
    }"""
    kernel = kernel_of(source, (Operand("a", "input", U32, (64,)), Operand("c", "output", U32, (64,))), block=64)
    done = emulate(kernel, {"a": np.ones(64, np.uint32)}, time_limit=1.0)
    (timeout,) = done.findings
    assert (done.status, timeout.kind, timeout.line) == ("timeout", K.TIMEOUT, 5), timeout.message


def test_a_time_limit_names_the_wait(kernel_of: MakeKernel) -> None:
    """The waiting loop changes a register in each iteration, so it cannot be detected as a deadlock."""
    kernel = kernel_of(COUNTS_ITS_QUESTIONS, (Operand("c", "inout", U32, (65,)),), block=64)
    done = emulate(kernel, {"c": np.zeros(65, np.uint32)}, time_limit=1.0)
    (timeout,) = done.findings
    assert (done.status, timeout.kind, timeout.line) == ("timeout", K.TIMEOUT, 6)
    assert "thread (0, 0, 0) of block (0, 0, 0) waits here for byte 0 of c" in timeout.message


@pytest.mark.parametrize(
    ("target", "shared", "finds"), [("sm_90", 232448, 0), ("sm_90", 300000, 1), ("sm_120", 232448, 1)]
)
def test_more_shared_memory_than_a_block_can_have_is_a_fault(target: str, shared: int, finds: int) -> None:
    text = EXITS.replace("TARGET", target).replace("8.5", "8.7")
    launch = Launch(
        entry="kernel",
        arguments=(Operand("out", "inout", U32, (1,)),),
        grid=(1, 1, 1),
        block=(64, 1, 1),
        dynamic_shared_bytes=shared,
    )
    done = emulate_ptx(text, launch, {"out": np.zeros(1, np.uint32)})
    assert [f.kind for f in done.findings] == [K.LAUNCH_LIMIT] * finds, done.reason


@pytest.mark.parametrize(("target", "notes"), [("sm_75", 1), ("sm_80", 0)])
def test_exiting_before_a_barrier_is_a_note_up_to_turing(target: str, notes: int) -> None:
    launch = Launch(entry="kernel", arguments=(Operand("out", "inout", U32, (1,)),), grid=(1, 1, 1), block=(64, 1, 1))
    done = emulate_ptx(EXITS.replace("TARGET", target), launch, {"out": np.zeros(1, np.uint32)})
    assert done.ok and len(done.notes) == notes, [str(f) for f in done.findings]
