"""Blocks that wait for each other in grid barriers, look-back scans and locks. Deadlocks are findings."""

from __future__ import annotations

import numpy as np
import pytest
from needs import needs_compiler, needs_cuda_headers, needs_nvrtc

import autosched
from autosched.verify.emulate.emulated_launch import EmulatedLaunch
from measurements.emulator import FindingKind, Order

pytestmark = [needs_nvrtc, needs_compiler]

FORWARD, BACKWARD = Order(), Order("descending")
BOTH = [FORWARD, BACKWARD, Order("random", 5), Order("interleaved"), Order("interleaved", 3)]
# Headers of cooperative groups take a second to compile.
EACH_NIGHT_BUT_LAST = [*(pytest.param(o, marks=pytest.mark.nightly) for o in BOTH[:-1]), BOTH[-1]]


def launched(
    source: str,
    *arrays: np.ndarray,
    grid: int,
    block: int = 64,
    order: Order = FORWARD,
    output: bool = True,
    cooperative: bool = False,
) -> EmulatedLaunch:
    """Emulate a kernel. If ``output`` is True, the kernel must fill the last array."""
    outputs = (len(arrays) - 1,) if output else ()
    return autosched.emulate(
        source,
        kernel="kernel",
        arguments=arrays,
        grid=grid,
        block=block,
        outputs=outputs,
        order=order,
        time_limit=20,
        cooperative=cooperative,
    )


def words(size: int) -> np.ndarray:
    return np.zeros(size, np.uint32)


def kinds(done: EmulatedLaunch) -> set[FindingKind]:
    return {f.kind for f in done.findings}


def line_of(source: str, part: str) -> int:
    return next(n for n, line in enumerate(source.splitlines(), 1) if part in line)


# The barrier of a grid -----------------------------------------------------------------------------------------------

GRID_SYNC = """
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void kernel(const float* a, float* w, float* o) {
  cg::grid_group grid = cg::this_grid();
  unsigned i = grid.thread_rank(), n = grid.size();
  w[i] = a[i];
  for (unsigned step = 1; step < 4; ++step) {
    SYNC
    float x = w[(i + 1) % n];
    grid.sync();
    w[i] = x + 1.0f;
  }
  grid.sync();
  o[i] = w[n - 1 - i];
}
"""


def grid_sync(source: str, order: Order, grid: int = 6) -> tuple[EmulatedLaunch, np.ndarray]:
    a = np.arange(grid * 64, dtype=np.float32)
    emulation = launched(source, a, np.zeros_like(a), np.zeros_like(a), grid=grid, order=order, cooperative=True)
    return emulation, (np.roll(a, -3) + 3)[::-1]


@needs_cuda_headers
@pytest.mark.parametrize("order", EACH_NIGHT_BUT_LAST, ids=str)
def test_all_blocks_of_a_cooperative_launch_meet_at_the_barrier_of_the_grid(order: Order) -> None:
    emulation, expected = grid_sync(GRID_SYNC.replace("SYNC", "grid.sync();"), order)
    assert emulation.ok, emulation.reason
    np.testing.assert_array_equal(emulation.arrays[2], expected)


@needs_cuda_headers
@pytest.mark.nightly
@pytest.mark.parametrize("order", [FORWARD, Order("interleaved")], ids=str)
def test_a_missing_barrier_of_the_grid_is_a_race(order: Order) -> None:
    emulation, _ = grid_sync(GRID_SYNC.replace("SYNC", "__syncthreads();"), order)
    assert FindingKind.GLOBAL_RACE in kinds(emulation)


# Single-pass scan with decoupled look-back (Merrill and Garland, 2016) ------------------------------------------------

LOOK_BACK = """
// state: 0 nothing, 1 the block's sum, 2 the sum up to its end
extern "C" __global__ void kernel(const unsigned* a, unsigned* state, unsigned* sums, unsigned* o) {
  __shared__ unsigned scan[64], before;
  unsigned t = threadIdx.x, b = blockIdx.x;
  scan[t] = a[b * 64 + t];
  __syncthreads();
  for (unsigned d = 1; d < 64; d *= 2) {
    unsigned x = t >= d ? scan[t - d] : 0;
    __syncthreads();
    scan[t] += x;
    __syncthreads();
  }
  if (t == 0) {
    unsigned total = scan[63], prefix = 0;
    sums[2 * b] = total;
    PUBLISH
    atomicExch(&state[b], b == 0 ? 2 : 1);
    if (b == 0) sums[1] = total, __threadfence(), atomicExch(&state[0], 3);
    for (int p = (int)b - 1; p >= 0; --p) {
      unsigned s;
      while ((s = READ(&state[p])) == 0 || (p == 0 && s != 3)) ;
      ACQUIRE
      if (s == 3) { prefix += sums[2 * p + 1]; break; }
      prefix += sums[2 * p];
    }
    before = prefix;
    if (b != 0) {
      sums[2 * b + 1] = prefix + total;
      __threadfence();
      atomicExch(&state[b], 3);
    }
  }
  __syncthreads();
  o[b * 64 + t] = before + scan[t];
}
"""
VOLATILE = "*(volatile unsigned*)"


def look_back(
    order: Order, read: str = VOLATILE, publish: str = "__threadfence();", acquire: str = "__threadfence();"
) -> EmulatedLaunch:
    source = LOOK_BACK.replace("READ", read).replace("PUBLISH", publish).replace("ACQUIRE", acquire)
    blocks = 12
    a = np.random.default_rng(1).integers(0, 1000, blocks * 64).astype(np.uint32)
    emulation = launched(source, a, words(blocks), words(2 * blocks), words(a.size), grid=blocks, order=order)
    if emulation.ok:
        np.testing.assert_array_equal(emulation.arrays[3], np.cumsum(a))
    return emulation


@pytest.mark.parametrize("order", BOTH, ids=str)
def test_a_look_back_scan_is_right_in_every_order(order: Order) -> None:
    emulation = look_back(order)
    assert emulation.ok, emulation.reason


@pytest.mark.parametrize("order", [FORWARD, BACKWARD, Order("interleaved", 1)], ids=str)
def test_a_look_back_without_a_fence_on_either_side_is_a_race(order: Order) -> None:
    if order != FORWARD:  # in forward order, blocks only read complete prefixes
        assert FindingKind.GLOBAL_RACE in kinds(look_back(order, publish=""))
    assert FindingKind.GLOBAL_RACE in kinds(look_back(order, acquire=""))


# Locks ---------------------------------------------------------------------------------------------------------------

TICKET_LOCK = """
extern "C" __global__ void kernel(unsigned* lock, unsigned* o) {
  unsigned mine = atomicAdd(&lock[0], 1u);
  while (*(volatile unsigned*)&lock[1] != mine) __nanosleep(20);
  __threadfence();
  o[0] = *(volatile unsigned*)o + 1;
  RELEASE
  atomicAdd(&lock[1], 1u);
}
"""


@pytest.mark.parametrize("order", BOTH, ids=str)
@pytest.mark.parametrize(("grid", "block"), [(5, 1), (3, 34)])
def test_a_ticket_lock_guards_a_counter(order: Order, grid: int, block: int) -> None:
    """With 34 threads, lanes of the same warp wait for each other, and so do the two warps."""
    source = TICKET_LOCK.replace("RELEASE", "__threadfence();")
    emulation = launched(source, words(2), words(1), grid=grid, block=block, order=order, output=False)
    assert emulation.ok, emulation.reason
    assert emulation.arrays[1][0] == grid * block


@pytest.mark.parametrize("order", BOTH, ids=str)
def test_a_ticket_lock_that_is_released_without_a_fence_is_a_race(order: Order) -> None:
    open_ = TICKET_LOCK.replace("RELEASE", "")
    emulation = launched(open_, words(2), words(1), grid=3, block=34, order=order, output=False)
    assert FindingKind.GLOBAL_RACE in kinds(emulation)


def test_interleaved_blocks_lose_non_atomic_updates() -> None:
    source = """
    extern "C" __global__ void kernel(unsigned* o) {
      UPDATE
    }"""
    plain, atomic = source.replace("UPDATE", "o[0] = o[0] + 1;"), source.replace("UPDATE", "atomicAdd(o, 1u);")
    one_by_one = launched(plain, words(1), grid=8, block=1, output=False)
    turns = launched(plain, words(1), grid=8, block=1, order=Order("interleaved"), output=False)
    assert one_by_one.arrays[0][0] == 8 and turns.arrays[0][0] < 8
    assert kinds(one_by_one) == kinds(turns) == {FindingKind.GLOBAL_RACE}
    emulation = launched(atomic, words(1), grid=8, block=1, order=Order("interleaved"), output=False)
    assert emulation.ok and emulation.arrays[0][0] == 8


# Waiting for a later block, and waiting for ever
# -----------------------------------------------------------------------------

HANDSHAKE = """
__device__ unsigned load(const unsigned* p) {
  unsigned x;
  asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(x) : "l"(p) : "memory");
  return x;
}
__device__ void store(unsigned* p, unsigned x) {
  asm volatile("st.release.gpu.u32 [%0], %1;" :: "l"(p), "r"(x) : "memory");
}
extern "C" __global__ void kernel(unsigned* flags, unsigned* o) {
  unsigned b = blockIdx.x;
  if (threadIdx.x == 0) {
    BODY
  }
  __syncthreads();
  if (b == 0) o[threadIdx.x] = flags[3];
}
"""
WAITS_FOR_THE_NEXT = """
    if (b == 1) flags[3] = 7, store(&flags[1], 1);
    if (b == 0) while (load(&flags[1]) == 0) ;
"""
IN_THE_WRONG_ORDER = """
    if (b < 2) {
      while (load(&flags[1 - b]) == 0) ;  // here
      store(&flags[b], 1);
    }
"""


def handshake(body: str, *, grid: int = 2, order: Order = FORWARD) -> EmulatedLaunch:
    source = HANDSHAKE.replace("BODY", body)
    return launched(source, words(4), words(64), grid=grid, order=order)


@pytest.mark.parametrize("order", BOTH, ids=str)
def test_a_block_may_wait_for_a_later_one(order: Order) -> None:
    emulation = handshake(WAITS_FOR_THE_NEXT, order=order)
    assert emulation.ok, emulation.reason
    assert set(emulation.arrays[1].tolist()) == {7}


def test_waiting_without_acquiring_is_a_race() -> None:
    relaxed = WAITS_FOR_THE_NEXT.replace("load(&flags[1])", "*(volatile unsigned*)&flags[1]")
    assert kinds(handshake(relaxed)) == {FindingKind.GLOBAL_RACE}


@pytest.mark.parametrize("order", BOTH, ids=str)
def test_two_blocks_that_wait_for_each_other_are_a_deadlock(order: Order) -> None:
    emulation = handshake(IN_THE_WRONG_ORDER, order=order)
    assert emulation.status == "findings" and kinds(emulation) == {FindingKind.DEADLOCK}
    assert "of flags, which has 16 bytes" in emulation.findings[0].message
    source = HANDSHAKE.replace("BODY", IN_THE_WRONG_ORDER)
    lines = {emulation.findings[0].line, *(int(c.rsplit(":", 1)[1]) for c in emulation.findings[0].callers)}
    assert line_of(source, "// here") in lines


def test_waiting_for_a_block_that_is_not_resident_is_a_deadlock() -> None:
    last = "if (b == 8) flags[3] = 7, store(&flags[1], 1); else while (load(&flags[1]) == 0) ;"
    assert handshake(last, grid=9, order=Order(resident=9)).ok
    emulation = handshake(last, grid=9, order=Order(resident=8))
    assert kinds(emulation) == {FindingKind.DEADLOCK}
    assert "1 blocks cannot start" in emulation.findings[0].message


def test_a_thread_that_waits_for_its_own_block_in_vain_is_a_deadlock() -> None:
    emulation = handshake("while (load(&flags[2]) == 0) ;", grid=1)
    assert kinds(emulation) == {FindingKind.DEADLOCK}


def test_a_wait_with_a_time_limit_is_no_deadlock() -> None:
    body = "long long t = clock64(); while (load(&flags[1]) == 0 && clock64() - t < 1000000) ; flags[3] = 1;"
    emulation = handshake(body, grid=1)
    assert emulation.ok, emulation.reason


CUDA_BARRIER = """
#include <cuda/barrier>
#pragma nv_diag_suppress static_var_with_dynamic_init
extern "C" __global__ void kernel(unsigned* o) {
  __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
  if (threadIdx.x == 0) init(&barrier, EXPECTED);
  __syncthreads();
  barrier.arrive_and_wait();
  o[threadIdx.x] = 1;
}
"""


@needs_cuda_headers
@pytest.mark.nightly
def test_a_cuda_barrier_that_expects_too_many_is_never_reached() -> None:
    assert launched(CUDA_BARRIER.replace("EXPECTED", "64"), words(64), grid=1).ok
    emulation = launched(CUDA_BARRIER.replace("EXPECTED", "65"), words(64), grid=1)
    assert kinds(emulation) == {FindingKind.BARRIER_NOT_REACHED}, emulation.reason
