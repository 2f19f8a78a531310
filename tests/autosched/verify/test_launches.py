"""Plans of one launch, and the verdict that their runs give."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from autosched.verify import stored
from autosched.verify.launch import LaunchUnderTest
from autosched.verify.launch_plan import EVERY_ORDER, QUICK, THOROUGH, TWO_ORDERS, LaunchPlan, LaunchRun, not_run
from autosched.verify.launches import compared, make_runs, until_failure, verdict_of, verdict_of_program, verify_launch
from autosched.verify.oracle import NOTHING_EXPECTED, Comparison
from autosched.verify.orders import all_orders, provoking_orders, quick_orders
from autosched.verify.verdict import Verdict
from measurements.emulator import Emulation, Finding, FindingKind, Order

RACE = Finding(FindingKind.GLOBAL_RACE, "two threads write byte 0", "a.cu", 3, 1)
BEYOND = Finding(FindingKind.OUT_OF_BOUNDS_GLOBAL, "thread 0 reads byte 4", "a.cu", 5, 1)


def emulation(*findings: Finding, status: str = "ok", seconds: float = 0.0) -> Emulation:
    done = Emulation("ok", {}, (), (), (), run_seconds=seconds).with_findings(findings)
    return done if status == "ok" else replace(done, status=status, reason=status)  # type: ignore[arg-type]


class Launch(LaunchUnderTest):
    """A launch whose emulations are listed beforehand, one for each run."""

    def __init__(self, *emulations: Emulation) -> None:
        super().__init__("", {})
        object.__setattr__(self, "emulations", list(emulations))
        object.__setattr__(self, "asked", [])

    def run(self, order: Order, **how: object) -> Emulation:  # type: ignore[override]
        self.asked.append((order, how))  # type: ignore[attr-defined]
        return self.emulations.pop(0)  # type: ignore[attr-defined, no-any-return]


class Wrong:
    """An oracle that refuses every output."""

    def compare(self, emulation: Emulation) -> Comparison:
        return Comparison(2.0, "element 0 is 1, not 2", 1.0)


def names(plan: LaunchPlan) -> Sequence[str]:
    return [run.name for run in plan.runs]


def test_the_orders_are_of_one_list() -> None:
    assert quick_orders(5) == all_orders(5)[:2] and set(provoking_orders(5)) < set(all_orders(5))
    assert [order.blocks for order in all_orders()] == ["ascending", "random", "descending", "interleaved"]
    assert len({order.seed for order in all_orders(3)}) == 4


def test_plans_name_their_runs() -> None:
    assert names(QUICK) == ["ascending"]
    assert len(names(EVERY_ORDER)) == 4 and names(THOROUGH) == [*names(EVERY_ORDER), "launched twice"]
    perturbed = LaunchPlan(perturb=True, launches=2).runs
    assert [(run.launches, run.perturb) for run in perturbed] == [(2, False), (2, True)]
    assert all(run.perturb for run in LaunchPlan(quick_orders(), perturb_all=True).runs)


@pytest.mark.parametrize("wrong", [{"orders": ()}, {"time_limit": 0.0}, {"blocks": 0}])
def test_a_plan_that_makes_no_sense_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        LaunchPlan(**wrong)  # type: ignore[arg-type]


def test_what_was_not_run_is_named_by_its_argument() -> None:
    assert not_run(QUICK, 1) == (
        "order=random", "order=descending", "order=interleaved", "a seed of turns", "launches=2", "perturb"
    )  # fmt: skip
    assert not_run(THOROUGH, 5) == ("perturb",)
    assert not_run(THOROUGH, 1) == not_run(QUICK, 1)


def test_findings_of_all_runs_count_once_and_later_ones_name_their_run() -> None:
    verdict = verify_launch(Launch(emulation(RACE), emulation(RACE, BEYOND)), TWO_ORDERS)
    assert verdict.status == "findings" and {f.kind for f in verdict.findings} == {RACE.kind, BEYOND.kind}
    (later,) = (f for f in verdict.findings if f.kind == BEYOND.kind)
    assert later.message.endswith("blocks random, turns of seed 1")


@pytest.mark.parametrize(
    ("first", "others", "made"),
    [
        (emulation(seconds=10.0), TWO_ORDERS, 2),
        (emulation(seconds=31.0), TWO_ORDERS, 1),
        (emulation(seconds=31.0), EVERY_ORDER, 4),
        (emulation(status="timeout"), EVERY_ORDER, 1),
        (emulation(RACE), EVERY_ORDER, 4),
    ],
)
def test_runs_after_the_first(first: Emulation, others: LaunchPlan, made: int) -> None:
    launch = Launch(first, *(emulation() for _ in range(4)))
    verdict = verdict_of(list(make_runs(launch, others)), others)
    assert len(verdict.runs) == made and verdict.whole is (made == len(others.runs))


def test_no_run_is_made_after_a_failure_where_one_is_enough() -> None:
    launch = Launch(emulation(RACE), emulation())
    assert len(list(until_failure(make_runs(launch, TWO_ORDERS)))) == 1
    assert len(launch.asked) == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("emulations", "wrong", "status"),
    [
        ([emulation(), emulation()], False, "ok"),
        ([emulation(), emulation(status="timeout")], False, "timeout"),
        ([emulation(RACE), emulation(status="timeout")], False, "findings"),
        ([emulation(), emulation()], True, "wrong_result"),
        ([emulation(RACE), emulation()], True, "wrong_result"),
        ([emulation(status="unsupported")], True, "unsupported"),
    ],
)
def test_which_run_decides(emulations: list[Emulation], wrong: bool, status: str) -> None:
    verdict = verify_launch(Launch(*emulations), TWO_ORDERS, Wrong() if wrong else NOTHING_EXPECTED)
    assert verdict.status == status and verdict.ok is (status == "ok") and bool(verdict.reason) is not verdict.ok
    if status == "wrong_result":
        assert (verdict.worst, verdict.max_abs_error) == (2.0, 1.0)


def test_a_program_is_judged_by_its_launches_then_by_its_output() -> None:
    def launched(*findings: Finding, status: str = "ok") -> Verdict:
        return verify_launch(Launch(emulation(*findings, status=status)), QUICK)

    wrong = Comparison(3.0, "the output differs")
    assert verdict_of_program([launched(), launched()]).ok
    assert verdict_of_program([launched(), launched(RACE)], wrong).status == "findings"
    assert verdict_of_program([launched(), launched(status="timeout")], wrong).status == "timeout"
    judged = verdict_of_program([launched(), launched()], wrong)
    assert (judged.status, judged.reason, judged.worst) == ("wrong_result", "the output differs", 3.0)
    assert verdict_of_program([], wrong).status == "unsupported"


def test_a_verdict_on_a_launch_has_the_one_stored_form() -> None:
    verdict = verify_launch(Launch(*(emulation() for _ in range(5))), THOROUGH)
    text = json.dumps(replace(verdict, missing=("its sizes were others",)).stored())
    assert stored.lacks(text) == ("its sizes were others",) and stored.is_full(text)
    assert [run["launches"] for run in json.loads(text)["runs"]] == [1, 1, 1, 1, 2]
    assert stored.summary(text).startswith("ok in 5 emulated runs")
    with pytest.raises(ValueError, match="launch"):
        _ = verdict.problem


def test_an_oracle_is_not_asked_of_a_launch_that_did_not_end() -> None:
    run = compared(LaunchRun("ascending"), emulation(status="crashed"), Wrong())
    assert (run.status, run.worst) == ("crashed", None)
