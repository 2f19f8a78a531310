"""Reference of smooth.cu."""

from typing import Any


def smooth(x: Any, weights: Any) -> Any:
    return sum(w * x[k : len(x) - 4 + k] for k, w in enumerate(weights))
