"""Every fault planted in wgmma_matmul is found by emulating one small case, without which no mechanism is proven."""

from __future__ import annotations

import pytest
from needs import needs_compiler, needs_nvrtc
from wgmma_faults import FAULTS, WRONG, WgmmaFault

from measurements.emulator import emulate
from measurements.emulator.order import Order
from measurements.records.comparison import check


@needs_nvrtc
@needs_compiler
@pytest.mark.parametrize(
    "fault",
    [pytest.param(f, id=f.name, marks=() if i < 9 else pytest.mark.nightly) for i, f in enumerate(FAULTS)],
)
def test_a_planted_fault_is_found(fault: WgmmaFault, nightly: bool) -> None:
    problem, kernel = fault.kernel()
    inputs = problem.random_inputs(0)
    for seed in (0, 1, 2) if nightly else (0,):
        run = emulate(kernel, inputs, order=Order(fault.blocks, seed))
        found = {f.kind for f in run.findings}
        if WRONG in fault.found and run.ok and not check(problem, inputs, run.outputs).ok:
            found.add(WRONG)
        assert found & set(fault.found), (run.status, run.reason, found)
