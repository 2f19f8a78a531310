"""Faults planted in the Hopper kernels of the emulator's tests: each replaces text and names the expected findings."""

from __future__ import annotations

from dataclasses import dataclass

import hopper

from measurements.emulator import FindingKind
from search_spaces.launches.generated_kernel import GeneratedKernel

K = FindingKind
WRONG = "wrong numbers"


@dataclass(frozen=True)
class Fault:
    """A fault: ``old`` is replaced by ``new`` in the kernel.

    Emulation must report one of ``findings``: kinds of findings, or WRONG.
    """

    name: str
    old: str
    new: str
    findings: tuple[str, ...]
    clustered: bool = False

    def kernel(self, m: int, n: int, k: int) -> GeneratedKernel:
        path = hopper.CLUSTER_SOURCE if self.clustered else hopper.SOURCE
        source = path.read_text()
        if source.count(self.old) != 1:
            raise ValueError(f"{self.name}: the kernel contains {self.old!r} {source.count(self.old)} times")
        make = hopper.clustered if self.clustered else hopper.matmul
        return make(m, n, k, source.replace(self.old, self.new))


_INIT_FENCE = 'asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");'
_FENCE = 'asm volatile("wgmma.fence.sync.aligned;" ::: "memory");'
_COMMIT = 'asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");'
_WAIT = 'asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");'
_HOLD = 'for (float& x : d) asm volatile("" : "+f"(x));'
_RELEASE = "if (threadIdx.x == 0) arrive(empty + 8 * s);"
_STORE = "st.shared.u32 [%0], %1;"
_PROXY = 'asm volatile("fence.proxy.async.shared::cta;" ::: "memory");'
_LOAD_B = "load(b + s * B_BYTES, map_b, t * K_TILE, column, full + 8 * s);"

# The first faults, one per mechanism, are part of every test run; the others are nightly.
FAULTS = (
    Fault("no wgmma.fence", _FENCE, "", (K.MISSING_WGMMA_FENCE,)),
    Fault("accumulators used before the wait", _WAIT, "", (K.WGMMA_IN_FLIGHT,)),
    Fault("too few bytes expected", "A_BYTES + B_BYTES);\n", "A_BYTES);\n", (K.ASYNC_READ_BEFORE_WAIT,)),
    Fault("waits with the other parity", "wait(full + 8 * s, turn & 1);", "wait(full + 8 * s, (turn & 1) ^ 1);",
          (K.ASYNC_READ_BEFORE_WAIT, K.BARRIER_NOT_REACHED)),
    Fault("no proxy fence before the store", _PROXY, "", (K.MISSING_PROXY_FENCE,), True),
    Fault("exits while its peer uses it", "  sync_cluster();\n}\n", "}\n", (K.BLOCK_EXITED,), True),
    # Barriers.
    Fault("initialization is not fenced", _INIT_FENCE, "", (K.MISSING_MBARRIER_FENCE,), True),
    Fault("initialization is not waited for", "__syncthreads();", "", (K.MBARRIER_MISUSE,)),
    Fault("one barrier is not initialized", "init(empty + 8 * s, 1);", "", (K.MBARRIER_MISUSE,)),
    Fault("too many bytes expected", "A_BYTES + B_BYTES);\n", "A_BYTES + B_BYTES + 128);\n", (K.BARRIER_NOT_REACHED,)),
    Fault("no bytes expected", "expect(full + 8 * s, A_BYTES + B_BYTES);", "arrive(full + 8 * s);",
          (K.ASYNC_READ_BEFORE_WAIT,)),
    Fault("the producer waits with the other parity", "(turn & 1) ^ 1", "turn & 1", (K.BARRIER_NOT_REACHED,)),
    Fault("the consumer does not wait", "wait(full + 8 * s, turn & 1);", "", (K.ASYNC_READ_BEFORE_WAIT,)),
    Fault("the producer does not wait", "wait(empty + 8 * s, (turn & 1) ^ 1);", "",
          (K.SHARED_RACE,)),
    Fault("asks but once", "while (!ended(barrier, parity)) {}", "ended(barrier, parity);",
          (K.ASYNC_READ_BEFORE_WAIT,)),
    Fault("never releases a buffer", _RELEASE, "", (K.BARRIER_NOT_REACHED,)),
    Fault("every thread releases", _RELEASE, "arrive(empty + 8 * s);", (K.BARRIER_NOT_REACHED,)),
    Fault("full wants two arrivals", "init(full + 8 * s, 1);", "init(full + 8 * s, 2);", (K.BARRIER_NOT_REACHED,)),
    Fault("empty wants two arrivals", "init(empty + 8 * s, 1);", "init(empty + 8 * s, 2);", (K.BARRIER_NOT_REACHED,)),
    Fault("parity of the tile, not of the turn", "wait(full + 8 * s, turn & 1);", "wait(full + 8 * s, t & 1);",
          (K.ASYNC_READ_BEFORE_WAIT, K.BARRIER_NOT_REACHED)),
    Fault("one lane waits for its warp", "wait(full + 8 * s, turn & 1);",
          "if (threadIdx.x % 32 == 0) wait(full + 8 * s, turn & 1);", (K.ASYNC_READ_BEFORE_WAIT,)),
    Fault("half a warp waits", "wait(full + 8 * s, turn & 1);",
          "if (threadIdx.x % 32 < 16) wait(full + 8 * s, turn & 1);\n"
          "__syncwarp(0xffffu << threadIdx.x % 32 / 16 * 16);",
          (K.ASYNC_READ_BEFORE_WAIT,)),
    # Copies.
    Fault("counted by another stage", _LOAD_B, _LOAD_B.replace("full + 8 * s", "full + 8 * ((s + 1) % STAGES)"),
          (K.ASYNC_READ_BEFORE_WAIT, K.BARRIER_NOT_REACHED)),
    Fault("loaded into another stage", _LOAD_B, _LOAD_B.replace("b + s", "b + (s + 1) % STAGES"),
          (K.UNINITIALIZED_SHARED_READ, K.ASYNC_READ_BEFORE_WAIT, K.WGMMA_IN_FLIGHT)),
    Fault("coordinates exchanged", _LOAD_B, _LOAD_B.replace("t * K_TILE, column", "column, t * K_TILE"), (WRONG,)),
    Fault("loaded twice, counted once", _LOAD_B, _LOAD_B + "\n" + _LOAD_B, (K.SHARED_RACE,)),
    # wgmma.
    Fault("no commit", _COMMIT, "", (K.WGMMA_IN_FLIGHT,)),
    Fault("waits for all but one", _WAIT, _WAIT.replace("0;", "1;"), (K.WGMMA_IN_FLIGHT,)),
    Fault("releases before the wait", f"{_WAIT}\n    {_HOLD}\n    {_RELEASE}", f"{_RELEASE}\n{_WAIT}\n{_HOLD}",
          (K.WGMMA_IN_FLIGHT,)),
    Fault("releases twice", _WAIT, f"{_RELEASE}\n{_WAIT}", (K.BARRIER_NOT_REACHED,)),
    Fault("scales before the wait", _WAIT, f"d[3] *= 2.0f;\n{_WAIT}", (K.WGMMA_IN_FLIGHT,)),
    Fault("accumulates on nothing", "t != 0 || step != 0", "1", (K.UNDEFINED_REGISTER, K.MISSING_WGMMA_FENCE)),
    Fault("forgets what came before", "t != 0 || step != 0", "step != 0", (WRONG,)),
    Fault("another stride", "u64{1024 >> 4} << 32", "u64{512 >> 4} << 32", (WRONG,)),
    Fault("another swizzle", "u64{1} << 62", "u64{2} << 62", (WRONG,)),
    Fault("too long a step", "descriptor(b + s * B_BYTES + 32 * step)", "descriptor(b + s * B_BYTES + 64 * step)",
          (WRONG, K.UNINITIALIZED_SHARED_READ, K.OUT_OF_BOUNDS_SHARED, K.ASYNC_READ_BEFORE_WAIT)),
    Fault("transposed", "%32, %33, p, 1, 1, 0, 0;", "%32, %33, p, 1, 1, 0, 1;", (WRONG, K.UNINITIALIZED_SHARED_READ)),
    Fault("three warps of a warpgroup", "  if (threadIdx.x >= 128) {",
          "  if (threadIdx.x >= 96 && threadIdx.x < 128) return;\n  if (threadIdx.x >= 128) {",
          (K.MISSING_LANES, K.BARRIER_NOT_REACHED)),
    Fault("writes what wgmma reads", _FENCE,
          f'asm volatile("{_STORE}" ::"r"(a + s * A_BYTES + 4 * (threadIdx.x % 32)), "r"(0));\n'
          f'asm volatile("bar.sync 1, 128;" ::: "memory");\n{_FENCE}', (K.SHARED_RACE, K.MISSING_PROXY_FENCE)),
    Fault("touches a barrier", _RELEASE, f'{_RELEASE} asm volatile("{_STORE}" ::"r"(empty), "r"(0));',
          (K.MBARRIER_MISUSE,)),
    # Clusters and stores.
    Fault("stores before all threads have written", 'asm volatile("bar.sync 1, 128;" ::: "memory");', "",
          (K.SHARED_RACE,), True),
    Fault("exits during the store", 'asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");', "",
          (K.BULK_COPY_IN_FLIGHT,), True),
    Fault("the store is not committed", 'asm volatile("cp.async.bulk.commit_group;" ::: "memory");', "",
          (K.BULK_COPY_IN_FLIGHT,), True),
    Fault("the peer's barriers are not waited for", "  sync_cluster();\n  const int row",
          "  __syncthreads();\n  const int row", (K.MBARRIER_MISUSE,), True),
    Fault("to itself alone", "(unsigned short)3", "(unsigned short)1", (K.BARRIER_NOT_REACHED,), True),
    Fault("to blocks that are not", "(unsigned short)3", "(unsigned short)7", (K.INVALID_ARGUMENT,), True),
    Fault("releases its own buffer twice", "in_block(barrier, rank)", "in_block(barrier, rank & 0)",
          (K.SHARED_RACE,), True),
    Fault("its own release is enough", "init(empty + 8 * s, BLOCKS);", "init(empty + 8 * s, 1);",
          (K.SHARED_RACE,), True),
    Fault("both load the same half", "row + 32 * rank", "row", (WRONG,), True),
    Fault("halves overlap", "a + s * A_BYTES + rank * (A_BYTES / 2)", "a + s * A_BYTES",
          (K.SHARED_RACE, K.UNINITIALIZED_SHARED_READ), True),
    Fault("two blocks per SM leave too few registers for setmaxnreg",
          "__launch_bounds__(256)", "__launch_bounds__(256, 2)", (K.BARRIER_NOT_REACHED,), True),
    Fault("fewer registers than setmaxnreg allows",
          "setmaxnreg.dec.sync.aligned.u32 40", "setmaxnreg.dec.sync.aligned.u32 20", (K.INVALID_ARGUMENT,), True),
)  # fmt: skip
