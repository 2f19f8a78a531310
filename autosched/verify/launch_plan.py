"""Which runs verify one launch, by name: orders of blocks and threads, a second launch, perturbed functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, Self

from autosched.verify.orders import all_orders, quick_orders
from measurements.emulator import ASCENDING, Order, Suppression

TIME_LIMIT = 60.0  # CPU seconds that the emulation of one launch may take
TWICE, PERTURBED = "launched twice", "approximate instructions err"


class LaunchRun(NamedTuple):
    """One run of a launch.

    Attributes:
        name: Names it among the runs of a plan.
        order: Order of blocks and threads.
        launches: Number of back-to-back launches on the same memory.
        perturb: Whether approximate instructions err as much as the PTX ISA allows.
    """

    name: str
    order: Order = ASCENDING
    launches: int = 1
    perturb: bool = False


@dataclass(frozen=True)
class LaunchPlan:
    """How a launch is verified. Every run begins with the same memory.

    Attributes:
        orders: One run for each. The first one is the result that a program continues with.
        second_launch: Whether another run launches twice, to show what a launch does not restore.
        perturb: Whether another run lets approximate instructions err as much as the PTX ISA allows.
        time_limit: CPU seconds of one launch.
        blocks: Number of blocks that run of a larger launch: the first, the last and some in between. The memory that
            such a launch writes counts as filled, with zeros where no block that ran has written. Blocks that others
            wait for run, too. None: all blocks run.
        launches: Number of back-to-back launches of each run.
        perturb_all: Whether approximate instructions err in every run.
        suppressions: Expected findings, which decide nothing.
        best_effort: Whether other runs are left out if the first one takes more than half of its time limit.
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
            raise ValueError(f"at least one block of a launch must run, not {self.blocks}")

    def beginning_with(self, order: Order, *, alone: bool) -> LaunchPlan:
        """Return the plan with an order that somebody asked for as the first one.

        Args:
            order: The order.
            alone: Whether the other orders are left out.
        """
        return replace(self, orders=(order, *(o for o in self.orders if o != order and not alone)))

    def of_some_blocks(self) -> LaunchPlan:
        """Return the plan of a launch of which only some blocks run: each once, in two orders."""
        return replace(self, orders=self.orders[:2], second_launch=False, perturb=False, launches=1, perturb_all=False)

    def to_json(self) -> dict[str, Any]:
        """Return the plan for another process."""
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
        """The runs, in order."""
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


def not_run(plan: LaunchPlan, made: int) -> tuple[str, ...]:
    """Return the runs that could find more, as the arguments of ``autosched.emulate`` that ask for them.

    Args:
        plan: The plan of the launch.
        made: How many of its runs were made.

    Returns:
        One short text for each.
    """
    runs = plan.runs[:made]
    kinds = {run.order.blocks for run in runs}
    names = dict.fromkeys(order.blocks for order in all_orders()[1:])
    orders = [f"order={name}" for name in names if name not in kinds]
    seeds = [] if any(run.order.seed for run in runs) else ["a seed of turns"]
    twice = [] if any(run.launches > 1 for run in runs) else ["launches=2"]
    perturbed = [] if any(run.perturb for run in runs) else ["perturb"]
    return (*orders, *seeds, *twice, *perturbed)
