"""Triton's products with block scales, compiled for sm_120 without a GPU, emulated: right against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from needs import needs_compiler

import autosched
from search_spaces.hardware.dtypes import E4M3, E5M2

triton = pytest.importorskip("triton", reason="Triton is not installed: pip install 'autosched[triton]'")
import triton_kernels  # noqa: E402

pytestmark = [needs_compiler, pytest.mark.filterwarnings("ignore::UserWarning")]

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
M, N, K = 32, 32, 128


def values(kind: str, stored: npt.NDArray[np.uint8]) -> npt.NDArray[np.float64]:
    """The numbers of lines of K elements; of e2m1 the lower half of a byte comes first."""
    if kind == "e2m1":
        return np.stack([E2M1[stored & 15], E2M1[stored >> 4]], axis=-1).reshape(len(stored), K)
    return (E4M3 if kind == "e4m3" else E5M2).load(stored)


def scales(kind: str, stored: npt.NDArray[np.uint8]) -> npt.NDArray[np.float64]:
    return np.ldexp(1.0, stored.astype(np.int64) - 127) if kind == "ue8m0" else E4M3.load(stored)


def elements(rng: np.random.Generator, kind: str, lines: int) -> npt.NDArray[np.uint8]:
    if kind == "e2m1":
        return rng.integers(0, 256, (lines, K // 2), dtype=np.uint8)
    return (E4M3 if kind == "e4m3" else E5M2).store(rng.normal(size=(lines, K))).astype(np.uint8)


CASES = {
    "mxf8": ("e4m3", 32, "ue8m0", "kind::mxf8f6f4.block_scale.scale_vec::1X"),
    "mxf8 e5m2": ("e5m2", 32, "ue8m0", "kind::mxf8f6f4.block_scale.scale_vec::1X"),
    "mxf4": ("e2m1", 32, "ue8m0", "kind::mxf4nvf4.block_scale.scale_vec::2X"),
    "nvf4": ("e2m1", 16, "ue4m3", "kind::mxf4nvf4.block_scale.scale_vec::4X"),
}


@pytest.mark.parametrize("name", CASES)
def test_products_with_block_scales(name: str) -> None:
    kind, group, scaled_by, instruction = CASES[name]
    pointer = {"e4m3": "*fp8e4nv", "e5m2": "*fp8e5", "e2m1": "*u8"}[kind]
    scale_pointer = "*u8" if scaled_by == "ue8m0" else "*fp8e4nv"
    signature = {"a": pointer, "sa": scale_pointer, "b": pointer, "sb": scale_pointer, "o": "*fp32"}
    packed = 2 if kind == "e2m1" else 1
    constants: dict[str, Any] = {"M": M, "N": N, "K": K, "FORMAT": kind, "PACKED": packed, "GROUP": group}
    compiled = triton_kernels.compiled("scaled_dot", signature, constants, sm=120, num_warps=1)
    assert instruction in compiled.asm["ptx"]
    rng = np.random.default_rng(7)
    a, b = elements(rng, kind, M), elements(rng, kind, N)
    low, high = (120, 134) if scaled_by == "ue8m0" else (1, 0x7E)
    sa, sb = (rng.integers(low, high, (lines, K // group), dtype=np.uint8) for lines in (M, N))
    out = np.zeros((M, N), np.float32)
    result = autosched.emulate(compiled, arguments=(a, sa, b, sb, out), grid=1, outputs=(4,))
    assert result.ok, result.reason
    left, right = (values(kind, x) * np.repeat(scales(scaled_by, s), group, axis=1) for x, s in ((a, sa), (b, sb)))
    expected = left @ right.T
    np.testing.assert_allclose(
        result.arrays[4], expected, rtol=1e-4, atol=1e-5 * np.abs(left).max() * np.abs(right).max()
    )
