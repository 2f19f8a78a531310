"""Bulk reductions and red.async are correct for every operation and type, in global and distributed shared memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from bulk_kernels import kinds, run
from needs import needs_compiler, needs_nvrtc
from ptx_snippets import HEAD as PTX_HEAD

import autosched
from measurements.emulator import Emulation
from search_spaces.hardware.dtypes import SCALAR_DTYPES
from search_spaces.launches.operand import Operand
from search_spaces.launches.tensor_map import TensorMap

pytestmark = [needs_compiler, needs_nvrtc]

Array = npt.NDArray[Any]
N = 128


def wrapped(old: Array, most: Array) -> Array:
    return np.where(old >= most, 0, old + 1)


def counted_down(old: Array, most: Array) -> Array:
    return np.where((old == 0) | (old > most), most, old - 1)


OPERATIONS: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "inc": wrapped, "dec": counted_down, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip
WITH_INTEGERS = [
    *((name, kind) for name in ("min", "max") for kind in ("u32", "s32", "u64", "s64")),
    *(("add", kind) for kind in ("u32", "s32", "u64")), ("inc", "u32"), ("dec", "u32"),
    *((name, kind) for name in ("and", "or", "xor") for kind in ("b32", "b64")),
]  # fmt: skip
WITH_FLOATS = [*(("add", kind) for kind in ("f16", "f32", "f64")), ("min", "f16"), ("max", "f16")]
STORAGE = {"f16": np.float16, "f32": np.float32, "f64": np.float64}


def storage(kind: str) -> Any:
    if kind in STORAGE:
        return STORAGE[kind]
    return {"u": np.uint32, "b": np.uint32, "s": np.int32}[kind[0]] if kind[1:] == "32" else (
        np.int64 if kind[0] == "s" else np.uint64
    )  # fmt: skip


def values(kind: str, count: int, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    if kind in STORAGE:
        return rng.normal(size=count).astype(storage(kind))
    if kind == "u32":  # includes values at which inc and dec wrap around
        return rng.choice(np.array([0, 1, 5, 6, 2**32 - 1], np.uint32), count)
    info = np.iinfo(storage(kind))
    return rng.integers(info.min, info.max, count, dtype=storage(kind), endpoint=True)


REDUCE = """
  __shared__ alignas(128) unsigned char tile[BYTES];
  for (u32 k = threadIdx.x; k < BYTES / 4; k += 128) ((u32*)tile)[k] = ((const u32*)x)[k];
  fence();
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.FORM [%0], [%1], %2;"
                 ::"l"(out), "r"(AT(tile)), "r"((u32)BYTES) : "memory");
    asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
  }
"""


@pytest.mark.parametrize(("name", "kind"), [*WITH_INTEGERS, *WITH_FLOATS])
def test_reductions_in_global_memory(name: str, kind: str) -> None:
    x, old = values(kind, N, 1), values(kind, N, 2)
    dtype = SCALAR_DTYPES[{"b32": "u32", "b64": "u64", "s32": "i32", "s64": "i64"}.get(kind, kind)]
    form = f"{name}{'.noftz' if (name, kind) == ('add', 'f16') else ''}.{kind}"
    done = run(
        REDUCE.replace("BYTES", str(x.nbytes)).replace("FORM", form),
        "const unsigned char* x, unsigned char* out",
        Operand("x", "input", dtype, x.shape),
        Operand("out", "inout", dtype, x.shape),
        inputs={"x": x, "out": old},
    )
    assert done.ok, done.reason
    np.testing.assert_array_equal(
        done.outputs["out"].view(storage(kind)), OPERATIONS[name](old, x).astype(storage(kind))
    )


def test_min_ignores_nan_and_orders_zeros() -> None:
    x, old = (
        np.tile(np.array([np.nan, 1.0, np.nan, -0.0], np.float16), 32),
        np.tile(np.array([2, np.nan, np.nan, 0], np.float16), 32),
    )
    done = run(
        REDUCE.replace("BYTES", str(x.nbytes)).replace("FORM", "min.f16"),
        "const unsigned char* x, unsigned char* out",
        Operand("x", "input", SCALAR_DTYPES["f16"], x.shape),
        Operand("out", "inout", SCALAR_DTYPES["f16"], x.shape),
        inputs={"x": x, "out": old},
    )
    actual = done.outputs["out"].view(np.float16)
    # As on an H100, the minimum of two NaNs is the canonical NaN, and the minimum of -0 and +0 is -0.
    np.testing.assert_array_equal(actual.view(np.uint16), np.tile(np.array([0x4000, 0x3C00, 0x7FFF, 0x8000]), 32))


def test_sums_of_f32_keep_subnormals_and_have_one_nan() -> None:
    """On an H100, bulk reductions keep subnormals. red.global flushes subnormals to zero."""
    cases = [
        (0x3F800000, 0x3F800000, 0x40000000), (1, 2, 3), (0x80000001, 0x80000002, 0x80000003),
        (0x00C00000, 0x80800000, 0x00400000), (0x007FFFFF, 0x3F800000, 0x3F800000),
        (0x7FC12345, 0x3F800000, 0x7FFFFFFF), (0x7F800000, 0xFF800000, 0x7FFFFFFF),
        (0x7F800000, 0xBF800000, 0x7F800000),
    ]  # fmt: skip
    x, old, expected = np.tile(np.array(cases, np.uint32), (N // len(cases), 1)).T.copy().view(np.float32)
    f32 = SCALAR_DTYPES["f32"]
    done = run(
        REDUCE.replace("BYTES", str(x.nbytes)).replace("FORM", "add.f32"), "const unsigned char* x, unsigned char* out",
        Operand("x", "input", f32, x.shape), Operand("out", "inout", f32, x.shape), inputs={"x": x, "out": old},
    )  # fmt: skip
    np.testing.assert_array_equal(done.outputs["out"].view(np.uint32), expected.view(np.uint32))


TENSOR = """
  __shared__ alignas(128) u32 tile[N];
  tile[threadIdx.x] = x[threadIdx.x];
  fence();
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("cp.reduce.async.bulk.tensor.1d.global.shared::cta.FORM.bulk_group [%0, {%1}], [%2];"
                 ::"l"(&map), "r"(32), "r"(AT(tile)) : "memory");
    asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
  }
""".replace("N]", f"{N}]")


@pytest.mark.parametrize("name", ["min", "max", "inc", "dec", "and", "or", "xor"])
def test_reductions_of_boxes(name: str) -> None:
    x, old = values("u32", N, 3), values("u32", N, 4)
    u32 = SCALAR_DTYPES["u32"]
    out = Operand("out", "inout", u32, (N,))
    done = run(
        TENSOR.replace("FORM", name), "const __grid_constant__ Map map, const u32* x",
        TensorMap("map", out, "UINT32", (N,), (), (N,), (1,)),
        Operand("x", "input", u32, (N,)), inputs={"x": x, "out": old},
    )  # fmt: skip
    assert done.ok, done.reason
    expected = old.copy()  # elements outside of the tensor are dropped
    expected[32:] = OPERATIONS[name](old[32:], x[:-32])
    np.testing.assert_array_equal(done.outputs["out"].view(np.uint32), expected)


# Each block reduces into block 0's shared memory, with a bulk copy or red.async.
INTO_BLOCK = """
  __shared__ alignas(128) TYPE sums[128]; __shared__ alignas(128) TYPE mine[128]; __shared__ u64 barrier;
  u32 rank; asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  const u32 t = threadIdx.x, b = AT(barrier);
  FIRST mine[t] = x[rank * 128 + t];
  if (t == 0) {
    init(b, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    if (rank == 0) expect(b, 2 * sizeof sums);
  }
  FENCE
  sync_cluster();
  const u32 at = in_block(AT(sums), 0), counted = in_block(b, 0);
  REDUCTION
  if (rank == 0) { WAIT out[t] = sums[t]; }
  sync_cluster();
"""
BULK = """if (t == 0) {
    asm volatile("cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.FORM "
                 "[%0], [%1], %2, [%3];" ::"r"(at), "r"(AT(mine)), "r"((u32)sizeof mine), "r"(counted) : "memory");
  }"""
EACH = """asm volatile("red.async.relaxed.cluster.mbarrier::complete_tx::bytes.shared::cluster.FORM [%0], %1, [%2];"
                 ::"r"(at + t * (u32)sizeof(TYPE)), "CLASS"(mine[t]), "r"(counted) : "memory");"""
IN_SHARED = [
    ("add", "u32"), ("add", "s32"), ("add", "u64"), ("min", "s32"), ("max", "u32"), ("inc", "u32"), ("dec", "u32"),
    ("and", "b32"), ("or", "b32"), ("xor", "b32"),
]  # fmt: skip


def into_block(
    reduction: str,
    name: str,
    kind: str,
    *,
    wait: str = "wait(b, 0);",
    fence: str = "fence();",
    first: str = "sums[t] = start[t];",
    seed: int = 0,
) -> tuple[Emulation, Array]:
    x, start = values(kind, 2 * N, 5).reshape(2, N), values(kind, N, 6)
    x[:] = x[:1] if name in ("inc", "dec") else x  # the result does not depend on the order of the reductions
    dtype = SCALAR_DTYPES[{"b32": "u32", "s32": "i32"}.get(kind, kind)]
    wide = kind[1:] == "64"
    body = INTO_BLOCK.replace("REDUCTION", reduction).replace("FORM", f"{name}.{kind}").replace("WAIT", wait)
    body = body.replace("FIRST", first).replace("TYPE", "u64" if wide else "u32")
    body = body.replace("CLASS", "l" if wide else "r").replace("FENCE", fence)
    t = "u64" if wide else "u32"
    done = run(
        body, f"const {t}* x, const {t}* start, {t}* out", Operand("x", "input", dtype, x.shape),
        Operand("start", "input", dtype, (N,)), Operand("out", "output", dtype, (N,)), inputs={"x": x, "start": start},
        cluster=2, seed=seed,
    )  # fmt: skip
    expected = start
    for operand in x:
        expected = OPERATIONS[name](expected, operand).astype(storage(kind))
    return done, expected


@pytest.mark.parametrize("reduction", [BULK, EACH], ids=["bulk", "red.async"])
@pytest.mark.parametrize(("name", "kind"), IN_SHARED)
@pytest.mark.parametrize("seed", [0, 3])
def test_reductions_in_the_memory_of_another_block(reduction: str, name: str, kind: str, seed: int) -> None:
    done, expected = into_block(reduction, name, kind, seed=seed)
    assert done.ok, (done.reason, done.findings)
    np.testing.assert_array_equal(done.outputs["out"].view(storage(kind)), expected)


@pytest.mark.parametrize("reduction", [BULK, EACH], ids=["bulk", "red.async"])
def test_a_reduction_without_a_wait_is_found(reduction: str) -> None:
    done, _ = into_block(reduction, "add", "u32", wait="")
    assert "async_read_before_wait" in kinds(done)


def test_bulk_reductions_need_a_proxy_fence_and_others_none() -> None:
    done, _ = into_block(BULK, "add", "u32", fence="")
    assert "missing_proxy_fence" in kinds(done)
    done, _ = into_block(EACH, "add", "u32", fence="")
    assert done.ok, (done.reason, done.findings)


@pytest.mark.parametrize("reduction", [BULK, EACH], ids=["bulk", "red.async"])
def test_reductions_on_unwritten_memory_are_found(reduction: str) -> None:
    done, _ = into_block(reduction, "add", "u32", first="")
    assert "uninitialized_shared_read" in kinds(done)


# The threads of a warp add to one word. Thread 0 also accesses the word at the point FIRST, SECOND or THIRD; a barrier
# follows only FIRST.
ONE_WORD = """
  __shared__ u32 sum; __shared__ u64 barrier;
  const u32 t = threadIdx.x, b = AT(barrier);
  if (t == 0) {
    FIRST
    init(b, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if (t >= 32) return;
  if (t == 0) { SECOND expect(b, 128); }
  asm volatile("red.async.relaxed.cluster.mbarrier::complete_tx::bytes.shared::cluster.add.u32 [%0], %1, [%2];"
               ::"r"(AT(sum)), "r"(t), "r"(b) : "memory");
  if (t == 0) { THIRD }
  wait(b, 0);
  out[t] = sum;
"""
SET, GET = "sum = 5;", "out[32] = sum;"


def into_one_word(*positions: str, seed: int = 0) -> Emulation:
    body = ONE_WORD
    for name, position in zip(("FIRST", "SECOND", "THIRD"), positions, strict=True):
        body = body.replace(name, position)
    return run(body, "u32* out", Operand("out", "inout", SCALAR_DTYPES["u32"], (33,)),
               inputs={"out": np.zeros(33, np.uint32)}, seed=seed)  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_concurrent_reductions_of_one_word_do_not_race(seed: int) -> None:
    done = into_one_word(SET, "", "", seed=seed)
    assert done.ok, (done.reason, done.findings)
    assert set(done.outputs["out"][:32].view(np.uint32)) == {5 + 32 * 31 // 2}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("positions", [("", SET, ""), (SET, GET, "")], ids=["write", "read"])
def test_reductions_of_other_threads_race_with_earlier_accesses(positions: tuple[str, str, str], seed: int) -> None:
    """Thread 0's reduction is ordered after thread 0's earlier accesses. Reductions by other threads are not."""
    assert "shared_race" in kinds(into_one_word(*positions, seed=seed))


@pytest.mark.parametrize(("position", "kind"), [(SET, "shared_race"), (GET, "async_read_before_wait")])
def test_threads_may_not_access_a_word_during_its_reduction(position: str, kind: str) -> None:
    assert kind in kinds(into_one_word(SET, "", position))


# Thread 32 starts its reduction after thread 0's reduction is complete, but no barrier orders them.
ONE_AFTER_THE_OTHER = """
  __shared__ u32 sum; __shared__ u64 barriers[2]; __shared__ u32 flag;
  const u32 t = threadIdx.x, b = AT(barriers[t / 32 % 2]);
  if (t == 0) {
    flag = 32;
    FIRST
    for (int k = 0; k < 2; ++k) init(AT(barriers[k]), 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if (t % 32 != 0 || t > 32) return;
  if (t == 0) { SECOND }
  u32 seen = t;
  while (seen == 32) asm volatile("ld.relaxed.cta.shared.u32 %0, [%1];" : "=r"(seen) : "r"(AT(flag)));
  expect(b, 4);
  asm volatile("red.async.relaxed.cluster.mbarrier::complete_tx::bytes.shared::cluster.add.u32 [%0], %1, [%2];"
               ::"r"(AT(sum)), "r"(t), "r"(b) : "memory");
  wait(b, 0);
  if (t == 0) asm volatile("st.relaxed.cta.shared.u32 [%0], 1;" ::"r"(AT(flag)));
"""


@pytest.mark.parametrize(("first", "second", "expected"), [(SET, "", set()), ("", SET, {"shared_race"})])
def test_a_reduction_does_not_hide_an_earlier_write(first: str, second: str, expected: set[str]) -> None:
    body = ONE_AFTER_THE_OTHER.replace("FIRST", first).replace("SECOND", second)
    u32 = SCALAR_DTYPES["u32"]
    done = run(body, "u32* out", Operand("out", "inout", u32, (1,)), inputs={"out": np.zeros(1, np.uint32)})
    assert kinds(done) == expected


# All warps write a word before a barrier. Then an asynchronous write arrives, and thread 0 waits for it. Afterwards
# thread 32 reads the word.
WRITTEN_TOGETHER = """
  __shared__ alignas(16) u32 word[4]; __shared__ u64 barrier; __shared__ u32 flag;
  const u32 t = threadIdx.x, b = AT(barrier);
  word[t % 4] = t % 4;
  fence();
  if (t == 0) {
    flag = 32;
    init(b, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if (t == 0) {
    expect(b, 16);
    COMING
    wait(b, 0);
    asm volatile("st.relaxed.cta.shared.u32 [%0], 1;" ::"r"(AT(flag)) : "memory");
  }
  if (t != 32) return;
  u32 seen = 32;
  while (seen == 32) asm volatile("ld.relaxed.cta.shared.u32 %0, [%1];" : "=r"(seen) : "r"(AT(flag)) : "memory");
  WAIT
  out[0] = word[2];
"""
COMING = {
    "copy": """asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 16, [%2];"
                 ::"r"(AT(word)), "l"(x), "r"(b) : "memory");""",
    "reduction": """for (int k = 0; k < 4; ++k) {
      asm volatile("red.async.relaxed.cluster.mbarrier::complete_tx::bytes.shared::cluster.add.u32 [%0], %1, [%2];"
                   ::"r"(AT(word[k])), "r"(7), "r"(b) : "memory");
    }""",
}


@pytest.mark.parametrize("coming", COMING)
@pytest.mark.parametrize(("wait", "expected"), [("wait(b, 0);", set()), ("", {"async_read_before_wait"})])
def test_earlier_writers_also_wait_for_the_reduction(coming: str, wait: str, expected: set[str]) -> None:
    u32 = SCALAR_DTYPES["u32"]
    done = run(
        WRITTEN_TOGETHER.replace("COMING", COMING[coming]).replace("WAIT", wait), "const u32* x, u32* out",
        Operand("x", "input", u32, (4,)), Operand("out", "inout", u32, (1,)),
        inputs={"x": np.full(4, 9, np.uint32), "out": np.zeros(1, np.uint32)},
    )  # fmt: skip
    assert kinds(done) == expected, done.findings
    assert done.outputs["out"][0] == 9


MULTICAST = """
  __shared__ alignas(128) float tile[N]; __shared__ u64 barrier;
  u32 rank; asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  const u32 b = AT(barrier), t = threadIdx.x;
  if (t == 0) {
    init(b, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    expect(b, 512);
  }
  sync_cluster();
  if (t == 0 && rank == 1) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1], 512, [%2], %3;" ::"r"(AT(tile)), "l"(x), "r"(b), "h"((unsigned short)BLOCKS) : "memory");
  }
  wait(b, 0);
  out[rank * 128 + t] = tile[t];
  sync_cluster();
""".replace("N]", f"{N}]")


@pytest.mark.parametrize(("blocks", "kind"), [(3, ""), (5, "invalid_argument"), (0, "invalid_argument")])
def test_one_copy_for_many_blocks(blocks: int, kind: str) -> None:
    x = np.arange(N, dtype=np.float32)
    f32 = SCALAR_DTYPES["f32"]
    done = run(
        MULTICAST.replace("BLOCKS", str(blocks)), "const float* x, float* out", Operand("x", "input", f32, (N,)),
        Operand("out", "output", f32, (2, N)), inputs={"x": x}, cluster=2,
    )  # fmt: skip
    if kind:
        assert kind in kinds(done)
        return
    assert done.ok, (done.reason, done.findings)
    np.testing.assert_array_equal(done.outputs["out"], np.stack([x, x]))


MASKED = """{head}
.visible .entry kernel(.param .u64 out, .param .u64 in) {{
.shared .align 16 .b8 tile[512];
.reg .b64 %out, %in, %at, %w; .reg .b32 %t, %s; .reg .b16 %m; .reg .pred %p;
ld.param.u64 %out, [out]; ld.param.u64 %in, [in]; mov.u32 %t, %tid.x; mov.u32 %s, tile;
mul.wide.u32 %at, %t, 8; add.u64 %in, %in, %at;
mad.lo.u32 %s, %t, 8, %s; ld.global.u64 %w, [%in]; st.shared.u64 [%s], %w; fence.proxy.async; bar.sync 0;
setp.ne.u32 %p, %t, 0; @%p bra END;
mov.b16 %m, {mask};
cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%out], [%s], 256, %m;
cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
END: ret; }}
"""


@pytest.mark.parametrize("mask", [0, 1, 0x8001, 0x0FF0, 0xFFFF])
def test_bytes_that_a_mask_names_are_copied(mask: int) -> None:
    values = np.random.default_rng(1).integers(0, 200, 256).astype(np.uint8)
    text = MASKED.format(head=PTX_HEAD.replace("sm_90", "sm_100"), mask=mask)
    done = autosched.emulate(text, arguments=(np.full(256, 0xFF, np.uint8), values), grid=1, block=32)
    assert done.ok, (done.reason, done.findings)
    named = np.tile(np.array([mask >> k & 1 for k in range(16)], np.bool_), 16)
    np.testing.assert_array_equal(done.arrays[0], np.where(named, values, 0xFF))
