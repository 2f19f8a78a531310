"""What small kernels of bulk copies and mbarriers begin with, and what was found in them."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from measurements.emulator import Emulation, emulate
from measurements.emulator.order import Order
from search_spaces.templates.kernel import Argument, Kernel

HEAD = """
typedef unsigned int u32;
typedef unsigned long long u64;
struct alignas(64) Map { u64 opaque[16]; };
#define AT(x) ((u32)__cvta_generic_to_shared(&(x)))
__device__ void init(u32 b, u32 n) { asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(b), "r"(n) : "memory"); }
__device__ void expect(u32 b, u32 n) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(b), "r"(n) : "memory");
}
__device__ void wait(u32 b, u32 parity) {
  asm volatile("{.reg .pred p;\\nL: mbarrier.try_wait.parity.shared.b64 p, [%0], %1;\\n@!p bra L;\\n}"
               ::"r"(b), "r"(parity) : "memory");
}
__device__ void fence() { asm volatile("fence.proxy.async;" ::: "memory"); }
__device__ void sync_cluster() {
  asm volatile("barrier.cluster.arrive.aligned;\\nbarrier.cluster.wait.aligned;" ::: "memory");
}
__device__ u32 in_block(u32 a, u32 rank) {
  u32 r;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(rank));
  return r;
}
"""


def run(
    body: str,
    parameters: str,
    *arguments: Argument,
    inputs: dict[str, npt.NDArray[Any]] | None = None,
    seed: int = 0,
    grid: int | None = None,
    cluster: int = 1,
    block: int = 128,
) -> Emulation:
    """Run a kernel with this body, in one cluster where ``grid`` does not say another number of blocks."""
    kernel = Kernel(
        entry="test",
        source=f'{HEAD}\nextern "C" __global__ void __cluster_dims__({cluster}, 1, 1) test({parameters}) {{{body}}}',
        arguments=arguments,
        grid=(grid or cluster, 1, 1),
        block=(block, 1, 1),
        cluster=(cluster, 1, 1),
    )
    return emulate(kernel, inputs or {}, order=Order("ascending", seed), time_limit=30)


def kinds(done: Emulation) -> set[str]:
    return {finding.kind for finding in done.findings}
