"""TMA copies four arbitrary rows of a matrix: tile::gather4 loads the rows, and tile::scatter4 stores them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
from bulk_kernels import HEAD, kinds, round_to_nearest_tf32
from needs import needs_compiler, needs_nvrtc

from measurements.emulator import Emulation, FindingKind, emulate
from search_spaces.hardware.dtypes import F32
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.operand import Operand
from search_spaces.launches.tensor_map import TensorMap

pytestmark = [needs_compiler, needs_nvrtc]
K = FindingKind
ROWS, COLUMNS = 20, 64

BODY = """
  __shared__ alignas(1024) float tile[4 * 32]; __shared__ u64 barrier;
  const u32 b = AT(barrier), t = threadIdx.x;
  if (t == 0) { init(b, 1); fence(); }
  __syncthreads();
  if (t == 0) {
    expect(b, 512);
    asm volatile("cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes [%0], "
                 "[%1, {%2, %3, %4, %5, %6}], [%7];"
                 ::"r"(AT(tile)), "l"(&from), "r"(32), "r"(3), "r"(17), "r"(3), "r"(25), "r"(b) : "memory");
  }
  wait(b, 0);
  out[t] = tile[t];
  __syncthreads();
  if (t == 0) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group "
                 "[%0, {%1, %2, %3, %4, %5}], [%6];"
                 ::"l"(&to), "r"(0), "r"(7), "r"(1), "r"(30), "r"(2), "r"(AT(tile)) : "memory");
    asm volatile("cp.async.bulk.commit_group;\\ncp.async.bulk.wait_group 0;" ::: "memory");
  }
"""


def run(
    body: str = BODY,
    swizzle: Literal["NONE", "128B"] = "NONE",
    rows: int = 1,
    *,
    element: str = "FLOAT32",
    scale: float = 1.0,
) -> tuple[Emulation, Any]:
    x = np.float32(scale) * np.arange(ROWS * COLUMNS, dtype=np.float32).reshape(ROWS, COLUMNS)
    a, scattered = Operand("a", "input", F32, x.shape), Operand("scattered", "inout", F32, (ROWS, 32))
    kernel = GeneratedKernel(
        entry="test",
        source=(
            f'{HEAD}\nextern "C" __global__ void test(const __grid_constant__ Map from, '
            f"const __grid_constant__ Map to, float* out) {{{body}}}"
        ),
        arguments=(
            replace(TensorMap.dense("from", a, (rows, 32), swizzle=swizzle), element=element),
            TensorMap.dense("to", scattered, (1, 32), swizzle=swizzle),
            Operand("out", "output", F32, (128,)),
        ),
        grid=(1, 1, 1),
        block=(128, 1, 1),
        arch="sm_100a",
    )
    return emulate(kernel, {"a": x, "scattered": np.zeros((ROWS, 32), np.float32)}, time_limit=30), x


@pytest.mark.parametrize("swizzle", ["NONE", "128B"])
def test_rows_are_gathered_and_scattered(swizzle: Literal["NONE", "128B"]) -> None:
    done, x = run(swizzle=swizzle)
    assert done.ok, done.reason
    gathered = np.stack([x[3, 32:], x[17, 32:], x[3, 32:], np.zeros(32, np.float32)])  # row 25 is outside the matrix
    tile = done.outputs["out"].reshape(4, 8, 4)
    if swizzle == "128B":  # the swizzle stores the 16-byte piece p of row r at position p ^ r
        tile = np.stack([tile[r][np.arange(8) ^ r] for r in range(4)])
    np.testing.assert_array_equal(tile.reshape(4, 32), gathered)
    expected = np.zeros((ROWS, 32), np.float32)
    expected[7], expected[1], expected[2] = gathered[0], gathered[1], gathered[3]
    np.testing.assert_array_equal(done.outputs["scattered"], expected)


def test_gathered_rows_round_to_tf32() -> None:
    done, x = run(element="TFLOAT32", scale=1.1)
    assert done.ok, done.reason
    expected = round_to_nearest_tf32(np.stack([x[3, 32:], x[17, 32:], x[3, 32:], np.zeros(32, np.float32)]))
    assert not np.array_equal(expected[0], x[3, 32:])
    np.testing.assert_array_equal(done.outputs["out"].reshape(4, 32), expected)


def test_gathered_boxes_must_have_one_row() -> None:
    assert K.INVALID_ARGUMENT in kinds(run(rows=4)[0])


def test_bytes_of_four_rows_are_expected() -> None:
    assert K.BARRIER_NOT_REACHED in kinds(run(BODY.replace("expect(b, 512)", "expect(b, 128)"))[0])
