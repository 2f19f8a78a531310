"""Golden verdicts on launches of CUDA source and PTX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from needs import needs_compiler, needs_nvrtc

import autosched

pytestmark = [needs_nvrtc, needs_compiler]

Golden = Callable[..., None]

SHIFT = """
__global__ void shift(float* out, const float* in, int n) {
  __shared__ float line[64];
  int i = threadIdx.x;
  line[i] = in[i];
  BARRIER
  if (i < n) out[i] = line[(i + 1) % 64];
}
"""
RIGHT = SHIFT.replace("BARRIER", "__syncthreads();")
COUNT = """
__global__ void count(unsigned* total, unsigned* out) {
  if (threadIdx.x == 0) out[blockIdx.x] = atomicAdd(total, 1u) RESET;
}
"""
WAIT = """
__global__ void wait(volatile int* flag, int* out) {
  if (blockIdx.x == SETTER) { *flag = 1; }
  else { while (*flag == 0) {} }
  out[blockIdx.x] = 1;
}
"""
PTX = """
.version 7.8
.target sm_80
.address_size 64
.visible .entry twice(.param .u64 x, .param .u32 n) {
  .reg .pred %p; .reg .b32 %r<3>; .reg .f32 %f; .reg .b64 %d<3>;
  mov.u32 %r0, %tid.x;
  ld.param.u32 %r1, [n];
  setp.ge.u32 %p, %r0, %r1;
  @%p ret;
  ld.param.u64 %d0, [x];
  mul.wide.u32 %d1, %r0, 4;
  add.u64 %d0, %d0, %d1;
  ld.global.f32 %f, [%d0];
  add.f32 %f, %f, %f;
  st.global.f32 [%d0], %f;
  ret;
}
"""


def line(n: int = 64) -> list[Any]:
    return [np.zeros(64, np.float32), np.arange(64, dtype=np.float32), np.int32(n)]


def launch(program: str, arguments: list[Any], **how: Any) -> dict[str, Any]:
    return {"program": program, "arguments": arguments, "grid": 1, "block": 64, **how}


counters = [np.zeros(1, np.uint32), np.zeros(4, np.uint32)]
LAUNCHES = {
    "cuda: sound": launch(RIGHT, line(), outputs=[0]),
    "cuda: shared race": launch(SHIFT.replace("BARRIER", ""), line(), outputs=[0]),
    "cuda: out of bounds": launch(RIGHT, [np.zeros(60, np.float32), *line()[1:]], outputs=[0]),
    "cuda: output not written": launch(RIGHT, line(60), outputs=[0]),
    "cuda: does not compile": launch(RIGHT.replace("int i", "moon i"), line()),
    "cuda: second launch": launch(COUNT.replace(" RESET", ""), counters, grid=4, block=32, outputs=[1], launches=2),
    "cuda: waits for a block before it": launch(
        WAIT.replace("SETTER", "0"), [np.zeros(1, np.int32), np.zeros(2, np.int32)], grid=2, block=1
    ),
    "cuda: waits for nobody": launch(
        WAIT.replace("SETTER", "7"), [np.zeros(1, np.int32), np.zeros(2, np.int32)], grid=2, block=1, time_limit=5.0
    ),
    "ptx: sound": launch(PTX, [np.ones(60, np.float32), np.int32(60)]),
    "ptx: out of bounds": launch(PTX, [np.ones(60, np.float32), np.int32(64)]),
    "ptx: unknown instruction": launch(PTX.replace("add.f32", "moon.f32"), [np.ones(60, np.float32), np.int32(60)]),
}


@pytest.mark.parametrize("name", LAUNCHES)
def test_a_launch(name: str, golden: Golden) -> None:
    emulation = autosched.emulate(**LAUNCHES[name])
    refused = "refused" if emulation.status in ("findings", "compile_error", "crashed") else "uncertain"
    golden(
        name, "accepted" if emulation.ok else refused, emulation.findings, [] if emulation.ok else [emulation.status]
    )
