"""Functions allocate local memory of dynamic size by alloca, stacksave and stackrestore (PTX ISA 9.7.12)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from needs import needs_compiler

import autosched
from autosched.verify.emulate.emulated_launch import EmulatedLaunch

pytestmark = needs_compiler

KERNEL = """.version 8.0
.target sm_90
.address_size 64
{functions}
.visible .entry k(.param .u64 o, .param .u32 n) {{
{body}
}}
"""
REGISTERS = """
  .reg .b64 %out, %at, %size, %p, %q, %saved; .reg .b32 %t, %n, %i, %s, %v; .reg .pred %go;
  ld.param.u64 %out, [o]; ld.param.u32 %n, [n];
  mov.u32 %t, %tid.x; mul.wide.u32 %at, %t, 4; add.u64 %out, %out, %at;
"""


def run(body: str, n: int, functions: str = "") -> EmulatedLaunch:
    text = KERNEL.format(functions=functions, body=REGISTERS + body)
    return autosched.emulate(text, arguments=(np.zeros(32, np.uint32), np.uint32(n)), grid=1, block=32)


def results(done: EmulatedLaunch) -> np.ndarray[Any, Any]:
    assert done.ok, (done.reason, done.findings)
    return np.asarray(done.arrays[0])


def kinds(done: EmulatedLaunch) -> set[str]:
    return {f.kind.value for f in done.faults}


# Lane i allocates i words in local memory, writes the words and adds them up.
SUM_OF_WORDS = """
  mov.u32 %s, 0; setp.eq.u32 %go, %t, 0; @%go bra END;
  mul.wide.u32 %size, %t, 4; alloca.u64 %p, %size, 16;
  mov.u64 %q, %p; mov.u32 %i, 0;
WRITE: mad.lo.u32 %v, %i, %n, %t; st.local.u32 [%q], %v; add.u64 %q, %q, 4; add.u32 %i, %i, 1;
  setp.lt.u32 %go, %i, %t; @%go bra WRITE;
  mov.u64 %q, %p; mov.u32 %i, 0;
READ: ld.local.u32 %v, [%q]; add.u32 %s, %s, %v; add.u64 %q, %q, 4; add.u32 %i, %i, 1;
  setp.lt.u32 %go, %i, %t; @%go bra READ;
END: st.global.u32 [%out], %s; ret;
"""


def test_each_lane_has_memory_of_its_own_size() -> None:
    t = np.arange(32)
    expected = [sum(i * 3 + lane for i in range(lane)) for lane in t]
    np.testing.assert_array_equal(results(run(SUM_OF_WORDS, 3)), expected)


@pytest.mark.parametrize(("alignment", "expected"), [("", 8), (", 16", 16), (", 64", 64), (", 256", 256)])
def test_memory_has_the_requested_alignment(alignment: str, expected: int) -> None:
    body = f"""
  alloca.u64 %p, 20; alloca.u64 %q, 12{alignment}; st.local.u64 [%q], %out;
  cvt.u32.u64 %v, %q; and.b32 %v, %v, {expected - 1}; st.global.u32 [%out], %v; ret;
"""
    assert not results(run(body, 0)).any()


@pytest.mark.parametrize(
    ("offset", "kind"), [(0, ""), (28, ""), (32, "out_of_bounds_local"), (-4, "out_of_bounds_local")]
)
def test_accesses_are_kept_within_bounds(offset: int, kind: str) -> None:
    body = f"""
  alloca.u64 %p, 64; alloca.u64 %p, 32; alloca.u64 %q, 64;
  st.local.u32 [%p+{offset}], %t; ld.local.u32 %v, [%p+{offset}]; st.global.u32 [%out], %v; ret;
"""
    assert kinds(run(body, 0)) == ({kind} if kind else set())


def test_memory_that_was_never_written_is_undefined() -> None:
    body = """
  stacksave.u64 %saved; alloca.u64 %p, 32; st.local.u32 [%p], %t; stackrestore.u64 %saved;
  alloca.u64 %q, 32; ld.local.u32 %v, [%q]; st.global.u32 [%out], %v; ret;
"""
    assert kinds(run(body, 0)) == {"undefined_register"}


def test_memory_is_freed_when_the_stack_is_restored() -> None:
    body = """
  stacksave.u64 %saved; alloca.u64 %p, 32; st.local.u32 [%p], %t; {restore}
  ld.local.u32 %v, [%p]; st.global.u32 [%out], %v; ret;
"""
    assert kinds(run(body.format(restore=""), 0)) == set()
    assert kinds(run(body.format(restore="stackrestore.u64 %saved;"), 0)) == {"out_of_bounds_local"}


def test_a_loop_that_restores_its_stack_needs_no_more() -> None:
    body = """
  mov.u32 %i, 0; mov.u32 %s, 0;
LOOP: stacksave.u64 %saved; alloca.u64 %p, 4096; st.local.u32 [%p+4092], %i; ld.local.u32 %v, [%p+4092];
  add.u32 %s, %s, %v; stackrestore.u64 %saved; add.u32 %i, %i, 1; setp.lt.u32 %go, %i, %n; @%go bra LOOP;
  st.global.u32 [%out], %s; ret;
"""
    assert set(results(run(body, 500)).tolist()) == {500 * 499 // 2}
    assert kinds(run(body.replace("stackrestore.u64 %saved;", ""), 500)) == {"out_of_bounds_local"}  # over 512 KiB


def test_a_stack_is_only_restored_to_a_saved_pointer() -> None:
    body = "add.u64 %saved, %out, 0; stackrestore.u64 %saved; st.global.u32 [%out], %t; ret;"
    assert kinds(run(body, 0)) == {"invalid_argument"}


FUNCTION = """
.func (.param .b64 r) f(.param .b32 a) {
  .reg .b64 %p; .reg .b32 %x;
  ld.param.b32 %x, [a]; alloca.u64 %p, 32; st.local.u32 [%p], %x; st.param.b64 [r], %p; ret;
}
"""
CALL = """
  { .param .b32 a; .param .b64 r; st.param.b32 [a], %t; call (r), f, (a); ld.param.b64 %p, [r]; }
"""
ALLOCATED = "alloca.u64 %q, 64; st.local.u32 [%q], %t;"


def test_memory_ends_with_its_function() -> None:
    own = f"{CALL} {ALLOCATED} ld.local.u32 %v, [%q]; st.global.u32 [%out], %v; ret;"
    np.testing.assert_array_equal(results(run(own, 0, FUNCTION)), np.arange(32))
    foreign = f"{CALL} ld.local.u32 %v, [%p]; st.global.u32 [%out], %v; ret;"
    assert kinds(run(foreign, 0, FUNCTION)) == {"out_of_bounds_local"}


def test_alloca_of_c() -> None:
    text = (Path(__file__).parent / "alloca.ptx").read_text()
    done = autosched.emulate(text, arguments=(np.zeros(32, np.uint32), np.int32(10)), grid=1, block=32)
    np.testing.assert_array_equal(results(done), [int(str(t * 1001 + 7)[::-1]) for t in range(32)])
