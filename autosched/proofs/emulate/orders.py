"""A launch for which nobody has named an order: ascending, and once more with blocks and turns at random."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from measurements.emulator import ASCENDING, Emulation, Finding, Order

SEEDED = Order("random", 7)


@dataclass(frozen=True, eq=False)
class OrderedRuns:
    """``emulation`` is that of the first run, with what the others have found besides; ``not_run`` names runs that may
    find more, as the arguments that ask for them."""

    emulation: Emulation
    orders: tuple[Order, ...]
    not_run: tuple[str, ...]


def in_orders(
    run: Callable[[Order], Emulation], order: Order | None, *, launches: int, perturb: bool, time_limit: float
) -> OrderedRuns:
    """Run in ``order``; where that is None, in two orders.

    The second is left out where the first run shows that there is no time for another one, or has not ended.

    Args:
        run: Emulates the launch in an order.
        order: The only one; None for ascending, then one at random.
        launches: How often each run launches the kernel, for what is said to be not run.
        perturb: Whether approximate instructions err, likewise.
        time_limit: CPU seconds that each run may take.

    Returns:
        The first run with the findings of both, the orders, and what was not run.
    """
    asked = (order,) if order is not None else (ASCENDING, SEEDED)
    first = run(asked[0])
    done, found = [asked[0]], list(first.findings)
    for other in asked[1:]:
        if first.status not in ("ok", "findings") or first.run_seconds > time_limit / 2:
            break
        found += _new(run(other), found, other)
        done.append(other)
    return OrderedRuns(first.with_findings(found), tuple(done), _not_run(done, launches, perturb))


def _new(emulation: Emulation, known: list[Finding], order: Order) -> list[Finding]:
    """Return what a run has found besides ``known``; of a run without a verdict the reason is a finding as well."""
    places = {(f.kind, f.file, f.line) for f in known}
    return [
        replace(f, message=f"{f.message}; blocks {order.name}")
        for f in emulation.findings
        if (f.kind, f.file, f.line) not in places
    ]


def _not_run(done: list[Order], launches: int, perturb: bool) -> tuple[str, ...]:
    orders = {o.blocks for o in done}
    left = [f"order={name}" for name in ("descending", "interleaved", "random") if name not in orders]
    seeds = [] if any(o.seed for o in done) else ["a seed of turns"]
    return (*left, *seeds, *([] if launches > 1 else ["launches=2"]), *([] if perturb else ["perturb"]))
