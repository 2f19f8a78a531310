"""For every kind of finding, a kernel has a fault that causes it. Without the fault, the kernel has no findings."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from measurements.emulator import Emulation, FindingKind
from measurements.emulator.host.build import RUNTIME
from search_spaces.hardware.dtypes import F32, U32
from search_spaces.launches.operand import Operand

K = FindingKind


@dataclass(frozen=True)
class Case:
    """A file in kernels/, its finding, and its launch. ``a`` and ``o`` are the lengths of input and output."""

    kernel: str
    kind: FindingKind
    a: int = 64
    o: int = 64
    grid: int = 1
    block: int = 64
    shared: int = 0
    launches: int = 1
    workspaces: tuple[Operand, ...] = ()
    status: str = "findings"


def work(size: int) -> Operand:
    return Operand("w", "workspace", F32, (size,))


COUNTER = Operand("counter", "workspace", U32, (1,), zeroed=True)

CASES = (
    Case("tail_without_guard", K.OUT_OF_BOUNDS_GLOBAL, a=100, o=100, grid=4, block=32),
    Case("store_past_the_end", K.OUT_OF_BOUNDS_GLOBAL, a=100, o=100, grid=4, block=32),
    Case("copy_past_the_end", K.OUT_OF_BOUNDS_GLOBAL, a=98, o=98, block=32, shared=512),
    Case("shared_off_by_one", K.OUT_OF_BOUNDS_SHARED, shared=256),
    Case("shared_store_out_of_bounds", K.OUT_OF_BOUNDS_SHARED, shared=256),
    Case("misaligned_vector", K.MISALIGNED_ACCESS, a=66, block=32),
    Case("misaligned_shared", K.MISALIGNED_ACCESS, block=16, shared=320),
    Case("ldmatrix_misaligned", K.MISALIGNED_ACCESS, o=32, block=32, shared=256),
    Case("row_never_stored", K.UNINITIALIZED_SHARED_READ, o=32, block=32, shared=128),
    Case("stale_from_earlier_block", K.UNINITIALIZED_SHARED_READ, grid=2, block=32, shared=128),
    Case("workspace_read_before_write", K.UNINITIALIZED_GLOBAL_READ, workspaces=(work(64),)),
    Case("missing_barrier", K.SHARED_RACE, shared=256),
    Case("missing_barrier_before_overwrite", K.SHARED_RACE, a=192, shared=256),
    Case("two_writers", K.SHARED_RACE, shared=256),
    Case("missing_warp_sync", K.SHARED_RACE, o=32, block=32, shared=128),
    Case("shuffle_is_no_barrier", K.SHARED_RACE, o=32, block=32, shared=128),
    Case("ldmatrix_without_sync", K.SHARED_RACE, o=32, block=32, shared=128),
    Case("named_barrier_of_too_few", K.SHARED_RACE, o=96, block=96, shared=256),
    Case("copy_into_stage_in_use", K.SHARED_RACE, a=192, shared=256),
    Case("store_under_copy", K.SHARED_RACE, shared=256),
    Case("copy_without_barrier", K.SHARED_RACE, shared=256),
    Case("missing_wait", K.ASYNC_READ_BEFORE_WAIT, shared=256),
    Case("missing_commit", K.ASYNC_READ_BEFORE_WAIT, shared=256),
    Case("wait_for_too_few", K.ASYNC_READ_BEFORE_WAIT, o=32, block=32, shared=256),
    Case("barrier_in_a_branch", K.BARRIER_NOT_REACHED),
    Case("barrier_with_some_lanes", K.BARRIER_NOT_REACHED),
    Case("barriers_that_miss_each_other", K.BARRIER_NOT_REACHED, o=32, shared=128),
    Case("shuffle_in_a_branch", K.MISSING_LANES, o=32, block=32),
    Case("mma_in_two_places", K.MISSING_LANES, o=32, block=32),
    Case("writes_its_input", K.WRITE_TO_INPUT),
    Case("read_only_load_of_workspace", K.READ_ONLY_LOAD_OF_WRITTEN, workspaces=(work(64),)),
    Case("tiles_that_overlap", K.GLOBAL_RACE, grid=2, block=32),
    Case("global_without_barrier", K.GLOBAL_RACE, workspaces=(work(64),)),
    Case("missing_release_fence", K.GLOBAL_RACE, a=256, grid=4, shared=4, workspaces=(work(256), COUNTER)),
    Case("missing_acquire_fence", K.GLOBAL_RACE, a=256, grid=4, shared=4, workspaces=(work(256), COUNTER)),
    Case("second_launch", K.GLOBAL_RACE, grid=2, block=32, shared=4, launches=2, workspaces=(work(64), COUNTER)),
    Case("output_written_twice", K.LOST_WRITE, o=128),
    Case("counter_not_reset", K.WORKSPACE_NOT_ZERO, workspaces=(COUNTER,)),
    Case("half_of_the_output", K.UNWRITTEN_OUTPUT),
    Case("barrier_of_48_threads", K.INVALID_ARGUMENT),
    Case("barrier_of_two_pairs", K.INVALID_ARGUMENT, a=128, o=128, block=128),
    Case("wmma_stride", K.INVALID_ARGUMENT, a=256, o=32, block=32, shared=1024),
    Case("copy_longer_than_its_size", K.INVALID_ARGUMENT, shared=256),
    Case("operands_not_rounded", K.UNROUNDED_TF32, a=128, o=128, block=32),
    Case("plain_pointer_past_the_end", K.OUT_OF_BOUNDS_GLOBAL),
    Case("endless_recursion", K.TRAP, block=32, o=32),
    Case("endless_loop", K.DEADLOCK, workspaces=(COUNTER,)),
    Case("endless_loop_without_memory", K.TIMEOUT, status="timeout"),
)


def emulate_case(
    case: Case, broken: bool, run: Callable[..., Emulation], test_kernel: Callable[[str], str]
) -> tuple[Emulation, int]:
    """Emulate a case. Return the launch, and the line at which the fault is expected (0 if it has no line)."""
    source = f"#define BROKEN {int(broken)}\n{test_kernel(case.kernel)}"
    lines = [i for i, line in enumerate(source.splitlines(), 1) if line.endswith("// found here")]
    arguments = (Operand("a", "input", F32, (case.a,)), Operand("o", "output", F32, (case.o,)), *case.workspaces)
    a = np.arange(case.a, dtype=np.float32)
    limit = 0.5 if broken and case.status == "timeout" else 20.0
    launch = {"grid": case.grid, "block": case.block, "shared": case.shared, "launches": case.launches}
    return run(source, arguments, {"a": a}, time_limit=limit, **launch), lines[0] if lines else 0


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.kernel)
def test_fault_is_found_at_its_line(
    case: Case, run: Callable[..., Emulation], test_kernel: Callable[[str], str]
) -> None:
    emulation, line = emulate_case(case, True, run, test_kernel)
    assert emulation.status == case.status, emulation.reason
    findings = [f for f in emulation.findings if f.kind is case.kind]
    assert findings, f"found only {[str(f) for f in emulation.findings]}"
    assert line in [f.line for f in findings], f"expected line {line}: {[str(f) for f in findings]}"
    assert all(f.file == "kernel.cu" for f in findings if f.line)
    assert emulation.reason


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.kernel)
def test_kernel_without_the_fault_is_clean(
    case: Case, run: Callable[..., Emulation], test_kernel: Callable[[str], str]
) -> None:
    emulation, _ = emulate_case(case, False, run, test_kernel)
    assert emulation.status == "ok", [str(f) for f in emulation.findings]
    assert emulation.reason == ""


def test_a_kernel_that_rounds_no_operand_leaves_it_to_the_tensor_core(
    run: Callable[..., Emulation], test_kernel: Callable[[str], str]
) -> None:
    """CUTLASS adds half a unit of the last place of tf32, and the tensor core truncates.

    The emulator reports this as a note, not as a fault.
    """
    case = next(case for case in CASES if case.kind is K.UNROUNDED_TF32)
    source = test_kernel(case.kernel).replace("cvt_rna_tf32(", "(0x1000u + ")
    arguments = (Operand("a", "input", F32, (case.a,)), Operand("o", "output", F32, (case.o,)))
    done = run(source.replace("BROKEN", "1"), arguments, {"a": np.arange(case.a, dtype=np.float32)}, block=case.block)
    assert done.ok, done.reason
    assert [f.kind for f in done.notes] == [K.UNROUNDED_TF32]


def test_every_kind_has_a_case() -> None:
    # Other test files cover the kinds of findings about PTX text, sm_90, sm_100, crashes, the heap, symbols and launch
    # limits.
    of_ptx = {K.UNSET_SYMBOL, K.UNDEFINED_REGISTER, K.WRONG_STATE_SPACE, K.OUT_OF_BOUNDS_LOCAL, K.CRASH, K.HEAP_MISUSE,
              K.LAUNCH_LIMIT}  # fmt: skip
    of_hopper = {K.WGMMA_IN_FLIGHT, K.BULK_COPY_IN_FLIGHT, K.MISSING_WGMMA_FENCE, K.MISSING_PROXY_FENCE,
                 K.MBARRIER_MISUSE, K.MISSING_MBARRIER_FENCE, K.BLOCK_EXITED}  # fmt: skip
    of_blackwell = {K.TCGEN05_IN_FLIGHT, K.MISSING_TCGEN05_FENCE, K.MISSING_TCGEN05_WAIT, K.TENSOR_MEMORY_MISUSE,
                    K.UNINITIALIZED_TENSOR_MEMORY}  # fmt: skip
    of_host = {K.HOST_RACE, K.UNINITIALIZED_HOST_READ}  # tested in executables/test_host_order.py
    assert {case.kind for case in CASES} == set(FindingKind) - of_ptx - of_hopper - of_blackwell - of_host


def test_runtime_and_python_name_the_same_kinds() -> None:
    source = Path(RUNTIME / "machine" / "report.cpp").read_text()
    names = {line.split('"')[1] for line in source.splitlines() if line.strip().startswith("case Kind::")}
    assert names | {"crash", "timeout", "host_race", "uninitialized_host_read"} == {kind.value for kind in FindingKind}


def test_message_names_both_sides_of_a_race(run: Callable[..., Emulation], test_kernel: Callable[[str], str]) -> None:
    case = next(case for case in CASES if case.kernel == "missing_barrier")
    emulation, line = emulate_case(case, True, run, test_kernel)
    (race,) = emulation.findings
    assert "thread (32, 0, 0) of block (0, 0, 0) reads byte 0" in race.message
    assert "thread (0, 0, 0) of block (0, 0, 0) wrote at kernel.cu:" in race.message
    assert race.count == 32 and str(race).startswith(f"kernel.cu:{line}: shared_race: ")


def test_a_deadlock_reports_the_positions_of_threads(
    run: Callable[..., Emulation], test_kernel: Callable[[str], str]
) -> None:
    case = next(case for case in CASES if case.kernel == "barrier_in_a_branch")
    emulation, _ = emulate_case(case, True, run, test_kernel)
    (gone_around,) = emulation.findings
    assert "(threads 32-63: exited)" in gone_around.message
    case = next(case for case in CASES if case.kernel == "barriers_that_miss_each_other")
    emulation, _ = emulate_case(case, True, run, test_kernel)
    assert "64 threads, but only 32 arrive" in emulation.findings[0].message


def test_a_wild_pointer_names_the_array(run: Callable[..., Emulation], test_kernel: Callable[[str], str]) -> None:
    case = next(case for case in CASES if case.kernel == "plain_pointer_past_the_end")
    emulation, _ = emulate_case(case, True, run, test_kernel)
    assert "byte 400000 of a, which has 256 bytes" in emulation.reason


def test_timeout_ends_the_process(run: Callable[..., Emulation], test_kernel: Callable[[str], str]) -> None:
    case = next(case for case in CASES if case.kernel == "endless_loop_without_memory")
    emulate_case(case, True, run, test_kernel)
    running = subprocess.run(
        ["ps", "-o", "args", "--ppid", str(os.getpid())], capture_output=True, text=True, check=True
    ).stdout
    assert not [line for line in running.splitlines() if "runner-" in line and "autosched-work-emulator" in line]


def test_check_false_leaves_races_out(run: Callable[..., Emulation], test_kernel: Callable[[str], str]) -> None:
    source = "#define BROKEN 1\n" + test_kernel("missing_barrier")
    arguments = (Operand("a", "input", F32, (64,)), Operand("o", "output", F32, (64,)))
    a = np.arange(64, dtype=np.float32)
    assert run(source, arguments, {"a": a}, block=64, shared=256, check=False).ok
