"""The runs that a plan makes of one launch, and the verdict on these runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from autosched.verify import stored
from autosched.verify.block_choice import SampleLimits, seconds_of_block
from autosched.verify.launch import LaunchUnderTest
from autosched.verify.launch_plan import EVERY_ORDER, QUICK, THOROUGH, TWO_ORDERS, LaunchPlan, LaunchRun, not_run
from autosched.verify.launches import compared, runs_of_launch, verdict_of, verdict_of_program, verify_launch
from autosched.verify.oracle import NOTHING_EXPECTED, Comparison
from autosched.verify.orders import all_orders, provoking_orders, quick_orders
from autosched.verify.planned_run import NO_TIME, PlannedRun, make_runs, until_failure
from autosched.verify.run import Run
from autosched.verify.verdict import Verdict
from measurements.emulator import Emulation, Finding, FindingKind, Order, Suppression

RACE = Finding(FindingKind.GLOBAL_RACE, "two threads write byte 0", "a.cu", 3, 1)
BEYOND = Finding(FindingKind.OUT_OF_BOUNDS_GLOBAL, "thread 0 reads byte 4", "a.cu", 5, 1)


def emulation(*findings: Finding, status: str = "ok", seconds: float = 0.0) -> Emulation:
    done = Emulation("ok", {}, (), (), (), run_seconds=seconds).with_findings(findings)
    return done if status == "ok" else replace(done, status=status, reason=status)  # type: ignore[arg-type]


class Launch(LaunchUnderTest):
    """A fake launch whose runs return prepared emulations in order."""

    def __init__(self, *emulations: Emulation) -> None:
        super().__init__("", {})
        object.__setattr__(self, "emulations", list(emulations))
        object.__setattr__(self, "started", [])

    def run(self, order: Order, **how: object) -> Emulation:  # type: ignore[override]
        self.started.append((order, how))  # type: ignore[attr-defined]
        return self.emulations.pop(0)  # type: ignore[attr-defined, no-any-return]


class Wrong:
    """An oracle that rejects every output."""

    def compare(self, emulation: Emulation) -> Comparison:
        return Comparison(2.0, "element 0 is 1, not 2", 1.0)


def names(plan: LaunchPlan) -> Sequence[str]:
    return [run.name for run in plan.runs]


def test_all_order_lists_are_subsets_of_one() -> None:
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
def test_invalid_plans_are_rejected(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        LaunchPlan(**wrong)  # type: ignore[arg-type]


def test_omitted_runs_are_named_by_their_arguments() -> None:
    assert not_run(QUICK, 1) == (
        "order=random", "order=descending", "order=interleaved", "turns=SEED", "launches=2", "perturb"
    )  # fmt: skip
    assert not_run(THOROUGH, 5) == ("perturb",)
    assert not_run(THOROUGH, 1) == not_run(QUICK, 1)


def test_findings_count_once_and_later_ones_report_their_run() -> None:
    verdict = verify_launch(Launch(emulation(RACE), emulation(RACE, BEYOND)), TWO_ORDERS)
    assert verdict.status == "findings" and {f.kind for f in verdict.findings} == {RACE.kind, BEYOND.kind}
    (later,) = (f for f in verdict.findings if f.kind == BEYOND.kind)
    assert later.message.endswith("blocks random, thread seed 1")


@pytest.mark.parametrize(
    ("first", "plan", "num_runs"),
    [
        (emulation(seconds=10.0), TWO_ORDERS, 2),
        (emulation(seconds=31.0), TWO_ORDERS, 1),
        (emulation(seconds=31.0), EVERY_ORDER, 4),
        (emulation(status="timeout"), EVERY_ORDER, 1),
        (emulation(RACE), EVERY_ORDER, 4),
    ],
)
def test_runs_after_the_first(first: Emulation, plan: LaunchPlan, num_runs: int) -> None:
    launch = Launch(first, *(emulation() for _ in range(4)))
    verdict = verdict_of(list(runs_of_launch(launch, plan)), plan)
    assert len(verdict.runs) == num_runs and verdict.whole is (num_runs == len(plan.runs))


def test_runs_stop_after_the_first_failure() -> None:
    launch = Launch(emulation(RACE), emulation())
    assert len(list(until_failure(runs_of_launch(launch, TWO_ORDERS)))) == 1
    assert len(launch.started) == 1  # type: ignore[attr-defined]


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
def test_the_verdict_combines_all_runs(emulations: list[Emulation], wrong: bool, status: str) -> None:
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
    verdict = verdict_of_program([launched(), launched()], wrong)
    assert (verdict.status, verdict.reason, verdict.worst) == ("wrong_result", "the output differs", 3.0)
    assert verdict_of_program([], wrong).status == "unsupported"


def test_a_verdict_on_a_launch_has_the_stored_format() -> None:
    verdict = verify_launch(Launch(*(emulation() for _ in range(5))), THOROUGH)
    text = json.dumps(replace(verdict, missing=("its sizes were others",)).stored())
    assert stored.lacks(text) == ("its sizes were others",) and stored.is_full(text)
    assert [run["launches"] for run in json.loads(text)["runs"]] == [1, 1, 1, 1, 2]
    assert stored.summary(text).startswith("ok in 5 emulated runs")
    with pytest.raises(ValueError, match="launch"):
        _ = verdict.problem


def test_a_launch_that_did_not_end_is_not_compared() -> None:
    run = compared(LaunchRun("ascending"), emulation(status="crashed"), Wrong())
    assert (run.status, run.worst) == ("crashed", None)


def test_a_plan_reaches_another_process_unchanged() -> None:
    expected = (Suppression.parse("global_race:a.cu:3:all store 1"), Suppression.parse("*:b.cu:*:known: a race"))
    plan = replace(THOROUGH, blocks=3, perturb_all=True, suppressions=expected)
    assert LaunchPlan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


def test_suppressed_findings_do_not_fail_and_are_kept() -> None:
    plan = replace(TWO_ORDERS, suppressions=(Suppression.parse("*:a.cu:3:known"),))
    verdict = verify_launch(Launch(emulation(RACE), emulation(RACE)), plan)
    assert verdict.ok and [f for f, _ in verdict.emulation.suppressed] == [RACE]
    assert verify_launch(Launch(emulation(RACE), emulation(BEYOND)), plan).status == "findings"


def test_arrays_that_a_second_launch_changes_are_named() -> None:
    def left(value: float) -> Emulation:
        return replace(emulation(), outputs={"sum": np.array([value]), "out": np.array([7.0])})

    verdict = verify_launch(Launch(left(1.0), left(2.0)), LaunchPlan(second_launch=True))
    assert verdict.ok and verdict.accumulating == ("sum",)
    assert verify_launch(Launch(left(1.0), left(1.0)), LaunchPlan(second_launch=True)).accumulating == ()


def test_some_blocks_run_once_in_each_of_two_orders() -> None:
    runs = replace(THOROUGH, perturb=True, launches=3, perturb_all=True).of_some_blocks().runs
    assert [(run.launches, run.perturb) for run in runs] == [(1, False)] * 2
    with pytest.raises(ValueError, match="only some of its blocks"):
        LaunchUnderTest("", 0, blocks=(0,)).run(Order("random", 1), launches=2)


def test_only_the_first_run_starts_after_the_time_limit() -> None:
    def first_run() -> Run:
        return compared(LaunchRun(""), emulation(), NOTHING_EXPECTED)

    planned = [PlannedRun("silent", lambda: None), PlannedRun("first", first_run), PlannedRun("second", first_run)]
    results = list(make_runs([*planned, PlannedRun("none", None, absent="no size")], budget=0.0))
    assert [(item.name, run is None) for item, run in results] == [
        ("silent", True), ("first", False), ("second", True), ("none", True)
    ]  # fmt: skip
    assert [item.absent for item, _ in results] == ["", "", NO_TIME, "no size"]


@pytest.mark.parametrize(
    ("total", "seconds", "blocks"),
    [(10, 0.5, None), (100, 0.5, 16), (10**6, 1e-9, None), (10**9, 1e-5, 48), (9, 5.0, 4)],
)
def test_how_many_blocks_run(total: int, seconds: float, blocks: int | None) -> None:
    assert SampleLimits(whole_seconds=10.0, seconds=8.0, fewest=4, most=48).blocks(total, seconds) == blocks


def test_the_time_of_a_block_excludes_the_launch() -> None:
    def run(blocks: Sequence[int], status: str = "ok") -> Emulation:
        return emulation(seconds=0.25 + 0.125 * len(blocks), status=status)

    assert seconds_of_block(run, 100) == 0.125
    assert seconds_of_block(lambda blocks: run(blocks, "timeout"), 100) is None
