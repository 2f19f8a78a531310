"""Rows of wmma tiles in shared memory must be aligned.

The alignment is stricter for elements of up to 8 bits, because ldmatrix loads them.
"""

from __future__ import annotations

import numpy as np
import pytest
from needs import needs_compiler, needs_nvrtc

import autosched

pytestmark = [needs_compiler, needs_nvrtc]

DOUBLES = """
#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void k(const double* in, double* out, int first, int line) {
  __shared__ alignas(32) double tile[128];
  for (int i = threadIdx.x; i < 128; i += 32) tile[i] = in[i];
  __syncwarp();
  wmma::fragment<wmma::matrix_a, 8, 8, 4, double, wmma::row_major> left;
  wmma::fragment<wmma::matrix_b, 8, 8, 4, double, wmma::col_major> right;
  wmma::fragment<wmma::accumulator, 8, 8, 4, double> sum;
  wmma::fill_fragment(sum, 0.0);
  wmma::load_matrix_sync(left, tile + first, line);
  wmma::load_matrix_sync(right, tile + 64 + first, line);
  wmma::mma_sync(sum, left, right, sum);
  wmma::store_matrix_sync(out, sum, 8, wmma::mem_row_major);
}
"""


@pytest.mark.parametrize(("first", "line"), [(0, 4), (1, 4), (0, 5), (3, 7)])
def test_rows_of_f64_begin_at_eight_bytes(first: int, line: int) -> None:
    """Code of ptxas 13.0 loads f64 rows from shared memory 8 bytes at a time (LDS.64)."""
    values = np.arange(128, dtype=np.float64)
    arguments = (values, np.zeros((8, 8)), np.int32(first), np.int32(line))
    done = autosched.emulate(
        DOUBLES, kernel="k", arguments=arguments, outputs=(1,), grid=1, block=32, options=("-arch=sm_90",)
    )
    assert done.ok, (done.reason, done.findings)
    positions = first + line * np.arange(8)[:, None] + np.arange(4)
    np.testing.assert_array_equal(done.arrays[1], values[positions] @ values[64 + positions].T)
