"""What reduction.cu computes."""

from typing import Any


def reduction(a: Any) -> Any:
    return a.sum().reshape(1)
