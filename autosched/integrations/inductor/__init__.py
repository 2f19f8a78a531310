"""Tuned kernels and stored choices for ``torch.compile``.

Start at ``candidates.py``, which adds autosched's kernels to the candidates that Inductor times. ``matmul_choices.py``
selects the configuration of Inductor's own matmul template. The two modules import torch, so they are only imported
when a name of theirs is first used. This package must not import ``autosched.cli`` or another integration.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autosched.integrations.inductor.candidates import external_matmul, race_formulas
    from autosched.integrations.inductor.matmul_choices import choices

__all__ = ["choices", "external_matmul", "race_formulas"]

_HOMES = {"choices": "matmul_choices", "external_matmul": "candidates", "race_formulas": "candidates"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
