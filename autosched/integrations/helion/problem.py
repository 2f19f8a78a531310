"""Problem types of Helion's trials in the database: a call of a Helion kernel, or an entry of Helion's cache."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

from autosched.triton.tuning.call import described_value
from autosched.triton.tuning.problem import TritonProblem
from search_spaces.operators.problem import option

PREFIX = "helion:"
CACHE = "helion_cache"


@dataclass(frozen=True)
class CacheEntry(TritonProblem):
    """An entry of Helion's cache.

    ``arguments`` is a digest of the kernel, the call's arguments, the device and the versions.
    """

    operator: ClassVar[str] = CACHE
    summary: ClassVar[str] = "an entry of Helion's cache"

    arguments: str = option("Helion's key.")


@cache
def _type_of(kernel: str) -> type[TritonProblem]:
    return type("HelionProblem", (TritonProblem,), {"operator": f"{PREFIX}{kernel}", "__module__": __name__})


def problem_of(kernel: Any, args: Sequence[Any]) -> TritonProblem:
    """Return the problem of a call: types, shapes and strides of tensors, and numbers, by parameter name."""
    names = list(inspect.signature(kernel.fn).parameters)
    named = zip(names + [f"argument_{k}" for k in range(len(names), len(args))], args, strict=False)
    return _type_of(kernel.name)(" ".join(f"{name}={described_value(value)}" for name, value in named))
