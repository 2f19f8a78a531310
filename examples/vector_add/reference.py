"""Reference for vector_add.cu."""

from typing import Any


def vector_add(a: Any, b: Any) -> Any:
    return a + b
