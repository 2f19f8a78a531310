"""How large a launch may be to be emulated whole, and the launch of a GPU that runs fewer blocks at a time."""

from __future__ import annotations

from dataclasses import replace

from search_spaces.launches.generated_kernel import GeneratedKernel

# A problem up to these sizes is emulated as it is, a larger one is cut to a few tiles.
EMULATED_FLOPS = 2.0 * 256**3
EMULATED_BYTES = 4 * 2**20  # of its operands


def fewer_blocks(kernel: GeneratedKernel) -> GeneratedKernel:
    """``kernel`` as a GPU launches it on which two thirds of its clusters run at a time, where its grid may shrink."""
    clusters = kernel.grid[0] // kernel.cluster[0]
    return replace(kernel, grid=kernel.grid_of(max(1, 2 * clusters // 3)))
