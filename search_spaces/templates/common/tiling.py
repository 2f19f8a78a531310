"""Tiles of a product out = a @ b: their number, and the blocks that compute them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from search_spaces.arrays import BoolArray, IntArray
from search_spaces.hardware.devices import Device
from search_spaces.spaces.columns import ceil_div
from search_spaces.spaces.parameters import Parameter
from search_spaces.spaces.rules import Attribute, Rule
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.common.launch_rules import MOST_BLOCKS, grid_rule


@dataclass(frozen=True)
class Tiling:
    """Division of ``matrices`` products, each with ``extents`` (m, n, k), into tiles by the parameters ``tiles``.

    ``split_k`` blocks share the k range of one tile of out. Each of these blocks except the last one has
    ``tiles_of_split`` whole k-tiles. The last block has the remaining k-tiles.
    """

    extents: tuple[int, int, int]
    tiles: tuple[str, str, str]
    matrices: int = 1

    def tiles_of_split(self, tile_k: IntArray, split_k: IntArray) -> IntArray:
        """Return the number of k-tiles of one block; the last split may have fewer.

        Rules use this function instead of the attribute: a space is counted faster if its rules have fewer columns in
        common.
        """
        return ceil_div(ceil_div(self.extents[2], tile_k), split_k)

    def attributes(self) -> tuple[Attribute, ...]:
        """Return the attributes ``tiles_m``, ``tiles_n``, ``tiles_k``, ``tiles_of_split`` and ``blocks``."""

        def along(axis: int) -> Attribute:
            return Attribute(
                f"tiles_{'mnk'[axis]}",
                lambda tile: ceil_div(self.extents[axis], tile),
                f"tiles along {'mnk'[axis]}",
                names={"tile": self.tiles[axis]},
            )

        return (
            *(along(axis) for axis in range(3)),
            Attribute(
                "tiles_of_split",
                self.tiles_of_split,
                "tiles along k of one block; the last split may have fewer",
                names=self.names,
            ),
            Attribute(
                "blocks",
                lambda tiles_m, tiles_n, split_k: self.matrices * tiles_m * tiles_n * split_k,
                "blocks of the launch",
            ),
        )

    @property
    def names(self) -> dict[str, str]:
        """The parameters that divide the extents, with the keys ``tile_m``, ``tile_n`` and ``tile_k``."""
        return dict(zip(("tile_m", "tile_n", "tile_k"), self.tiles, strict=True))

    def split_rule(self) -> Rule:
        """Return the validity constraint that every split has at least one k-tile."""
        k = self.extents[2]
        return Rule(
            "split_k",
            lambda tile_k, split_k: (split_k - 1) * self.tiles_of_split(tile_k, split_k) < ceil_div(k, tile_k),
            lambda tile_k, split_k: (
                f"split_k is {split_k}, but k = {k} has {-(-k // tile_k)} tiles of {tile_k}: a split would be empty"
            ),
            names=self.names,
        )

    def grid_rules(self, parameters: Sequence[Parameter]) -> tuple[Rule, ...]:
        """Return ``grid_rule`` if some tile sizes make the grid too large; a needless rule would slow down counting."""
        domains = {p.name: [int(v) for v in p.values] for p in parameters if p.name in (*self.tiles, "split_k")}
        tiles = zip(self.extents[:2], self.tiles[:2], strict=True)
        most = self.matrices * max(domains["split_k"]) * math.prod(-(-n // min(domains[name])) for n, name in tiles)
        return (grid_rule(),) if most > MOST_BLOCKS else ()

    def stages_rule(self) -> Rule:
        """Return the pruning rule that a split has at least as many k-tiles as stages.

        Two stages are always allowed.
        """
        return Rule(
            "stages",
            lambda stages, tile_k, split_k: (stages <= self.tiles_of_split(tile_k, split_k)) | np.equal(stages, 2),
            f"{{stages}} stages are more than the k-tiles of a split (k = {self.extents[2]}, tile_k = {{tile_k}}, "
            "split_k = {split_k})",
        )

    def split_waves_rule(
        self, device: Device, waves: int, blocks_of: Callable[[IntArray], IntArray] = np.ones_like
    ) -> Rule:
        """Return the pruning rule that k is split only if SMs would otherwise be idle.

        Adding partial sums takes time.

        Args:
            device: Provides the number of SMs.
            waves: Number of blocks that give an SM enough parallel work.
            blocks_of: Function that takes the number of rows of a tile, and returns the number of blocks that compute
                the tile together.
        """

        def gains(tile_m: IntArray, tile_n: IntArray, split_k: IntArray) -> BoolArray:
            busy = self._tiles(tile_m, tile_n) * blocks_of(tile_m)
            return np.equal(split_k, 1) | (busy < waves * device.sm_count)

        return Rule(
            "split_k_waves",
            gains,
            "split_k is {split_k}, but tiles of {tile_m}x{tile_n} alone already give each of the "
            f"{device.sm_count} SMs of {device.name} {'a block' if waves == 1 else f'{waves} blocks'} or more",
        )

    def narrow_rule(self, device: Device, balanced_n: int) -> Rule:
        """Return the pruning rule that tiles have at least ``balanced_n`` columns, unless n is smaller.

        With ``balanced_n`` columns, reading shared memory takes no longer than multiplying. The rule applies only if
        such tiles occupy all SMs.
        """
        n = self.extents[1]

        def keeps_up(tile_m: IntArray, tile_n: IntArray) -> BoolArray:
            few: BoolArray = (tile_n >= balanced_n) | (self._tiles(tile_m, balanced_n) < device.sm_count)
            return few | (n < balanced_n)

        return Rule(
            "narrow",
            keeps_up,
            "with tile_n = {tile_n}, reading shared memory takes longer than multiplying, and there are enough tiles "
            f"of {{tile_m}} x {balanced_n} for the {device.sm_count} SMs of {device.name}",
        )

    def covering_rules(self, parameters: Sequence[Parameter]) -> tuple[Rule, ...]:
        """Return the pruning rules that exclude tiles larger than the smallest tile that covers the axis."""

        def covering(axis: str, extent: int, name: str) -> Rule:
            sizes = [int(size) for size in next(p for p in parameters if p.name == name).values]
            enough = min((size for size in sizes if size >= extent), default=max(sizes))
            return Rule(
                f"tile_size_{axis}",
                lambda tile: tile <= enough,
                f"{name} is {{tile}}, but a tile of {enough} already covers {axis} = {extent}",
                names={"tile": name},
            )

        return tuple(covering(*one) for one in zip("mnk", self.extents, self.tiles, strict=True))

    def _tiles(self, tile_m: IntArray, tile_n: IntArray | int) -> IntArray:
        """Return the number of tiles of ``out``, for all matrices of the batch."""
        return self.matrices * ceil_div(self.extents[0], tile_m) * ceil_div(self.extents[1], tile_n)

    def proxy(self, schedule: Schedule, remaining: Callable[[int], int]) -> tuple[int, int, int]:
        """Return smaller extents with the same remainders.

        Along m and n, the result has a full tile and the remainder. If neither axis has a remainder, it has two full
        tiles along n, so that blocks still have neighbours. Along k, ``remaining`` maps the number of tiles of a
        split in the original to the number in the result. If the last split is shorter in the original, or the last
        tile is partial, the same is true of the result.
        """
        tile_m, tile_n, tile_k = (schedule.integer(name) for name in self.tiles)
        m, n, k = self.extents
        cut_m, cut_n = min(m, tile_m + m % tile_m), min(n, tile_n + n % tile_n)
        if cut_m == tile_m and cut_n == tile_n:
            cut_n = min(n, 2 * tile_n)
        splits, tiles = schedule.integer("split_k"), int(ceil_div(k, tile_k))
        of_split = int(ceil_div(tiles, splits))
        remaining_of_split = remaining(of_split)
        remaining_tiles = remaining_of_split * splits - min(of_split * splits - tiles, remaining_of_split - 1)
        return cut_m, cut_n, (remaining_tiles - 1) * tile_k + (k % tile_k or tile_k)
