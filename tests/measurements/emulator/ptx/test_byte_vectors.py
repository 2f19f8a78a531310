"""Test ``mov`` between a word and a vector of 8-bit registers. Triton emits it to convert int8 on sm_80."""

from __future__ import annotations

import numpy as np
import pytest
from needs import needs_compiler
from ptx_snippets import HEAD, run_ptx

pytestmark = needs_compiler

_UNPACK = "mov.b32 {s0, s1, s2, s3}, %x;"
BODIES = {
    "converted": f"{_UNPACK} cvt.rn.f32.s8 f, s1; cvt.rzi.s64.f32 %r, f;",
    "packed again": f"{_UNPACK} mov.b32 %y, {{s3, s1, s0, s2}}; cvt.u64.u32 %r, %y;",
    "widened": f"{_UNPACK} cvt.s64.s8 %r, s3;",
}
WORD = 0x80FF7F01
EXPECTED = {"converted": 127, "packed again": 0xFF017F80, "widened": -128}


@pytest.mark.parametrize("name", BODIES)
def test_each_register_is_one_byte(name: str) -> None:
    text = f"""{HEAD}.visible .entry kernel(.param .u64 out, .param .u64 in) {{
.reg .b64 %o, %i, %r; .reg .b32 %x, %y; .reg .s8 s<4>; .reg .f32 f;
ld.param.u64 %o, [out]; ld.param.u64 %i, [in]; ld.global.b32 %x, [%i];
{BODIES[name]}
st.global.u64 [%o], %r; ret; }}
"""
    done = run_ptx(text, 1, np.array([WORD], np.uint64), block=1)
    assert done.status == "ok", done.reason
    (out,) = (values for key, values in done.outputs.items() if key == "out")
    assert int(out.view(np.int64)[0]) == EXPECTED[name]
