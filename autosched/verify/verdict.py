"""The verdict, which is the result of a verification, and its stored format."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

from autosched.verify import stored
from autosched.verify.coverage import Coverage
from autosched.verify.run import FAILED_LAUNCH, Depth, Run
from measurements.emulator import Emulation, Finding, GlobalSite, SharedSite
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.operators.problem import Problem
from search_spaces.short_repr import short_repr
from search_spaces.spaces.schedule import Schedule

if TYPE_CHECKING:  # only for annotations: most verifications need no order of sums, and skip this import
    from search_spaces.spaces.sum_order import SumOrder

Outcome = Literal["accepted", "refused", "uncertain"]  # outcome "uncertain": this machine cannot verify the code

BITS_DIFFER = "bits_differ"  # status of a result whose bits depend on the batch, the launch or the order of blocks
FAILURE_STATUSES = ("wrong_result", "findings", "crashed", FAILED_LAUNCH, BITS_DIFFER)
FAILED_PROGRAM = "failed"  # status of a program that raises an exception, or ends with an error
OUT_OF_MEMORY = "out_of_memory"  # status of a program that exceeds its memory limit
# statuses of incorrect code
FAILING = (*FAILURE_STATUSES, "compile_error", FAILED_PROGRAM, OUT_OF_MEMORY)


def outcome_of(status: str) -> Outcome:
    """Return the outcome that a verdict's status implies. No other code maps statuses to outcomes."""
    return "accepted" if status == "ok" else "refused" if status in FAILING else "uncertain"


class Cause(NamedTuple):
    """A source line at which the order of sums may depend on the batch.

    Attributes:
        file: Source file, or "" if the code does not name it.
        line: Line in the file; 0 if unknown.
        text: Description in one phrase.
    """

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        """Return the file, the line and the description."""
        return f"{self.file}:{self.line}: {self.text}" if self.line else self.text


class Subject(NamedTuple):
    """A schedule under test.

    Attributes:
        problem: Emulated problem, which may be smaller than the requested one.
        schedule: The schedule.
    """

    problem: Problem
    schedule: Schedule


@dataclass(frozen=True)
class Verdict:
    """The result of a verification.

    Attributes:
        subject: The verified schedule and its problem; None for a launch without a schedule.
        status: "ok", "wrong_result", "device_limit", "failed" (only of programs), or the status of the emulation that
            failed.
        reason: Reason of a failure, in one line.
        worst: Largest ratio of an error to its tolerance; at most 1 is accepted. None if the kernel did not finish.
        max_abs_error: Largest absolute error on random inputs; None if the kernel did not finish.
        emulation: The emulation of the failed run, or of the first run if no run failed.
        runs: All runs that were made.
        kernel: The generated kernel of the requested problem.
        depth: "quick" or "full".
        whole: False if planned runs were skipped for lack of time.
        coverage: Coverage, if this is a full verification of a schedule and it passed.
        missing: What the runs do not cover, as short texts.
        differing: Arrays whose bits depend on the order of blocks.
        accumulating: Arrays whose bits differ after a second launch on the same memory.
        not_run: Arguments of ``autosched.emulate`` that would add the omitted runs. These might find more faults.
        order: Order of sums in the schedule's kernel; None if not requested, or unknown.
        batch_invariant: True if runs in several batches gave each row the same bits.
        causes: If bits differ, the source lines at which the order of sums may depend on the batch.
    """

    subject: Subject | None
    status: str
    reason: str
    worst: float | None
    max_abs_error: float | None
    emulation: Emulation
    runs: tuple[Run, ...] = ()
    kernel: GeneratedKernel | None = field(default=None, repr=False, compare=False)
    depth: Depth = "quick"
    whole: bool = True
    coverage: Coverage | None = None
    missing: tuple[str, ...] = ()
    differing: tuple[str, ...] = ()
    accumulating: tuple[str, ...] = ()
    not_run: tuple[str, ...] = ()
    order: SumOrder | None = None
    batch_invariant: bool = False
    causes: tuple[Cause, ...] = ()

    __repr__ = short_repr

    @classmethod
    def of_emulation(cls, emulation: Emulation) -> Self:
        """Return the verdict on a launch that could not run, for example because the kernel does not compile."""
        return cls(None, emulation.status, emulation.reason, None, None, emulation)

    @classmethod
    def not_launched(cls, status: str, reason: str, subject: Subject | None = None) -> Self:
        """Return the verdict on code that was rejected before any launch."""
        nothing = Emulation("unsupported", {}, (), (), (), reason=reason)
        return cls(subject, status, reason, None, None, nothing)

    @property
    def problem(self) -> Problem:
        """The emulated problem. Raises ValueError for a launch without a problem."""
        return self._subject().problem

    @property
    def schedule(self) -> Schedule:
        """The verified schedule. Raises ValueError for a launch without a schedule."""
        return self._subject().schedule

    def _subject(self) -> Subject:
        if self.subject is None:
            raise ValueError("the verdict of a launch has no problem and no schedule")
        return self.subject

    @property
    def ok(self) -> bool:
        """True if the verification passed."""
        return self.status == "ok"

    @property
    def outcome(self) -> Outcome:
        """Outcome: accepted, refused or uncertain."""
        return outcome_of(self.status)

    @property
    def lacks(self) -> tuple[str, ...]:
        """Short texts, one for each thing that the verification does not cover."""
        return (() if self.coverage is None else self.coverage.lacks) + self.missing

    def stored(self) -> dict[str, Any]:
        """Return the JSON stored in databases: the runs, how to repeat the runs, and digests of the kernel."""
        return {
            "status": self.status,
            "depth": self.depth,
            "whole": self.whole,
            **stored.identity(self.kernel),
            "seconds": round(self.seconds, 3),
            "coverage": None if self.coverage is None else self.coverage.to_json(),
            "lacks": list(self.lacks),
            **({} if self.order is None else {"sum_order": self.order.to_json()}),
            **({"batch_invariant": True} if self.batch_invariant else {}),
            "runs": [
                {
                    "name": run.name,
                    "problem": None if run.problem is None else run.problem.to_json(),
                    "cases": list(run.cases),
                    "seed": run.seed,
                    "order": run.order.blocks,
                    "turns": run.order.seed,
                    "launches": run.launches,
                    "blocks": run.blocks,
                    "perturbed": run.perturbed,
                }
                for run in self.runs
            ],
        }

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings of the emulation, faults first."""
        return self.emulation.findings

    @property
    def shared_sites(self) -> tuple[SharedSite, ...]:
        """Accesses to shared memory by source line."""
        return self.emulation.shared_sites

    @property
    def global_sites(self) -> tuple[GlobalSite, ...]:
        """Accesses to global memory by source line."""
        return self.emulation.global_sites

    @property
    def seconds(self) -> float:
        """Time in seconds to compile and run all emulations on the host."""
        emulations = [run.emulation for run in self.runs] or [self.emulation]
        return sum(e.compile_seconds + e.run_seconds for e in emulations)
