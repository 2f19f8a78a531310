"""Identity of Python functions: a function's code, and everything to which the code refers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

import numpy as np


def function_text(function: Callable[..., Any]) -> str:
    """Return a readable name of the function, followed by a digest of its traits."""
    name = getattr(function, "__qualname__", type(function).__name__).rpartition(".")[2]
    return f"{name} {hashlib.sha256(repr(traits(function)).encode()).hexdigest()[:12]}"


def traits(value: Any) -> Any:
    """Return the traits that distinguish two functions, or two values that a function refers to."""
    if isinstance(value, FunctionType):
        code, cells = value.__code__, value.__closure__ or ()
        known = [value.__globals__.get(name) for name in code.co_names]
        simple = [v for v in known if isinstance(v, (bool, int, float, str, np.ndarray))]
        return [traits(v) for v in (code, value.__defaults__, *(cell.cell_contents for cell in cells), *simple)]
    if isinstance(value, CodeType):
        return [value.co_code, value.co_names, [traits(constant) for constant in value.co_consts]]
    if isinstance(value, np.ndarray):
        return [value.dtype.str, value.shape, hashlib.sha256(value.tobytes()).hexdigest()]
    return repr(value)
