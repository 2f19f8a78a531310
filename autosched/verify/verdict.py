"""The result of a verification: its verdict, and the one form in which databases keep it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from autosched.verify import stored
from autosched.verify.coverage import Coverage
from autosched.verify.runs import FAILED_LAUNCH, Depth, Run
from measurements.emulator import Emulation, Finding, GlobalSite, SharedSite
from search_spaces.operators.problem import Problem
from search_spaces.short_repr import short_repr
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.kernel import Kernel

# What an emulation says of a kernel; all else is not a verdict.
FAILURE_STATUSES = ("wrong_result", "findings", "crashed", FAILED_LAUNCH)
FAILING = (*FAILURE_STATUSES, "compile_error")  # what is not right as it stands


@dataclass(frozen=True)
class Verdict:
    """``problem`` is the one that was emulated, perhaps a cut of the one asked for.

    ``status`` is "ok", "wrong_result", "device_limit", or as of an ``Emulation``: that of the run that failed, if one
    did. ``worst`` is the largest error over its tolerance (at most 1 passes),
    ``max_abs_error`` the largest absolute error on random inputs; both None where the kernel did not finish.
    ``emulation`` is that of the run that failed, else of the first. ``kernel`` is that of the problem asked for;
    ``whole``: no run of this ``depth`` was left out for lack of time. ``coverage`` is that of a full verification that
    passed.
    """

    problem: Problem
    schedule: Schedule
    status: str
    reason: str
    worst: float | None
    max_abs_error: float | None
    emulation: Emulation
    runs: tuple[Run, ...] = ()
    kernel: Kernel | None = field(default=None, repr=False, compare=False)
    depth: Depth = "quick"
    whole: bool = True
    coverage: Coverage | None = None

    __repr__ = short_repr

    @property
    def ok(self) -> bool:
        return self.status == "ok"

    @property
    def lacks(self) -> tuple[str, ...]:
        """What a full verification has nothing of, a short text each."""
        return () if self.coverage is None else self.coverage.lacks

    def stored(self) -> dict[str, Any]:
        """Return what a record keeps: the runs, with all that repeats them, and what they are of
        (``autosched.verify``)."""
        return {
            "status": self.status,
            "depth": self.depth,
            "whole": self.whole,
            **stored.identity(self.kernel),
            "seconds": round(self.seconds, 3),
            **({} if self.coverage is None else {"coverage": self.coverage.to_json()}),
            "runs": [
                {
                    "name": run.name,
                    "problem": run.problem.to_json(),
                    "cases": list(run.cases),
                    "seed": run.seed,
                    "order": run.order.blocks,
                    "turns": run.order.seed,
                    "blocks": run.blocks,
                    "perturbed": run.perturbed,
                }
                for run in self.runs
            ],
        }

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self.emulation.findings

    @property
    def shared_sites(self) -> tuple[SharedSite, ...]:
        return self.emulation.shared_sites

    @property
    def global_sites(self) -> tuple[GlobalSite, ...]:
        return self.emulation.global_sites

    @property
    def seconds(self) -> float:
        """Of the host, to compile and to run everything."""
        emulations = [run.emulation for run in self.runs] or [self.emulation]
        return sum(e.compile_seconds + e.run_seconds for e in emulations)
