"""For a few recorded launches of the emulator's tests, a GPU gives the same bytes as the emulator."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from keep_launches import KeepLaunches
from needs import needs_compiler
from ptx_snippets import HEAD, Snippet, results, run_ptx

from benchmarks.gpu.launches import run as launches
from benchmarks.gpu.launches.kept import names

pytestmark = [pytest.mark.gpu, needs_compiler]

WORDS = [(0x80FF7F01, 0x01020304, 0), (0xFFFFFFFF, 1, 5), (7, 0xFFFFFFFF, 0x80000000)]
SNIPPETS = [
    Snippet("prmt.b32 %d, %a, %b, 0x7531;", "b32", ("b32", "b32"), lambda a, b: 0),
    Snippet("mad.hi.u32 %d, %a, %b, %c;", "b32", ("b32", "b32", "b32"), lambda a, b, c: 0),
    Snippet("vadd.s32.s32.s32.sat %d, %a, %b;", "b32", ("b32", "b32"), lambda a, b: 0),
    Snippet("{ .reg .f32 f; cvt.rn.f32.s32 f, %a; mov.b32 %d, f; }", "b32", ("b32",), lambda a: 0),
]
SHARED = f"""{HEAD}.visible .entry kernel(.param .u64 out, .param .u64 in) {{
.reg .b64 %o, %i, %r; .reg .b32 %t, %s; .shared .align 8 .b8 tile[256];
ld.param.u64 %o, [out]; ld.param.u64 %i, [in];
mov.u32 %t, %tid.x; mul.wide.u32 %r, %t, 8; add.u64 %i, %i, %r; add.u64 %o, %o, %r;
mov.u32 %s, tile; mad.lo.u32 %s, %t, 8, %s;
ld.global.u64 %r, [%i]; st.shared.u64 [%s], %r; bar.sync 0;
mov.u32 %s, tile; sub.u32 %t, 31, %t; mad.lo.u32 %s, %t, 8, %s;
ld.shared.u64 %r, [%s]; st.global.u64 [%o], %r; ret; }}
"""


def test_kept_launches_end_as_emulated(tmp_path: Path) -> None:
    folder, out = tmp_path / "kept", tmp_path / "out"
    plugin = KeepLaunches(folder)
    try:
        for snippet in SNIPPETS:
            results([snippet], WORDS)
        assert run_ptx(SHARED, 32, np.arange(32, dtype=np.uint64), block=32).ok
    finally:
        plugin.pytest_unconfigure()
    assert len(names(folder)) == len(SNIPPETS) + 1
    assert launches.main([str(folder), "--out", str(out), "--workers", "1"]) == 0
    rows = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    assert [row["status"] for row in rows] == ["equal"] * len(names(folder))
