"""Triton's kernels, compiled for sm_80 without a GPU, emulated: right numbers, no findings."""

from __future__ import annotations

import numpy as np
import pytest
from needs import needs_compiler

import autosched

triton = pytest.importorskip("triton", reason="Triton is not installed: pip install 'autosched[triton]'")
import triton_kernels  # noqa: E402

pytestmark = [needs_compiler, pytest.mark.filterwarnings("ignore::UserWarning")]

RNG = np.random.default_rng(0)


def test_softmax() -> None:
    x = RNG.standard_normal((5, 200), dtype=np.float32)
    compiled = triton_kernels.compiled("softmax", {"o": "*fp32", "x": "*fp32", "n": "i32"}, {"BLOCK": 256})
    result = autosched.emulate(compiled, arguments=(np.zeros_like(x), x, 200), grid=5, outputs=(0,))
    assert result.ok, result.reason
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(result.arrays[0], e / e.sum(1, keepdims=True), rtol=1e-5)


def test_layer_norm() -> None:
    x = RNG.standard_normal((5, 200)).astype(np.float16)
    w, b = RNG.standard_normal((2, 200)).astype(np.float32)
    signature = {"o": "*fp16", "x": "*fp16", "w": "*fp32", "b": "*fp32", "n": "i32", "eps": "fp32"}
    compiled = triton_kernels.compiled("layer_norm", signature, {"BLOCK": 256})
    result = autosched.emulate(compiled, arguments=(np.zeros_like(x), x, w, b, 200, 1e-5), grid=5, outputs=(0,))
    assert result.ok, result.reason
    f = x.astype(np.float64)
    expected = (f - f.mean(1, keepdims=True)) / np.sqrt(f.var(1, keepdims=True) + 1e-5) * w + b
    np.testing.assert_allclose(result.arrays[0], expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("stages", [1, 3])
def test_matmul(stages: int) -> None:
    a = RNG.standard_normal((80, 112)).astype(np.float16)
    b = RNG.standard_normal((112, 96)).astype(np.float16)
    signature = {"a": "*fp16", "b": "*fp16", "c": "*fp16", "M": "i32", "N": "i32", "K": "i32"}
    blocks = {"BM": 64, "BN": 64, "BK": 32}
    compiled = triton_kernels.compiled("matmul", signature, blocks, aligned=6, num_warps=4, num_stages=stages)
    c = np.zeros((80, 96), np.float16)
    result = autosched.emulate(compiled, arguments=(a, b, c, 80, 96, 112), grid=(2, 2), outputs=(2,))
    assert result.ok, result.reason
    np.testing.assert_allclose(result.arrays[2], a.astype(np.float64) @ b.astype(np.float64), rtol=2e-3, atol=2e-2)
