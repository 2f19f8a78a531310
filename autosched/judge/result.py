"""The result of a submission: a status, its reasons, and each case."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class SubmissionStatus(StrEnum):
    RIGHT = "right"
    WRONG = "wrong"  # its numbers
    RACING = "racing"
    OUT_OF_BOUNDS = "out_of_bounds"
    FAULTY = "faulty"  # another finding: uninitialised memory, a barrier, a mask
    CHEATING = "cheating"  # see Cheat
    FAILED = "failed"  # it raises, or ends its process
    TIMED_OUT = "timed_out"
    OUT_OF_MEMORY = "out_of_memory"
    UNPROVEN = "unproven"  # it may be right: the emulator lacks something, or time


class Cheat(StrEnum):
    NO_LAUNCH = "no_launch"  # no kernel of its own was launched
    OUTPUT_NOT_WRITTEN = "output_not_written"  # memory that nobody wrote is returned
    ZEROS = "zeros"  # zeros, which the task's absolute tolerance lets pass
    INPUTS_CHANGED = "inputs_changed"
    INPUT_RETURNED = "input_returned"  # as the output, where the reference returns another tensor
    KEPT_OUTPUT = "kept_output"  # of an earlier call, though the same buffers hold other values
    CONSTANT_OUTPUT = "constant_output"  # other inputs, same output
    TORCH = "work_left_to_torch"  # all that the reference computes


@dataclass(frozen=True)
class CaseResult:
    """Of one case and seed. ``relative_error`` is the norm of the error over that of the float64 reference, None where
    there is no output to compare. ``task_accepts`` is what the task's own check says, None where it has none."""

    name: str
    launches: int
    relative_error: float | None
    tolerance: float
    task_accepts: bool | None
    findings: tuple[str, ...]
    torch_operators: tuple[str, ...]


@dataclass(frozen=True)
class SubmissionResult:
    """``reasons`` are sentences. ``network`` is "none" where the process had no network, else why it had one."""

    status: SubmissionStatus
    reasons: tuple[str, ...]
    cheats: tuple[Cheat, ...] = ()
    cases: tuple[CaseResult, ...] = ()
    network: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SubmissionResult:
        return cls(
            SubmissionStatus(data["status"]),
            tuple(data["reasons"]),
            tuple(Cheat(c) for c in data["cheats"]),
            tuple(_case(case) for case in data["cases"]),
            data["network"],
        )


def _case(data: Mapping[str, Any]) -> CaseResult:
    listed = {name: tuple(data[name]) for name in ("findings", "torch_operators")}
    fields: dict[str, Any] = {**data, **listed}
    return CaseResult(**fields)
