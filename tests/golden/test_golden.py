"""The CUDA that code generation emits for a few schedules, character by character.

``pytest tests/golden --update-golden`` accepts what is emitted now; the diff is the review.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kernels import generate

from search_spaces.catalogue import problem_from_json
from search_spaces.hardware.devices import device
from search_spaces.spaces.schedule import Schedule

HERE = Path(__file__).parent
# Cases of later architectures are in folders.
CASES = sorted(
    [*HERE.glob("*.json"), *(p for folder in ("wgmma", "eight_bit", "tma") for p in HERE.glob(f"{folder}/*.json"))]
)


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_emitted_source_equals_the_golden_file(case: Path, request: pytest.FixtureRequest) -> None:
    data = json.loads(case.read_text())
    problem = problem_from_json(data["problem"])
    kernel = generate(problem, Schedule.from_json(data["template"], data["schedule"]), device(data["device"]))
    emitted = (
        f"// grid {kernel.grid}, block {kernel.block}, {kernel.dynamic_shared_bytes} bytes of dynamic shared memory\n"
        f"{kernel.source}"
    )
    golden = case.with_suffix(".cu")
    if request.config.getoption("--update-golden"):
        golden.write_text(emitted)
    assert emitted == golden.read_text(), f"{golden.name} differs: read the diff, then --update-golden"


def test_golden_cases_exist() -> None:
    assert len(CASES) >= 4
