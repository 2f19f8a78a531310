"""Kernels with mbarriers, TMA and wgmma have correct results and no findings in any order of warps."""

from __future__ import annotations

import hopper
import numpy as np
import pytest
from hopper_faults import FAULTS, WRONG, Fault
from needs import needs_compiler, needs_nvrtc

import autosched
from measurements.emulator import emulate
from measurements.emulator.architecture import ptx_arch
from measurements.emulator.order import Order

pytestmark = [needs_compiler, needs_nvrtc]


@pytest.mark.parametrize(("m", "n", "k", "seed"), [(64, 64, 64, 0), (128, 64, 320, 1), (72, 136, 200, 2)])
def test_a_pipelined_matmul(m: int, n: int, k: int, seed: int) -> None:
    a, b = hopper.operands(m, n, k)
    kernel = hopper.matmul(m, n, k)
    assert ptx_arch(kernel) == "compute_90a"
    done = emulate(kernel, hopper.inputs(a, b), order=Order("ascending", seed))
    assert done.ok, done.reason
    np.testing.assert_array_equal(done.outputs["c"], a @ b.T)


@pytest.mark.parametrize(("m", "n", "k", "seed"), [(64, 128, 192, 0), (72, 200, 72, 1), (64, 128, 320, 2)])
def test_clusters_with_multicast_and_tma_stores(m: int, n: int, k: int, seed: int) -> None:
    a, b = hopper.operands(m, n, k)
    done = emulate(hopper.clustered(m, n, k), hopper.inputs(a, b), order=Order("ascending", seed))
    assert done.ok, done.reason
    np.testing.assert_array_equal(done.outputs["c"], a @ b.T)


@pytest.mark.parametrize("seed", [0, 1])
def test_one_lane_waits_and_its_warp_synchronizes(seed: int) -> None:
    wait = "wait(full + 8 * s, turn & 1);"
    source = hopper.SOURCE.read_text().replace(wait, f"if (threadIdx.x % 32 == 5) {wait}\n    __syncwarp();")
    a, b = hopper.operands(64, 64, 320)
    done = emulate(hopper.matmul(64, 64, 320, source), hopper.inputs(a, b), order=Order("ascending", seed))
    assert done.ok, done.reason
    np.testing.assert_array_equal(done.outputs["c"], a @ b.T)


def test_two_blocks_of_an_sm_share_its_registers() -> None:
    source = hopper.CLUSTER_SOURCE.read_text().replace("__launch_bounds__(256)", "__launch_bounds__(256, 2)")
    a, b = hopper.operands(64, 128, 64)
    done = emulate(hopper.clustered(64, 128, 64, source), hopper.inputs(a, b), time_limit=30)
    assert any("of the block's 32768 are free" in finding.message for finding in done.findings), done.reason
    fewer = source.replace("inc.sync.aligned.u32 232", "inc.sync.aligned.u32 200").replace(" 40;", " 56;")
    done = emulate(hopper.clustered(64, 128, 64, fewer), hopper.inputs(a, b))
    assert done.ok, done.reason


RANKS = """extern "C" __global__ void __cluster_dims__(2, 1, 1) ranks(unsigned* out) {
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(out[blockIdx.x * 32 + threadIdx.x]));
}"""


def test_the_cluster_of_anyones_source() -> None:
    done = autosched.emulate(
        RANKS, arguments=(np.zeros(128, np.uint32),), grid=4, block=32, outputs=(0,), kernel="ranks"
    )
    assert done.ok, done.reason
    assert done.arrays[0] is not None and done.arrays[0][::32].tolist() == [0, 1, 0, 1]


def reported_kinds(fault: Fault, seed: int) -> list[str]:
    """Emulate a kernel with a fault. Return the kinds of findings, [WRONG] for wrong results, or [] if all is right."""
    a, b = hopper.operands(64, 128, 320)
    done = emulate(fault.kernel(64, 128, 320), hopper.inputs(a, b), order=Order("ascending", seed), time_limit=30)
    assert done.status in ("ok", "findings"), done.reason
    if done.ok:
        return [] if np.array_equal(done.outputs["c"], a @ b.T) else [WRONG]
    return [finding.kind for finding in done.findings]


@pytest.mark.parametrize("fault", FAULTS[:6], ids=lambda fault: fault.name)
def test_a_planted_fault_is_found(fault: Fault) -> None:
    assert set(reported_kinds(fault, 0)) & set(fault.findings)


@pytest.mark.nightly
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_is_found_in_any_order(fault: Fault) -> None:
    findings = [reported_kinds(fault, seed) for seed in range(4)]
    assert all(findings)
    assert any(set(kinds) & set(fault.findings) for kinds in findings)
