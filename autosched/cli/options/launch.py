"""``--order``, ``--turns`` and ``--launches``: how an emulated kernel is launched."""

from typing import Annotated, get_args

import typer

from autosched.cli.options.problem import whole_number
from autosched.cli.terminal.errors import MOST_SEED, InputError, listed, shortened, within
from measurements.emulator.order import Order, OrderKind

ORDERS: tuple[OrderKind, ...] = get_args(OrderKind)
MOST_LAUNCHES = 1000

OrderOption = Annotated[
    str | None, typer.Option("--order", metavar="ORDER", help=f"Order of blocks: {listed(ORDERS, 'or')}.")
]
TurnsOption = Annotated[
    int,
    typer.Option(
        "--turns",
        parser=whole_number,
        metavar="S",
        help="Seed of the random order of warps, lanes and atomics, and of blocks if --order is random or interleaved. "
        "0: threads run in ascending order.",
    ),
]
LaunchesOption = Annotated[
    int,
    typer.Option(
        "--launches",
        parser=whole_number,
        metavar="N",
        help="Number of back-to-back launches on the same memory. Outputs are poisoned before each launch.",
    ),
]


def order_from(order: str | None, turns: int, launches: int) -> Order:
    """Return the launch order that the options describe.

    Raises:
        InputError: The order is unknown, or a number is out of its limits.
    """
    within("--turns", turns, 0, MOST_SEED)
    within("--launches", launches, 1, MOST_LAUNCHES)
    for known in ORDERS:
        if order in (known, None):
            return Order(known, turns)
    raise InputError(f'invalid --order "{shortened(str(order))}": write {listed(ORDERS, "or")}')
