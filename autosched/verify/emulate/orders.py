"""A launch for which nobody has named an order: ascending, and once more with blocks and turns at random."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from measurements.emulator import ASCENDING, Emulation, Finding, Order, Suppression

SEEDED = Order("random", 7)


@dataclass(frozen=True, eq=False)
class OrderedRuns:
    """``emulation`` is that of the first run, with what the others have found besides; ``not_run`` names runs that may
    find more, as the arguments that ask for them."""

    emulation: Emulation
    orders: tuple[Order, ...]
    not_run: tuple[str, ...]


@dataclass(frozen=True)
class RunOptions:
    """How a launch is emulated.

    Attributes:
        order: The only one; None for ascending, then one at random.
        launches: How often each run launches the kernel.
        perturb: Whether approximate instructions err.
        time_limit: CPU seconds that each run may take.
        suppressions: Findings that are expected.
    """

    order: Order | None = None
    launches: int = 1
    perturb: bool = False
    time_limit: float = 60.0
    suppressions: Sequence[Suppression] = ()


def in_orders(run: Callable[[Order], Emulation], how: RunOptions) -> OrderedRuns:
    """Run in the order that is asked for; where there is none, in two orders.

    The second is left out where the first run shows that there is no time for another one, or has not ended.

    Args:
        run: Emulates the launch in an order, as ``how`` says.
        how: The order, and what decides which other runs could find more.

    Returns:
        The first run with the findings of both, the orders, and what was not run.
    """
    asked = (how.order,) if how.order is not None else (ASCENDING, SEEDED)
    first = run(asked[0])
    done, found = [asked[0]], list(first.findings)
    for other in asked[1:]:
        if first.status not in ("ok", "findings") or first.run_seconds > how.time_limit / 2:
            break
        found += _new(run(other), found, other)
        done.append(other)
    return OrderedRuns(first.with_findings(found), tuple(done), _not_run(done, how))


def _new(emulation: Emulation, known: list[Finding], order: Order) -> list[Finding]:
    """Return what a run has found besides ``known``; of a run without a verdict the reason is a finding as well."""
    places = {(f.kind, f.file, f.line) for f in known}
    return [
        replace(f, message=f"{f.message}; blocks {order.name}")
        for f in emulation.findings
        if (f.kind, f.file, f.line) not in places
    ]


def _not_run(done: list[Order], how: RunOptions) -> tuple[str, ...]:
    orders = {o.blocks for o in done}
    left = [f"order={name}" for name in ("descending", "interleaved", "random") if name not in orders]
    seeds = [] if any(o.seed for o in done) else ["a seed of turns"]
    return (*left, *seeds, *([] if how.launches > 1 else ["launches=2"]), *([] if how.perturb else ["perturb"]))
