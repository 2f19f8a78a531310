"""The order in which PyTorch's learned trees would try configurations of a matmul (AutoHeuristic, since PyTorch 2.5).

A tree gives every matmul a list of configurations with weights, the best first; it says nothing of those that are not
in it. cuBLAS, which may be one of them, is left out, because only Triton's configurations are judged here.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.cost_model.autoheuristic import Recorded
from search_spaces.arrays import FloatArray

_MODULES = "torch._inductor.autoheuristic"
_BY_SM = {80: "MMRankingA100", 90: "MMRankingH100"}
_TEXTS = ("mat1_dtype", "mat2_dtype", "using_tf32", "mat1_iscontig", "mat2_iscontig")


def order() -> Callable[[Recorded], FloatArray | None] | None:
    """For a recorded matmul, the place of each configuration in the tree's list, [n], those that it does not name last;
    None where it names none of them. None without PyTorch."""
    try:
        utilities: Any = import_module(f"{_MODULES}.autoheuristic_utils")
        trees: dict[int, Any] = {
            sm: getattr(import_module(f"{_MODULES}.artifacts._{name}"), name)() for sm, name in _BY_SM.items()
        }
    except ImportError:
        return None

    def ordered(recorded: Recorded) -> FloatArray | None:
        context = utilities.AHContext()
        for name, text in recorded.row:
            context.add_feature(name, text if name in _TEXTS else int(text), name in _TEXTS)
        context.apply_operations(utilities.mm_operations())
        tree = trees[recorded.device.sm]
        places = {tree.get_choice(i): place for place, (_, i) in enumerate(tree.get_best_choices(context))}
        if places.keys().isdisjoint(recorded.choices):
            return None
        return np.array([places.get(choice, len(places)) for choice in recorded.choices], dtype=np.float64)

    return ordered
