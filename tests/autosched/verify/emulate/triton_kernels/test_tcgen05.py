"""Triton's kernels for GPUs with tensor memory are emulated with correct results and no findings."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from needs import needs_compiler

import autosched
from measurements.emulator import FindingKind, emulate_ptx
from search_spaces.hardware.dtypes import BF16, E4M3, E5M2

triton = pytest.importorskip("triton", reason="Triton is not installed: pip install 'autosched[triton]'")
import triton_kernels  # noqa: E402
from scaled_products import CASES, POINTERS, random_elements, random_scales, scales, values  # noqa: E402

pytestmark = [needs_compiler, pytest.mark.filterwarnings("ignore::UserWarning")]

# Triton waits for tcgen05.ld only before it uses the loaded registers, and never issues a tcgen05 fence.
ADVICE = {FindingKind.MISSING_TCGEN05_FENCE, FindingKind.MISSING_TCGEN05_WAIT}
RNG = np.random.default_rng(4)


def passes(result: Any) -> None:
    assert result.ok and {f.kind for f in result.findings} <= ADVICE, result.reason


@pytest.mark.parametrize("sm", [100, 103, 110])
@pytest.mark.parametrize(
    ("tile", "warps", "stages"), [((128, 128, 64), 4, 2), ((64, 128, 64), 4, 3), ((128, 64, 32), 8, 3)], ids=str
)
def test_matmul(sm: int, tile: tuple[int, int, int], warps: int, stages: int) -> None:
    if sm != 100 and tile[0] != 128:
        pytest.skip("one shape is enough for the other GPUs")
    m, n, k = 144, 160, 96
    a, b = RNG.standard_normal((m, k)).astype(np.float16), RNG.standard_normal((k, n)).astype(np.float16)
    signature = {"a": "*fp16", "b": "*fp16", "c": "*fp16", "M": "i32", "N": "i32", "K": "i32"}
    blocks = dict(zip(("BM", "BN", "BK"), tile, strict=True))
    compiled = triton_kernels.compiled("matmul", signature, blocks, 6, sm, num_warps=warps, num_stages=stages)
    assert "tcgen05.mma.cta_group::1.kind::f16" in compiled.asm["ptx"]
    c = np.zeros((m, n), np.float16)
    grid = (-(-m // tile[0]), -(-n // tile[1]))
    result = autosched.emulate(compiled, arguments=(a, b, c, m, n, k), grid=grid, outputs=(2,))
    passes(result)
    np.testing.assert_allclose(result.arrays[2], a.astype(np.float64) @ b.astype(np.float64), rtol=2e-3, atol=2e-2)


@pytest.mark.parametrize("stages", [1, 3])
def test_matmul_by_tensor_descriptors(stages: int) -> None:
    """Triton reads the address that tcgen05.alloc stored. TMA then overwrites the address without a proxy fence."""
    m, n, k = 128, 128, 192
    kinds = dict.fromkeys("abc", "tensordesc<fp16[64, 64]>")
    blocks = {"BM": 64, "BN": 64, "BK": 64}
    compiled = triton_kernels.compiled(
        "matmul_by_descriptors", {**kinds, "K": "i32"}, blocks, sm=100, num_warps=4, num_stages=stages
    )
    text = compiled.asm["ptx"]
    assert "tcgen05.mma" in text and "cp.async.bulk.tensor" in text
    a, b = RNG.standard_normal((m, k)).astype(np.float16), RNG.standard_normal((k, n)).astype(np.float16)
    launch = triton_kernels.launch_by_descriptors(compiled, m, n, k)
    emulation = emulate_ptx(text, launch, {"a": a, "b": b}, time_limit=60)
    assert emulation.ok, emulation.reason
    np.testing.assert_allclose(
        emulation.outputs["c"], a.astype(np.float64) @ b.astype(np.float64), rtol=2e-3, atol=2e-2
    )
    fences = [f for f in emulation.findings if f.kind == FindingKind.MISSING_PROXY_FENCE]
    assert fences and not any(f.is_fault for f in fences)


STORED = {"*bf16": BF16, "*fp8e4nv": E4M3, "*fp8e5": E5M2}


@pytest.mark.parametrize(
    ("pointer", "kind"), [("*bf16", "f16"), ("*fp8e4nv", "f8f6f4"), ("*fp8e5", "f8f6f4"), ("*fp32", "tf32")]
)
def test_types_of_products(pointer: str, kind: str) -> None:
    m, n, k = 128, 64, 64
    operands = []
    for shape in ((m, k), (k, n)):
        x = RNG.standard_normal(shape).astype(np.float32)
        if pointer == "*fp32":
            operands.append((x, (x.view(np.uint32) & 0xFFFFE000).view(np.float32).astype(np.float64)))
        else:
            stored = STORED[pointer].store(x)
            operands.append((stored, STORED[pointer].load(stored)))
    signature = {"a": pointer, "b": pointer, "c": "*fp16", "M": "i32", "N": "i32", "K": "i32"}
    blocks = {"BM": 128, "BN": 64, "BK": 32}
    compiled = triton_kernels.compiled("matmul", signature, blocks, 6, 100, num_warps=4, num_stages=2)
    assert f"tcgen05.mma.cta_group::1.kind::{kind}" in compiled.asm["ptx"]
    (a, left), (b, right) = operands
    c = np.zeros((m, n), np.float16)
    result = autosched.emulate(compiled, arguments=(a, b, c, m, n, k), grid=(1, 1), outputs=(2,))
    passes(result)
    np.testing.assert_allclose(result.arrays[2], left @ right, rtol=2e-3, atol=2e-2)


@pytest.mark.parametrize("name", CASES)
def test_products_with_block_scales(name: str) -> None:
    kind, group, scaled_by = CASES[name]
    m, n, k = 128, 64, 128
    pointer, scale_pointer = POINTERS[kind], POINTERS[scaled_by]
    signature = {"a": pointer, "sa": scale_pointer, "b": pointer, "sb": scale_pointer, "o": "*fp32"}
    packed = 2 if kind == "e2m1" else 1
    constants: dict[str, Any] = {"M": m, "N": n, "K": k, "FORMAT": kind, "PACKED": packed, "GROUP": group}
    compiled = triton_kernels.compiled("scaled_dot", signature, constants, sm=100, num_warps=4)
    spelled = {16: "block16|scale_vec::4X", 32: "block32|scale_vec::[12]X"}[group]  # depends on Triton's version
    assert re.search(rf"tcgen05\.mma\.cta_group::1\.kind::mxf\w+\.block_scale\.({spelled}) ", compiled.asm["ptx"])

    a, b = (random_elements(RNG, kind, lines, k) for lines in (m, n))
    sa, sb = (random_scales(RNG, scaled_by, lines, k // group) for lines in (m, n))
    out = np.zeros((m, n), np.float32)
    result = autosched.emulate(compiled, arguments=(a, sa, b, sb, out), grid=1, outputs=(4,))
    passes(result)
    left, right = (values(kind, x) * np.repeat(scales(scaled_by, s), group, axis=1) for x, s in ((a, sa), (b, sb)))
    np.testing.assert_allclose(
        result.arrays[4], left @ right.T, rtol=1e-4, atol=1e-5 * np.abs(left).max() * np.abs(right).max()
    )
