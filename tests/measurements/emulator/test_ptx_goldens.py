"""The PTX of each golden kernel and its C++ on the host: the same answers, no findings, the same memory requests."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from needs import needs_compiler, needs_nvrtc

from measurements.emulator import Emulation, emulate
from measurements.verification import check
from search_spaces.catalogue import problem_from_json, template
from search_spaces.hardware.devices import device
from search_spaces.operators.problem import Problem
from search_spaces.spaces.schedule import Schedule

GOLDEN = Path(__file__).parents[2] / "golden"
CASES = sorted(GOLDEN.glob("*.json"))
# One of each way to load, to compute and to store; all of them every night.
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


def requests(run: Emulation) -> dict[str, Counter[tuple[str, int, str, int]]]:
    """Requests by kind, and at each place; the host names no state space of plain accesses."""
    counts: dict[str, Counter[tuple[str, int, str, int]]] = {"shared": Counter(), "global": Counter()}
    for shared in run.shared_sites:
        counts["shared"][shared.file, shared.line, shared.instruction, shared.bytes] += shared.requests
    for one in run.global_sites:
        counts["global"][one.file, one.line, one.instruction, one.bytes] += one.requests
    return counts


def both(case: str) -> tuple[Problem, dict[str, Emulation], dict[str, object]]:
    data = json.loads((GOLDEN / f"{case}.json").read_text())
    problem, schedule = problem_from_json(data["problem"]), Schedule.from_json(data["template"], data["schedule"])
    found = template(schedule.template)
    if found.proxy is not None:
        problem = found.proxy(problem, schedule)
    kernel = found.kernel(problem, schedule, device(data["device"]))
    inputs = problem.random_inputs(0)
    runs = {engine: emulate(kernel, inputs, engine=engine) for engine in ("ptx", "host")}  # type: ignore[arg-type]
    return problem, runs, dict(inputs)


@pytest.mark.parametrize(
    "case", [pytest.param(p.stem, marks=() if p.stem in QUICK else pytest.mark.nightly) for p in CASES]
)
def test_ptx_and_host_agree(case: str) -> None:
    problem, runs, inputs = both(case)
    for engine, run in runs.items():
        assert run.ok, f"{engine}: {run.reason}"
        outcome = check(problem, inputs, run.outputs)  # type: ignore[arg-type]
        assert outcome.ok, f"{engine}: {outcome.reason}"
    ptx, host = requests(runs["ptx"]), requests(runs["host"])
    for space in ("shared", "global"):
        assert set(ptx[space]) == set(host[space])
        # Lanes that took different paths are one request only where the machine sees them meet again: never fewer.
        assert all(ptx[space][place] >= n for place, n in host[space].items())
