"""Verify that a schedule computes each row with the same bits in every batch (``batch_plan.py`` plans the runs)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from autosched.verify.batch_plan import BatchPlan, Launched
from autosched.verify.batch_rows import BatchRows, NoBatch
from autosched.verify.launch import LaunchUnderTest
from autosched.verify.planned_run import make_runs, results, until_failure
from autosched.verify.run import Run
from autosched.verify.runs import VerifySettings
from autosched.verify.schedule_runs import emulated_problem
from autosched.verify.verdict import BITS_DIFFER, Subject, Verdict
from measurements.emulator import Order
from search_spaces.arrays import Array
from search_spaces.hardware.devices import Device
from search_spaces.operators.input_cases import RANDOM
from search_spaces.operators.problem import Problem
from search_spaces.spaces.schedule import Schedule
from search_spaces.sum_orders.orders import sum_order
from search_spaces.templates.template import KernelTemplate


@dataclass(frozen=True)
class ScheduleInBatches:
    """A schedule as the subject of a batch plan.

    Attributes:
        template: Generates the kernels.
        problem: The emulated problem. Its rows are the first batch.
        schedule: Schedule to verify.
        device: GPU that kernels are generated for.
        settings: Seed and limits.
        rows: The rows of ``problem``.
    """

    template: KernelTemplate
    problem: Problem
    schedule: Schedule
    device: Device
    settings: VerifySettings
    rows: BatchRows

    @property
    def repeatable(self) -> bool:
        """True if a second launch computes the same result, that is, if the kernel does not compute in place."""
        return not any(operand.role == "inout" for operand in self.problem.operands())

    def why_not(self, positions: Sequence[int]) -> str:
        """Return the reason why the schedule cannot compute a batch of the rows at ``positions``, or "" if it can."""
        try:
            self.template.config(self._of_batch(positions), self.schedule, self.device)
        except ValueError as error:
            return f"the schedule cannot compute this batch: {error}"
        return ""

    def launch(self, name: str, positions: Sequence[int], order: Order, launches: int) -> Launched:
        """Emulate the kernel of a batch."""
        problem = self._of_batch(positions)
        kernel = self.template.kernel(problem, self.schedule, self.device)
        under_test = LaunchUnderTest(kernel, self.rows.take(self._inputs, positions))
        done = under_test.run(order, launches=launches, time_limit=launches * self.settings.time_limit)
        run = Run(
            problem, (RANDOM,), self.settings.seed, order, None, done.status, done.reason, None, None,
            done.without_arrays(), name=name, launches=launches,
        )  # fmt: skip
        outputs = {o.name for o in problem.operands() if o.role in ("output", "inout")}
        return Launched(run, {n: array for n, array in done.outputs.items() if n in outputs})

    def _of_batch(self, positions: Sequence[int]) -> Problem:
        return self.problem if len(positions) == self.rows.size else self.problem.of_batch(len(positions))

    @cached_property
    def _inputs(self) -> Mapping[str, Array]:
        return self.problem.random_inputs(self.settings.seed)


def verify_batch(
    template: KernelTemplate,
    problem: Problem,
    schedule: Schedule,
    device: Device,
    settings: VerifySettings | None = None,
) -> Verdict:
    """Verify that one schedule computes each row with the same bits in every batch.

    Args:
        template: Generates the kernels.
        problem: Problem to compute. If it is large, a smaller version of it is emulated.
        schedule: Schedule to verify.
        device: GPU that kernels are generated for. It need not be installed.
        settings: Depth, seed and limits of the verification; its time budget is ignored. Default: a quick verification.

    Returns:
        The verdict. Its status is "ok", "bits_differ" (with the first difference), "unsupported" (for a problem without
        a batch size), or the status of a run that failed.

    Raises:
        HostFailure: This machine cannot run the emulator.
        ValueError: The schedule is invalid for the problem.
    """
    settings = settings or VerifySettings()
    small = emulated_problem(template, problem, schedule)
    of_schedule = Subject(small, schedule)
    try:
        rows = BatchRows.of(small)
    except NoBatch as error:
        return Verdict.not_launched("unsupported", str(error), of_schedule)
    order = sum_order(template, problem, schedule, device)
    plan = BatchPlan.of(rows.size, full=settings.depth == "full", seed=settings.seed)
    planned = plan.runs(ScheduleInBatches(template, small, schedule, device, settings, rows))
    # without a time budget, because the verdict needs every run
    runs = list(until_failure(results(make_runs(planned))))
    last = runs[-1]
    status, reason = last.status, last.reason
    if status == "ok" and order is not None and order.batch_dependent:
        status = BITS_DIFFER
        terms = "; ".join(f"{term.name}: {term.value}" for term in order.batch_dependent)
        reason = f"the order of sums depends on the batch: {terms}"
    kernel = template.kernel(problem, schedule, device)
    return Verdict(
        of_schedule, status, reason, None, None, last.emulation, tuple(runs), kernel, settings.depth, order=order,
        batch_invariant=status == "ok",
    )  # fmt: skip
