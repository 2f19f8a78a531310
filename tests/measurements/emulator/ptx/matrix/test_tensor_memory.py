"""A kernel in inline PTX that multiplies with tensor memory is correct, and faults planted in it are reported.

The faults are those that ptxas's checker of tensor memory reports, and undefined states of tcgen05 that no other tool
reports.
"""

# ruff: noqa: E501

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from bulk_kernels import HEAD, kinds
from needs import needs_compiler, needs_nvrtc

from measurements.emulator import Emulation, FindingKind, emulate
from search_spaces.hardware.dtypes import F16, F32
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.operand import Operand

pytestmark = [needs_compiler, needs_nvrtc]
K = FindingKind
M, N, DEPTH = 128, 32, 16

# The operands consist of core matrices of 8 rows by 16 bytes. Neighbours along k are 2048 bytes apart in a and 512
# bytes apart in b.
BODY = """
  __shared__ alignas(1024) unsigned short tile_a[128 * 16]; __shared__ alignas(1024) unsigned short tile_b[32 * 16];
  __shared__ u64 barrier; __shared__ u32 address;
  const u32 t = threadIdx.x, warp = t / 32, done = AT(barrier);
  if (warp == 0) {
    asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 64;" ::"r"(AT(address)) : "memory");
    asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;");
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
  }
  if (t == 0) { init(done, 1); fence(); }
  for (u32 i = t; i < 128 * 16; i += 128) tile_a[i % 16 / 8 * 1024 + i / 16 * 8 + i % 8] = a[i];
  for (u32 i = t; i < 32 * 16; i += 128) tile_b[i % 16 / 8 * 256 + i / 16 * 8 + i % 8] = b[i];
  fence();
  __syncthreads();
  asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
  const u32 d = address, by = d + 32 + (warp << 21), instruction = 1 << 4 | 32 / 8 << 17 | 128 / 16 << 24;
  const u64 of_a = AT(tile_a) >> 4 | (u64)(2048 >> 4) << 16 | (u64)(128 >> 4) << 32 | 1ull << 46;
  const u64 of_b = AT(tile_b) >> 4 | (u64)(512 >> 4) << 16 | (u64)(128 >> 4) << 32 | 1ull << 46;
  if (FROM_TENSOR_MEMORY) {
    const u32* mine = (const u32*)(a + t * 16);
    asm volatile("tcgen05.st.sync.aligned.32x32b.x8.b32 [%0], {%1, %2, %3, %4, %5, %6, %7, %8};" ::"r"(by), "r"(mine[0]),
                 "r"(mine[1]), "r"(mine[2]), "r"(mine[3]), "r"(mine[4]), "r"(mine[5]), "r"(mine[6]), "r"(mine[7]) : "memory");
    asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
    asm volatile("tcgen05.fence::before_thread_sync; // st" ::: "memory");
    __syncthreads();
    asm volatile("tcgen05.fence::after_thread_sync; // st" ::: "memory");
  }
  if (t == 0) {
    if (FROM_TENSOR_MEMORY) {
      asm volatile("{.reg .pred p; setp.ne.b32 p, 0, 0; tcgen05.mma.cta_group::1.kind::f16 [%0], [%1], %2, %3, p;}"
                   ::"r"(d), "r"(d + 32), "l"(of_b), "r"(instruction) : "memory");
    } else {
      asm volatile("{.reg .pred p; setp.ne.b32 p, 0, 0; tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p;}"
                   ::"r"(d), "l"(of_a), "l"(of_b), "r"(instruction) : "memory");
    }
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(done) : "memory");
  }
  wait(done, 0);
  asm volatile("tcgen05.fence::after_thread_sync; // sums" ::: "memory");
  u32 x[32];
  asm volatile(
      "tcgen05.ld.sync.aligned.32x32b.x32.b32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
      "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, [%32];"
      : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]), "=r"(x[4]), "=r"(x[5]), "=r"(x[6]), "=r"(x[7]), "=r"(x[8]), "=r"(x[9]),
        "=r"(x[10]), "=r"(x[11]), "=r"(x[12]), "=r"(x[13]), "=r"(x[14]), "=r"(x[15]), "=r"(x[16]), "=r"(x[17]), "=r"(x[18]),
        "=r"(x[19]), "=r"(x[20]), "=r"(x[21]), "=r"(x[22]), "=r"(x[23]), "=r"(x[24]), "=r"(x[25]), "=r"(x[26]), "=r"(x[27]),
        "=r"(x[28]), "=r"(x[29]), "=r"(x[30]), "=r"(x[31])
      : "r"(d + (warp << 21)) : "memory");
  asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
  for (u32 i = 0; i < 32; ++i) out[t * 32 + i] = __uint_as_float(x[i]);
  asm volatile("tcgen05.fence::before_thread_sync; // end" ::: "memory");
  __syncthreads();
  asm volatile("tcgen05.fence::after_thread_sync; // end" ::: "memory");
  if (warp == 0) asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 64;" ::"r"(d));
"""


def run(old: str = "", new: str = "", *, from_tensor_memory: bool = False) -> tuple[Emulation, Any]:
    assert old in BODY
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-3, 4, (lines, DEPTH)).astype(np.float16) for lines in (M, N))
    kernel = GeneratedKernel(
        entry="test",
        source=(
            f"#define FROM_TENSOR_MEMORY {int(from_tensor_memory)}\n{HEAD}\n"
            'extern "C" __global__ void __launch_bounds__(128) test(const unsigned short* a, const unsigned short* b, '
            f"float* out) {{{BODY.replace(old, new) if old else BODY}}}"
        ),
        arguments=(
            Operand("a", "input", F16, (M, DEPTH)),
            Operand("b", "input", F16, (N, DEPTH)),
            Operand("out", "output", F32, (M, N)),
        ),
        grid=(1, 1, 1),
        block=(128, 1, 1),
        arch="sm_100a",
    )
    done = emulate(kernel, {"a": a, "b": b}, time_limit=30)
    return done, a.astype(np.float32) @ b.astype(np.float32).T


@pytest.mark.parametrize("from_tensor_memory", [False, True])
def test_the_kernel_is_right(from_tensor_memory: bool) -> None:
    done, expected = run(from_tensor_memory=from_tensor_memory)
    assert done.ok, done.reason
    np.testing.assert_array_equal(done.outputs["out"], expected)


_ALLOC = (
    'asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 64;" ::"r"(AT(address)) : "memory");\n'
)
_RELINQUISH = 'asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;");\n'
_DEALLOC = 'if (warp == 0) asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 64;" ::"r"(d));'
_COMMIT = 'asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(done) : "memory");\n'
_WAIT_LOADS = 'asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");\n'
_AT_ONCE = "  }\n  wait(done, 0);"

# First the faults that ptxas's check (-g-tmem-access-check) reports, then faults that only the emulator reports.
FAULTS = {
    "access out of physical bounds": ('"r"(d + (warp << 21))', '"r"(d + 496 + (warp << 21))', K.TENSOR_MEMORY_MISUSE),
    "access of columns that are not allocated": ('"r"(d + (warp << 21))', '"r"(d + 64 + (warp << 21))', K.TENSOR_MEMORY_MISUSE),
    "sums in columns that are not allocated": ("const u32 d = address,", "const u32 d = address + 48,", K.TENSOR_MEMORY_MISUSE),
    "more columns than before": (_RELINQUISH, _ALLOC.replace("64", "128") + _RELINQUISH, K.TENSOR_MEMORY_MISUSE),
    "allocation after the permit is relinquished": (_RELINQUISH, _RELINQUISH + _ALLOC, K.TENSOR_MEMORY_MISUSE),
    "permit that is not relinquished": (_RELINQUISH, "", K.TENSOR_MEMORY_MISUSE),
    "freed twice": (_DEALLOC, _DEALLOC + _DEALLOC, K.TENSOR_MEMORY_MISUSE),
    "fewer columns freed than allocated": (_DEALLOC, _DEALLOC.replace("64", "32"), K.TENSOR_MEMORY_MISUSE),
    "freed at another address": (_DEALLOC, _DEALLOC.replace("(d)", "(d + 32)"), K.TENSOR_MEMORY_MISUSE),
    "lanes of another warp": ('"r"(d + (warp << 21))', '"r"(d)', K.TENSOR_MEMORY_MISUSE),
    "sums at a lane that m does not allow": ('::"r"(d), "l"(of_a)', '::"r"(d + (16 << 16)), "l"(of_a)', K.TENSOR_MEMORY_MISUSE),
    "sparse by the descriptor alone": ("instruction = 1 << 4", "instruction = 1 << 2 | 1 << 4", K.INVALID_ARGUMENT),
    "exit without freeing": (_DEALLOC, "", K.TENSOR_MEMORY_MISUSE),
    "columns that never come": (
        _RELINQUISH, _ALLOC.replace("64", "32") + 'asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 32;" '
        '::"r"(AT(address)) : "memory");\n' * 14 + _RELINQUISH, K.BARRIER_NOT_REACHED),
    "freed while a warp loads": (_WAIT_LOADS, "  " + _DEALLOC + _WAIT_LOADS, K.TCGEN05_IN_FLIGHT),
    "products are added to uninitialised sums": ("setp.ne.b32 p, 0, 0; tcgen05.mma.cta_group::1.kind::f16 [%0], %1",
                                                 "setp.ne.b32 p, 1, 0; tcgen05.mma.cta_group::1.kind::f16 [%0], %1",
                                                 K.UNINITIALIZED_TENSOR_MEMORY),
    "sums that are not waited for": ("  wait(done, 0);\n", "", K.TCGEN05_IN_FLIGHT),
    "a commit that is forgotten": (_COMMIT, "", K.BARRIER_NOT_REACHED),
    "a commit by another thread": (_COMMIT, "  }\n  if (t == 32) {\n" + _COMMIT, K.TCGEN05_IN_FLIGHT),
    "registers that are not waited for": (_WAIT_LOADS, "", K.MISSING_TCGEN05_WAIT),
    "no fence after the wait": ('asm volatile("tcgen05.fence::after_thread_sync; // sums" ::: "memory");', "", K.MISSING_TCGEN05_FENCE),
    "no fence before memory is freed": ('asm volatile("tcgen05.fence::before_thread_sync; // end" ::: "memory");', "", K.MISSING_TCGEN05_FENCE),
    "operands overwritten": (_AT_ONCE, "  }\n  tile_a[t] = 0;\n  wait(done, 0);", K.TCGEN05_IN_FLIGHT),
    "operands without a proxy fence": ("  fence();\n  __syncthreads();", "  __syncthreads();", K.MISSING_PROXY_FENCE),
    "operands that nobody waits for": ("  fence();\n  __syncthreads();", "  fence();", K.SHARED_RACE),
    "a type that the kind does not have": ("instruction = 1 << 4", "instruction = 3 << 7 | 1 << 4", K.INVALID_ARGUMENT),
    "sums of a type that the kind does not have": ("instruction = 1 << 4", "instruction = 2 << 4", K.INVALID_ARGUMENT),
    "columns that m does not have": ("32 / 8 << 17", "24 / 8 << 17", K.INVALID_ARGUMENT),
    "rows that the instruction does not have": ("128 / 16 << 24", "96 / 16 << 24", K.INVALID_ARGUMENT),
    "a reserved bit of the instruction": ("instruction = 1 << 4", "instruction = 1 << 29 | 1 << 4", K.INVALID_ARGUMENT),
    "a descriptor without its fixed bit": ("(u64)(2048 >> 4) << 16 | (u64)(128 >> 4) << 32 | 1ull << 46",
                                           "(u64)(2048 >> 4) << 16 | (u64)(128 >> 4) << 32", K.INVALID_ARGUMENT),
    "a descriptor with an unknown swizzle": ("(u64)(2048 >> 4) << 16 | (u64)(128 >> 4) << 32 | 1ull << 46",
                                             "(u64)(2048 >> 4) << 16 | (u64)(128 >> 4) << 32 | 1ull << 46 | 3ull << 61",
                                             K.INVALID_ARGUMENT),
    "operands outside of shared memory": ("AT(tile_a) >> 4", "(AT(tile_a) + 8192) >> 4", K.OUT_OF_BOUNDS_SHARED),
    "an address of each lane": ('"r"(d + (warp << 21))', '"r"(d + t % 2 + (warp << 21))', K.INVALID_ARGUMENT),
    "an mma by several threads": ("  if (t == 0) {\n    if (FROM", "  if (t < 2) {\n    if (FROM", K.INVALID_ARGUMENT),
    "an alloc by a part of a warp": ("  if (warp == 0) {\n", "  if (t < 16) {\n", K.MISSING_LANES),
}  # fmt: skip

# Faults in kernels whose operand A is in tensor memory.
FAULTS_OF_STORES = {
    "a store that is not waited for": ('asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");', "", K.TCGEN05_IN_FLIGHT),
    "no fence after stores": ('asm volatile("tcgen05.fence::before_thread_sync; // st" ::: "memory");', "", K.MISSING_TCGEN05_FENCE),
    "no fence before the mma that reads stores": ('asm volatile("tcgen05.fence::after_thread_sync; // st" ::: "memory");', "", K.MISSING_TCGEN05_FENCE),
    "a warp that stores nothing": ('asm volatile("tcgen05.st.sync', 'if (warp != 3) asm volatile("tcgen05.st.sync', K.UNINITIALIZED_TENSOR_MEMORY),
    "operand stored to columns that the mma does not read": ("const u32 d = address, by = d + 32", "const u32 d = address, by = d + 24", K.UNINITIALIZED_TENSOR_MEMORY),
}  # fmt: skip


def some(faults: dict[str, Any]) -> list[Any]:
    """Return test parameters for every third fault by default, and for all faults nightly."""
    return [pytest.param(name, marks=[pytest.mark.nightly] * (i % 3 > 0)) for i, name in enumerate(faults)]


@pytest.mark.parametrize("name", some(FAULTS))
def test_planted_faults_are_reported(name: str) -> None:
    old, new, kind = FAULTS[name]
    found_kinds = kinds(run(old, new)[0])
    assert kind in found_kinds, found_kinds


def test_unwritten_columns_are_undefined() -> None:
    """Results that depend on unwritten tensor memory are reported, even if its bits are the same in two runs."""
    done, _ = run('"r"(d + (warp << 21)) : "memory");', '"r"(d + 32 + (warp << 21)) : "memory");')
    assert kinds(done) == {K.UNDEFINED_REGISTER}, done.findings
    assert done.faults


def test_columns_loaded_into_registers_are_free_without_a_wait() -> None:
    """A missing tcgen05.wait::ld is reported once. Freeing the loaded columns is not reported as another fault.

    CUTLASS's first Blackwell tutorial omits this wait.
    """
    assert kinds(run(_WAIT_LOADS, "")[0]) == {K.MISSING_TCGEN05_WAIT}


@pytest.mark.parametrize("name", some(FAULTS_OF_STORES))
def test_faults_of_stores(name: str) -> None:
    old, new, kind = FAULTS_OF_STORES[name]
    found_kinds = kinds(run(old, new, from_tensor_memory=True)[0])
    assert kind in found_kinds, found_kinds


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("kind::f16 [%0], %1, %2, %3, p;", "ws.kind::f16 [%0], %1, %2, %3, p;"),
        ('kind::f16 [%0], %1, %2, %3, p;}"\n                   ::"r"(d)',
         'sp.kind::f16 [%0], %1, %2, [%4], %3, p;}"\n                   ::"r"(d)'),
        ("const u32 d = address,", 'asm volatile("tcgen05.shift.cta_group::1.down [%0];" ::"r"(address)); const u32 d = address,'),
    ],
)  # fmt: skip
def test_unsupported_instructions_are_named_with_their_line(old: str, new: str) -> None:
    body = BODY.replace(old, new)
    if "[%4]" in new:
        body = body.replace('"l"(of_a), "l"(of_b), "r"(instruction)', '"l"(of_a), "l"(of_b), "r"(instruction), "r"(d)')
    assert body != BODY
    kernel = GeneratedKernel(
        entry="test",
        source=f"#define FROM_TENSOR_MEMORY 0\n{HEAD}\n"
        'extern "C" __global__ void test(const unsigned short* a, const unsigned short* b, '
        f"float* out) {{{body}}}",
        arguments=(),
        grid=(1, 1, 1),
        block=(128, 1, 1),
        arch="sm_100a",
    )
    done = emulate(kernel, {}, time_limit=30)
    assert done.status == "unsupported", (done.status, done.reason)
    assert "tcgen05." in done.reason and "line" in done.reason
