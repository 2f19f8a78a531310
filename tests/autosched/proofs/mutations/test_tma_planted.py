"""A proof reports every fault planted in tma_matmul, and none in right kernels."""

from __future__ import annotations

import pytest
from needs import needs_compiler, needs_nvrtc
from tma_planted import PLANTED, Planted

from autosched.proofs.proof import prove
from search_spaces.templates.kernel import Kernel

pytestmark = [needs_compiler, needs_nvrtc]
FIRST = 6  # every so many of them is run by default


def reported(planted: Planted, kernel: Kernel) -> set[str]:
    """Return the kinds of what a quick proof finds."""
    *_, last = prove(planted.problem(), kernel, time_limit=30, depth="quick")
    if last.status == "ok":
        return set()
    return {str(f.kind) for f in last.emulation.findings} | {last.status} - {"findings"}


@pytest.mark.parametrize("planted", PLANTED[::FIRST], ids=lambda p: p.name)
def test_a_planted_fault_is_reported(planted: Planted) -> None:
    assert planted.found in reported(planted, planted.kernel())


@pytest.mark.nightly
@pytest.mark.parametrize("planted", PLANTED, ids=lambda p: p.name)
def test_every_planted_fault_is_reported(planted: Planted) -> None:
    assert planted.found in reported(planted, planted.kernel())


@pytest.mark.parametrize("planted", {p.case: p for p in PLANTED}.values(), ids=lambda p: p.case)
def test_the_kernels_are_right(planted: Planted) -> None:
    assert reported(planted, planted.right_kernel()) == set()
