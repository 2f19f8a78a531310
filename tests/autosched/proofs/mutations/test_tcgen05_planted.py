"""A proof reports every fault planted in tcgen05_matmul, and none in right kernels."""

from __future__ import annotations

import pytest
from needs import needs_compiler, needs_nvrtc
from tcgen05_planted import B200, PLANTED, Planted

from autosched.proofs.proof import Depth, prove
from search_spaces.catalogue import template
from search_spaces.templates.kernel import Kernel

pytestmark = [needs_compiler, needs_nvrtc]
FIRST = 12  # every so many of them is run by default
DEPTHS: tuple[Depth, ...] = ("quick", "full")


def reported(planted: Planted, kernel: Kernel) -> set[str]:
    """Return the kinds of what a quick proof finds, or where that is nothing a full one."""
    for depth in DEPTHS:
        *_, last = prove(planted.problem(), kernel, time_limit=30, depth=depth)
        if last.status != "ok":
            return {str(f.kind) for f in last.emulation.findings} | {last.status} - {"findings"}
    return set()


def test_every_fault_is_one_of_a_valid_schedule() -> None:
    for planted in PLANTED:
        template("tcgen05_matmul").config(planted.problem(), planted.schedule(), B200)
        assert planted.kernel() != planted.right_kernel()


# A race whose reader is a copy from memory to memory, which has no register that the value could go to.
BY_COPY = tuple(p for p in PLANTED if p.name == "a store does not wait for the other lanes")


@pytest.mark.parametrize("planted", (*PLANTED[::FIRST], *BY_COPY), ids=lambda p: p.name)
def test_a_planted_fault_is_reported(planted: Planted) -> None:
    assert planted.found in reported(planted, planted.kernel())


@pytest.mark.nightly
@pytest.mark.parametrize("planted", PLANTED, ids=lambda p: p.name)
def test_every_planted_fault_is_reported(planted: Planted) -> None:
    assert planted.found in reported(planted, planted.kernel())


@pytest.mark.parametrize("planted", {p.case: p for p in PLANTED}.values(), ids=lambda p: p.case)
def test_the_kernels_are_right(planted: Planted) -> None:
    assert reported(planted, planted.right_kernel()) == set()
