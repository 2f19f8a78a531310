"""Size limit of launches that are emulated whole, and launches on a GPU that runs fewer blocks at the same time."""

from __future__ import annotations

from dataclasses import replace

from search_spaces.launches.generated_kernel import GeneratedKernel

# Problems up to these sizes are emulated whole; larger ones are cut to a few tiles.
EMULATED_FLOPS = 2.0 * 256**3
EMULATED_BYTES = 4 * 2**20  # limit of the operands


def fewer_blocks(kernel: GeneratedKernel) -> GeneratedKernel:
    """Return ``kernel`` as launched on a GPU that runs two thirds of its clusters at once, if its grid may shrink."""
    clusters = kernel.grid[0] // kernel.cluster[0]
    return replace(kernel, grid=kernel.grid_of(max(1, 2 * clusters // 3)))
