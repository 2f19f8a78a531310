"""Registry of the launch caches of other packages. They are cleared when calls must choose their kernels again."""

from __future__ import annotations

from collections.abc import Callable

_clear: list[Callable[[], None]] = []


def add(clear: Callable[[], None]) -> None:
    """Register a cache by the function that clears it."""
    _clear.append(clear)


def clear() -> None:
    """Clear every cache."""
    for function in tuple(_clear):
        function()
