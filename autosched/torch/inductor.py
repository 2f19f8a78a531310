"""The tuned matmul as a candidate of Inductor's max-autotune, which times it beside its own and takes the fastest."""

from __future__ import annotations

from typing import Any

from autosched.dispatch import functions
from autosched.torch import cpu


def external_matmul(a: Any, b: Any, out: Any) -> None:
    """Write ``a @ b`` into ``out``: an entry of Inductor's option ``external_matmul``.

    ``torch.compile(model, options={"max_autotune": True, "external_matmul": [external_matmul]})``. Inductor asks for it
    for plain ``mm`` only, and fuses nothing behind it.
    """
    if a.is_cuda:
        functions.matmul(a, b, out)
    else:
        out.copy_(cpu.compute("matmul", a, b))
