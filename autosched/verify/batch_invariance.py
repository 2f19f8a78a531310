"""Verify that the bits of a row do not depend on its batch: its size, the row's position, the launch, and the order of
blocks.

The same schedule runs on the same rows in batches of several sizes, at other positions, twice in a row, and with blocks
in other orders. Every run must give each row the bits of the first one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from autosched.verify.batch_rows import BatchRows, NoBatch
from autosched.verify.launch import LaunchUnderTest
from autosched.verify.launch_plan import TWICE
from autosched.verify.orders import all_orders
from autosched.verify.planned_run import PlannedRun, make_runs, results, until_failure
from autosched.verify.run import Run
from autosched.verify.runs import RANDOM, VerifySettings
from autosched.verify.schedule_runs import emulated_problem
from autosched.verify.verdict import BITS_DIFFER, Subject, Verdict
from measurements.emulator import ASCENDING, Emulation, Order
from search_spaces.arrays import Array
from search_spaces.hardware.devices import Device
from search_spaces.operators.problem import Problem
from search_spaces.spaces.schedule import Schedule
from search_spaces.sum_orders.orders import sum_order
from search_spaces.templates.template import KernelTemplate

FIRST = "first launch"


@dataclass(frozen=True)
class BatchPlan:
    """Plan of the runs that show that a schedule is batch-invariant.

    Attributes:
        sizes: Numbers of rows of further batches, which hold the first rows of the first batch, or repeat them.
        shifts: Numbers of rows by which rows are moved to other positions, cyclically.
        orders: Further orders of blocks and threads.
        twice: If True, a run launches twice on the same memory.
    """

    sizes: tuple[int, ...]
    shifts: tuple[int, ...]
    orders: tuple[Order, ...]
    twice: bool = True

    @classmethod
    def of(cls, rows: int, settings: VerifySettings, most: int = 0) -> BatchPlan:
        """Return the plan for a first batch of ``rows``; a quick one has fewer runs.

        Args:
            rows: Rows of the first batch.
            settings: Depth and seed.
            most: Largest number of rows that the problem can have; 0 for any.
        """
        sizes = [1, 2, 3, rows // 2 + 1, rows - 1, rows + 1, 2 * rows + 3]
        shifts = [1, rows // 2, rows - 1]
        if settings.depth == "quick":
            sizes, shifts = [1, rows // 2 + 1, 2 * rows + 3], [1, rows // 2]
        able = [size for size in sizes if 0 < size != rows and not (most and size > most)]
        moved = [shift for shift in shifts if 0 < shift < rows]
        orders = all_orders(settings.seed)[1:]
        return cls(
            tuple(dict.fromkeys(able)), tuple(dict.fromkeys(moved)), orders if settings.depth == "full" else orders[:1]
        )


@dataclass(frozen=True)
class BatchInvariance:
    """Runs of one schedule that must give a row the same bits.

    Attributes:
        template: Generates the kernels.
        problem: Problem to compute; of a large one, a smaller version is emulated.
        schedule: Schedule to verify.
        device: GPU that kernels are generated for.
        settings: Depth, seed and limits.
    """

    template: KernelTemplate
    problem: Problem
    schedule: Schedule
    device: Device
    settings: VerifySettings

    def verify(self) -> Verdict:
        """Make the runs until one gives other bits.

        Raises:
            HostFailure: This machine cannot emulate.
            ValueError: The schedule is invalid for the problem.
        """
        small = emulated_problem(self.template, self.problem, self.schedule)
        subject = Subject(small, self.schedule)
        try:
            rows = BatchRows.of(small)
        except NoBatch as error:
            return Verdict.not_launched("unsupported", str(error), subject)
        order = sum_order(self.template, self.problem, self.schedule, self.device)
        planned = self._planned(small, rows)
        runs = list(until_failure(results(make_runs(planned, budget=self.settings.budget))))
        last = runs[-1]
        status, reason = last.status, last.reason
        if status == "ok" and order is not None and order.batch_dependent:
            status = BITS_DIFFER
            reason = "the order of sums depends on the batch: " + "; ".join(
                f"{term.name}: {term.value}" for term in order.batch_dependent
            )
        kernel = self.template.kernel(self.problem, self.schedule, self.device)
        return Verdict(
            subject, status, reason, None, None, last.emulation, tuple(runs), kernel, self.settings.depth,
            order=order, batch_invariant=status == "ok",
        )  # fmt: skip

    def _planned(self, small: Problem, rows: BatchRows) -> Iterator[PlannedRun]:
        inputs = small.random_inputs(self.settings.seed)
        plan = BatchPlan.of(rows.size, self.settings)
        kept: dict[str, Array] = {}

        def first() -> Run:
            run, outputs = self._run(FIRST, small, inputs, ASCENDING)
            kept.update(outputs)
            return run

        yield PlannedRun(FIRST, first)
        if plan.twice and not any(o.role == "inout" for o in small.operands()):
            yield PlannedRun(TWICE, lambda: self._compared(TWICE, small, inputs, rows, kept, launches=2))
        for order in plan.orders:
            name = f"blocks {order.name}"
            yield PlannedRun(name, lambda n=name, o=order: self._compared(n, small, inputs, rows, kept, o))  # type: ignore[misc]
        for shift in plan.shifts:
            places = np.roll(np.arange(rows.size), shift).tolist()
            yield self._batch(f"rows moved by {shift}", small, inputs, rows, kept, places)
        for size in plan.sizes:
            places = [i % rows.size for i in range(size)]
            yield self._batch(f"{rows.name} = {size}", small, inputs, rows, kept, places)

    def _batch(
        self,
        name: str,
        small: Problem,
        inputs: Mapping[str, Array],
        rows: BatchRows,
        kept: Mapping[str, Array],
        places: Sequence[int],
    ) -> PlannedRun:
        """Return the run of a batch that has these rows of the first one."""
        try:
            problem = small if len(places) == rows.size else small.of_batch(len(places))
            self.template.config(problem, self.schedule, self.device)
        except ValueError as error:
            return PlannedRun(name, None, absent=f"the schedule does not compute it: {error}")

        def make() -> Run:
            run, outputs = self._run(name, problem, rows.take(inputs, places), ASCENDING)
            shared = {o for o, axis in rows.axes.items() if axis is None} if len(places) != rows.size else set()
            return _with_difference(
                run, rows, outputs, {n: a for n, a in rows.take(kept, places).items() if n not in shared}
            )

        return PlannedRun(name, make)

    def _compared(
        self,
        name: str,
        problem: Problem,
        inputs: Mapping[str, Array],
        rows: BatchRows,
        kept: Mapping[str, Array],
        order: Order = ASCENDING,
        launches: int = 1,
    ) -> Run:
        run, outputs = self._run(name, problem, inputs, order, launches)
        return _with_difference(run, rows, outputs, kept)

    def _run(
        self, name: str, problem: Problem, inputs: Mapping[str, Array], order: Order, launches: int = 1
    ) -> tuple[Run, Mapping[str, Array]]:
        kernel = self.template.kernel(problem, self.schedule, self.device)
        limit = launches * self.settings.time_limit
        done: Emulation = LaunchUnderTest(kernel, inputs).run(order, launches=launches, time_limit=limit)
        run = Run(
            problem, (RANDOM,), self.settings.seed, order, None, done.status, done.reason, None, None,
            done.without_arrays(), name=name, launches=launches,
        )  # fmt: skip
        return run, done.outputs


def _with_difference(run: Run, rows: BatchRows, outputs: Mapping[str, Array], expected: Mapping[str, Array]) -> Run:
    if run.status != "ok":
        return run
    reason = rows.difference(outputs, expected)
    return replace(run, status=BITS_DIFFER, reason=f"{run.name}: {reason}") if reason else run


def verify_batch(
    template: KernelTemplate,
    problem: Problem,
    schedule: Schedule,
    device: Device,
    settings: VerifySettings | None = None,
) -> Verdict:
    """Verify that one schedule gives a row the same bits in every batch.

    Args:
        template: Generates the kernels.
        problem: Problem to compute.
        schedule: Schedule to verify.
        device: GPU that kernels are generated for; it need not be present.
        settings: Depth, seed and limits. Default: a quick verification.

    Returns:
        The verdict: "ok", "bits_differ" with the first difference, "unsupported" for a problem without a batch, or the
        status of a run that failed.

    Raises:
        HostFailure: This machine cannot emulate.
        ValueError: The schedule is invalid for the problem.
    """
    return BatchInvariance(template, problem, schedule, device, settings or VerifySettings()).verify()
