"""Runs again what the last run skipped: ``--last-skipped``, after a missing package has been installed."""

from __future__ import annotations

import pytest

KEY = "autosched/skipped"


class LastSkipped:
    """Keep the ids of skipped tests and modules in pytest's cache, and select those of the last run where asked to.

    Args:
        config: Configuration of the run. Workers of pytest-xdist only select; their controller keeps the ids.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
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
        skipped = set(config.cache.get(KEY, [])) if config.cache else set()
        again, others = [], []
        for item in items:
            (again if {item.nodeid, item.nodeid.partition("::")[0]} & skipped else others).append(item)
        config.hook.pytest_deselected(items=others)
        items[:] = again

    def pytest_sessionfinish(self) -> None:
        config = self._config
        if config.cache and not config.getoption("--collect-only") and not hasattr(config, "workerinput"):
            config.cache.set(KEY, sorted(self._skipped))
