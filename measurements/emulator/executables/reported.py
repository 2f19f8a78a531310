"""Report each finding of a program once, as soon as it is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from measurements.emulator.effect import UNREAD
from measurements.emulator.executables.result import ExecutableResult, LaunchFinding
from measurements.emulator.findings import Finding, FindingKind
from measurements.emulator.suppression import Suppression

Key = tuple[object, ...]  # identifies a finding: of several with equal keys, only the first is reported
KeyedFinding = tuple[LaunchFinding, Key]


@dataclass(eq=False)
class ReportedFindings:
    """Findings and missing features of a program.

    Attributes:
        result: Result that collects them.
        on_finding: Called with each finding, and with a sentence about each missing feature.
        suppressions: Expected findings.
        seen: Keys of the reported findings.
        unread: Findings about undefined values. They become faults if the program reads memory that depends on these
            values.
    """

    result: ExecutableResult
    on_finding: Callable[[LaunchFinding | str], None]
    suppressions: Sequence[Suppression]
    seen: set[Key] = field(default_factory=set)
    unread: list[KeyedFinding] = field(default_factory=list)

    def add(self, finding: LaunchFinding, key: Key) -> None:
        """Report a finding, unless a finding with the same key was reported."""
        if key not in self.seen:
            self.seen.add(key)
            self.result.findings.append(finding)
            self.on_finding(finding)

    def add_of_host(self, finding: Finding, kernel: str, key: Key) -> None:
        """Report a finding that does not belong to a launch, unless it is suppressed."""
        if not any(s.matches(finding) for s in self.suppressions):
            self.add(LaunchFinding(str(finding.kind), finding.message, finding, kernel), key)

    def complain(self, sentence: str) -> None:
        """Report a missing feature, unless it was already reported."""
        if sentence not in self.result.lacking:
            self.result.lacking.append(sentence)
            self.on_finding(sentence)

    def wait_for_reader(self, findings: Sequence[KeyedFinding]) -> None:
        """Delay findings about undefined values until the program reads memory that depends on the values."""
        waiting = {key for _, key in self.unread}
        self.unread += [item for item in findings if item[1] not in waiting]

    def was_read(self) -> None:
        """Report all delayed findings as faults, because the program reads memory that depends on undefined values."""
        for finding, key in self.unread:
            self.add(finding, (*key, "fault"))
        self.unread.clear()

    def was_never_read(self) -> None:
        """Report all delayed findings as notes, because the program ended without reading the affected memory."""
        for launch_finding, key in self.unread:
            assert launch_finding.finding is not None
            message = f"{launch_finding.message}; {UNREAD}"
            note = replace(launch_finding.finding, grade="note", message=message)
            self.add(replace(launch_finding, message=message, finding=note), (*key, "note"))

    def has_failed(self) -> None:
        """Report copies of undefined memory to the host as faults, because the program ended with an error.

        They were only notes before.
        """
        for copied in [f for f in self.result.findings if not f.is_fault]:
            if copied.finding is None or copied.kind != str(FindingKind.UNINITIALIZED_HOST_READ):
                continue
            message = f"{copied.message}; the program has failed"
            fault = replace(copied.finding, grade="fault", message=message)
            self.add(replace(copied, message=message, finding=fault), (copied.kind, copied.message, "failed"))
