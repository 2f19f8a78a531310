"""mma.sync of floats with at most eight bits agrees with numpy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from needs import needs_compiler
from ptx_snippets import WarpSnippet, run_ptx, warp_program

from search_spaces.hardware.dtypes import E4M3, E5M2, DType

pytestmark = needs_compiler

Array = npt.NDArray[Any]
KINDS: dict[str, DType] = {"e4m3": E4M3, "e5m2": E5M2}
SUMS = {"f16": np.float16, "f32": np.float32}


def product(opcode: str, depth: int, sums: str, of_a: Array, of_b: Array, c: Array, suffix: str = "") -> Array:
    """Run ``opcode`` on bytes of A and B, and return each lane's results as (32, 4). ``suffix`` adds operands."""
    lane = np.arange(32)
    group, within, four = lane // 4, lane % 4, np.arange(4)
    words = []
    for register in range(depth // 8):  # registers alternate between rows g and g + 8, then advance by 16 along k
        rows, columns = group + 8 * (register % 2), (within * 4)[:, None] + four + 16 * (register // 2)
        words.append(np.ascontiguousarray(of_a[rows[:, None], columns]).view(np.uint32)[:, 0])
    for register in range(depth // 16):
        lines = (within * 4)[:, None] + four + 16 * register
        words.append(np.ascontiguousarray(of_b[lines, group[:, None]]).view(np.uint32)[:, 0])
    words += list(np.ascontiguousarray(of_sums(c)).view(np.uint32).T)
    count = 2 if sums == "f16" else 4
    snippet = WarpSnippet(f"{opcode} {{%d}}, {{%a}}, {{%b}}, {{%c}}{suffix};", count, (depth // 8, depth // 16, count))
    done = run_ptx(warp_program([snippet]), 32 * count, np.array(words).astype(np.uint64))
    assert done.ok, done.reason
    results = done.outputs["out"].view(np.uint64).astype(np.uint32).reshape(count, 32)
    return np.ascontiguousarray(results.T).view(SUMS[sums])


def of_sums(c: Array) -> Array:
    """Return an array (32, 4) with each lane's elements of c or d."""
    lane, v = np.arange(32), np.arange(4)
    return np.ascontiguousarray(c[(lane // 4)[:, None] + 8 * (v // 2), (lane % 4)[:, None] * 2 + v % 2])


@pytest.mark.parametrize("depth", [16, 32])
@pytest.mark.parametrize("sums", SUMS)
@pytest.mark.parametrize("kinds", [*itertools.product(KINDS, repeat=2)], ids=".".join)
def test_eight_bit_floats(depth: int, sums: str, kinds: tuple[str, str]) -> None:
    rng = np.random.default_rng(depth)
    a, b = rng.integers(-4, 5, (16, depth)), rng.integers(-4, 5, (depth, 8))
    c = rng.integers(-64, 65, (16, 8)).astype(SUMS[sums])
    of_a, of_b = (KINDS[k].store(x.astype(np.float64)).view(np.uint8) for k, x in zip(kinds, (a, b), strict=True))
    for variant in ("", "kind::f8f6f4."):
        opcode = f"mma.sync.aligned.m16n8k{depth}.row.col.{variant}{sums}.{'.'.join(kinds)}.{sums}"
        actual = product(opcode, depth, sums, of_a, of_b, c)
        np.testing.assert_array_equal(actual, of_sums((a @ b + c.astype(np.int64)).astype(SUMS[sums])))


# (exponent bits, mantissa bits, position of the lowest bit within a byte)
NARROW = {"e2m1": (2, 1, 2), "e2m3": (2, 3, 0), "e3m2": (3, 2, 0)}


def narrow(kind: str, rng: np.random.Generator, shape: tuple[int, int]) -> tuple[Array, Array]:
    """Return bytes and the numbers that they encode. The unused bits of each byte are random, and must be ignored."""
    if kind in KINDS:
        x = rng.integers(-4, 5, shape).astype(np.float64)
        return KINDS[kind].store(x).view(np.uint8), x
    exponents, mantissas, shift = NARROW[kind]
    bits = 1 + exponents + mantissas
    codes = rng.integers(0, 2**bits, shape)
    e, m = codes >> mantissas & 2**exponents - 1, codes & 2**mantissas - 1
    bias = 2 ** (exponents - 1) - 1
    x = np.where(e == 0, m / 2**mantissas * 2.0 ** (1 - bias), (1 + m / 2**mantissas) * 2.0 ** (e - bias))
    around = rng.integers(0, 256, shape) & ~((2**bits - 1) << shift)
    return (codes << shift | around).astype(np.uint8), np.where(codes >> (bits - 1), -x, x)


@pytest.mark.parametrize("sums", SUMS)
@pytest.mark.parametrize("kinds", [*itertools.product(("e4m3", *NARROW), repeat=2)], ids=".".join)
def test_narrower_floats_in_bytes(sums: str, kinds: tuple[str, str]) -> None:
    rng = np.random.default_rng(7)
    (of_a, a), (of_b, b) = narrow(kinds[0], rng, (16, 32)), narrow(kinds[1], rng, (32, 8))
    c = np.zeros((16, 8), SUMS[sums])
    types = f"{sums}.{'.'.join(kinds)}.{sums}"
    actual = product(f"mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.{types}", 32, sums, of_a, of_b, c)
    np.testing.assert_array_equal(actual, of_sums((a @ b).astype(SUMS[sums])))


@pytest.mark.parametrize("kinds", [*itertools.product(("e5m2", *NARROW), repeat=2)], ids=".".join)
def test_narrower_floats_with_scales(kinds: tuple[str, str]) -> None:
    rng = np.random.default_rng(8)
    (of_a, a), (of_b, b) = narrow(kinds[0], rng, (16, 32)), narrow(kinds[1], rng, (32, 8))
    types = f"f32.{'.'.join(kinds)}.f32.ue8m0"
    opcode = f"mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.{types}"
    scales = ", 0x80808080, {0, 0}, 0x7e7e7e7e, {0, 0}"  # scales of 2.0 for a and 0.5 for b
    actual = product(opcode, 32, "f32", of_a, of_b, np.zeros((16, 8), np.float32), scales)
    np.testing.assert_array_equal(actual, of_sums((a @ b).astype(np.float32)))
