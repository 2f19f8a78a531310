"""If wgmma or a bulk copy reads unwritten shared memory at any position, this is a finding."""

from __future__ import annotations

import numpy as np
import pytest
from needs import needs_compiler, needs_nvrtc

import autosched
from measurements.emulator import FindingKind

pytestmark = [needs_compiler, needs_nvrtc]

WGMMA = r"""
extern "C" __global__ void k(float* out) {
  __shared__ alignas(1024) unsigned short A[64 * 64], B[64 * 64];
  int t = threadIdx.x;
  for (int i = t; i < 64 * 64; i += 128) { if (WRITTEN) A[i] = 0; B[i] = 0; }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  unsigned a = (unsigned)__cvta_generic_to_shared(A), b = (unsigned)__cvta_generic_to_shared(B);
  unsigned long long rest = (1ull << 16) | (64ull << 32) | (1ull << 62);
  float d[4] = {0, 0, 0, 0};
  asm volatile("wgmma.fence.sync.aligned;");
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0,%1,%2,%3}, %4, %5, 0, 1, 1, 0, 0;"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a >> 4 | rest), "l"(b >> 4 | rest));
  asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) :: "memory");
  for (int i = 0; i < 4; ++i) out[t * 4 + i] = d[i];
}
"""
COPY = r"""
extern "C" __global__ void k(float* out) {
  __shared__ alignas(128) float tile[512];
  int t = threadIdx.x;
  for (int i = t; i < 512; i += 128) { if (WRITTEN) tile[i] = i; }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (t == 0) {
    unsigned from = (unsigned)__cvta_generic_to_shared(tile);
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 2048;" :: "l"(out), "r"(from) : "memory");
    asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
  }
}
"""


@pytest.mark.parametrize("source", [WGMMA, COPY], ids=["wgmma", "bulk copy"])
@pytest.mark.parametrize(
    ("written", "sound"), [("true", True), ("false", False), ("i >= 64", False), ("i < 64", False)]
)
def test_operands_of_matrix_engines_must_be_written(source: str, written: str, sound: bool) -> None:
    done = autosched.emulate(
        source.replace("WRITTEN", written), arguments=[np.zeros(512, np.float32)], outputs=[0], grid=1, block=128,
        options=["-arch=compute_90a"],
    )  # fmt: skip
    assert done.ok == (written == "true"), done.reason
    if written != "true":
        assert done.findings[0].kind is FindingKind.UNINITIALIZED_SHARED_READ
