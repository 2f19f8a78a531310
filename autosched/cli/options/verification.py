"""Options of every verification: of schedules, files, programs and submissions."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, get_args

import typer

from autosched.cli.options.devices import DeviceOption
from autosched.cli.options.launch import OrderOption, TurnsOption, order_from
from autosched.cli.options.problem import real_number
from autosched.cli.terminal.errors import InputError, bad_input
from autosched.verify.launch_plan import EVERY_ORDER, QUICK, LaunchPlan
from measurements.emulator import Order, Suppression
from measurements.emulator.findings import Grade

FullOption = Annotated[
    bool,
    typer.Option(
        "--full",
        help="Add runs: every order of blocks and threads, and a second launch on the same memory; for schedules "
        "also large sizes, long loops and addresses beyond 2^32.",
    ),
]


@dataclass(frozen=True)
class VerificationEffort:
    """Depth and time limit of a verification."""

    device: DeviceOption = None
    full: FullOption = False
    time_limit: Annotated[
        float | None,
        typer.Option(
            "--time-limit",
            parser=real_number,
            metavar="S",
            help="CPU seconds for each launch (default 60) or for a submission (default 120); for a script, elapsed "
            "seconds.",
        ),
    ] = None
    batch_invariant: Annotated[
        bool,
        typer.Option(
            "--batch-invariant",
            help="Require the same bits for a row in every batch, at every position and in every launch. A file also "
            "needs the batch sizes: --size NAME=A..B.",
        ),
    ] = False

    def seconds(self, default: float) -> float:
        """Return the time limit in seconds.

        Raises:
            InputError: The limit is not positive.
        """
        if self.time_limit is None:
            return default
        if not 0 < self.time_limit < math.inf:
            raise InputError(f"--time-limit must be more than 0 s, got {self.time_limit:g}")
        return self.time_limit


@dataclass(frozen=True)
class Findings:
    """Options that set the execution order of launches, and that select the findings that fail the verification."""

    order: OrderOption = None
    turns: TurnsOption = 0
    perturb: Annotated[
        bool, typer.Option("--perturb", help="Make approximate functions as inaccurate as the PTX ISA allows.")
    ] = False
    suppress: Annotated[
        list[str] | None,
        typer.Option(
            "--suppress",
            metavar="KIND:FILE:LINE:REASON",
            help="Expected finding to suppress, and why; * matches any kind or line.",
        ),
    ] = None
    fail_on: Annotated[
        str,
        typer.Option(
            "--fail-on",
            metavar="GRADE",
            help="Lowest grade of finding that fails the verification: fault, or note (which includes faults).",
        ),
    ] = "fault"

    def own_order(self) -> Order | None:
        """Return the order that the options choose; None for the default orders.

        Raises:
            InputError: The options are invalid.
        """
        order = order_from(self.order, self.turns, 1)
        return order if self.order is not None or self.turns else None

    def plan(
        self, effort: VerificationEffort, default: LaunchPlan = QUICK, full: LaunchPlan = EVERY_ORDER
    ) -> LaunchPlan:
        """Return the runs of each launch.

        Args:
            effort: Depth of the verification. Its time limit is not used here: the caller applies it, because it is not
                always a limit per launch.
            default: Runs without ``--full``. If the user chose an order, it replaces the orders of these runs.
            full: Runs with ``--full``. If the user chose an order, it is run first.

        Raises:
            InputError: The options cannot be used.
        """
        plan, chosen_order = full if effort.full else default, self.own_order()
        if chosen_order is not None:
            plan = plan.beginning_with(chosen_order, alone=not effort.full)
        return replace(plan, perturb_all=self.perturb, suppressions=self.suppressions())

    def suppressions(self) -> tuple[Suppression, ...]:
        """Return the suppressions of expected findings.

        Raises:
            InputError: A suppression cannot be parsed.
        """
        with bad_input():
            return tuple(Suppression.parse(one) for one in self.suppress or ())

    def notes_fail(self) -> bool:
        """Return True if a note makes the verification fail.

        Raises:
            InputError: The grade is unknown.
        """
        if self.fail_on not in get_args(Grade):
            raise InputError(f'invalid --fail-on "{self.fail_on}": write {" or ".join(get_args(Grade))}')
        return self.fail_on == "note"
