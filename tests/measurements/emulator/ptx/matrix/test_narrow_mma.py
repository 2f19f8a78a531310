"""mma.sync of eight-bit floats against numpy, of both depths."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from needs import needs_compiler
from ptx_snippets import WarpSnippet, run_ptx, warp_program

from search_spaces.hardware.dtypes import E4M3, E5M2, DType

pytestmark = needs_compiler

KINDS: dict[str, DType] = {"e4m3": E4M3, "e5m2": E5M2}
SUMS = {"f16": np.float16, "f32": np.float32}


@pytest.mark.parametrize("depth", [16, 32])
@pytest.mark.parametrize("sums", SUMS)
@pytest.mark.parametrize("kinds", [*itertools.product(KINDS, repeat=2)], ids=".".join)
def test_eight_bit_floats(depth: int, sums: str, kinds: tuple[str, str]) -> None:
    rng = np.random.default_rng(depth)
    a, b = rng.integers(-4, 5, (16, depth)), rng.integers(-4, 5, (depth, 8))
    c = rng.integers(-64, 65, (16, 8)).astype(SUMS[sums])
    of_a, of_b = (KINDS[k].store(x.astype(np.float64)).view(np.uint8) for k, x in zip(kinds, (a, b), strict=True))
    lane = np.arange(32)
    group, within, four = lane // 4, lane % 4, np.arange(4)
    words = []
    for register in range(depth // 8):  # rows g and g + 8 in turns, then the next 16 of k
        rows, columns = group + 8 * (register % 2), (within * 4)[:, None] + four + 16 * (register // 2)
        words.append(np.ascontiguousarray(of_a[rows[:, None], columns]).view(np.uint32)[:, 0])
    for register in range(depth // 16):
        lines = (within * 4)[:, None] + four + 16 * register
        words.append(np.ascontiguousarray(of_b[lines, group[:, None]]).view(np.uint32)[:, 0])
    v = np.arange(4)
    rows, columns = group[:, None] + 8 * (v // 2), within[:, None] * 2 + v % 2
    words += list(np.ascontiguousarray(c[rows, columns]).view(np.uint32).T)
    count = 2 if sums == "f16" else 4
    text = f"mma.sync.aligned.m16n8k{depth}.row.col.{sums}.{'.'.join(kinds)}.{sums} {{%d}}, {{%a}}, {{%b}}, {{%c}};"
    snippet = WarpSnippet(text, count, (depth // 8, depth // 16, count))
    done = run_ptx(warp_program([snippet]), 32 * count, np.array(words).astype(np.uint64))
    assert done.ok, done.reason
    results = done.outputs["out"].view(np.uint64).astype(np.uint32).reshape(count, 32)
    got = np.ascontiguousarray(results.T).view(SUMS[sums])
    np.testing.assert_array_equal(got, (a @ b + c.astype(np.int64))[rows, columns].astype(SUMS[sums]))
