"""All planned runs of an executable's launch are executed. Only the plan's first run changes the program's memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from autosched.verify import executables
from autosched.verify.launch_plan import THOROUGH, LaunchPlan
from measurements.emulator import ASCENDING, Emulation, Order
from measurements.emulator.executables import ExecutableOptions, ExecutableResult
from search_spaces.hardware.devices import device


class RecordedLaunch:
    def __init__(self) -> None:
        self.runs: list[tuple[Order, dict[str, Any]]] = []

    def run(self, order: Order, **settings: Any) -> Emulation:
        self.runs.append((order, settings))
        return Emulation("ok", {}, (), (), ())


def recorded(plan: LaunchPlan, monkeypatch: pytest.MonkeyPatch) -> RecordedLaunch:
    launch = RecordedLaunch()

    def run_executable(
        command: Sequence[str], options: ExecutableOptions, verify: Callable[[Any], None], on_finding: object
    ) -> ExecutableResult:
        verify(launch)
        return ExecutableResult(0, 1)

    monkeypatch.setattr(executables, "run_executable", run_executable)
    _, verdict = executables.run_planned(["./program"], device("h100"), plan, print)
    assert verdict.ok
    return launch


def test_the_first_run_of_the_plan_is_executed_last(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = replace(THOROUGH, perturb=True, time_limit=7.0)
    runs = recorded(plan, monkeypatch).runs
    executed = [(order, s["launches"], s["perturb"]) for order, s in runs]
    first, *later = [(run.order, run.launches, run.perturb) for run in plan.runs]
    assert executed == [*later, first]
    assert {s["time_limit"] for _, s in runs} == {7.0}


def test_only_the_first_run_of_the_plan_is_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    committed = [order for order, s in recorded(THOROUGH, monkeypatch).runs if s["commit"]]
    assert committed == [ASCENDING]
