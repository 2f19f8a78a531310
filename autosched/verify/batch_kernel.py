"""Verify that a CUDA or PTX kernel, described by its launch, computes each row with the same bits in every batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from autosched.verify.batch_causes import BatchSources, atomic_sums, batch_branches
from autosched.verify.batch_plan import BatchPlan, Launched
from autosched.verify.batch_rows import BatchRows
from autosched.verify.emulate.emulate import emulate, ptx_of
from autosched.verify.emulate.options import EmulatedLaunchOptions
from autosched.verify.planned_run import make_runs, results, until_failure
from autosched.verify.run import Run
from autosched.verify.verdict import BITS_DIFFER, Cause, Verdict
from measurements.emulator import Order
from search_spaces.arrays import Array

Options = Callable[[int], EmulatedLaunchOptions]  # an argument as a function of the number of rows in the batch


@dataclass(eq=False)
class KernelInBatches:
    """A kernel that is launched with several batches of rows.

    Attributes:
        program: CUDA source or PTX.
        rows: Number of rows of the first batch, and their axis in each array. Arrays are named by their positions, for
            example "argument 0".
        arguments: Arguments of the first batch. Each is an array, a number, None, or a function of the number of rows.
        options: Options for launching a batch: grid, block, outputs.
        sources: Parameters whose values depend on the batch, and whether the grid depends on the batch.
    """

    program: str
    rows: BatchRows
    arguments: Sequence[Any]
    options: Options
    sources: BatchSources
    _accumulates: bool = field(default=False, init=False)

    @property
    def repeatable(self) -> bool:
        """False if the kernel has modified (for example, added to) an array that is not declared as an output."""
        return not self._accumulates

    def why_not(self, positions: Sequence[int]) -> str:
        """Return "", because the kernel can be launched with every batch."""
        return ""

    def launch(self, name: str, positions: Sequence[int], order: Order, launches: int) -> Launched:
        """Emulate the launch of a batch.

        Raises:
            ValueError: The arguments do not fit the kernel.
        """
        arguments = self._arguments(positions)
        options = replace(self.options(len(positions)), order=order, launches=launches)
        done = emulate(self.program, arguments, options)
        results = {f"argument {k}": a for k, a in enumerate(done.arrays) if isinstance(a, np.ndarray)}
        filled = {f"argument {k}" for k in options.outputs}
        before = {f"argument {k}": a for k, a in enumerate(arguments) if isinstance(a, np.ndarray)}
        self._accumulates |= any(a.tobytes() != before[n].tobytes() for n, a in results.items() if n not in filled)
        run = Run(
            None, (), 0, order, None, done.status, done.reason, None, None, done.emulation.without_arrays(), name=name,
            launches=launches,
        )  # fmt: skip
        return Launched(run, results)

    def _arguments(self, positions: Sequence[int]) -> list[Any]:
        arrays: Mapping[str, Array] = {
            f"argument {k}": a for k, a in enumerate(self.arguments) if isinstance(a, np.ndarray)
        }
        rows = self.rows.take(arrays, positions)
        return [
            rows.get(f"argument {k}", a(len(positions)) if callable(a) else a) for k, a in enumerate(self.arguments)
        ]

    def causes(self, failed: Run) -> tuple[Cause, ...]:
        """Return the source lines where the order of sums may have changed because the failed run changed the batch."""
        text, entry, broken = ptx_of(self.program, self.options(self.rows.size))
        if broken is not None:
            return ()
        all_causes: list[Cause] = []
        if failed.name.startswith(f"{self.rows.name} ="):
            all_causes += batch_branches(text, entry, self.sources)
        elif failed.name.startswith("rows moved"):
            all_causes += batch_branches(text, entry, BatchSources({}, position=True))
        return (*all_causes, *atomic_sums(text, entry))


def verify_kernel(subject: KernelInBatches, plan: BatchPlan) -> Verdict:
    """Verify a kernel in the batches of a plan.

    Args:
        subject: The kernel and its launches.
        plan: Batches, positions and orders.

    Returns:
        The verdict. Its status is "ok", "bits_differ" (with the first difference and its causes), or the status of a
        run that failed.

    Raises:
        HostFailure: This machine cannot run the emulator.
        ValueError: The arguments do not fit the kernel.
    """
    runs = list(until_failure(results(make_runs(plan.runs(subject)))))
    last = runs[-1]
    causes = subject.causes(last) if last.status == BITS_DIFFER else ()
    return Verdict(
        None, last.status, last.reason, None, None, last.emulation, tuple(runs), batch_invariant=last.status == "ok",
        causes=causes,
    )  # fmt: skip
