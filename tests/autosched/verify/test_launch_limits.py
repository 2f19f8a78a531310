"""A launch that exceeds a device's limits is rejected before emulation, even if no rule of a space forbids it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from needs import needs_nvrtc

from autosched.verify.launch_limits import LIMITS, _instructions, why_refused
from autosched.verify.schedules import verify_one
from autosched.verify.verdict import FAILURE_STATUSES
from search_spaces.catalogue import template
from search_spaces.hardware.devices import all_devices, device
from search_spaces.operators.matmul import Matmul

pytestmark = needs_nvrtc
H200, A100 = device("h200"), device("a100")
PROBLEM = Matmul(256, 256, 256, a="f16")


def test_every_architecture_has_the_limits_of_its_devices() -> None:
    for row in all_devices():
        limits = LIMITS[row.sm]
        assert (limits.shared_of_block, limits.shared_of_sm) == (row.shared_per_block, row.shared_per_sm), row.name
        assert (limits.threads_of_sm, limits.blocks_of_sm) == (row.max_threads_per_sm, row.max_blocks_per_sm), row.name


def test_a_kernel_of_wgmma_is_rejected_by_an_a100_and_not_by_an_h200() -> None:
    wgmma = template("wgmma_matmul")
    schedule = wgmma.space(PROBLEM, H200).sample(1, 0)[0]
    kernel = wgmma.kernel(PROBLEM, schedule, H200)
    assert why_refused(kernel, H200) == ""
    assert "clusters" in why_refused(kernel, A100) or "does not support this instruction" in why_refused(kernel, A100)
    alone = replace(kernel, cluster=(1, 1, 1))
    assert "does not support this instruction, which needs sm_9" in why_refused(alone, A100)


def test_launch_attributes_that_a_device_does_not_support() -> None:
    matmul = template("matmul")
    small = replace(matmul.kernel(PROBLEM, matmul.space(PROBLEM, A100).sample(1, 0)[0], A100), cluster=(1, 1, 1))
    assert why_refused(small, A100) == ""
    assert "dependent" in why_refused(replace(small, dependent=True), A100)
    large = replace(small, cooperative=True, grid=(A100.sm_count * A100.max_blocks_per_sm + 1, 1, 1))
    assert "cooperative" in why_refused(large, A100)
    assert why_refused(replace(small, cooperative=True, grid=(A100.sm_count, 1, 1)), A100) == ""


def test_predicated_instructions_are_checked() -> None:
    cp_async, add = "cp.async.cg.shared.global [%r1], [%rd1], 16;", "add.s32 %r1, %r2, %r3;"
    t4 = device("t4")
    assert _instructions(t4, (add,)) == ""
    for text in (cp_async, f"@%p1 {cp_async}", f"@!%p1 {cp_async}"):
        assert f"sm_80 and later: {cp_async}" in _instructions(t4, (add, text, add))


def test_shared_memory_limits_include_the_drivers_share() -> None:
    matmul = template("matmul")
    schedule = next(s for s in matmul.space(PROBLEM, H200).sample(200, 0) if s["min_blocks"] == 2)
    kernel = matmul.kernel(PROBLEM, schedule, H200)
    half = 228 * 1024 // 2
    assert why_refused(replace(kernel, dynamic_shared_bytes=half - 1024), H200, kernel) == ""
    assert "for the driver" in why_refused(replace(kernel, dynamic_shared_bytes=half), H200, kernel)
    assert "limit is 232448" in why_refused(replace(kernel, dynamic_shared_bytes=228 * 1024), H200, kernel)


def test_a_schedule_beyond_a_device_limit_fails_verification() -> None:
    matmul = template("matmul")
    schedule = matmul.space(PROBLEM, H200).sample(1, 0)[0]
    lower = matmul.lower
    greedy = replace(matmul, lower=lambda p, c, d: replace(lower(p, c, d), dynamic_shared_bytes=228 * 1024))
    verdict = verify_one(greedy, PROBLEM, schedule, H200)
    assert verdict.status == "device_limit" and verdict.status in FAILURE_STATUSES and "shared memory" in verdict.reason


@pytest.mark.parametrize("name", ["a100", "rtx4090", "h200"])
def test_schedules_of_the_space_are_not_rejected(name: str) -> None:
    matmul, where = template("matmul"), device(name)
    schedule = matmul.space(PROBLEM, where).sample(1, 2)[0]
    assert why_refused(matmul.kernel(PROBLEM, schedule, where), where) == ""
