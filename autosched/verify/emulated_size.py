"""Size limit up to which all blocks are emulated, and reduction of a launch to fewer blocks, as on a smaller GPU."""

from __future__ import annotations

from dataclasses import replace

from search_spaces.launches.generated_kernel import GeneratedKernel

# Problems up to these limits are emulated in full. Larger problems are reduced to a few tiles.
EMULATED_FLOPS = 2.0 * 256**3
EMULATED_BYTES = 4 * 2**20  # maximum bytes of all operands together


def fewer_blocks(kernel: GeneratedKernel) -> GeneratedKernel:
    """Return ``kernel`` with two thirds of its clusters, as on a smaller GPU, if its grid may shrink."""
    clusters = kernel.grid[0] // kernel.cluster[0]
    return replace(kernel, grid=kernel.grid_of(max(1, 2 * clusters // 3)))
