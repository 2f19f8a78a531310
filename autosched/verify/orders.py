"""Orders in which a verified launch runs its blocks and threads. All plans use this list."""

from __future__ import annotations

from measurements.emulator import ASCENDING, Order


def all_orders(seed: int = 0) -> tuple[Order, ...]:
    """Return the orders of a full verification, the cheapest first.

    Args:
        seed: Seed of the order of warps, lanes and atomics. Default: 0.

    Returns:
        Ascending blocks, then random, descending and interleaved blocks with a random order of threads.
    """
    return (
        ASCENDING,
        Order("random", seed + 1),
        Order("descending", seed + 2),
        Order("interleaved", seed + 3),
    )


def provoking_orders(seed: int = 0) -> tuple[Order, ...]:
    """Return the additional orders of an executable: random and interleaved, which differ most."""
    return tuple(order for order in all_orders(seed) if order.blocks in ("random", "interleaved"))


def quick_orders(seed: int = 0) -> tuple[Order, ...]:
    """Return the orders of a quick verification: ascending and random."""
    return all_orders(seed)[:2]
