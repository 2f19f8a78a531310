"""What vector_add.cu computes."""

from typing import Any


def vector_add(a: Any, b: Any, **sizes: int) -> Any:
    return a.astype("float64") + b
