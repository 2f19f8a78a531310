"""Verify schedules without a GPU: emulate their kernels and compare every element with the float64 reference.

``ScheduleVerifier`` makes the runs of a schedule (``schedule_runs``), one after another, until one fails. A full
verification also reports its ``Coverage``: which of the runs at the true size, with many tiles and at high addresses
were made, and which are missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from autosched.verify.coverage import ROLES, Coverage, Role, RoleCoverage
from autosched.verify.in_threads import in_threads
from autosched.verify.launch_plan import TIME_LIMIT
from autosched.verify.planned_run import NO_TIME, PlannedRun, make_runs, results, until_failure
from autosched.verify.remedies import remedy
from autosched.verify.run import Depth, Run
from autosched.verify.runs import Execute, VerifySettings
from autosched.verify.schedule_runs import MOST_BYTES, emulated_problem, runs_of_kernel, runs_of_schedule
from autosched.verify.verdict import Subject, Verdict
from measurements.compiler.cores import usable_cores
from measurements.emulator import HostFailure, emulate
from search_spaces.gathered import gathered
from search_spaces.hardware.devices import Device
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.operators.problem import Problem
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.template import KernelTemplate, TemplateSet


class ProblemTooLarge(HostFailure):
    """A problem whose arrays are too large for the emulator, regardless of the machine."""


@dataclass(frozen=True)
class ScheduleVerifier:
    """Verifies schedules of ``template`` for ``problem`` on ``device``, according to ``settings``."""

    template: KernelTemplate
    problem: Problem
    device: Device
    settings: VerifySettings = field(default_factory=VerifySettings)

    def verify(self, schedule: Schedule) -> Verdict:
        """Execute the runs of the plan until one fails or the time budget is spent.

        Raises ValueError if the schedule breaks a validity constraint, ProblemTooLarge if the arrays are too large, and
        HostFailure if this machine cannot run the emulator.
        """
        self.template.config(
            self.problem, schedule, self.device
        )  # raises ValueError if the schedule is invalid, before a smaller problem is derived from it
        try:
            verdict = replace(self, problem=self.problem.under(schedule.values))._verified_or_whole(schedule)
            return self._with_batches(verdict, schedule) if self.settings.batch_invariant and verdict.ok else verdict
        except MemoryError as error:
            raise HostFailure(
                "not enough memory to verify: free some memory, or raise the limit (ulimit -v)"
            ) from error

    def _with_batches(self, verdict: Verdict, schedule: Schedule) -> Verdict:
        """Return the verdict after additional runs, which compare the bits of each row between batches."""
        # imported lazily: few verifications need this module
        from autosched.verify.batch_invariance import verify_batch

        # with a time budget, as in a search, plan only the runs of a quick verification, but execute all of them
        limited = self.settings.budget is not None
        settings = replace(self.settings, depth="quick", budget=None) if limited else self.settings
        batches = verify_batch(self.template, self.problem, schedule, self.device, settings)
        runs = (*verdict.runs, *batches.runs)
        return replace(
            verdict, status=batches.status, reason=batches.reason, runs=runs, order=batches.order,
            batch_invariant=batches.batch_invariant,
        )  # fmt: skip

    def _verified_or_whole(self, schedule: Schedule) -> Verdict:
        """Verify a schedule. If it fails on an inferred smaller problem, verify the requested sizes.

        Some kernels only work at the requested sizes.
        """
        verdict = self._verified(schedule)
        if verdict.ok or verdict.problem == self.problem or not self.problem.reduction_is_inferred:
            return verdict
        try:
            return replace(self, template=replace(self.template, proxy=None))._verified(schedule)
        except HostFailure:  # the requested sizes are too large to emulate: keep the verdict on the smaller problem
            return verdict

    def _verified(self, schedule: Schedule) -> Verdict:
        settings = self.settings
        emulated = emulated_problem(self.template, self.problem, schedule)
        if emulated.min_bytes > MOST_BYTES:
            raise ProblemTooLarge(
                f"the arrays of {emulated} take {emulated.min_bytes:,} bytes, more than the emulator's limit of "
                f"{MOST_BYTES:,}: verify a smaller problem, or specify one in [proxy] of the kernel file"
            )
        runs: list[Run] = []
        planned: list[tuple[PlannedRun, Run | None]] = []
        kernel = self.template.kernel(self.problem, schedule, self.device)
        runs_of_plan = runs_of_schedule(self.template, self.problem, schedule, self.device, settings, kernel)
        for item, run in make_runs(runs_of_plan, budget=settings.budget, suppressions=settings.suppressions):
            planned.append((item, run))
            if run is not None:
                runs.append(run)
                if run.status != "ok":
                    break
        is_whole = all(item.absent != NO_TIME for item, _ in planned)
        first, last = runs[0], runs[-1]
        shown = first if last.status == "ok" else last
        worst = None if shown.worst is None else max(run.worst or 0.0 for run in runs)
        error = None if shown.worst is None else first.max_abs_error
        advice = remedy(last.emulation.findings, self.problem.remedy_of_unset) if last.status != "ok" else ""
        reason = "; ".join(text for text in (last.reason, advice) if text)
        covered = _coverage(planned) if settings.depth == "full" and last.status == "ok" else None
        return Verdict(
            Subject(emulated, schedule), last.status, reason, worst, error,
            shown.emulation, tuple(runs), kernel, settings.depth, is_whole, covered,
        )  # fmt: skip


def _coverage(planned: Sequence[tuple[PlannedRun, Run | None]]) -> Coverage:
    return Coverage(tuple(_of_role(role, [p for p in planned if p[0].role == role]) for role in ROLES))


def _of_role(role: Role, planned: Sequence[tuple[PlannedRun, Run | None]]) -> RoleCoverage:
    runs = [(item.name, run) for item, run in planned if run is not None or item.run_by_first]
    left_out = tuple(dict.fromkeys(run.left_out for _, run in runs if run is not None and run.left_out))
    if any(run is not None and not run.left_out for _, run in runs):
        left_out = ()  # another run with this role compared all outputs
    reasons = tuple(dict.fromkeys(item.absent for item, _ in planned if item.absent))
    return RoleCoverage(role, tuple(name for name, _ in runs), "" if runs else "; ".join(reasons), left_out)


def verify_one(
    template: KernelTemplate,
    problem: Problem,
    schedule: Schedule,
    device: Device,
    settings: VerifySettings | None = None,
    **changes: Any,
) -> Verdict:
    """Verify one schedule: make runs until one fails.

    Args:
        template: Generates the kernels.
        problem: Problem to compute.
        schedule: Schedule to verify.
        device: GPU that kernels are generated for; it need not be present.
        settings: Verification settings; None for a quick verification.
        changes: Values that replace fields of ``settings``, by field name.

    Returns:
        The verdict, with its runs and findings.

    Raises:
        ValueError: The schedule is invalid for ``problem``.
        HostFailure: This machine cannot run the emulator.
    """
    settings = gathered(VerifySettings, "settings", settings, changes)
    return ScheduleVerifier(template, problem, device, settings).verify(schedule)


def verify(
    templates: TemplateSet,
    problem: Problem,
    schedules: Sequence[Schedule],
    device: Device,
    settings: VerifySettings | None = None,
    *,
    workers: int | None = None,
    **changes: Any,
) -> Iterator[Verdict]:
    """Verify schedules in parallel.

    Args:
        templates: Templates of the schedules.
        problem: Problem to compute.
        schedules: Schedules to verify.
        device: GPU that kernels are generated for; it need not be present.
        settings: Verification settings; None for a quick verification.
        workers: Number of parallel verifications; None for one per usable core.
        changes: Values that replace fields of ``settings``, by field name.

    Yields:
        The verdict on each schedule, in the order of ``schedules``.

    Raises:
        ValueError: A schedule is invalid for ``problem``.
        HostFailure: This machine cannot run the emulator.
    """
    settings = gathered(VerifySettings, "settings", settings, changes)

    def verified(schedule: Schedule) -> Verdict:
        return verify_one(templates.of(schedule), problem, schedule, device, settings)

    return in_threads(verified, schedules, workers or usable_cores())


def verify_kernel(
    problem: Problem,
    kernel: GeneratedKernel,
    *,
    seed: int = 0,
    time_limit: float = TIME_LIMIT,
    depth: Depth = "quick",
    execute: Execute = emulate,
) -> Iterator[Run]:
    """Emulate ``kernel`` on random inputs, then on sets of edge-case inputs, until a run fails.

    A quick verification emulates at least one set, and further sets while all operands together stay under
    ``EMULATED_BYTES``. For a small problem (``DRAWN_BYTES``), it also emulates sets generated from other seeds.

    Args:
        problem: Inputs, reference and tolerances of the kernel.
        kernel: Any kernel with the operands of ``problem``.
        seed: Seed of the inputs.
        time_limit: CPU seconds of one launch.
        depth: "quick" or "full".
        execute: Function that runs all blocks of a launch. Default: the emulator.

    Returns:
        Each run, once completed.

    Raises:
        HostFailure: This machine cannot run the emulator.
    """
    settings = VerifySettings(depth, seed, time_limit, execute=execute)
    return until_failure(results(make_runs(runs_of_kernel(problem, kernel, settings))))
