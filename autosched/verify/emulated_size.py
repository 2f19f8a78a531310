"""Size limit of launches that are emulated whole, and launches on a GPU that runs fewer blocks at the same time."""

from __future__ import annotations

from dataclasses import replace

from search_spaces.launches.generated_kernel import GeneratedKernel

# Problems up to these sizes are emulated whole; larger ones are cut to a few tiles.
EMULATED_FLOPS = 2.0 * 256**3
EMULATED_BYTES = 4 * 2**20  # maximum size of all operands together


def fewer_blocks(kernel: GeneratedKernel) -> GeneratedKernel:
    """Return ``kernel`` with two thirds of its clusters if its grid may shrink, as on a smaller GPU."""
    clusters = kernel.grid[0] // kernel.cluster[0]
    return replace(kernel, grid=kernel.grid_of(max(1, 2 * clusters // 3)))
