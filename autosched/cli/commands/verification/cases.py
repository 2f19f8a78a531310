"""Convert launches and their findings to the cases of a command's answer."""

from __future__ import annotations

from collections.abc import Sequence

from autosched.reporting.ci import CheckedCase
from autosched.reporting.exit_status import ExitStatus, of_verdicts
from autosched.verify.verdict import Outcome, outcome_of
from measurements.emulator import Finding, FindingKind


def outcome_of_launch(status: str) -> Outcome:
    """Return the outcome that corresponds to a launch's status. For unsupported PTX, this is "uncertain"."""
    return "uncertain" if status == "compile_error" else outcome_of(status)


def launch_case(
    name: str, status: str, findings: Sequence[Finding], reason: str = "", seconds: float = 0.0, *, notes: bool = False
) -> CheckedCase:
    """Return the case that describes one launch in the answer.

    Args:
        name: Name of the launch.
        status: Status of its emulation.
        findings: Findings of the launch.
        reason: Explanation of the status.
        seconds: Duration of the emulation.
        notes: True to count a note as a failure.
    """
    counted = [
        f for f in findings if (f.is_fault or notes) and f.kind != FindingKind.TIMEOUT
    ]  # a timeout is no fault: the launch's status makes the outcome uncertain
    outcome = "refused" if counted else outcome_of_launch(status)
    first = counted[0] if counted else None
    return CheckedCase(
        name=name,
        outcome=outcome,
        verdict=status if outcome == "uncertain" else outcome,
        reasons=tuple(map(str, counted)) or ((reason,) if reason and outcome != "accepted" else ()),
        seconds=seconds,
        file=first.file if first is not None else "",
        line=first.line if first is not None else 0,
    )


def status_of(cases: Sequence[CheckedCase]) -> ExitStatus:
    """Return the exit status that follows from the outcomes of all cases."""
    outcomes = [case.outcome for case in cases]
    return of_verdicts(*(outcomes.count(word) for word in ("accepted", "refused", "uncertain")))
