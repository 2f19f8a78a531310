"""The result of a submission: a status, the reasons for the status, and the results of the cases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from autosched.verify.oracle import UNVERIFIED
from autosched.verify.verdict import FAILED_PROGRAM, OUT_OF_MEMORY, Verdict
from measurements.emulator.findings import FindingKind


class SubmissionStatus(StrEnum):
    """Status of a judged submission."""

    RIGHT = "right"
    WRONG = "wrong"  # outputs differ from the reference
    RACING = "racing"
    OUT_OF_BOUNDS = "out_of_bounds"
    FAULTY = "faulty"  # another finding, such as a read of uninitialised memory, or a wrong barrier or mask
    CHEATING = "cheating"  # the submission passes without computing the task: see Cheat
    FAILED = "failed"  # the submission raises an exception or terminates its process
    TIMED_OUT = "timed_out"
    OUT_OF_MEMORY = "out_of_memory"
    UNVERIFIED = "unverified"  # undecided: the emulator does not support the kernel, or its time limit was reached

    @classmethod
    def of_fault(cls, kind: FindingKind) -> SubmissionStatus:
        """Return the status of a submission whose launches have a fault of this kind."""
        return cls.RACING if kind in _RACES else cls.OUT_OF_BOUNDS if kind in _BOUNDS else cls.FAULTY

    @classmethod
    def of_verdict(cls, status: str) -> SubmissionStatus | None:
        """Return the status of a submission whose run has the verdict ``status``; None if the run completed."""
        if status in ("ok", "findings", "wrong_result"):
            return None
        return {FAILED_PROGRAM: cls.FAILED, OUT_OF_MEMORY: cls.OUT_OF_MEMORY}.get(status, cls.UNVERIFIED)

    @property
    def verdict(self) -> str:
        """The corresponding general status of ``autosched.verify.verdict``."""
        return _VERDICTS[self]


_RACES = {FindingKind.GLOBAL_RACE, FindingKind.SHARED_RACE}
_BOUNDS = {
    FindingKind.OUT_OF_BOUNDS_GLOBAL, FindingKind.OUT_OF_BOUNDS_SHARED, FindingKind.OUT_OF_BOUNDS_LOCAL
}  # fmt: skip
_VERDICTS = {
    SubmissionStatus.RIGHT: "ok",
    SubmissionStatus.WRONG: "wrong_result",
    SubmissionStatus.RACING: "findings",
    SubmissionStatus.OUT_OF_BOUNDS: "findings",
    SubmissionStatus.FAULTY: "findings",
    SubmissionStatus.CHEATING: FAILED_PROGRAM,
    SubmissionStatus.FAILED: FAILED_PROGRAM,
    SubmissionStatus.TIMED_OUT: FAILED_PROGRAM,
    SubmissionStatus.OUT_OF_MEMORY: OUT_OF_MEMORY,
    SubmissionStatus.UNVERIFIED: UNVERIFIED,
}


class Cheat(StrEnum):
    """Ways to pass the comparison without computing the task."""

    NO_LAUNCH = "no_launch"  # the submission launched no Triton kernel
    OUTPUT_NOT_WRITTEN = "output_not_written"  # the output is memory that was never written
    ZEROS = "zeros"  # the output is all zeros, which pass the task's absolute tolerance
    INPUTS_CHANGED = "inputs_changed"
    INPUT_RETURNED = "input_returned"  # the output is an input, but the reference returns another tensor
    KEPT_OUTPUT = "kept_output"  # the output is the output of an earlier call, although the buffers hold new values
    CONSTANT_OUTPUT = "constant_output"  # the output does not depend on the inputs
    TORCH = "work_left_to_torch"  # torch operators, not Triton kernels, compute the result


@dataclass(frozen=True)
class CaseResult:
    """The result of one case and seed.

    ``relative_error`` is the norm of the error divided by the norm of the float64 reference; None if no output can be
    compared. ``task_accepts`` is the result of the task's own check; None if the task has no check.
    """

    name: str
    launches: int
    relative_error: float | None
    tolerance: float
    task_accepts: bool | None
    findings: tuple[str, ...]
    torch_operators: tuple[str, ...]


@dataclass(frozen=True)
class SubmissionResult:
    """The result of a submission.

    Attributes:
        status: The status.
        reasons: Reasons, one sentence each.
        cheats: Detected cheats.
        cases: Results of each case with each seed.
        runs: Maps the name of each run to its status.
        network: "none" if the process had no network access, else the reason why it had access.
    """

    status: SubmissionStatus
    reasons: tuple[str, ...]
    cheats: tuple[Cheat, ...] = ()
    cases: tuple[CaseResult, ...] = ()
    runs: Mapping[str, str] = field(default_factory=dict)
    network: str = ""

    @property
    def verdict(self) -> Verdict:
        """The general status of ``autosched.verify.verdict`` for this submission."""
        return Verdict.not_launched(self.status.verdict, "; ".join(self.reasons))

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SubmissionResult:
        """Return the result whose ``to_json()`` was ``data``."""
        return cls(
            SubmissionStatus(data["status"]),
            tuple(data["reasons"]),
            tuple(Cheat(c) for c in data["cheats"]),
            tuple(_case(case) for case in data["cases"]),
            dict(data["runs"]),
            data["network"],
        )


def _case(data: Mapping[str, Any]) -> CaseResult:
    listed = {name: tuple(data[name]) for name in ("findings", "torch_operators")}
    fields: dict[str, Any] = {**data, **listed}
    return CaseResult(**fields)
