"""The kernel of each golden file is correct, has no findings, and makes equal memory requests in all thread orders."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from needs import needs_compiler, needs_nvrtc

from measurements.emulator import Emulation, Order, emulate
from measurements.trials.comparison import check
from search_spaces.catalogue import problem_from_json, template
from search_spaces.hardware.devices import device
from search_spaces.spaces.schedule import Schedule

GOLDEN = Path(__file__).parents[2] / "golden"
CASES = sorted(GOLDEN.glob("*.json"))
# One kernel for each method of loading, computing and storing. All kernels run nightly.
QUICK = (
    "copy_u8_tail",
    "fma_f32_odd",
    "matvec_f16_split",
    "mma_f16_pipelined",
    "reduce_f16_argmax",
    "softmax_bf16_split",
    "transpose_u8_pipelined",
    "wmma_f16_padded",
)

pytestmark = [needs_nvrtc, needs_compiler]


def requests(run: Emulation) -> Counter[tuple[str, int, tuple[str, ...], str, int]]:
    """Return the number of memory requests at each source position."""
    counts: Counter[tuple[str, int, tuple[str, ...], str, int]] = Counter()
    for site in (*run.shared_sites, *run.global_sites):
        counts[site.file, site.line, site.callers, site.instruction, site.bytes] += site.requests
    return counts


@pytest.mark.parametrize(
    "case", [pytest.param(p.stem, marks=() if p.stem in QUICK else pytest.mark.nightly) for p in CASES]
)
def test_golden_kernels_are_right_in_any_order(case: str) -> None:
    data = json.loads((GOLDEN / f"{case}.json").read_text())
    problem, schedule = problem_from_json(data["problem"]), Schedule.from_json(data["template"], data["schedule"])
    kernel_template = template(schedule.template)
    if kernel_template.proxy is not None:
        problem = kernel_template.proxy(problem, schedule)
    kernel = kernel_template.kernel(problem, schedule, device(data["device"]))
    inputs = problem.random_inputs(0)
    counted = []
    for order in (Order(), Order("random", seed=3)):
        run = emulate(kernel, inputs, order=order)
        assert run.ok, run.reason
        outcome = check(problem, inputs, run.outputs)
        assert outcome.ok, outcome.reason
        counted.append(requests(run))
    assert counted[0] == counted[1]
    assert counted[0]
