"""With ``--last-skipped``, run the tests that the last run skipped, for example after a package was installed."""

from __future__ import annotations

import pytest

KEY = "autosched/skipped"


class LastSkipped:
    """Store the ids of skipped tests and modules in pytest's cache. On request, select only those of the last run.

    Args:
        config: Configuration of the run. Workers of pytest-xdist only select tests. The controller stores the ids.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._cache: pytest.Cache | None = getattr(config, "cache", None)  # None if the plug-in is disabled
        self._keeps = not (config.getoption("--collect-only") or hasattr(config, "workerinput"))
        self._skipped: set[str] = set()

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self._skipped.add(report.nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped:
            self._skipped.add(report.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        if not config.getoption("--last-skipped"):
            return
        skipped = set(self._cache.get(KEY, [])) if self._cache else set()
        selected, deselected = [], []
        for item in items:
            (selected if {item.nodeid, item.nodeid.partition("::")[0]} & skipped else deselected).append(item)
        config.hook.pytest_deselected(items=deselected)
        items[:] = selected

    def pytest_sessionfinish(self) -> None:
        if self._cache and self._keeps:
            self._cache.set(KEY, sorted(self._skipped))
