"""Plug-in for ``pytest --autosched-triton DEVICE``, which emulates the Triton launches of tests and reports faults."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import ExitStack
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from autosched.triton.session import Session, emulated
from autosched.verify.launch_plan import QUICK, THOROUGH


class TritonEmulation:
    """The pytest plug-in. Emulation starts before collection, because test modules may use the device when imported."""

    def __init__(
        self, device: str, *, thorough: bool = False, undefined_memory: bool = True, first_configuration: bool = False
    ) -> None:
        self._stack = ExitStack()
        self._device, self._plan = device, THOROUGH if thorough else QUICK
        self._options = {"undefined_memory": undefined_memory, "first_configuration": first_configuration}
        self._ignored: list[str] = []
        self._collected = 0
        self._session: Session | None = None
        self._launches = 0

    def start(self) -> None:
        """Start the emulation. Raises UnknownDevice if the device is not in the device table."""
        self._session = self._stack.enter_context(emulated(self._device, plan=self._plan, check=False, **self._options))

    @pytest.hookimpl(wrapper=True)
    def pytest_ignore_collect(self, collection_path: Path, config: pytest.Config) -> Generator[None, Any, Any]:
        """Record test files that are excluded by a conftest.py or by --ignore."""
        ignored = yield
        if ignored and any(fnmatch(collection_path.name, pattern) for pattern in config.getini("python_files")):
            self._ignored.append(collection_path.name)
        return ignored

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Record the number of collected tests."""
        self._collected = len(session.items)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[Any]:
        """Fail the setup of a test if its launches have faults."""
        __tracebackhide__ = True
        return (yield from self._watched())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[Any]:
        """Fail the test if its launches have faults."""
        __tracebackhide__ = True
        return (yield from self._watched())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Iterator[Any]:
        """Fail the teardown of a test if its launches have faults."""
        __tracebackhide__ = True
        return (yield from self._watched())

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Generator[None, Any, Any]:
        """Fail the collection of a file whose launches have faults."""
        report = yield
        lines = self._faults()
        if lines and report.outcome == "passed":
            report.outcome, report.longrepr, report.result = "failed", "\n".join(lines), []
        return report

    def _watched(self) -> Iterator[Any]:
        """Fail a test whose launches had faults. The traceback omits frames of this plug-in.

        If the test fails for another reason, the faults are added as a note.
        """
        __tracebackhide__ = True
        try:
            result = yield
        except BaseException as error:
            if lines := self._faults():
                error.add_note("\n".join(lines))
            raise
        if lines := self._faults():
            pytest.fail("\n".join(lines), pytrace=False)
        return result

    def _faults(self) -> list[str]:
        """Return the faults found since the last call of this method."""
        if self._session is None:
            return []
        lines = self._session.fault_lines()
        self._launches += len(self._session.launches)
        self._session.forget()
        return lines

    def pytest_unconfigure(self) -> None:
        """Close the emulation."""
        self._stack.close()

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print a summary of ignored files and of the emulation."""
        if self._ignored:
            names = ", ".join(self._ignored[:3]) + ("" if len(self._ignored) <= 3 else ", ...")
            terminalreporter.write_line(
                f"autosched: test files ignored by a conftest.py or --ignore: {len(self._ignored)} ({names})"
            )
        if not self._collected:
            terminalreporter.write_line("autosched: no test was collected, so nothing was emulated")
        if self._launches:
            terminalreporter.write_line(f"autosched: {self._launches} Triton launches emulated for {self._device}")
