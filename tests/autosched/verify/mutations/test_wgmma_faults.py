"""Every fault planted in wgmma_matmul is found by emulating one small case that uses the faulty mechanism."""

from __future__ import annotations

import pytest
from cases import spread
from mutation_testing import check_emulation_finds
from needs import needs_compiler, needs_nvrtc
from wgmma_faults import FAULTS, WgmmaFault

from measurements.emulator.order import Order


@needs_nvrtc
@needs_compiler
@pytest.mark.parametrize("fault", spread(FAULTS, 3), ids=lambda fault: fault.name)
def test_a_planted_fault_is_found(fault: WgmmaFault, nightly: bool) -> None:
    problem, kernel = fault.kernel()
    for seed in (0, 1, 2) if nightly else (0,):
        check_emulation_finds(fault.findings, problem, kernel, Order(fault.blocks, seed))
