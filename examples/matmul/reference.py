"""What matmul.cu computes."""

from typing import Any


def matmul(A: Any, B: Any, **sizes: int) -> Any:
    return A.astype("float64") @ B.astype("float64")
