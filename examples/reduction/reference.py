"""What reduction.cu computes."""

from typing import Any


def reduction(a: Any, **sizes: int) -> Any:
    return a.sum(dtype="float64").reshape(1)
