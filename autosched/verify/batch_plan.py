"""Plan of the runs that verify that each row has the same bits in every batch.

The code under test computes the same rows in several ways. It is launched with batches of other sizes, with rows at
other positions in the batch, twice on the same memory, or with blocks in other orders. Every run must produce the same
bits for a row as the first run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np

from autosched.verify.batch_rows import BatchRows
from autosched.verify.launch_plan import TWICE
from autosched.verify.orders import all_orders
from autosched.verify.planned_run import PlannedRun
from autosched.verify.run import Run
from autosched.verify.verdict import BITS_DIFFER
from measurements.emulator import ASCENDING, Order
from search_spaces.arrays import Array

FIRST = "first launch"
WINDOWS = 8  # maximum number of batches of one size


class Launched(NamedTuple):
    """Result of one launch of the code under test.

    Attributes:
        run: The run of the launch. Its status is the status of the emulation.
        outputs: Output arrays, by name.
    """

    run: Run
    outputs: Mapping[str, Array]


class BatchSubject(Protocol):
    """Code under test, which computes the rows of a batch."""

    @property
    def rows(self) -> BatchRows:
        """The rows of the first batch."""

    @property
    def repeatable(self) -> bool:
        """True if a second launch on the same memory computes the same results."""

    def why_not(self, positions: Sequence[int]) -> str:
        """Return a one-line reason why a batch of the rows at ``positions`` cannot be launched, or "" if it can."""

    def launch(self, name: str, positions: Sequence[int], order: Order, launches: int) -> Launched:
        """Launch a batch that consists of some rows of the first batch.

        Args:
            name: Name of the run.
            positions: Indices of these rows in the first batch, in the order of the new batch.
            order: Order of blocks and threads.
            launches: Number of back-to-back launches on the same memory.
        """


@dataclass(frozen=True)
class BatchPlan:
    """Plan of the runs.

    Attributes:
        sizes: Numbers of rows of further batches. Batches larger than the first batch repeat rows of the first batch.
        shifts: Numbers of positions by which rows are rotated within the batch.
        orders: Further orders of blocks and threads.
    """

    sizes: tuple[int, ...]
    shifts: tuple[int, ...]
    orders: tuple[Order, ...]

    @classmethod
    def of(cls, rows: int, *, full: bool = False, seed: int = 0, least: int = 1, most: int | None = None) -> BatchPlan:
        """Return the plan for a first batch of ``rows``.

        Args:
            rows: Rows of the first batch.
            full: If True, plan more sizes, positions and orders.
            seed: Seed of the orders.
            least: Minimum number of rows of a batch.
            most: Maximum number of rows of a batch. Default: slightly more than twice ``rows``.
        """
        most = 2 * rows + 3 if most is None else most
        sizes = [1, rows // 2 + 1, most]
        shifts = [1, rows // 2]
        if full:
            sizes, shifts = [1, 2, 3, rows // 2 + 1, rows - 1, rows + 1, most], [1, rows // 2, rows - 1]
        able = dict.fromkeys(min(max(size, least), most) for size in sizes)
        moved = dict.fromkeys(shift for shift in shifts if 0 < shift < rows)
        orders = all_orders(seed)[1:]
        return cls(tuple(s for s in able if s != rows), tuple(moved), orders if full else orders[:1])

    def runs(self, subject: BatchSubject) -> Iterator[PlannedRun]:
        """Yield the named runs of a subject. Results of later runs are compared with the results of the first run."""
        rows = subject.rows
        every = list(range(rows.size))
        outputs: dict[str, Array] = {}

        def first() -> Run:
            launched = subject.launch(FIRST, every, ASCENDING, 1)
            outputs.update(launched.outputs)
            return launched.run

        def again(name: str, batches: Sequence[Sequence[int]], order: Order, launches: int) -> Run:
            for positions in batches:
                launched = subject.launch(name, positions, order, launches)
                if launched.run.status != "ok":
                    break
                # an output shared by all rows, such as a sum over rows, is only compared if the batch has all rows
                shared = len(positions) == rows.size
                expected = {
                    n: a for n, a in rows.take(outputs, positions).items() if shared or rows.axes[n] is not None
                }
                reason = rows.difference(launched.outputs, expected)
                if reason:
                    return replace(launched.run, status=BITS_DIFFER, reason=f"{name}: {reason}")
            return launched.run

        def planned(
            name: str, batches: Sequence[Sequence[int]], order: Order = ASCENDING, launches: int = 1
        ) -> PlannedRun:
            why_not = subject.why_not(batches[0])
            make_run = None if why_not else partial(again, name, batches, order, launches)
            return PlannedRun(name, make_run, absent=why_not)

        yield PlannedRun(FIRST, first)
        if subject.repeatable:
            yield planned(TWICE, [every], ASCENDING, 2)
        for order in self.orders:
            yield planned(f"blocks {order.name}", [every], order)
        for size in self.sizes:
            yield planned(f"{rows.name} = {size}", _windows(size, rows.size))
        for shift in self.shifts:
            yield planned(f"rows moved by {shift}", [np.roll(np.arange(rows.size), shift).tolist()])


def _windows(size: int, rows: int) -> list[list[int]]:
    """Return several batches of ``size`` rows each, because the bits of the rows in one batch may agree by chance."""
    count = max(1, min(WINDOWS, rows // size))
    return [[(start * rows // count + i) % rows for i in range(size)] for start in range(count)]
