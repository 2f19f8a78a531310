"""Kernels with mbarriers, TMA and wgmma: right numbers and no findings in any order of turns."""

from __future__ import annotations

import hopper
import numpy as np
import pytest
from needs import needs_compiler, needs_nvrtc

from measurements.emulator import emulate
from measurements.emulator.order import Order
from measurements.emulator.twins import needs_ptx, ptx_arch

pytestmark = [needs_compiler, needs_nvrtc]


@pytest.mark.parametrize(("m", "n", "k"), [(64, 64, 64), (128, 64, 320), (72, 136, 200)])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_pipelined_matmul(m: int, n: int, k: int, seed: int) -> None:
    a, b = hopper.operands(m, n, k)
    kernel = hopper.matmul(m, n, k)
    assert needs_ptx(kernel) and ptx_arch(kernel) == "compute_90a"
    done = emulate(kernel, hopper.inputs(a, b), order=Order("ascending", seed))
    assert done.ok, done.reason
    np.testing.assert_array_equal(done.outputs["c"], a @ b.T)
