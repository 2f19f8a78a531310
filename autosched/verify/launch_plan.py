"""Plan of the runs of one launch: orders, a second launch, and the largest errors of approximate instructions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, Self

from autosched.verify.orders import all_orders, quick_orders
from measurements.emulator import ASCENDING, Order, Suppression

TIME_LIMIT = 60.0  # time limit of the emulation of one launch, in CPU seconds
TWICE, PERTURBED = "launched twice", "approximate instructions perturbed"


class LaunchRun(NamedTuple):
    """One run of a launch.

    Attributes:
        name: Name, unique in a plan.
        order: Order of blocks and threads.
        launches: Number of back-to-back launches on the same memory.
        perturb: If True, approximate instructions have the largest error that the PTX ISA allows.
    """

    name: str
    order: Order = ASCENDING
    launches: int = 1
    perturb: bool = False


@dataclass(frozen=True)
class LaunchPlan:
    """Plan for verifying a launch. Every run begins with the same memory.

    Attributes:
        orders: Orders of blocks and threads; one run for each. After the runs of a launch, an executable continues with
            the memory that the first run left.
        second_launch: If True, an additional run launches twice on the same memory. This detects state that a launch
            does not reset.
        perturb: If True, there is an additional run, in which approximate instructions have the largest error that the
            PTX ISA allows.
        time_limit: CPU seconds of one launch.
        blocks: Number of blocks that run: the first, the last and some in between. If a block waits for another block,
            that block runs too. Outputs of all other blocks are treated as written with zeros. None: all blocks run.
        launches: Number of back-to-back launches of each run.
        perturb_all: If True, approximate instructions have the largest error in every run.
        suppressions: Expected findings, which do not affect the verdict.
        best_effort: If True, later runs are skipped if the first run takes more than half of its time limit.
    """

    orders: tuple[Order, ...] = (ASCENDING,)
    second_launch: bool = False
    perturb: bool = False
    time_limit: float = TIME_LIMIT
    blocks: int | None = None
    launches: int = 1
    perturb_all: bool = False
    suppressions: tuple[Suppression, ...] = ()
    best_effort: bool = False

    def __post_init__(self) -> None:
        if not self.orders:
            raise ValueError("a plan needs at least one order of blocks")
        if not self.time_limit > 0:
            raise ValueError(f"time_limit must be more than 0 s, not {self.time_limit}")
        if self.blocks is not None and self.blocks < 1:
            raise ValueError(f"invalid number of blocks {self.blocks}: at least one block must run")

    def beginning_with(self, order: Order, *, alone: bool) -> LaunchPlan:
        """Return the plan with ``order`` as its first order.

        Args:
            order: The order.
            alone: If True, all other orders are dropped.

        Returns:
            The new plan.
        """
        return replace(self, orders=(order, *(o for o in self.orders if o != order and not alone)))

    def of_some_blocks(self) -> LaunchPlan:
        """Return the plan for some blocks of a launch: one run in each of two orders."""
        return replace(self, orders=self.orders[:2], second_launch=False, perturb=False, launches=1, perturb_all=False)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON, to send it to another process."""
        plain = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("orders", "suppressions")}
        orders = [[order.blocks, order.seed] for order in self.orders]
        return {**plain, "orders": orders, "suppressions": [str(s) for s in self.suppressions]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the plan whose ``to_json()`` was ``data``."""
        orders = tuple(Order(blocks, seed) for blocks, seed in data["orders"])
        suppressions = tuple(Suppression.parse(text) for text in data["suppressions"])
        return cls(**{**data, "orders": orders, "suppressions": suppressions})

    @property
    def runs(self) -> tuple[LaunchRun, ...]:
        """Runs of the plan, in order."""
        return tuple(self._runs())

    def _runs(self) -> Iterator[LaunchRun]:
        for order in self.orders:
            yield LaunchRun(order.name, order, self.launches, self.perturb_all)
        if self.second_launch:
            yield LaunchRun(TWICE, self.orders[0], 2, self.perturb_all)
        if self.perturb:
            yield LaunchRun(PERTURBED, self.orders[0], self.launches, True)


QUICK = LaunchPlan()
TWO_ORDERS = LaunchPlan(quick_orders(), best_effort=True)
EVERY_ORDER = LaunchPlan(all_orders())
THOROUGH = LaunchPlan(all_orders(), second_launch=True)


def not_run(plan: LaunchPlan, num_runs: int) -> tuple[str, ...]:
    """Return omitted runs that might find more faults, as the arguments of ``autosched.emulate`` that request them.

    Args:
        plan: The plan of the launch.
        num_runs: Number of its completed runs.

    Returns:
        One short text for each.
    """
    runs = plan.runs[:num_runs]
    kinds = {run.order.blocks for run in runs}
    names = dict.fromkeys(order.blocks for order in all_orders()[1:])
    orders = [f"order={name}" for name in names if name not in kinds]
    seeds = [] if any(run.order.seed for run in runs) else ["turns=SEED"]
    twice = [] if any(run.launches > 1 for run in runs) else ["launches=2"]
    perturbed = [] if any(run.perturb for run in runs) else ["perturb"]
    return (*orders, *seeds, *twice, *perturbed)
