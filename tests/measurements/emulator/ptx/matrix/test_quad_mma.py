"""mma.m8n8k4 of f16 agrees with numpy. The lanes hold the elements that the PTX ISA (9.7.14.5.1) assigns to them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from needs import needs_compiler
from ptx_snippets import WarpSnippet, run_ptx, warp_program

pytestmark = needs_compiler

LANES = range(32)
TYPES = [("f16", "f16"), ("f32", "f16"), ("f32", "f32")]


def position_of_c(kind: str, lane: int, v: int) -> tuple[int, int]:
    """Return the row and column of a lane's element v of c or d."""
    below = 0 if lane < 16 else 4
    if kind == "f16":
        return lane % 4 + below, v
    return (lane & 1) + (v & 2) + below, (v & 4) + (lane & 2) + (v & 1)


def position_of_a(layout: str, lane: int, v: int) -> tuple[int, int]:
    below = 0 if lane < 16 else 4
    return (lane % 4 + below, v) if layout == "row" else (v + below, lane % 4)


def position_of_b(layout: str, lane: int, v: int) -> tuple[int, int]:
    offset = 0 if lane < 16 else 4
    return (lane % 4, v + offset) if layout == "row" else (v, lane % 4 + offset)


@pytest.mark.parametrize("types", TYPES, ids=".".join)
@pytest.mark.parametrize("layouts", [*itertools.product(("row", "col"), repeat=2)], ids=".".join)
def test_four_products_of_a_warp(types: tuple[str, str], layouts: tuple[str, str]) -> None:
    rng = np.random.default_rng(5)
    a, b = rng.integers(-4, 5, (4, 8, 4)), rng.integers(-4, 5, (4, 4, 8))
    c = rng.integers(-64, 65, (4, 8, 8))
    d_type, c_type = types
    halves = np.zeros((4, 32, 2), np.float16)  # the registers of a, then the registers of b
    for lane, v in itertools.product(LANES, range(4)):
        product = lane % 16 // 4
        halves[v // 2, lane, v % 2] = a[product][position_of_a(layouts[0], lane, v)]
        halves[2 + v // 2, lane, v % 2] = b[product][position_of_b(layouts[1], lane, v)]
    sums = np.zeros((32, 8), {"f16": np.float16, "f32": np.float32}[c_type])
    for lane, v in itertools.product(LANES, range(8)):
        sums[lane, v] = c[lane % 16 // 4][position_of_c(c_type, lane, v)]
    of_c = sums.view(np.uint32).T
    registers = {"f16": 4, "f32": 8}
    text = (
        f"mma.sync.aligned.m8n8k4.{layouts[0]}.{layouts[1]}.{d_type}.f16.f16.{c_type} {{%d}}, {{%a}}, {{%b}}, {{%c}};"
    )
    operands = np.concatenate([halves.view(np.uint32)[..., 0], of_c]).astype(np.uint64)
    snippet = WarpSnippet(text, registers[d_type], (2, 2, registers[c_type]))
    done = run_ptx(warp_program([snippet]), 32 * registers[d_type], operands)
    assert done.ok, done.reason
    words = done.outputs["out"].view(np.uint64).astype(np.uint32).reshape(-1, 32)
    actual = np.ascontiguousarray(words.T).view({"f16": np.float16, "f32": np.float32}[d_type])
    expected = a @ b + c
    for lane, v in itertools.product(LANES, range(8)):
        assert actual[lane, v] == expected[lane % 16 // 4][position_of_c(d_type, lane, v)], (lane, v)
