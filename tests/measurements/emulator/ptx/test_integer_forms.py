"""Rare variants of integer and half-precision instructions have correct results."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from needs import needs_compiler
from ptx_snippets import Snippet, disagreements, results, run_ptx

pytestmark = needs_compiler

PAIRS = (0, 1, 0xFFFF, 0x7FFF8000, 0x8000_7FFF, 0x12345678, 0xFEDC0003, 0xFFFFFFFF)
WIDE = (0, 1, 2**32 - 1, 2**63 - 1, 2**63, 0x0123456789ABCDEF, 0xFEDCBA9876543210, 2**64 - 1)


def signed(x: int, bits: int) -> int:
    return x - (1 << bits) if x >> (bits - 1) else x


@pytest.mark.parametrize(("name", "chosen"), [("min", min), ("max", max)])
def test_the_larger_half_but_not_below_zero(name: str, chosen: Callable[..., int]) -> None:
    def reference(a: int, b: int) -> int:
        halves = (max(0, chosen(signed(a >> s & 0xFFFF, 16), signed(b >> s & 0xFFFF, 16))) << s for s in (0, 16))
        return sum(halves)

    snippet = Snippet(f"{name}.s16x2.relu %d, %a, %b;", "b32", ("b32", "b32"), reference)
    assert not disagreements([snippet], [*itertools.product(PAIRS, PAIRS)])


def test_products_of_64_bits_in_a_chain() -> None:
    """mad.lo.cc and madc.hi add 128-bit numbers to 128-bit products."""
    cases = [*itertools.product(WIDE, WIDE, WIDE)]
    for kind in ("u64", "s64"):
        text = f"mad.lo.cc.{kind} %d, %a, %b, %c; madc.hi.{kind} %d, %a, %b, %c;"

        def reference(a: int, b: int, c: int, kind: str = kind) -> int:
            x, y = (signed(v, 64) if kind == "s64" else v for v in (a, b))
            product = x * y
            carry = ((product & 2**64 - 1) + c) >> 64
            return (product >> 64) + c + carry

        assert not disagreements([Snippet(text, "b64", ("b64",) * 3, reference)], cases)


def test_a_product_of_24_bits_saturates() -> None:
    def reference(a: int, b: int, c: int) -> int:
        product = signed(a & 0xFFFFFF, 24) * signed(b & 0xFFFFFF, 24) >> 16
        return max(-(2**31), min(2**31 - 1, product + signed(c, 32)))

    operands = [
        *itertools.product((0, 3, 0x7FFFFF, 0x800000, 0xFFFFFF), (1, 0x7FFFFF, 0x800000), (0, 2**31 - 1, 2**31))
    ]
    assert not disagreements([Snippet("mad24.hi.sat.s32 %d, %a, %b, %c;", "b32", ("b32",) * 3, reference)], operands)


OUTSIDE = 0x7FF7
HALVES = np.array([0.0, 1.0, -2.5, 1000.0, np.inf, np.nan], np.float16)


@pytest.mark.parametrize("relu", ["", ".relu"])
def test_fma_oob_treats_elements_outside_a_tensor_as_zero(relu: str) -> None:
    """TMA writes a special NaN outside of the tensor. As on an H100, other NaNs (for example 0xFFFF) stay NaN."""
    bits = [*(int(x) for x in HALVES.view(np.uint16)), 0xFFFF, OUTSIDE]
    cases = [*itertools.product(bits, bits, (0x3C00, 0xBC00))]
    (values,) = results([Snippet(f"fma.rn.oob{relu}.f16 %d, %a, %b, %c;", "b16", ("b16",) * 3, int)], cases)
    for (a, b, c), actual in zip(cases, values, strict=True):
        x, y, z = (np.uint16(v).view(np.float16).astype(np.float64) for v in (a, b, c))
        with np.errstate(all="ignore"):
            expected = np.float16(0 if OUTSIDE in (a, b) else x * y + z)
        if relu and not np.isnan(expected):
            expected = max(expected, np.float16(0))
        np.testing.assert_array_equal(np.uint16(actual).view(np.float16), expected)


def cluster_program(directive: str) -> str:
    return f""".version 8.5
.target sm_90
.address_size 64
.visible .entry kernel(.param .u64 out, .param .u64 in) {directive} {{
.reg .b64 %out; .reg .b32 %t; .reg .b64 %x; .reg .pred %p;
ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; mul.wide.u32 %x, %t, 8; add.u64 %out, %out, %x;
mov.pred %p, %is_explicit_cluster; selp.u64 %x, 1, 0, %p; st.global.u64 [%out], %x; ret; }}
"""


def test_whether_clusters_were_requested() -> None:
    for directive, expected in (("", 0), (".reqnctapercluster 1, 1, 1", 1)):
        done = run_ptx(cluster_program(directive), 32, np.zeros(1, np.uint64))
        assert done.ok, done.reason
        assert set(done.outputs["out"].view(np.uint64).tolist()) == {expected}
