"""Packing of weights of any array library into the layout that kernels read, on the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from autosched.dispatch.given_arrays import torch_of
from search_spaces.arrays import Array
from search_spaces.tile_operators.packed_weights import pack_fragments


def pack_weights(w: Any) -> Any:
    """Pack the weights of ``quantized_matmul`` so that each thread loads its own operands with 16-byte loads.

    Args:
        w: (n, k / 8) of int32 from ``pack_int4``, or (n, k) of int8 or e4m3: a numpy or cupy array, or a tensor.

    Returns:
        The same weights, of the same type and library, with one row per 16 columns of the result. Calls recognise
        packed weights by this shape.

    Raises:
        ValueError: Weights of another shape or type.
    """
    return packed_array(pack_fragments, w)


def packed_array(pack: Callable[[Array], Array], w: Any) -> Any:
    """Apply ``pack`` to an array, and return the result in its library and on its device.

    Args:
        pack: Function of a numpy array that returns one of the same type.
        w: A numpy or cupy array, or a tensor.

    Returns:
        The packed array.

    Raises:
        ValueError: As ``pack`` does.
    """
    torch = torch_of(w)
    if torch is not None:
        given = w.detach().cpu().contiguous()
        host = given.view(torch.uint8).numpy() if given.element_size() == 1 else given.numpy()
        return torch.from_numpy(pack(host)).view(w.dtype).to(w.device)
    if isinstance(w, np.ndarray):
        return pack(w)
    import cupy as cp

    return cp.asarray(pack(cp.asnumpy(w)))
