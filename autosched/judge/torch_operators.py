"""Detect torch operators that compute results. Operators that create, view, copy or convert tensors do not count."""

from __future__ import annotations

from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

_TEXT = """
empty empty_like empty_strided new_empty new_empty_strided zeros zeros_like new_zeros ones ones_like full full_like
arange zero_ fill_ copy_ clone _to_copy to detach view _unsafe_view reshape expand permute transpose t squeeze unsqueeze
slice select as_strided narrow split split_with_sizes chunk unbind alias contiguous resize_ set_ lift_fresh
_local_scalar_dense item is_same_size unfold diagonal view_as_real view_as_complex scalar_tensor stack cat pad
constant_pad_nd _reshape_alias record_stream _pin_memory is_pinned randn rand randint normal_ uniform_ random_ equal
"""
_HANDLING = frozenset(_TEXT.split())


class TorchOperators(TorchDispatchMode):  # type: ignore[misc]
    """Torch dispatch mode that collects the names of operators that compute results."""

    def __init__(self) -> None:
        super().__init__()
        self.names: dict[str, None] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.removeprefix("aten::")
        if name not in _HANDLING and func.namespace == "aten":
            self.names[name.rstrip("_")] = None
        return func(*args, **(kwargs or {}))
