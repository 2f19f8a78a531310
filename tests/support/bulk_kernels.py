"""Build small kernels with bulk copies and mbarriers, and run them in the emulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from measurements.emulator import Emulation, emulate
from measurements.emulator.order import Order
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.launch import Argument

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

_LOAD = """
  __shared__ alignas(1024) unsigned char tile[REACH]; __shared__ u64 barrier;
  const u32 b = AT(barrier), t = threadIdx.x;
  for (u32 k = t; k < REACH; k += 128) tile[k] = 0;
  if (t == 0) init(b, 1);
  fence();
  __syncthreads();
  if (t == 0) {
    expect(b, BYTES);
    asm volatile("cp.async.bulk.tensor.RANKd.shared::cluster.global.MODE.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {PLACE}], [%2]OFFSETS;" ::"r"(AT(tile)), "l"(&map), "r"(b) : "memory");
  }
  wait(b, 0);
  for (u32 k = t; k < REACH; k += 128) out[k] = tile[k];
"""
_STORE = """
  __shared__ alignas(1024) unsigned char tile[BYTES];
  for (u32 k = threadIdx.x; k < BYTES; k += 128) tile[k] = in[k];
  fence();
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.tensor.RANKd.global.shared::cta.MODE.bulk_group [%0, {PLACE}], [%1];"
                 ::"l"(&map), "r"(AT(tile)) : "memory");
    asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
  }
"""


def load_box(
    bytes_: int, position: tuple[int, ...], offsets: tuple[int, ...] | None = None, *, out_bytes: int | None = None
) -> str:
    """Return the body of a kernel of 128 threads that copies a box of the tensor map ``map`` to ``out``.

    Args:
        bytes_: Bytes that the barrier expects.
        position: Coordinates of the box, fastest dimension first.
        offsets: Offsets of an im2col copy, fastest dimension first. Default: a copy in tile mode.
        out_bytes: Bytes of shared memory to write to ``out``. Bytes after the box are zeros. Default: ``bytes_``.
    """
    shifts = "" if offsets is None else f", {{{', '.join(map(str, offsets))}}}"
    body = _LOAD.replace("REACH", str(out_bytes or bytes_)).replace("OFFSETS", shifts)
    return _boxed(body, bytes_, position, "tile" if offsets is None else "im2col")


def store_box(bytes_: int, position: tuple[int, ...], mode: str = "tile") -> str:
    """Return the body of a kernel of 128 threads that copies ``in`` to a box of the tensor map ``map``."""
    return _boxed(_STORE, bytes_, position, mode)


def _boxed(body: str, bytes_: int, position: tuple[int, ...], mode: str) -> str:
    body = body.replace("BYTES", str(bytes_)).replace("RANK", str(len(position))).replace("MODE", mode)
    return body.replace("PLACE", ", ".join(map(str, position)))


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
    """Run a kernel with this body in the emulator. ``grid``: number of blocks. Default: one cluster."""
    kernel = GeneratedKernel(
        entry="test",
        source=f'{HEAD}\nextern "C" __global__ void __cluster_dims__({cluster}, 1, 1) test({parameters}) {{{body}}}',
        arguments=arguments,
        grid=(grid or cluster, 1, 1),
        block=(block, 1, 1),
        cluster=(cluster, 1, 1),
    )
    return emulate(kernel, inputs or {}, order=Order("ascending", seed), time_limit=30)


def kinds(done: Emulation) -> set[str]:
    """Return the kinds of the findings."""
    return {finding.kind for finding in done.findings}


def round_to_nearest_tf32(x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Round finite numbers to tf32, ties to even, as loads with a TFLOAT32 tensor map do."""
    bits = np.ascontiguousarray(x).view(np.uint32)
    return ((bits + np.uint32(0xFFF) + (bits >> 13 & 1)) & np.uint32(0xFFFFE000)).view(np.float32)
