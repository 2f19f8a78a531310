"""A race of two writes of the same sum is a note, not a fault, if the written values differ only in the last bits."""

from __future__ import annotations

import numpy as np
import pytest
from needs import needs_compiler, needs_cuda_headers, needs_nvrtc

import autosched

pytestmark = [needs_nvrtc, needs_compiler]

SOURCE = """
extern "C" __global__ void pairs(float* o, const float* v) {
  __shared__ float s[32];
  s[threadIdx.x / 2] = v[threadIdx.x];
  __syncthreads();
  o[threadIdx.x] = s[threadIdx.x / 2];
}
"""
LAST_BITS = np.float32(1000.3), np.nextafter(np.float32(1000.3), np.float32(2000))


@pytest.mark.parametrize(
    ("pair", "fault"),
    [
        ((0.0001, 0.00013), False),  # within the rounding errors of terms near 1000
        ((1.50001, 1.50002), False),
        ((1.5, 1.6), True),
        ((512.0, 513.0), True),  # sums of whole numbers are exact, so this is no rounding error
        ((1e5, 1e5 + 1), True),
        ((np.nan, 1.0), True),
    ],
)
def test_sums_that_differ_in_the_last_bits_are_a_note(pair: tuple[float, float], fault: bool) -> None:
    values = np.repeat(np.arange(32, dtype=np.float32) + 0.25, 2)
    values[0:2], values[40:42] = LAST_BITS, pair
    out = np.zeros(64, np.float32)
    emulation = autosched.emulate(SOURCE, kernel="pairs", arguments=[out, values], grid=1, block=64)
    races = [f for f in emulation.findings if f.kind == "shared_race"]
    assert {f.is_fault for f in races} == ({True, False} if fault else {False})
    assert any("only differ in the last bits" in f.message for f in races if not f.is_fault)


HALVES = """
#include <cuda_fp16.h>
#include <cuda_bf16.h>
extern "C" __global__ void pairs(unsigned short* o, const unsigned short* v) {
  __shared__ NUMBER s[32];
  const NUMBER* x = reinterpret_cast<const NUMBER*>(v);
  s[threadIdx.x / 2] = __hadd(x[threadIdx.x], x[64]);
  __syncthreads();
  reinterpret_cast<NUMBER*>(o)[threadIdx.x] = s[threadIdx.x / 2];
}
"""
PACKED = """
#include <cuda_fp16.h>
extern "C" __global__ void pairs(unsigned* o, const unsigned* v) {
  __shared__ half2 s[32];
  const half2* x = reinterpret_cast<const half2*>(v);
  s[threadIdx.x / 2] = __hadd2(x[threadIdx.x], x[64]);
  __syncthreads();
  reinterpret_cast<half2*>(o)[threadIdx.x] = s[threadIdx.x / 2];
}
"""
INTEGERS = HALVES.replace("__hadd(", "(").replace("NUMBER", "unsigned short").replace(", x[64])", " + x[64])")


def races_of(source: str, values: np.ndarray) -> set[bool]:
    """Emulate a kernel that writes each pair of ``values`` to one element. Return {True} if all races are faults."""
    emulation = autosched.emulate(
        source, kernel="pairs", arguments=[np.zeros(64, values.dtype), values], grid=1, block=64
    )
    return {f.is_fault for f in emulation.findings if f.kind == "shared_race"}


def in_pairs(bits: int, other: int, zero: int, dtype: type) -> np.ndarray:
    return np.array([bits, other] * 32 + [zero], dtype)


@needs_cuda_headers
@pytest.mark.parametrize(
    ("number", "bits", "other", "fault"),
    [
        ("__half", 0x3C00, 0x3C01, False),  # 1 and the next larger number
        ("__half", 0x3C00, 0x3C03, False),
        ("__half", 0x3C00, 0x3E00, True),  # 1 and 1.5
        ("__half", 0x0001, 0x0200, True),
        ("__half", 0x4900, 0x4980, True),  # 10 and 11
        ("__half", 0x7C00, 0x7BFF, True),  # infinity and the largest number
        ("__nv_bfloat16", 0x3F81, 0x3F82, False),
        ("__nv_bfloat16", 0x3F81, 0x3FC0, True),
    ],
)
def test_races_of_different_16_bit_sums_are_graded(number: str, bits: int, other: int, fault: bool) -> None:
    assert races_of(HALVES.replace("NUMBER", number), in_pairs(bits, other, 0, np.uint16)) == {fault}


@needs_cuda_headers
def test_integers_of_16_bits_are_exact() -> None:
    assert races_of(INTEGERS, in_pairs(0x3C00, 0x3C01, 0, np.uint16)) == {True}


@needs_cuda_headers
@pytest.mark.parametrize(
    ("other", "fault"),
    [
        (0x3C013C00, False),  # as f32 numbers, the two values would be far apart
        (0x3C003C01, False),
        (0x3C003E00, True),  # as f32 numbers, both values would be almost equal, but the lower halves are 1 and 1.5
    ],
)
def test_pairs_of_halves_are_compared_half_by_half(other: int, fault: bool) -> None:
    assert races_of(PACKED, in_pairs(0x3C003C00, other, 0, np.uint32)) == {fault}
