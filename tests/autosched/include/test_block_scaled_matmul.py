"""Block-scaled matmuls compiled for sm_120a are correct in the emulator, and planted faults are reported."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from block_scale_planted import INTRINSICS, PLANTED, PROBLEMS, RTX5090, Planted, right_kernel
from cases import representative
from kernels import space_of
from needs import needs_compiler, needs_nvrtc

from autosched.verify.schedules import verify_kernel, verify_one
from measurements.compiler.nvrtc import compile_to_ptx
from search_spaces.catalogue import candidates, template
from search_spaces.hardware.devices import device
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.operators.block_scales import SCALE_ORDERS
from search_spaces.operators.matmul import EPILOGUES, REDUCTIONS, Matmul

pytestmark = [needs_compiler, needs_nvrtc]
EVERY = 6  # by default, every sixth planted fault is tested


def reported(case: str, kernel: GeneratedKernel) -> bool:
    return any(run.status != "ok" for run in verify_kernel(PROBLEMS[case], kernel, time_limit=30))


@pytest.mark.parametrize("case", PROBLEMS)
def test_the_kernels_are_right(case: str) -> None:
    assert not reported(case, right_kernel(case))


@pytest.mark.parametrize("planted", PLANTED[::EVERY], ids=lambda p: p.name)
def test_a_planted_fault_is_reported(planted: Planted) -> None:
    assert reported(planted.case, planted.kernel())


@pytest.mark.nightly
@pytest.mark.parametrize("planted", PLANTED, ids=lambda p: p.name)
def test_every_planted_fault_is_reported(planted: Planted) -> None:
    assert reported(planted.case, planted.kernel())


@pytest.mark.parametrize("name", representative(INTRINSICS, "nvf4"))
def test_sampled_schedules_of_random_problems_are_right(name: str, nightly: bool) -> None:
    rng = np.random.default_rng(17)
    for seed in range(40 if nightly else 1):
        m, n, blocks = (int(x) for x in rng.integers((1, 1, 1), (400, 300, 60)))
        chosen = {
            "scale_order": SCALE_ORDERS[seed % 2], "batch": int(rng.choice((1, 3))),
            "out": str(rng.choice(("bf16", "f32"))),
            "epilogue": str(rng.choice(EPILOGUES)), "reduction": str(rng.choice(REDUCTIONS)),
            "scale": str(rng.choice(("none", "tensor", "row_column"))),
        }  # fmt: skip
        problem = Matmul(m, n, 32 * blocks, a=name, **chosen)
        (schedule,) = space_of(problem, RTX5090).sample(1, seed=seed)
        verdict = verify_one(template("matmul"), problem, schedule, RTX5090, depth="quick")
        assert verdict.ok, (problem, schedule, verdict.reason)


@pytest.mark.parametrize("name", representative(("e4m3", "e5m2"), "e4m3"))
def test_8_bit_floats_use_the_block_scaled_instruction_with_unit_scales(name: str) -> None:
    """GeForce GPUs execute the block-scaled instruction at twice the rate of the plain one."""
    problem = Matmul(100, 72, 192, a=name, scale="row_column")
    space = template("matmul").space(problem, RTX5090)
    schedule = next(s for s in space.sample(64, seed=2) if s["intrinsic"] == f"mma_m16n8k32_{name}_unit_scales")
    verdict = verify_one(template("matmul"), problem, schedule, RTX5090, depth="quick")
    assert verdict.ok, verdict.reason
    assert verdict.kernel is not None
    output = compile_to_ptx(verdict.kernel.source, verdict.kernel.entry, "compute_120a", verdict.kernel.headers)
    assert output.text is not None and f"block_scale.scale_vec::1X.f32.{name}.{name}.f32.ue8m0" in output.text


def test_refusals_on_other_devices() -> None:
    problem = Matmul(256, 256, 256, a="nvf4")
    reasons = {t.name: reason for t, reason in candidates(problem, device("h100"))}
    assert reasons["matmul"] == "mma.sync of nvf4 with block scales needs sm_120a, but h100 is sm_90a"
    assert reasons["wgmma_matmul"] == "wgmma has no block scales, which nvf4 needs"
    assert {t.name: r for t, r in candidates(problem, RTX5090)}["matmul"] is None
    b200 = device("b200")
    assert {t.name: r for t, r in candidates(replace(problem, scale_order="tiled"), b200)}["tcgen05_matmul"] is None
    in_rows = {t.name: r for t, r in candidates(problem, b200)}["tcgen05_matmul"]
    assert in_rows == "tcgen05 needs block scales in tiles: store them with scale_order = tiled"
    odd = {t.name: r for t, r in candidates(replace(problem, k=288, scale_order="tiled"), b200)}["tcgen05_matmul"]
    assert odd == "tcgen05 multiplies 64 numbers of nvf4 along k at a time, which does not divide k = 288"


@pytest.mark.nightly
@pytest.mark.parametrize("name", INTRINSICS)
def test_sampled_schedules_with_tensor_memory_are_right(name: str) -> None:
    rng, b200 = np.random.default_rng(18), device("b200")
    for seed in range(34):
        m, n, blocks = (int(x) for x in rng.integers((1, 1, 1), (700, 80, 30)))
        chosen = {
            "batch": int(rng.choice((1, 3))), "out": str(rng.choice(("bf16", "f32"))),
            "epilogue": str(rng.choice(EPILOGUES)), "scale": str(rng.choice(("none", "tensor", "row_column"))),
        }  # fmt: skip
        problem = Matmul(m, 8 * n, 64 * blocks, a=name, scale_order="tiled", **chosen)
        (schedule,) = template("tcgen05_matmul").space(problem, b200).sample(1, seed=seed)
        verdict = verify_one(template("tcgen05_matmul"), problem, schedule, b200, depth="quick")
        assert verdict.ok, (problem, schedule, verdict.reason)
