"""Instruction counts of hand-picked schedules: worse machine code is detected without a GPU.

Another release of NVRTC schedules a little differently, so counts may differ by a tenth. ``pytest
tests/golden/test_sass.py --update-golden`` accepts what is compiled now; ``python -m benchmarks.cost_model.sass
FILE`` shows it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cases import spread
from needs import needs_recorded_lengths

from benchmarks.cost_model.sass import Looked, look, read
from measurements.compiler.disassembly import DisassemblerMissing, nvdisasm
from measurements.compiler.nvrtc import NvrtcMissing, toolchain_version

CASES = sorted((Path(__file__).parent / "sass").glob("*.json"))

try:
    toolchain_version()
    nvdisasm()
except (NvrtcMissing, DisassemblerMissing) as missing:
    pytestmark = pytest.mark.skip(reason=str(missing))


def counted(row: Looked) -> dict[str, Any]:
    return {
        "registers": row.resources.registers,
        "spilled_bytes": row.resources.spill_store_bytes + row.resources.spill_load_bytes,
        "turn": row.loop.instructions,
        "kinds": dict(row.loop.kinds),
        "loaded_bytes": row.loop.loaded_bytes,
        "after_barrier": row.loop.after_barrier,
    }


def near(now: int, then: int) -> bool:
    return abs(now - then) <= max(4, then // 10)


@needs_recorded_lengths
@pytest.mark.parametrize("case", spread(CASES, 5), ids=lambda path: path.stem)
def test_compiled_code_is_as_short_as_recorded(case: Path, request: pytest.FixtureRequest) -> None:
    (row,) = look([read(case)])
    now, document = counted(row), json.loads(case.read_text())
    if request.config.getoption("--update-golden"):
        case.write_text(json.dumps({**document, "sass": now}, indent=2) + "\n")
        return
    then = document["sass"]
    assert now["loaded_bytes"] == then["loaded_bytes"]
    assert now["spilled_bytes"] <= then["spilled_bytes"] + 32
    assert near(now["registers"], then["registers"])
    assert near(now["turn"], then["turn"]), (now["kinds"], then["kinds"])
    assert now["kinds"].get("tensor", 0) == then["kinds"].get("tensor", 0)
    for kind in {*now["kinds"], *then["kinds"]}:
        assert near(now["kinds"].get(kind, 0), then["kinds"].get(kind, 0)), kind


def test_a_dozen_cases_cover_every_template() -> None:
    assert len(CASES) >= 12
    assert {json.loads(case.read_text())["template"] for case in CASES} == {
        "matmul", "matvec", "row_reduction", "transpose", "copy",
    }  # fmt: skip
