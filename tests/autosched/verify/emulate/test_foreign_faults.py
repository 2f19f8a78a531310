"""All planted faults in typical user kernels are found.

The unmodified kernels have no findings, whatever the order of blocks and threads.
"""

from __future__ import annotations

import pytest
from foreign_faults import KERNELS, LAST_BLOCK, LOCK_FREE, ForeignKernel
from foreign_libraries import ALIASED, BOUNDS, HALVES, LIBRARY_KERNELS
from needs import CUDA_HEADERS, needs_compiler, needs_nvrtc

import autosched
from measurements.emulator import Order

pytestmark = [needs_nvrtc, needs_compiler]
NAMED = {k.name: k for k in (*KERNELS, *LIBRARY_KERNELS)}


def one(kernel: ForeignKernel) -> ForeignKernel:
    if "#include" in kernel.source and not CUDA_HEADERS:
        pytest.skip("CUDA's headers are not installed")
    return kernel


@pytest.mark.nightly
@pytest.mark.parametrize("name", NAMED)
def test_right_kernels_are_clean_in_every_order(name: str) -> None:
    kernel = one(NAMED[name])
    for order in kernel.orders:
        emulation, ok = kernel.run(kernel.source, order)
        assert ok, (order, emulation.reason)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "fault"), [pytest.param(k.name, f, id=f"{k.name}: {f[0]}") for k in NAMED.values() for f in k.faults]
)
def test_each_fault_is_seen_in_some_order(name: str, fault: tuple[str, str, str]) -> None:
    kernel = one(NAMED[name])
    source = kernel.broken(fault)
    if kernel is BOUNDS:
        with pytest.raises(ValueError, match="at most 32 threads"):
            kernel.run(source, Order())
        return
    for order in kernel.orders:
        emulation, ok = kernel.run(source, order)
        assert emulation.status not in ("compile_error", "unsupported"), emulation.reason
        if not ok:
            return
    pytest.fail("right and clean in every order")


def test_an_aba_fault_of_compare_and_swap_is_found_with_interleaved_blocks() -> None:
    kernel = NAMED[LOCK_FREE.name]
    stale = kernel.broken(kernel.faults[0])
    order = Order("interleaved", 2)
    assert kernel.run(kernel.source, order)[1] and kernel.run(stale, Order())[1]
    emulation, ok = kernel.run(stale, order)
    assert emulation.ok and not ok, "no accesses race: only the result is wrong"


@pytest.mark.parametrize("fault", NAMED[LAST_BLOCK.name].faults[:4], ids=lambda f: f[0])
def test_scopes_and_fences_of_the_last_block_are_checked(fault: tuple[str, str, str]) -> None:
    kernel = NAMED[LAST_BLOCK.name]
    assert kernel.run(kernel.source, Order())[1]
    emulation, ok = kernel.run(kernel.broken(fault), Order())
    assert not ok and {str(f.kind) for f in emulation.findings} == {"global_race"}


@pytest.mark.parametrize("fault", HALVES.faults[:3], ids=lambda f: f[0])
def test_synchronizing_half_of_a_warp_does_not_order_the_other_half(fault: tuple[str, str, str]) -> None:
    assert HALVES.run(HALVES.source, Order())[1]
    emulation, ok = HALVES.run(HALVES.broken(fault), Order())
    assert not ok and {str(f.kind) for f in emulation.findings} == {"shared_race"}


def test_writes_to_memory_read_as_read_only_are_reported() -> None:
    assert ALIASED.run(ALIASED.source, Order())[1]
    emulation, _ = ALIASED.run(ALIASED.broken(ALIASED.faults[1]), Order())
    assert {str(f.kind) for f in emulation.findings} == {"read_only_load_of_written"}


@pytest.mark.parametrize("aliases", [{1: 1}, {0: 1}, {1: 7}])
def test_an_alias_refers_to_an_earlier_argument(aliases: dict[int, int]) -> None:
    arguments = ALIASED.arguments()
    with pytest.raises(ValueError, match="smaller position"):
        autosched.emulate(ALIASED.source, kernel="kernel", arguments=arguments, grid=1, block=64, aliases=aliases)


def test_a_block_of_more_threads_than_the_kernel_is_compiled_for_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"at most 32 threads .*__launch_bounds__.* 64"):
        BOUNDS.run(BOUNDS.broken(BOUNDS.faults[0]), Order())
