"""Operands with block scales, as numbers and as stored bytes, for matmuls in Triton and in PTX."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from search_spaces.hardware.dtypes import E4M3, E5M2

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])

# Name of a type -> type of the elements, number of elements that share a scale, and type of the scales.
CASES = {
    "mxf8": ("e4m3", 32, "ue8m0"),
    "mxf8 e5m2": ("e5m2", 32, "ue8m0"),
    "mxf4": ("e2m1", 32, "ue8m0"),
    "nvf4": ("e2m1", 16, "ue4m3"),
}
POINTERS = {"e4m3": "*fp8e4nv", "e5m2": "*fp8e5", "e2m1": "*u8", "ue8m0": "*u8", "ue4m3": "*fp8e4nv"}


def values(kind: str, stored: npt.NDArray[np.uint8]) -> npt.NDArray[np.float64]:
    """Return the numbers that lines of bytes store. For e2m1, a byte holds two numbers, the first in its lower half."""
    if kind == "e2m1":
        return np.stack([E2M1[stored & 15], E2M1[stored >> 4]], axis=-1).reshape(len(stored), -1)
    return (E4M3 if kind == "e4m3" else E5M2).load(stored)


def scales(kind: str, stored: npt.NDArray[np.uint8]) -> npt.NDArray[np.float64]:
    return np.ldexp(1.0, stored.astype(np.int64) - 127) if kind == "ue8m0" else E4M3.load(stored)


def random_elements(rng: np.random.Generator, kind: str, lines: int, k: int) -> npt.NDArray[np.uint8]:
    if kind == "e2m1":
        return rng.integers(0, 256, (lines, k // 2), dtype=np.uint8)
    return (E4M3 if kind == "e4m3" else E5M2).store(rng.normal(size=(lines, k))).astype(np.uint8)


def random_scales(rng: np.random.Generator, kind: str, lines: int, count: int) -> npt.NDArray[np.uint8]:
    low, high = (120, 134) if kind == "ue8m0" else (1, 0x7E)
    return rng.integers(low, high, (lines, count), dtype=np.uint8)
