"""Options and result of an emulated program."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field

from measurements.emulator.findings import Finding
from measurements.emulator.suppression import Suppression
from search_spaces.hardware.devices import Device


class ExecutableRefused(ValueError):
    """The program cannot be emulated. The message is one line with the remedy."""


@dataclass(frozen=True)
class ExecutableOptions:
    """Options for running a program. How each launch runs is decided by the ``verify`` argument of ``run_executable``.

    Attributes:
        device: GPU that the program detects.
        suppressions: Expected findings.
        driver: True to also provide libcuda to a program that is not linked with it but opens it at run time.
        undefined_memory: If True, device memory is undefined until it is written.
        loop_limit: Time limit of a loop in a graph, in CPU seconds for all its iterations together.
    """

    device: Device
    suppressions: tuple[Suppression, ...] = ()
    driver: bool = False
    undefined_memory: bool = True
    loop_limit: float = 60.0


@dataclass(frozen=True)
class LaunchFinding:
    """A finding of launch number ``launch`` (from 1) of ``kernel``, which the program launches at ``called_at``.

    Without these fields, the finding is a misuse of the CUDA interface, or an unordered access by the host.
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
        """True for faults, and for findings of the CUDA interface; False for notes."""
        return self.finding is None or self.finding.is_fault


@dataclass(eq=False)
class ExecutableResult:
    """Result of a program.

    ``status`` is the exit status, or a negative signal number. ``lacking`` lists called functions that are not
    emulated, in the order of their first calls; such a call returns cudaErrorNotSupported.
    """

    status: int = 0
    launches: int = 0
    findings: list[LaunchFinding] = field(default_factory=list)
    lacking: list[str] = field(default_factory=list)
    seconds: float = 0.0
    emulated_seconds: float = 0.0

    @property
    def ended(self) -> str:
        """Description of the program's failure in one line; "" if its exit status is 0."""
        if self.status < 0:
            return f"the program was ended by {signal.Signals(-self.status).name}"
        return f"the program ended with status {self.status}" if self.status else ""

    @property
    def faults(self) -> int:
        """Number of findings that are faults."""
        return sum(f.is_fault for f in self.findings)
