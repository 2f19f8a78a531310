"""Replicas of one sum that two threads write at once: a note where they differ in their last bits, else a fault."""

from __future__ import annotations

import numpy as np
import pytest
from needs import needs_compiler, needs_nvrtc

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
        ((0.0001, 0.00013), False),  # what is left of terms near 1000 that cancel
        ((1.50001, 1.50002), False),
        ((1.5, 1.6), True),
        ((512.0, 513.0), True),  # sums of whole numbers are exact
        ((1e5, 1e5 + 1), True),
        ((np.nan, 1.0), True),
    ],
)
def test_two_values_of_one_sum(pair: tuple[float, float], fault: bool) -> None:
    values = np.repeat(np.arange(32, dtype=np.float32) + 0.25, 2)
    values[0:2], values[40:42] = LAST_BITS, pair
    out = np.zeros(64, np.float32)
    done = autosched.emulate(SOURCE, kernel="pairs", arguments=[out, values], grid=1, block=64)
    races = [f for f in done.findings if f.kind == "shared_race"]
    assert {f.is_fault for f in races} == ({True, False} if fault else {False})
    assert any("not deterministic in the last bits" in f.message for f in races if not f.is_fault)
