"""Packing of weights, on the host, into the layout that kernels read. Accepts arrays of any library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from autosched.dispatch.given_arrays import torch_of
from search_spaces.arrays import Array
from search_spaces.launches.operand import Operand
from search_spaces.tile_operators.packed_weights import pack_fragments


def pack_weights(w: Any) -> Any:
    """Pack quantised weights so that each thread of a matmul reads its operands with 16-byte loads.

    Args:
        w: (n, k / 8) of int32 from ``pack_int4``, or (n, k) of int8 or e4m3: a numpy or cupy array, or a tensor. For
            ``grouped_matmul`` the same with a leading dimension of groups.

    Returns:
        The packed weights, of the same type and library, with one row per 16 columns of the product. Calls recognise
        packed weights by this shape.

    Raises:
        ValueError: The weights have another shape or type.
    """
    return packed_array(pack_fragments, w)


def packed_array(pack: Callable[[Array], Array], w: Any) -> Any:
    """Apply ``pack`` to an array, and return the result as an array of the same library and device.

    Args:
        pack: Function that maps a numpy array to a numpy array of the same type.
        w: A numpy or cupy array, or a tensor.

    Returns:
        The packed array.

    Raises:
        ValueError: As ``pack`` does.
    """
    torch = torch_of(w)
    if torch is not None:
        weights = w.detach().cpu().contiguous()
        host = weights.view(torch.uint8).numpy() if weights.element_size() == 1 else weights.numpy()
        return torch.from_numpy(pack(host)).view(w.dtype).to(w.device)
    if isinstance(w, np.ndarray):
        return pack(w)
    import cupy as cp

    return cp.asarray(pack(cp.asnumpy(w)))


def padded_lines(source: Operand, lines: Operand, w: Any) -> Any:
    """Return a copy of an array in which each line is padded with zeros.

    Args:
        source: The operand for which ``w`` is passed.
        lines: The same operand with padded lines.
        w: A numpy or cupy array, or a tensor.

    Returns:
        The copy, in the library of ``w`` and on its device.

    Raises:
        ValueError: ``w`` has another shape.
    """
    shape = tuple(w.shape)
    if shape not in (source.shape, source.shape[1:] if source.shape[0] == 1 else source.shape):
        raise ValueError(f"{source.name} must have the shape {source.shape}, not {shape}")
    extra = lines.shape[-1] - shape[-1]
    torch = torch_of(w)
    if torch is not None:
        bits = w.detach().view(torch.uint8) if w.element_size() == 1 else w.detach()
        return torch.nn.functional.pad(bits, (0, extra)).view(w.dtype)
    if isinstance(w, np.ndarray):
        return np.pad(w, [(0, 0)] * (w.ndim - 1) + [(0, extra)])
    import cupy as cp

    return cp.pad(w, [(0, 0)] * (w.ndim - 1) + [(0, extra)])
