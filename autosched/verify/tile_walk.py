"""Check the assignment of tiles to blocks at the true size, without executing the matmul.

A template with a tile walk (``KernelTemplate.walk``) has a device function that only reports the work of a block: its
tiles, or its range of k-tiles within a tile. The emulator runs this function in all blocks of the launch. Together, the
reports must contain each k-tile of each output tile exactly once. This detects tile orders that repeat tiles, k-tiles
that are assigned twice, and overflows of 32-bit products, at any size.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from autosched.verify.launch import LaunchUnderTest
from autosched.verify.launch_plan import LaunchRun
from autosched.verify.launches import compared
from autosched.verify.oracle import Comparison
from autosched.verify.run import Run
from autosched.verify.runs import VerifySettings
from measurements.emulator import ASCENDING, Emulation
from search_spaces.arrays import IntArray
from search_spaces.hardware.dtypes import U32
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.launch import ScalarArgument
from search_spaces.launches.operand import Operand
from search_spaces.operators.problem import Problem
from search_spaces.spaces.config import Config
from search_spaces.templates.common.raster import RASTER_ARGUMENT
from search_spaces.templates.device_source import DeviceSource

MOST_BLOCKS = 2**13  # maximum number of blocks that can report in reasonable time
_ENTRY = 'extern "C" __global__'
_WORDS = 8  # words of a report: 1, matrix, row, column, first k-tile, number of k-tiles, two unused


def why_no_walk(kernel: GeneratedKernel) -> str:
    """Return the reason why the blocks of ``kernel`` cannot report their tiles; "" if they can."""
    blocks = math.prod(kernel.grid)
    if blocks > MOST_BLOCKS:
        return f"{blocks} blocks are too many to report their tiles: the maximum is {MOST_BLOCKS}"
    return "" if _ENTRY in kernel.source else "the kernel's source has no generated entry function"


def walk_kernel(walk: DeviceSource, kernel: GeneratedKernel, most: int) -> GeneratedKernel:
    """Return a launch with the grid of ``kernel`` in which each block writes up to ``most`` reports."""
    head, entry = kernel.source[: kernel.source.index(_ENTRY)], f"{kernel.entry}_walk"
    parts = Operand("parts", "output", U32, (math.prod(kernel.grid), most, _WORDS))
    order = [a for a in kernel.arguments if isinstance(a, ScalarArgument) and a.name == RASTER_ARGUMENT]
    parameters = "".join(f", {a.dtype.c_name} {a.name}" for a in order)
    passed = ", ".join(["parts", *(a.name for a in order)])
    return GeneratedKernel(
        entry=entry,
        source=(
            f"{head}#include <{walk.header}>\n\n{_ENTRY} void {entry}(unsigned* parts{parameters}) {{\n"
            f"  {walk.entry}<Config, {most}>({passed});\n}}\n"
        ),
        headers=kernel.headers,
        arguments=(parts, *order),
        grid=kernel.grid,
        block=(32, 1, 1),
        dynamic_shared_bytes=kernel.dynamic_shared_bytes,
        arch=kernel.arch,
    )


def run_walk(
    walk: DeviceSource, problem: Problem, config: Config, kernel: GeneratedKernel, settings: VerifySettings
) -> Run:
    """Collect the tiles of all blocks of ``kernel``, and compare them with the tiles of the output.

    Args:
        walk: Device source of the function that reports a block's tiles instead of computing them.
        problem: Problem that the kernel computes.
        config: The schedule with its attributes.
        kernel: Kernel of ``config``, whose grid and definitions the walk uses.
        settings: Time limit of the launch.

    Returns:
        The run. Its status is ``wrong_result`` if a tile is missing or computed twice.
    """
    blocks = config.integer("blocks")
    # Space for reports per block: the first block of a CTA pair also reports its partner's tiles, and a stream-K worker
    # has partial tiles at both ends of its range.
    most = -(-blocks * math.prod(kernel.cluster) // math.prod(kernel.grid)) + 3
    walk_source = walk_kernel(walk, kernel, most)
    done = LaunchUnderTest(walk_source, {}).run(ASCENDING, time_limit=settings.time_limit)
    run = compared(LaunchRun(""), done, EachTileOnce(config))
    return replace(run, problem=problem, cases=("none",), seed=settings.seed, emulation=done.without_arrays())


class EachTileOnce(NamedTuple):
    """Oracle of a tile walk, which expects each tile exactly once.

    Attributes:
        config: The schedule, which determines the tiles.
    """

    config: Config

    def compare(self, emulation: Emulation) -> Comparison:
        """Compare the reported tiles with the tiles of the output."""
        return Comparison(None, _wrong(self.config, emulation.outputs["parts"].astype(np.int64)))


def _wrong(config: Config, tiles: IntArray) -> str:
    """Describe the first tile that is missing or duplicated in the reports of all blocks; "" if none is."""
    tile_m, tile_n, tiles_m, tiles_n, tiles_k = config.integers("tile_m", "tile_n", "tiles_m", "tiles_n", "tiles_k")
    per_tile = tiles_m * tiles_n
    matrices = config.integer("blocks") // config.integer("split_k") // per_tile
    block, _ = np.nonzero(tiles[:, :, 0] == 1)
    batch, m0, n0, first, count = (tiles[:, :, i][tiles[:, :, 0] == 1] for i in range(1, 6))
    outside = (m0 % tile_m != 0) | (n0 % tile_n != 0) | (m0 >= tiles_m * tile_m) | (n0 >= tiles_n * tile_n)
    outside |= (batch >= matrices) | (first + count > tiles_k) | (count < 1)
    if outside.any():
        i = int(outside.argmax())
        return (
            f"block {block[i]} computes k-tiles {first[i]} to {first[i] + count[i] - 1} of the tile at row {m0[i]} and "
            f"column {n0[i]} of matrix {batch[i]}: these are not k-tiles of the output, which has {matrices} x "
            f"{tiles_m} x {tiles_n} tiles of {tiles_k} k-tiles each"
        )
    tile = (batch * tiles_m + m0 // tile_m) * tiles_n + n0 // tile_n
    order = np.lexsort((first, tile))
    tile, first, count, block = tile[order], first[order], count[order], block[order]
    begins = np.diff(tile, prepend=-1) != 0
    expected = np.where(begins, 0, np.roll(first + count, 1))
    ends = np.roll(begins, -1)
    if ends.size:
        ends[-1] = True
    bad = (first != expected) | (ends & (first + count != tiles_k))
    if bad.any():
        i = int(bad.argmax())
        return (
            f"the k-tiles of tile {_coordinates(int(tile[i]), tiles_m, tiles_n)} are not computed exactly once: block "
            f"{block[i]} computes {first[i]} to {first[i] + count[i] - 1} of {tiles_k}, and the ranges before it end "
            f"at {expected[i]}"
        )
    missing = np.setdiff1d(np.arange(matrices * per_tile), tile)
    if missing.size:
        return (
            f"no block computes tile {_coordinates(int(missing[0]), tiles_m, tiles_n)} "
            f"and {missing.size - 1} other tiles of {matrices * per_tile}"
        )
    return ""


def _coordinates(tile: int, tiles_m: int, tiles_n: int) -> str:
    return f"({tile // (tiles_m * tiles_n)}, {tile // tiles_n % tiles_m}, {tile % tiles_n})"
