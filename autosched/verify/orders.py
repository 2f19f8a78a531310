"""Orders in which a verified launch runs its blocks and threads. All verification plans take their orders from here."""

from __future__ import annotations

from measurements.emulator import ASCENDING, Order


def all_orders(seed: int = 0) -> tuple[Order, ...]:
    """Return the orders of a full verification, starting with the fastest.

    Args:
        seed: Seed of the order of warps, lanes and atomics. Default: 0.

    Returns:
        Ascending blocks; then random, descending and interleaved blocks, which also have a random order of threads.
    """
    return (
        ASCENDING,
        Order("random", seed + 1),
        Order("descending", seed + 2),
        Order("interleaved", seed + 3),
    )


def provoking_orders(seed: int = 0) -> tuple[Order, ...]:
    """Return the additional orders for executables: random and interleaved, which differ most from ascending."""
    return tuple(order for order in all_orders(seed) if order.blocks in ("random", "interleaved"))


def quick_orders(seed: int = 0) -> tuple[Order, ...]:
    """Return the orders of a quick verification: ascending and random."""
    return all_orders(seed)[:2]
