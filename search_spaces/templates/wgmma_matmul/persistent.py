"""Blocks that compute several tiles of out, and stream-K: how many are launched, and when that is worth it.

With ``stream_k`` the tiles of the last whole wave and those of the partial one behind it have their k-tiles dealt out
evenly, in the order of the tiles ("data-parallel + two-tile Stream-K", Osama, Merrill, Cecka, Garland and Owens, PPoPP
2023, section 5.2). Every block gets those of one to two tiles, so that at most two blocks share a tile.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from search_spaces.hardware.devices import Device
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.each import each
from search_spaces.spaces.rules import Attribute, Rule
from search_spaces.templates.common.stream_k import too_little_idle

TILES_OF_BLOCK = (*range(1, 11), 12, 14, 16, 20, 24, 28, 32, 48, 64)


def _workers(resident: int, tiles: int, of_block: int) -> int:
    """Clusters that stream-K deals ``tiles`` out to: as many as run at a time, unless a small problem has no tiles for
    so many. There is a partial wave then, and behind it a whole one where blocks have three tiles or more."""
    return max(min(resident, (tiles - 1) // (1 if of_block < 3 else 2)), 1)


def streams(tiles: int, of_block: int) -> bool:
    """Whether stream-K can deal out ``tiles``, fewer than run at a time, of clusters that compute ``of_block`` each."""
    workers = _workers(tiles, tiles, of_block)
    return workers > 1 and tiles % workers != 0


def launched_blocks(device: Device) -> Attribute:
    """Blocks of the launch: the fewest for ``tiles_of_block`` of each, or all that run at a time with stream-K."""

    def blocks_of_launch(
        blocks: int, tiles_of_block: int, cluster_m: int, cluster_n: int, min_blocks: int, stream_k: int
    ) -> int:
        cluster = cluster_m * cluster_n
        tiles = blocks // cluster
        if not stream_k:
            return -(-tiles // tiles_of_block) * cluster
        return _workers(device.sms_of_clusters(cluster) // cluster * min_blocks, tiles, tiles_of_block) * cluster

    return Attribute("launched_blocks", each(blocks_of_launch), "blocks of the launch")


def persistent_rules(problem: Matmul, device: Device) -> tuple[Rule, ...]:
    """Rules without which a block cannot compute several tiles, or parts of them."""

    def why_not(
        tile_m: int, tile_n: int, min_blocks: int, cluster_m: int, cluster_n: int, tiles_of_block: int, stream_k: int
    ) -> str | None:
        if stream_k == 0:
            return None
        if tiles_of_block == 1:
            return "stream-K deals out the k of tiles to blocks that compute several, but each computes one"
        cluster = cluster_m * cluster_n
        tiles = problem.batch * -(-problem.m // tile_m) * -(-problem.n // tile_n) // cluster
        resident = device.sms_of_clusters(cluster) // cluster * min_blocks
        launched = _workers(resident, tiles, tiles_of_block)
        named = f"{launched} blocks" if cluster == 1 else f"{launched} clusters of {cluster} blocks"
        if tiles < launched or tiles % launched == 0:
            return f"{tiles} tiles for {named} leave no partial wave behind whole ones, whose k stream-K would deal out"
        if tiles > launched * tiles_of_block:
            return f"{tiles} tiles are more than {tiles_of_block} for each of the {named} that run at a time"
        return None

    return (
        Rule(
            "tiles_of_block",
            lambda tiles_of_block, split_k: np.equal(tiles_of_block, 1) | np.equal(split_k, 1),
            "a block computes {tiles_of_block} tiles one after another, and {split_k} blocks share the k of one: only "
            "one of the two is possible",
        ),
        Rule(
            "ping_pong",
            lambda ping_pong, consumers, tiles_of_block: (
                np.equal(ping_pong, 0) | (np.equal(consumers, 2) & (tiles_of_block > 1))
            ),
            "{consumers} consumers cannot take turns at {tiles_of_block} tiles of a block: that takes two of each",
        ),
        Rule.refusing("stream_k", why_not, "stream-K deals out the k of the last tiles"),
        Rule(
            "stream_k_tiles",
            lambda tile_k, stream_k: np.equal(stream_k, 0) | (tile_k < problem.k),
            f"stream-K deals out k-tiles, but k = {problem.k} is one of {{tile_k}}",
        ),
    )


def persistent_pruning(problem: Matmul, device: Device) -> tuple[Rule, ...]:
    """Blocks of several tiles are as many as run at a time: then none waits for another, and they all end together."""

    def why_not(
        tile_m: int, tile_n: int, min_blocks: int, cluster_m: int, cluster_n: int, tiles_of_block: int, stream_k: int
    ) -> str | None:
        if tiles_of_block == 1:
            return None
        cluster = cluster_m * cluster_n
        tiles = problem.batch * -(-problem.m // tile_m) * -(-problem.n // tile_n)
        resident = device.sms_of_clusters(cluster) * min_blocks
        needed = -(-tiles // resident)
        if tiles_of_block != TILES_OF_BLOCK[min(bisect_left(TILES_OF_BLOCK, needed), len(TILES_OF_BLOCK) - 1)]:
            return (
                f"a block computes {tiles_of_block} tiles, but {needed} from each of {resident} blocks, which run at a "
                f"time on {device.name}, are all {tiles}"
            )
        return too_little_idle(tiles, resident) if stream_k else None

    return (Rule.refusing("tiles_of_block_waves", why_not),)
