"""Rarely used PTX instructions are correct. Misuse and unsupported instructions are reported with their line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from needs import needs_compiler, needs_nvrtc

import autosched
from autosched.verify.emulate.emulated_launch import EmulatedLaunch

pytestmark = [needs_nvrtc, needs_compiler]


def run(
    body: str,
    *arguments: Any,
    options: tuple[str, ...] = (),
    before: str = "",
    block: int = 32,
    grid: int = 1,
    dims: str = "",
) -> EmulatedLaunch:
    source = f'typedef unsigned u; typedef unsigned long long ull; {before}\nextern "C" __global__ void {dims} k({body}'
    return autosched.emulate(source, kernel="k", arguments=arguments, grid=grid, block=block, options=options)


def u32(n: int = 32) -> np.ndarray[Any, Any]:
    return np.zeros(n, np.uint32)


@pytest.mark.parametrize(
    ("form", "register", "expected"),
    [
        ("vote.ballot.sync.b32 %0, p, 0xffffffff;", "u", 0xFFFFFFF0),
        ("vote.sync.ballot.b32 %0, p, 0xffffffff;", "u", 0xFFFFFFF0),
        ("{.reg .pred q; vote.all.sync.pred q, p, 0xffffffff; selp.u32 %0, 1, 0, q;}", "u", 0),
        ("{.reg .pred q; vote.any.sync.pred q, p, 0xffffffff; selp.u32 %0, 1, 0, q;}", "u", 1),
        ("{.reg .pred q; vote.uni.sync.pred q, !p, 0xffffffff; selp.u32 %0, 1, 0, q;}", "u", 0),
    ],
)
def test_votes_in_either_spelling(form: str, register: str, expected: int) -> None:
    done = run(
        "u* o) { u r; "
        f'asm volatile("{{.reg .pred p; setp.ge.u32 p, %1, 4; {form}}}" : "=r"(r) : "r"(threadIdx.x)); '
        "o[threadIdx.x] = r; }",
        u32(),
    )
    assert done.ok, done.reason
    assert set(done.arrays[0].tolist()) == {expected}  # type: ignore[union-attr]


@pytest.mark.parametrize(("joined", "negation"), [("or", ""), ("and", ""), ("or", "!"), ("and", "!")])
def test_lop3_joins_a_predicate(joined: str, negation: str) -> None:
    done = run(
        "u* o, u* d) { u r, p; u t = threadIdx.x; "
        'asm("{.reg .pred p, q; setp.ge.u32 q, %2, 16; '
        f'lop3.{joined}.b32 %0|p, %2, 1, 0, 0xc0, {negation}q; selp.u32 %1, 1, 0, p;}}" '
        ': "=r"(r), "=r"(p) : "r"(t)); o[t] = r; d[t] = p; }',
        u32(),
        u32(),
    )
    assert done.ok, done.reason
    t = np.arange(32)
    q = (t >= 16) != bool(negation)
    both = (t & 1 != 0) | q if joined == "or" else (t & 1 != 0) & q
    np.testing.assert_array_equal(done.arrays[0], t & 1)
    np.testing.assert_array_equal(done.arrays[1], both.astype(np.uint32))


ATOMS = """
ull* o, ull* s) {
  ull a, b;
  asm volatile("{.reg .b128 x, y; mov.b128 x, {%2, %3}; atom.global.exch.b128 y, [%4], x; mov.b128 {%0, %1}, y;}"
               : "=l"(a), "=l"(b) : "l"(5ull), "l"(6ull), "l"(s));
  o[0] = a; o[1] = b;
  asm volatile("{.reg .b128 x, y, z; mov.b128 x, {%2, %3}; mov.b128 y, {%5, %6};"
               " atom.global.cas.b128 z, [%4], x, y; mov.b128 {%0, %1}, z;}"
               : "=l"(a), "=l"(b) : "l"(5ull), "l"(6ull), "l"(s), "l"(7ull), "l"(8ull));
  o[2] = a; o[3] = b;
}
"""


def test_atomics_of_sixteen_bytes() -> None:
    s = np.array([1, 2], np.uint64)
    done = run(ATOMS, np.zeros(4, np.uint64), s, block=1, options=("-arch=sm_90",))
    assert done.ok, done.reason
    assert done.arrays[0].tolist() == [1, 2, 5, 6]  # type: ignore[union-attr]
    assert done.arrays[1].tolist() == [7, 8]  # type: ignore[union-attr]


MANAGED = """
u* o) { m[threadIdx.x] = threadIdx.x + first; __syncthreads(); o[threadIdx.x] = m[31 - threadIdx.x]; }
"""


def test_managed_variables() -> None:
    done = run(MANAGED, u32(), before="__managed__ u m[32]; __managed__ u first = 3;")
    assert done.ok, done.reason
    np.testing.assert_array_equal(done.arrays[0], np.arange(34, 2, -1))


OF_ONE = "__cluster_dims__(1, 1, 1)"
ST_ASYNC = """
u* o) {
  __shared__ alignas(16) u to[128];
  __shared__ alignas(8) ull bar;
  const u t = threadIdx.x, a = (u)__cvta_generic_to_shared(to), b = (u)__cvta_generic_to_shared(&bar);
  if (t == 0) {
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(b));
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 512;" ::"r"(b) : "memory");
  }
  __syncthreads();
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %1, %1, %1}, [%2];"
               ::"r"(a + 16 * t), "r"(t), "r"(b) : "memory");
  asm volatile("{.reg .pred p; L: mbarrier.try_wait.parity.shared.b64 p, [%0], 0; @!p bra L;}" ::"r"(b) : "memory");
  o[t] = to[4 * (31 - t) + 1];
}
"""


def test_asynchronous_stores_complete_at_their_mbarrier() -> None:
    done = run(ST_ASYNC, u32(), options=("-arch=sm_90",), dims=OF_ONE)
    assert done.ok, done.reason
    np.testing.assert_array_equal(done.arrays[0], np.arange(31, -1, -1))
    # On an H100, st.async is an illegal instruction unless the launch declares a cluster.
    done = run(ST_ASYNC, u32(), options=("-arch=sm_90",))
    assert "invalid_argument" in {f.kind for f in done.findings}


def test_an_asynchronous_store_without_a_wait_is_found() -> None:
    wait = next(line for line in ST_ASYNC.splitlines() if "try_wait" in line)
    done = run(ST_ASYNC.replace(wait, ""), u32(), options=("-arch=sm_90",), dims=OF_ONE)
    assert "async_read_before_wait" in {f.kind for f in done.findings}


PENDING = """
u* o) {
  __shared__ alignas(8) ull bar;
  const u b = (u)__cvta_generic_to_shared(&bar);
  ull s; u n;
  asm volatile("mbarrier.init.shared.b64 [%0], 5;" ::"r"(b));
  asm volatile("mbarrier.arrive.noComplete.shared.b64 %0, [%1], 1;" : "=l"(s) : "r"(b) : "memory");
  asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(n) : "l"(s));
  o[0] = n;
  asm volatile("mbarrier.arrive_drop.noComplete.shared.b64 %0, [%1], 2;" : "=l"(s) : "r"(b) : "memory");
  asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(n) : "l"(s));
  o[1] = n;
  asm volatile("mbarrier.arrive.shared.b64 %0, [%1], 2;" : "=l"(s) : "r"(b) : "memory");
  asm volatile("mbarrier.arrive.noComplete.shared.b64 %0, [%1], 1;" : "=l"(s) : "r"(b) : "memory");  // here
  asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(n) : "l"(s));
  o[2] = n;  // two of five arrivals were dropped
}
"""


def test_pending_counts_and_dropped_arrivals() -> None:
    done = run(PENDING, u32(3), block=1)
    assert done.ok, done.reason
    assert done.arrays[0].tolist() == [5, 4, 3]  # type: ignore[union-attr]


def test_an_arrival_without_completion_that_completes_is_found() -> None:
    done = run(
        PENDING.replace(
            '[%1], 1;" : "=l"(s) : "r"(b) : "memory");  // here', '[%1], 3;" : "=l"(s) : "r"(b) : "memory");'
        ),
        u32(3),
        block=1,
    )
    assert {f.kind for f in done.findings} == {"mbarrier_misuse"}
    assert "completes phase 1" in str(done.findings[0])


def test_output_of_printf_keeps_the_order_of_calls() -> None:
    done = run(
        "u* o) { u t = threadIdx.x; if (t < 2) "
        'printf("%d|%5.2f|%s|%lld|%c%%|%-4u|%*d|%x\\n", (int)t - 1, 1.5f * t, "text\\t\\"", 1ll << 40, 120, t, 4, 7, '
        "255); o[t] = t; }",
        u32(),
    )
    assert done.ok, done.reason
    assert done.printed == "".join(f'{t - 1}|{1.5 * t:5.2f}|text\t"|{1 << 40}|x%|{t:<4}|{7:4}|ff\n' for t in range(2))


@pytest.mark.parametrize(
    "instruction",
    [
        "cp.async.bulk.tensor.3d.shared::cluster.global.im2col::w.mbarrier::complete_tx::bytes "
        "[%r1], [%rd1, {%r1, %r1, %r1}], [%r2], {%h1, %h1};",
        "wgmma.mma_async.sync.aligned.m64n8k256.s32.b1.b1.xor.popc {%r1, %r2, %r3, %r0}, %rd1, %rd2, %p1;",
        "wgmma.mma_async.sp.sync.aligned.m64n8k64.s32.s8.s8 {%r1, %r2, %r3, %r0}, %rd1, %rd2, %r3, 1, %p1;",
        "atom.exch.b13 %r1, [%rd1], %r1;",
        "mbarrier.nonsense.b64 [%rd1];",
        "lop3.xor.b32 %r1, %r1, %r1, %r1, 3;",
        "st.async.mystery.b32 [%rd1], %r1, [%rd1];",
        "vote.b32 %r1, %p1;",
        "bar;",
        "vshl.u32.u32.s32.clamp %r1, %r1, %r2;",  # ptxas: "Operation requires .u32 type"
        "vshr.s32.s32.s32.wrap %r1, %r1, %r2;",
        "vshl.u32.u32.u32 %r1, %r1, %r2;",  # ptxas: "Clamp modifier required"
    ],
)
def test_unknown_forms_are_unsupported_with_their_line(instruction: str) -> None:
    done = run_instruction(instruction)
    assert done.status == "unsupported"
    assert "PTX line 8" in done.reason


@pytest.mark.parametrize("instruction", ["st.global.u64 [%rd1], {};", "ld.global.u32 {}, [%rd1];"])
def test_an_empty_vector_is_rejected_with_its_line(instruction: str) -> None:
    done = run_instruction(instruction)
    assert done.status == "compile_error"
    assert "PTX line 8" in done.reason


def run_instruction(instruction: str) -> EmulatedLaunch:
    text = (
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 o) {\n"
        f"  .reg .b32 %r<4>;\n  .reg .b64 %rd<4>;\n  .reg .pred %p<2>; .reg .b16 %h<2>;\n  {instruction}\n  ret;\n}}\n"
    )
    return autosched.emulate(text, arguments=(u32(),), grid=1, block=32)
