"""Faults in kernels as users write them: all are seen, and kernels without them are right and clean in every order."""

from __future__ import annotations

import pytest
from foreign_faults import KERNELS, LAST_BLOCK, LOCK_FREE, ForeignKernel
from needs import needs_compiler, needs_nvrtc

from measurements.emulator import Order
from measurements.nvrtc import cuda_include_folders

pytestmark = [needs_nvrtc, needs_compiler]
NAMED = {k.name: k for k in KERNELS}


def one(kernel: ForeignKernel) -> ForeignKernel:
    if "#include" in kernel.source and not cuda_include_folders():
        pytest.skip("CUDA's headers are not installed")
    return kernel


@pytest.mark.nightly
@pytest.mark.parametrize("name", NAMED)
def test_right_kernels_are_clean_in_every_order(name: str) -> None:
    kernel = one(NAMED[name])
    for order in kernel.orders:
        done, ok = kernel.run(kernel.source, order)
        assert ok, (order, done.reason)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "fault"), [pytest.param(k.name, f, id=f"{k.name}: {f[0]}") for k in KERNELS for f in k.faults]
)
def test_each_fault_is_seen_in_some_order(name: str, fault: tuple[str, str, str]) -> None:
    kernel = one(NAMED[name])
    source = kernel.broken(fault)
    assert any(not kernel.run(source, order)[1] for order in kernel.orders)


def test_a_value_that_changes_and_changes_back_under_a_compare_and_swap_is_wrong_where_blocks_take_turns() -> None:
    kernel = NAMED[LOCK_FREE.name]
    stale = kernel.broken(kernel.faults[0])
    order = Order("interleaved", 2)
    assert kernel.run(kernel.source, order)[1] and kernel.run(stale, Order())[1]
    done, ok = kernel.run(stale, order)
    assert done.ok and not ok, "no two accesses race: the numbers alone are wrong"


@pytest.mark.parametrize("fault", NAMED[LAST_BLOCK.name].faults[:4], ids=lambda f: f[0])
def test_scopes_and_fences_of_the_last_block_are_checked(fault: tuple[str, str, str]) -> None:
    kernel = NAMED[LAST_BLOCK.name]
    assert kernel.run(kernel.source, Order())[1]
    done, ok = kernel.run(kernel.broken(fault), Order())
    assert not ok and {str(f.kind) for f in done.findings} == {"global_race"}
