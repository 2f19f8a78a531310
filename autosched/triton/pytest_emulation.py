"""``pytest --autosched-triton DEVICE``: the Triton launches of tests run in the emulator; a fault fails the test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from autosched.triton.session import QUICK, THOROUGH, Session, emulated


class FaultyLaunches(AssertionError):
    """The message has a line for each finding."""


class TritonEmulation:
    """The plug-in. The device is there from the start, since test modules may ask for it when they are imported."""

    def __init__(self, device: str, thorough: bool) -> None:
        self._stack = ExitStack()
        self._device, self._proof = device, THOROUGH if thorough else QUICK
        self._session: Session | None = None
        self._launches = 0

    def start(self) -> None:
        """Raise UnknownDevice."""
        self._session = self._stack.enter_context(emulated(self._device, proof=self._proof, check=False))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[Any]:
        session = self._session
        if session is None:
            return (yield)
        session.launches.clear()
        result = yield
        self._launches += len(session.launches)
        if lines := session.fault_lines():
            raise FaultyLaunches("\n".join(lines))
        return result

    def pytest_unconfigure(self) -> None:
        self._stack.close()

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self._launches:
            terminalreporter.write_line(f"autosched: {self._launches} Triton launches emulated for {self._device}")
