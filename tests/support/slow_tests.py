"""Maintain the checked-in list of slow test functions, which ``pytest --update-slow -n 0`` writes.

A test is slow if its cases take more than LIMIT CPU seconds on average, child processes included. A busy machine gives
the same CPU times as an idle one, so the list is stable from run to run. A function whose time is near the limit keeps
its state, listed or unlisted.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import mean

import forked_python
import pytest

LIST = Path("tests", "slow.txt")  # relative to the root folder of the run
LIMIT = 0.05  # seconds of CPU
MARGIN = 1.5  # a test is added or removed only if its time differs from the limit by this factor (hysteresis)


def slow_functions(root: Path) -> set[str]:
    """Return the node ids of the listed test functions, without parameters."""
    file = root / LIST
    return set(file.read_text().splitlines()) if file.exists() else set()


def function_of(item: pytest.Item) -> str:
    """Return the node id of a test without its parameters."""
    return item.nodeid.partition("[")[0]


def cpu_seconds() -> float:
    """Return the CPU time of this process and of all child processes that have ended, including forked ones."""
    return sum(os.times()[:4]) + forked_python.cpu_seconds


def updated(listed: set[str], seconds: dict[str, float], exists: set[str]) -> list[str]:
    """Return the new list.

    Args:
        listed: Functions of the old list.
        seconds: CPU seconds per case of each function that ran.
        exists: Functions of the old list that still exist.
    """
    slow = {name for name in listed & exists if name not in seconds}
    for name, cost in seconds.items():
        if cost > (LIMIT / MARGIN if name in listed else LIMIT * MARGIN):
            slow.add(name)
    return sorted(slow)


class UpdateSlow:
    """Measure each test and write the list at the end of the run.

    The time of a fixture of a wider scope is divided among the tests that use it.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._seconds: dict[str, list[float]] = defaultdict(list)
        self._of_fixtures: dict[tuple[str, str], float] = defaultdict(float)  # keyed by test file and fixture name
        self._users: dict[tuple[str, str], list[str]] = defaultdict(list)
        self._in_fixtures = 0.0
        self._passed: set[str] = set()
        self._owners: dict[str, object] = {}  # node id of a module or class -> module or class

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        owner, _, _ = function_of(item).rpartition("::")
        self._owners[owner] = getattr(item, "cls", None) or getattr(item, "module", None)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self._passed.add(report.nodeid)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
    ) -> Iterator[None]:
        if fixturedef.scope == "function":
            return (yield)
        before, nested = cpu_seconds(), self._in_fixtures
        try:
            return (yield)
        finally:
            spent = cpu_seconds() - before
            file = request.node.nodeid.partition("::")[0]
            self._of_fixtures[file, fixturedef.argname] += spent - (self._in_fixtures - nested)
            self._in_fixtures = nested + spent

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        before, self._in_fixtures = cpu_seconds(), 0.0
        result = yield
        if item.nodeid not in self._passed:
            return result
        name = function_of(item)
        self._seconds[name].append(cpu_seconds() - before - self._in_fixtures)
        for fixture in getattr(item, "fixturenames", ()):
            self._users[item.nodeid.partition("::")[0], fixture].append(name)
        return result

    def seconds(self) -> dict[str, float]:
        """Return the CPU seconds per case of each function whose cases have passed."""
        shares: dict[str, float] = defaultdict(float)
        for key, spent in self._of_fixtures.items():
            users = self._users[key]
            for name in users:
                shares[name] += spent / len(users)
        return {name: mean(costs) + shares[name] / len(costs) for name, costs in self._seconds.items()}

    def pytest_sessionfinish(self) -> None:
        listed = slow_functions(self._root)
        lines = updated(listed, self.seconds(), {name for name in listed if self._exists(name)})
        (self._root / LIST).write_text("".join(f"{line}\n" for line in lines))

    def _exists(self, function: str) -> bool:
        """Return True if a listed test still exists.

        A class may inherit a test. The test's file is read if this run has not collected it.
        """
        owner, _, name = function.rpartition("::")
        if owner in self._owners:
            return hasattr(self._owners[owner], name)
        path, _, classes = owner.partition("::")
        file = self._root / path
        if not file.exists():
            return False
        text = file.read_text()
        if classes:
            return all(f"class {one}" in text for one in classes.split("::"))
        return f"def {name}(" in text
