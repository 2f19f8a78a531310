"""A race is harmless for a thread if it only decides whether the thread skips code that has no effect."""

from __future__ import annotations

import numpy as np
import pytest
from needs import needs_compiler

from measurements.emulator import Emulation, FindingKind, emulate_ptx
from search_spaces.hardware.dtypes import U32
from search_spaces.launches.launch import Launch
from search_spaces.launches.operand import Operand

pytestmark = needs_compiler

# Warp 1 reads the flag that warp 0 writes, and the flag decides whether warp 1 skips a store. The store is predicated:
# it executes only if the lowest bit of %xLAST is RESULT. %xLAST is the last number of a chain, in which a number x is
# followed by x * x + x, which is even. Only the first number can be odd.
TEXT = """.version 7.0
.target sm_80
.address_size 64
.visible .entry kernel(.param .u64 out) {
  .reg .pred %p, %q, %r;
  .reg .b32 %v, %last, %x<LENGTH>;
  .reg .b64 %o;
  .shared .align 4 .b32 flag;
  ld.param.u64 %o, [out];
  mov.u32 %x0, %tid.x;
  setp.ge.u32 %r, %x0, 32;
  @%r bra READ;
  st.shared.u32 [flag], 1;
  ret;
READ:
CHAIN
  and.b32 %last, %xLAST, 1;
  setp.eq.u32 %p, %last, RESULT;
  ld.shared.u32 %v, [flag];
  setp.eq.u32 %q, %v, 1;
  @%q bra END;
  @%p st.global.u32 [%o], 1;
END:
  ret;
}
"""


def run(length: int, result: int) -> Emulation:
    """Run the kernel with a chain of ``length`` numbers.

    The kernel executes its store if the lowest bit of the last number is ``result``.
    """
    chain = "\n".join(f"  mad.lo.u32 %x{k}, %x{k - 1}, %x{k - 1}, %x{k - 1};" for k in range(1, length))
    text = TEXT.replace("LENGTH", str(length)).replace("CHAIN", chain).replace("LAST", str(length - 1))
    text = text.replace("RESULT", str(result))
    out = Operand("out", "inout", U32, (1,))
    launch = Launch(entry="kernel", arguments=(out,), grid=(1, 1, 1), block=(64, 1, 1))
    return emulate_ptx(text, launch, {"out": np.zeros(1, np.uint32)}, time_limit=20)


@pytest.mark.parametrize("length", [4, 40, 200])
def test_a_store_that_a_thread_never_executes_may_be_skipped_by_a_racing_value(length: int) -> None:
    done = run(length, result=1)
    assert done.ok and [f.kind for f in done.notes] == [FindingKind.SHARED_RACE], [str(f) for f in done.findings]


@pytest.mark.parametrize("length", [4, 40])
def test_a_store_that_a_thread_executes_may_not(length: int) -> None:
    done = run(length, result=0)
    assert [f.kind for f in done.findings if f.is_fault] == [FindingKind.SHARED_RACE], [str(f) for f in done.findings]
