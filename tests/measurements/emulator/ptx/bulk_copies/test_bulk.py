"""Bulk copies, tensor boxes, distributed shared memory and mbarriers.

Each kernel tests one mechanism and one fault.
"""

from __future__ import annotations

import itertools
from typing import Literal

import numpy as np
import pytest
from bulk_kernels import kinds, run
from needs import needs_compiler, needs_nvrtc

from measurements.emulator import FindingKind
from search_spaces.hardware.dtypes import SCALAR_DTYPES
from search_spaces.launches.operand import Operand
from search_spaces.launches.tensor_map import TensorMap

pytestmark = [needs_compiler, needs_nvrtc]
K = FindingKind
F32, F16, U32, U8 = (SCALAR_DTYPES[name] for name in ("f32", "f16", "u32", "u8"))


COPY = """
  __shared__ alignas(128) float tile[256]; __shared__ u64 barrier;
  const u32 b = AT(barrier), t = threadIdx.x;
  if (t == 0) { init(b, 1); fence(); }
  __syncthreads();
  if (t == 0) {
    expect(b, 1024);
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 1024, [%2];"
                 ::"r"(AT(tile)), "l"(x), "r"(b) : "memory");
  }
  wait(b, 0);
  tile[t] *= 2; tile[t + 128] *= 2;
  fence();
  __syncthreads();
  if (t == 0) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 1024;" ::"l"(out), "r"(AT(tile)) : "memory");
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], 1024;"
                 ::"l"(sums), "r"(AT(tile)) : "memory");
    asm volatile("cp.async.bulk.commit_group;\\ncp.async.bulk.wait_group.read 0;" ::: "memory");
  }
  __syncthreads();
  tile[t] = 0;
"""


@pytest.mark.parametrize("seed", [0, 3])
def test_bulk_copies_without_tensors(seed: int) -> None:
    x, sums = np.arange(256, dtype=np.float32), np.ones(256, np.float32)
    operands = (
        Operand("out", "output", F32, (256,)),
        Operand("sums", "inout", F32, (256,)),
        Operand("x", "input", F32, (256,)),
    )
    inputs = {"x": x, "sums": sums}
    done = run(COPY, "float* out, float* sums, const float* x", *operands, inputs=inputs, seed=seed)
    assert done.ok, done.reason
    np.testing.assert_array_equal(done.outputs["out"], 2 * x)
    np.testing.assert_array_equal(done.outputs["sums"], 1 + 2 * x)
    early = COPY.replace("wait_group.read 0", "wait_group.read 1")
    done = run(early, "float* out, float* sums, const float* x", *operands, inputs=inputs, seed=seed)
    assert K.BULK_COPY_IN_FLIGHT in kinds(done)


NEIGHBOURS = """
  __shared__ u32 mine[128], total;
  u32 rank, t = threadIdx.x, value;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  mine[t] = 1000 * rank + t;
  if (t == 0) total = 0;
  sync_cluster();
  asm volatile("ld.shared::cluster.u32 %0, [%1];"
               : "=r"(value) : "r"(in_block(AT(mine[t]), (rank + 1) % 4)) : "memory");
  out[blockIdx.x * 128 + t] = value;
  asm volatile("red.relaxed.cluster.shared::cluster.add.u32 [%0], 1;" ::"r"(in_block(AT(total), 2)) : "memory");
  sync_cluster();
  if (t == 0) sums[blockIdx.x] = total;
"""


def test_distributed_shared_memory() -> None:
    operands = (Operand("out", "output", U32, (1024,)), Operand("sums", "output", U32, (8,)))
    done = run(NEIGHBOURS, "u32* out, u32* sums", *operands, grid=8, cluster=4, seed=1)
    assert done.ok, done.reason
    expected = [1000 * ((block + 1) % 4) + t for block in range(8) for t in range(128)]
    assert done.outputs["out"].tolist() == expected
    assert done.outputs["sums"].tolist() == [0, 0, 512, 0, 0, 0, 512, 0]
    first, last = "  if (t == 0) total = 0;\n  sync_cluster();", "  sync_cluster();\n  if (t == 0) sums"
    for seed in range(3):
        unordered = NEIGHBOURS.replace(first, first.replace("sync_cluster", "__syncthreads"))
        done = run(unordered, "u32* out, u32* sums", *operands, grid=8, cluster=4, seed=seed)
        assert kinds(done) & {K.SHARED_RACE, K.UNINITIALIZED_SHARED_READ}
        leaving = NEIGHBOURS.replace(last, last.replace("sync_cluster", "__syncthreads"))
        done = run(leaving, "u32* out, u32* sums", *operands, grid=8, cluster=4, seed=seed)
        assert K.BLOCK_EXITED in kinds(done)


TOKENS = """
  __shared__ u64 barrier; __shared__ alignas(16) u32 tile[512];
  const u32 b = AT(barrier), t = threadIdx.x;
  if (t == 0) init(b, 128);
  __syncthreads();
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(AT(tile[4 * t])), "l"(x + 4 * t) : "memory");
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(b) : "memory");
  wait(b, 0);
  u32 value = tile[511 - t];
  u64 state;
  asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(b) : "memory");
  asm volatile("{.reg .pred p;\\nL: mbarrier.test_wait.shared.b64 p, [%0], %1;\\n@!p bra L;\\n}"
               ::"r"(b), "l"(state) : "memory");
  tile[511 - t] = 7;
  out[t] = value;
"""


def test_arrivals_of_copies_and_tokens() -> None:
    operands = (Operand("out", "output", U32, (128,)), Operand("x", "input", U32, (512,)))
    x = np.arange(512, dtype=np.uint32)
    for seed in range(3):
        done = run(TOKENS, "u32* out, const u32* x", *operands, inputs={"x": x}, seed=seed)
        assert done.ok, done.reason
        assert done.outputs["out"].tolist() == list(range(511, 383, -1))
    twice = TOKENS.replace(
        "  u64 state;", '  asm volatile("mbarrier.arrive.shared.b64 _, [%0], 2;" ::"r"(b));\n  u64 state;'
    )
    assert K.BARRIER_NOT_REACHED in kinds(run(twice, "u32* out, const u32* x", *operands, inputs={"x": x}))


BOX = """
  __shared__ alignas(1024) unsigned char tile[%(bytes)d]; __shared__ u64 barrier;
  const u32 b = AT(barrier), t = threadIdx.x;
  if (t == 0) init(b, 1);
  for (int i = t; i < %(bytes)d; i += 128) tile[i] = 0xee;
  fence();
  __syncthreads();
  if (t == 0) {
    expect(b, %(bytes)d);
    asm volatile("cp.async.bulk.tensor.%(rank)dd.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%%0], "
                 "[%%1, {%(place)s}], [%%2];" ::"r"(AT(tile)), "l"(&map), "r"(b) : "memory");
  }
  wait(b, 0);
  for (int i = t; i < %(bytes)d; i += 128) out[i] = tile[i];
"""

Swizzle = Literal["NONE", "32B", "64B", "128B"]
BOXES: list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...], Swizzle]] = [
    ((100,), (64,), (48,), (1,), "NONE"),
    ((40, 64), (16, 32), (-3, 16), (1, 1), "64B"),
    ((40, 64), (24, 64), (30, 0), (1, 1), "128B"),
    ((9, 40, 16), (2, 8, 16), (8, -2, 0), (1, 1, 1), "32B"),
    ((3, 5, 4, 6, 16), (1, 2, 2, 3, 16), (2, 4, 3, -1, 8), (1, 1, 1, 1, 1), "NONE"),
    ((40, 64), (16, 16), (3, -8), (2, 1), "NONE"),
]


@pytest.mark.parametrize(("shape", "box", "position", "steps", "swizzle"), BOXES)
def test_boxes(
    shape: tuple[int, ...], box: tuple[int, ...], position: tuple[int, ...], steps: tuple[int, ...], swizzle: Swizzle
) -> None:
    """Load boxes by TMA. In the test parameters, the slowest dimension comes first, as in numpy."""
    x = (np.arange(np.prod(shape)).reshape(shape) % 1000).astype(np.float16)
    operand = Operand("x", "input", F16, shape)
    dense = TensorMap.dense("map", operand, box, swizzle=swizzle)
    map_ = TensorMap(**{**vars(dense), "element_strides": steps[::-1]})
    counts = [-(-side // step) for side, step in zip(box, steps, strict=True)]
    expected = np.zeros(counts, np.float16)
    for at in itertools.product(*map(range, counts)):
        source = [first + step * k for first, step, k in zip(position, steps, at, strict=True)]
        if all(0 <= k < size for k, size in zip(source, shape, strict=True)):
            expected[at] = x[tuple(source)]
    flat = np.ascontiguousarray(expected).view(np.uint8).reshape(-1)
    pieces = {"NONE": 1, "32B": 2, "64B": 4, "128B": 8}[swizzle]
    byte = np.arange(flat.size)
    image = np.zeros_like(flat)
    image[byte ^ ((byte >> 7) % pieces << 4)] = flat

    numbers = {"bytes": flat.size, "rank": len(shape), "place": ", ".join(map(str, position[::-1]))}
    out = Operand("out", "output", U8, (flat.size,))
    done = run(BOX % numbers, "const __grid_constant__ Map map, unsigned char* out", map_, out, inputs={"x": x})
    assert done.ok, done.reason
    np.testing.assert_array_equal(done.outputs["out"], image)


def test_a_box_begins_at_sixteen_bytes() -> None:
    """On an H100, a box whose first coordinate is not a multiple of 16 bytes causes an illegal instruction error."""
    map_ = TensorMap.dense("map", Operand("x", "input", F16, (40, 64)), (16, 16))
    out = Operand("out", "output", U8, (512,))
    for position, good in (("8, 3", True), ("-8, 3", True), ("4, 3", False), ("9, 3", False)):
        body = BOX % {"bytes": 512, "rank": 2, "place": position}
        inputs = {"x": np.zeros((40, 64), np.float16)}
        done = run(body, "const __grid_constant__ Map map, unsigned char* out", map_, out, inputs=inputs)
        assert done.ok if good else K.MISALIGNED_ACCESS in kinds(done), position


ADD = """
  __shared__ alignas(128) u32 tile[16][32];
  for (int r = 0; r < 16; ++r) tile[r][threadIdx.x] = r * 32 + threadIdx.x;
  fence();
  __syncwarp();
  if (threadIdx.x == 0) {
    asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {4, 8}], [%1];"
                 ::"l"(&map), "r"(AT(tile)) : "memory");
    asm volatile("cp.async.bulk.commit_group;\\ncp.async.bulk.wait_group 0;" ::: "memory");
  }
"""


def test_boxes_are_added() -> None:
    start = np.arange(20 * 24, dtype=np.uint32).reshape(20, 24)
    map_ = TensorMap.dense("map", Operand("x", "inout", U32, (20, 24)), (16, 32))
    done = run(ADD, "const __grid_constant__ Map map", map_, inputs={"x": start}, grid=3, block=32)
    assert done.ok, done.reason
    expected = start.copy()
    expected[8:, 4:] += 3 * np.arange(512, dtype=np.uint32).reshape(16, 32)[:12, :20]
    np.testing.assert_array_equal(done.outputs["x"], expected)
    done = run(ADD.replace("fence();", ""), "const __grid_constant__ Map map", map_, inputs={"x": start}, block=32)
    assert K.MISSING_PROXY_FENCE in kinds(done)


WRITE = """
  __shared__ alignas(128) unsigned char tile[2048];
  for (int i = threadIdx.x; i < 2048; i += 32) tile[i] = 1;
  fence();
  __syncwarp();
  if (threadIdx.x == 0) {
    asm volatile("INSTRUCTION.bulk_group [%0, {PLACE}], [%1];" ::"l"(&map), "r"(AT(tile)) : "memory");
    asm volatile("cp.async.bulk.commit_group;\\ncp.async.bulk.wait_group 0;" ::: "memory");
  }
"""
STORED, ADDED = (
    f"cp.{how}.tensor.2d.global.shared::cta.{operation}tile"
    for how, operation in (("async.bulk", ""), ("reduce.async.bulk", "add."))
)


@pytest.mark.parametrize(
    ("instruction", "dtype", "position", "kind"),
    [
        (STORED, "u16", "8, 3", None),
        (STORED, "u16", "56, 36", None),  # partly beyond the tensor
        (STORED, "u16", "64, 40", None),
        (STORED, "u16", "-8, 0", K.INVALID_ARGUMENT),
        (STORED, "u16", "0, -3", K.INVALID_ARGUMENT),
        (STORED, "u16", "4, 3", K.MISALIGNED_ACCESS),
        (ADDED, "u32", "4, 3", None),
        (ADDED, "u32", "60, 39", None),
        (ADDED, "u32", "-4, 0", K.INVALID_ARGUMENT),
        (ADDED, "u32", "1, 0", K.MISALIGNED_ACCESS),
        (ADDED, "u16", "0, 0", K.INVALID_ARGUMENT),  # TMA cannot add 16-bit integers
        # The following combinations were not tested on a GPU. We assume that bulk reductions support the same types
        # with and without tensor maps.
        (ADDED.replace("add", "max"), "f16", "0, 0", None),
        (ADDED.replace("add", "max"), "f32", "0, 0", K.INVALID_ARGUMENT),
        (ADDED.replace("add", "inc"), "u32", "0, 0", None),
        (ADDED.replace("add", "inc"), "f32", "0, 0", K.INVALID_ARGUMENT),
        (ADDED.replace("add", "and"), "u64", "0, 0", None),
        (ADDED.replace("add", "and"), "bf16", "0, 0", K.INVALID_ARGUMENT),
    ],
)
def test_boxes_are_only_written_by_supported_instructions(
    instruction: str, dtype: str, position: str, kind: FindingKind | None
) -> None:
    """On an H100, any other instruction that writes boxes causes an illegal instruction error."""
    element = SCALAR_DTYPES[dtype]
    map_ = TensorMap.dense("map", Operand("x", "inout", element, (40, 64)), (16, 16))
    body = WRITE.replace("INSTRUCTION", instruction).replace("PLACE", position)
    inputs = {"x": np.zeros((40, 64), element.storage)}
    done = run(body, "const __grid_constant__ Map map", map_, inputs=inputs, block=32)
    assert kinds(done) == (set() if kind is None else {kind}), done.reason


REGISTERS = """
  if (threadIdx.x < 128) asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
  else asm volatile("setmaxnreg.inc.sync.aligned.u32 %d;");
  out[threadIdx.x] = threadIdx.x;
"""


@pytest.mark.parametrize(("registers", "fits"), [(232, True), (240, False)])
def test_the_registers_of_a_block_are_shared(registers: int, fits: bool) -> None:
    done = run(REGISTERS % registers, "u32* out", Operand("out", "output", U32, (384,)), block=384)
    assert done.ok if fits else kinds(done) == {K.BARRIER_NOT_REACHED}
    assert fits or "registers" in done.reason
