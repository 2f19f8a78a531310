"""Report of a check: a verdict on each entry, and on the whole run."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from autosched.reporting.exit_status import ExitStatus
from autosched.verify.verdict import BITS_DIFFER, outcome_of
from measurements.trials.timing_statistics import Ratio


class EntryStatus(StrEnum):
    """Result of checking one entry."""

    FASTER = "faster"
    SAME = "same"
    SOUND = "sound"  # only for configuration files: no fault was found, and there is no baseline to compare with
    SLOWER = "slower"
    UNCERTAIN = "uncertain"  # the entry was timed, but noise or a changed machine prevents a verdict
    CANNOT_COMPARE = "cannot compare"  # there is no baseline to compare with
    STALE = "stale"  # all trials were verified with an earlier reference of the kernel file
    WRONG = "wrong"  # the kernel computes wrong results
    BROKEN = "broken"  # the schedule is no longer valid, does not compile, or does not run

    @classmethod
    def of_verdict(cls, status: str) -> EntryStatus:
        """Convert the status of a timing verdict to the status of an entry."""
        outcome = outcome_of(status)
        if outcome != "refused":
            return cls.SOUND if outcome == "accepted" else cls.UNCERTAIN
        return cls.WRONG if status in ("wrong_result", "findings", "crashed", BITS_DIFFER) else cls.BROKEN

    @property
    def judged(self) -> bool:
        """True if the entry was compared, regardless of the result."""
        return self not in (EntryStatus.UNCERTAIN, EntryStatus.CANNOT_COMPARE, EntryStatus.STALE)

    @property
    def fails(self) -> bool:
        """True if a single entry with this status makes the check fail."""
        return self in (EntryStatus.SLOWER, EntryStatus.WRONG, EntryStatus.BROKEN)


@dataclass(frozen=True)
class CheckFinding:
    """Verdict on one entry.

    Attributes:
        name: Name that identifies the entry.
        operator: Operator of the entry.
        problem: Fields of the entry's problem.
        device: Name of the device.
        verdict: The verdict.
        reasons: Reasons for the verdict, one line each.
        provenance: Provenance of the stored trial.
        seconds: Time of the stored trial, for display only.
        ratio: Candidate's time divided by the baseline's time; None if nothing was timed.
        baseline_seconds: Median time of the baseline in this run; None if nothing was timed.
        candidate_seconds: Median time of the candidate in this run; None if nothing was timed.
        numbers: Further results, by name.
        check_seconds: Duration of the check.
        file: File of an entry of a configuration file; "" for entries of a database.
        line: Line of the entry in ``file``; 0 for the whole file.
    """

    name: str
    operator: str
    problem: Mapping[str, Any]
    device: str
    verdict: EntryStatus
    reasons: tuple[str, ...] = ()
    provenance: str = ""
    seconds: float | None = None
    ratio: Ratio | None = None
    baseline_seconds: float | None = None
    candidate_seconds: float | None = None
    numbers: Mapping[str, float | int | str] = field(default_factory=dict)
    check_seconds: float = 0.0
    file: str = ""
    line: int = 0

    @property
    def reason(self) -> str:
        """All reasons, in one line."""
        return "; ".join(self.reasons)

    def to_json(self) -> dict[str, Any]:
        """Return the finding as JSON."""
        ratio = self.ratio
        interval = (
            None if ratio is None else {k: _finite(getattr(ratio, k)) for k in ("median", "low", "high", "pairs")}
        )
        return {
            "name": self.name,
            "operator": self.operator,
            "problem": dict(self.problem),
            "device": self.device,
            "verdict": self.verdict.value,
            "reasons": list(self.reasons),
            "provenance": self.provenance,
            "recorded_seconds": self.seconds,
            "ratio": interval,
            "baseline_seconds": self.baseline_seconds,
            "candidate_seconds": self.candidate_seconds,
            "numbers": dict(self.numbers),
            "check_seconds": self.check_seconds,
        }


@dataclass(frozen=True)
class CheckReport:
    """All findings of a check of ``database``.

    ``kind`` is "static", "timed" or "configs" (then ``database`` is a folder). ``doubt`` is the reason why the whole
    run is invalid, "" if it is valid. ``tools`` contains names and versions of the tools. ``left_out`` is a line with
    the number of skipped trials that were verified with an earlier reference, or "".
    """

    database: str
    kind: str
    findings: tuple[CheckFinding, ...]
    doubt: str = ""
    tools: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    left_out: str = ""

    @property
    def counts(self) -> dict[EntryStatus, int]:
        """Number of entries with each verdict, in the order of ``EntryStatus``."""
        counter = Counter(f.verdict for f in self.findings)
        return {verdict: counter[verdict] for verdict in EntryStatus if counter[verdict]}

    @property
    def kernels(self) -> str:
        """Source of the kernels with which configurations were verified; "" for entries of a database."""
        return "; ".join(sorted({str(f.numbers["kernel"]) for f in self.findings if "kernel" in f.numbers}))

    @property
    def judged(self) -> int:
        """Number of entries that were compared."""
        return sum(f.verdict.judged for f in self.findings)

    @property
    def status(self) -> ExitStatus:
        """Exit status of the check."""
        return status_of([f.verdict for f in self.findings], self.doubt)

    @property
    def conclusion(self) -> str:
        """Conclusion in one line."""
        left_out = f"; {self.left_out}" if self.left_out else ""
        if not self.findings:
            return f"nothing was checked: {self.doubt or f'{self.database} has no working schedule'}{left_out}"
        counts = ", ".join(f"{n} {verdict}" for verdict, n in self.counts.items())
        configs = self.kind == "configs"
        texts = {
            ExitStatus.OK: "every checked configuration is sound" if configs else "no confirmed regression",
            ExitStatus.NO: "BROKEN CONFIGURATIONS" if configs else "REGRESSION",
            ExitStatus.NO_ANSWER: "no result",
        }[self.status]
        why = f" ({self.doubt})" if self.doubt else ""
        return f"{texts}: {counts}{why}{left_out}"

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON."""
        return {
            "database": self.database,
            "kind": self.kind,
            "status": self.status,
            "conclusion": self.conclusion,
            "doubt": self.doubt,
            "left_out": self.left_out,
            "judged": self.judged,
            "counts": {verdict.value: n for verdict, n in self.counts.items()},
            "tools": dict(self.tools),
            "seconds": self.seconds,
            "entries": [f.to_json() for f in self.findings],
        }


def status_of(verdicts: Sequence[EntryStatus], doubt: str = "") -> ExitStatus:
    """Return the exit status of a check.

    Args:
        verdicts: Verdicts on the entries.
        doubt: Reason why the whole run is invalid; "" if it is valid.

    Returns:
        0: there is no confirmed regression. 1: there is at least one. 2: the check has no result. Status 2 also applies
            if an entry is stale, or if no entry was compared, because an empty check must not pass.
    """
    if any(verdict.fails for verdict in verdicts):
        return ExitStatus.NO
    judged = any(verdict.judged for verdict in verdicts) and EntryStatus.STALE not in verdicts
    return ExitStatus.OK if judged and not doubt else ExitStatus.NO_ANSWER


def worst_first(findings: Sequence[CheckFinding]) -> list[CheckFinding]:
    """Sort findings: failures first, then uncertain findings, then all others. Otherwise the order is unchanged."""
    return sorted(findings, key=lambda f: (not f.verdict.fails, f.verdict.judged))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
