"""Verdict on one emulated launch, and its arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from autosched.verify.verdict import Verdict
from measurements.emulator import Emulation, Finding, GlobalSite, Order, SharedSite
from search_spaces.arrays import Array
from search_spaces.short_repr import short_repr


@dataclass(frozen=True, eq=False)
class EmulatedLaunch:
    """Verdict on a launch, and the arrays after it.

    Attributes:
        verdict: The verdict, with all findings.
        arrays: The arguments after the first run. None for arguments that are not arrays, and for all arguments if the
            run did not finish. A tuple for a list or a ``Struct``.
        symbols: Contents of the requested variables.
    """

    verdict: Verdict
    arrays: tuple[Any, ...]
    symbols: Mapping[str, Array] = field(default_factory=dict)

    __repr__ = short_repr

    @property
    def emulation(self) -> Emulation:
        """Emulation of the run that failed, or of the first run if none failed."""
        return self.verdict.emulation

    @property
    def orders(self) -> tuple[Order, ...]:
        """Order of each run."""
        return tuple(run.order for run in self.verdict.runs)

    @property
    def not_run(self) -> tuple[str, ...]:
        """Omitted runs that might find more faults: the arguments of ``autosched.emulate`` that request them."""
        return self.verdict.not_run

    @property
    def status(self) -> str:
        """Status of the verdict; "ok" if no fault was found."""
        return self.verdict.status

    @property
    def ok(self) -> bool:
        """True if no fault was found."""
        return self.verdict.ok

    @property
    def reason(self) -> str:
        """Reason why the launch failed, in one line."""
        return self.verdict.reason

    @property
    def printed(self) -> str:
        """Output of ``printf`` in the kernel."""
        return self.emulation.printed

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings, faults first."""
        return self.emulation.findings

    @property
    def faults(self) -> tuple[Finding, ...]:
        """Findings that make the launch wrong."""
        return self.emulation.faults

    @property
    def notes(self) -> tuple[Finding, ...]:
        """Findings that do not make the launch wrong."""
        return self.emulation.notes

    @property
    def suppressed(self) -> tuple[tuple[Finding, str], ...]:
        """Suppressed findings, each with the reason."""
        return self.emulation.suppressed

    @property
    def shared_sites(self) -> tuple[SharedSite, ...]:
        """Accesses to shared memory by source line."""
        return self.emulation.shared_sites

    @property
    def global_sites(self) -> tuple[GlobalSite, ...]:
        """Accesses to global memory by source line."""
        return self.emulation.global_sites
