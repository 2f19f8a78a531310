"""Faults of the list of unseen ones that show at large sizes alone, and cost a quick verification next to nothing."""

from __future__ import annotations

import pytest
from cases import spread
from needs import needs_compiler, needs_nvrtc

from autosched.verify.schedules import verify_one
from benchmarks.emulator.unseen_faults import FAULTS, judge
from search_spaces.catalogue import template

pytestmark = [needs_compiler, needs_nvrtc]
LARGE = {
    "rows of a transposed out in 32 bits": "far columns",
    "64 counters for all tiles": "far rows",
    "rows summed over 48 tiles at most": "many columns of tiles",
}


@pytest.mark.parametrize("name", spread(LARGE, 1))
def test_quick_verifications_report_them_and_pass_what_is_right(name: str) -> None:
    (fault,) = (f for f in FAULTS if f.name == name)
    assert judge(fault, "quick")["run"] == LARGE[name]
    done = verify_one(template(fault.template), fault.problem, fault.schedule(), fault.where)
    assert done.ok, done.reason
    assert LARGE[name] in {run.name for run in done.runs}
