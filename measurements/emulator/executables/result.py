"""What a program is run with, and what comes of its launches."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field

from measurements.emulator.findings import Finding
from measurements.emulator.order import ASCENDING, Order
from measurements.emulator.suppression import Suppression
from search_spaces.hardware.devices import Device


class ExecutableRefused(ValueError):
    """A program that cannot be run so. The message is one line that says what to do."""


@dataclass(frozen=True)
class ExecutableOptions:
    """``time_limit``: CPU seconds of a launch. ``order``, ``perturb`` and ``suppressions``: of each launch, as
    ``emulate`` takes them. ``more_orders``: each launch runs in these before, on a copy of memory that is dropped, for
    what is found there. ``driver``: the program opens libcuda when it runs, which its file does not tell.
    ``undefined_memory``: memory of the device holds no value until something writes it."""

    device: Device
    time_limit: float = 60.0
    order: Order = ASCENDING
    more_orders: tuple[Order, ...] = ()
    perturb: bool = False
    suppressions: tuple[Suppression, ...] = ()
    driver: bool = False
    undefined_memory: bool = True


@dataclass(frozen=True)
class LaunchFinding:
    """A finding of launch number ``launch`` (from 1) of ``kernel``, which the program calls at ``called_at``.

    Without these: a misuse of the interface, or what the host does in no order.
    """

    kind: str
    message: str
    finding: Finding | None
    kernel: str = ""
    launch: int = 0
    shape: str = ""
    called_at: str = ""

    @property
    def is_fault(self) -> bool:
        return self.finding is None or self.finding.is_fault


@dataclass(eq=False)
class ExecutableResult:
    """``status`` is the program's exit status, negative for a signal. ``lacking``: what the stand-in does not have, in
    the order of the first calls; the program got cudaErrorNotSupported."""

    status: int = 0
    launches: int = 0
    findings: list[LaunchFinding] = field(default_factory=list)
    lacking: list[str] = field(default_factory=list)
    seconds: float = 0.0
    emulated_seconds: float = 0.0

    @property
    def ended(self) -> str:
        """How the program ended, in one line; "" if its exit status is 0."""
        if self.status < 0:
            return f"the program was ended by {signal.Signals(-self.status).name}"
        return f"the program ended with status {self.status}" if self.status else ""

    @property
    def faults(self) -> int:
        return sum(f.is_fault for f in self.findings)
