"""What small kernels of bulk copies and mbarriers begin with, and what was found in them."""

from __future__ import annotations

from measurements.emulator import Emulation

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


def kinds(done: Emulation) -> set[str]:
    return {finding.kind for finding in done.findings}
