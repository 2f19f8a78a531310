"""The result of one candidate. A failed candidate has a status and a reason, but no time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Self


class Status(StrEnum):
    """Status of a trial."""

    OK = "ok"
    COMPILE_ERROR = "compile_error"
    COMPILE_TIMEOUT = "compile_timeout"
    OUT_OF_RESOURCES = "out_of_resources"  # too many registers, or too much shared memory or device memory
    LAUNCH_ERROR = "launch_error"
    TIMEOUT = "timeout"
    WRONG_RESULT = "wrong_result"
    # only without a GPU: the emulation was inconclusive, for example because it did not finish
    UNVERIFIED = "unverified"
    CRASHED = "crashed"
    UNRANKED = "unranked"  # only without a GPU: the kernel was compiled, but its time cannot be estimated
    UNRECORDED = "unrecorded"  # only in replays: the recording does not contain this schedule


class Provenance(StrEnum):
    """Origin of a time. Times of different provenance are never ranked together."""

    MEASURED = "measured"
    REPLAYED = "replayed"
    ESTIMATED = "estimated"


@dataclass(frozen=True)
class Timing:
    """Seconds per launch: median and quartiles over ``count`` timed repeats (estimates have count 0)."""

    median: float
    p25: float
    p75: float
    count: int

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Self:
        """Return the statistics of one or more repeated timings."""
        if len(seconds) == 1:
            return cls(seconds[0], seconds[0], seconds[0], 1)
        # imported late, because statistics imports decimal and fractions, which calls of kernels do not need
        import statistics

        p25, median, p75 = statistics.quantiles(seconds, n=4, method="inclusive")
        return cls(median, p25, p75, len(seconds))

    @classmethod
    def estimate(cls, seconds: float) -> Self:
        """Return an estimated time, whose count of repeats is 0."""
        return cls(seconds, seconds, seconds, 0)


@dataclass(frozen=True)
class Resources:
    """Resources that ptxas allocates to the compiled kernel, in bytes except ``registers`` (per thread)."""

    registers: int
    spill_store_bytes: int
    spill_load_bytes: int
    stack_bytes: int
    static_shared_bytes: int
    dynamic_shared_bytes: int


@dataclass(frozen=True)
class MachineCode:
    """Identity of machine code: SHA-256 of the cubin, SHA-256 of the instructions in it, and their size in bytes."""

    cubin_digest: str
    sass_digest: str
    sass_bytes: int


@dataclass(frozen=True)
class Measurement:
    """Result of one candidate. ``timing`` is set if and only if ``status`` is ok.

    ``reason`` explains why the timing is missing or unusual. ``error`` is the largest ratio of an error to its
    tolerance, or None. ``clock_mhz`` is the SM clock just after the last repeat; None if unknown. ``watts`` is the
    GPU's mean power during repeated launches of the kernel, if requested.
    """

    status: Status
    provenance: Provenance
    reason: str = ""
    timing: Timing | None = None
    error: float | None = None
    resources: Resources | None = None
    compile_seconds: float | None = None
    clock_mhz: float | None = None
    code: MachineCode | None = None
    watts: float | None = None

    def __post_init__(self) -> None:
        if (self.status is Status.OK) != (self.timing is not None):
            raise ValueError(
                f"a measurement has a timing if and only if it is ok, got {self.status} with {self.timing}"
            )
        if self.status is not Status.OK and not self.reason:
            raise ValueError(f"a measurement that is not ok needs a reason, got {self.status} without one")

    @property
    def ok(self) -> bool:
        """True if the measurement has a time."""
        return self.status is Status.OK
