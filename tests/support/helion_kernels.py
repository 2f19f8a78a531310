"""Helion kernels for tests. Tests import this module when they run: helion takes three seconds to import."""

# mypy: ignore-errors
from __future__ import annotations

import helion
import helion.language as hl
import torch


def row_sums(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty([x.size(0)], dtype=x.dtype, device=x.device)
    for tile in hl.tile(x.size(0)):
        out[tile] = x[tile, :].sum(-1)
    return out


def last_writer(x: torch.Tensor) -> torch.Tensor:
    """Store the sums of all tiles in the same element, so that the result depends on the block size."""
    out = torch.zeros([1], dtype=torch.float32, device=x.device)
    for tile in hl.tile(x.size(0)):
        out[0] = hl.load(x, [tile]).sum()
    return out


def doubled(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile, :] = x[tile, :] * 2
    return out


def kernel_of(function, **settings):
    return helion.kernel(function, static_shapes=True, **settings)
