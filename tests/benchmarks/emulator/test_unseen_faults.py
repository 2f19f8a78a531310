"""Verification reports the listed planted faults, and accepts the unmodified kernels."""

from __future__ import annotations

import pytest
from cases import spread
from needs import needs_compiler, needs_nvrtc

from autosched.verify.schedules import verify_one
from benchmarks.emulator.planted_fault import Fault, check, judge
from benchmarks.emulator.unseen_faults import FAULTS, MISSED_BY_QUICK
from search_spaces.catalogue import template

pytestmark = [needs_compiler, needs_nvrtc]
LARGE = {
    "offsets of rows of a transposed output overflow 32 bits": "far columns",
    "all tiles share 64 counters": "far rows",
    "a missing fence before accumulators are released": "edge inputs, fewer blocks",
    "row sums omit all tiles after the 48th": "many columns of tiles",
    "offsets of gradient rows overflow 32 bits": "true size",
}
BY_DAY = 15
SEEN = [pytest.param(f, id=f.name) for f in FAULTS if f.name not in MISSED_BY_QUICK]
ALL = [pytest.param(f, id=f.name) for f in FAULTS]


def test_at_least_280_faults_are_named_apart() -> None:
    assert len({f.name for f in FAULTS}) == len(FAULTS) >= 280
    assert {f.name for f in FAULTS} >= MISSED_BY_QUICK


@pytest.mark.parametrize("name", spread(LARGE, 1))
def test_quick_verifications_report_faults_and_pass_correct_schedules(name: str) -> None:
    (fault,) = (f for f in FAULTS if f.name == name)
    assert judge(fault, "quick")["run"] == LARGE[name]
    done = verify_one(template(fault.template), fault.problem, fault.schedule(), fault.where)
    assert done.ok, done.reason
    assert LARGE[name] in {run.name for run in done.runs}


@pytest.mark.parametrize("fault", spread(SEEN, BY_DAY))
def test_a_quick_verification_reports_a_fault(fault: Fault) -> None:
    assert judge(fault, "quick")["status"] != "ok"


@pytest.mark.nightly
@pytest.mark.parametrize("fault", ALL)
def test_a_full_verification_reports_every_fault(fault: Fault) -> None:
    assert check(fault) == ""
    assert judge(fault, "full")["status"] != "ok"


@pytest.mark.parametrize("fault", spread(ALL, 2))
def test_the_kernel_without_the_fault_passes(fault: Fault) -> None:
    done = verify_one(template(fault.template), fault.problem, fault.schedule(), fault.where)
    assert done.ok, done.reason
