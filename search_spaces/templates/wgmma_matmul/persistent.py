"""Persistent blocks of wgmma_matmul: ``templates.common.persistent`` for its clusters."""

from __future__ import annotations

import numpy as np

from search_spaces.hardware.devices import Device
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.each import each
from search_spaces.spaces.rules import Attribute, Rule
from search_spaces.templates.common.persistent import (
    tiles_that_end_together,
    why_no_stream_k,
    workers_of_launch,
)
from search_spaces.templates.common.stream_k import too_little_idle


def launched_blocks(device: Device) -> Attribute:
    """Return the blocks to launch: the fewest for ``tiles_per_block`` each, or all resident ones with stream-K."""

    def blocks_of_launch(
        blocks: int, tiles_per_block: int, cluster_m: int, cluster_n: int, min_blocks: int, stream_k: int
    ) -> int:
        cluster = cluster_m * cluster_n
        tiles = blocks // cluster
        if not stream_k:
            return -(-tiles // tiles_per_block) * cluster
        resident = device.sms_of_clusters(cluster) // cluster * min_blocks
        return workers_of_launch(resident, tiles, tiles_per_block) * cluster

    return Attribute("launched_blocks", each(blocks_of_launch), "blocks of the launch")


def persistent_rules(problem: Matmul, device: Device) -> tuple[Rule, ...]:
    """Return the rules without which a block cannot compute several tiles, or parts of them."""

    def why_not(
        tile_m: int, tile_n: int, min_blocks: int, cluster_m: int, cluster_n: int, tiles_per_block: int, stream_k: int
    ) -> str | None:
        if stream_k == 0:
            return None
        cluster = cluster_m * cluster_n
        tiles = problem.batch * -(-problem.m // tile_m) * -(-problem.n // tile_n) // cluster
        resident = device.sms_of_clusters(cluster) // cluster * min_blocks
        return why_no_stream_k(tiles, resident, tiles_per_block, cluster)

    return (
        Rule(
            "tiles_per_block",
            lambda tiles_per_block, split_k: np.equal(tiles_per_block, 1) | np.equal(split_k, 1),
            "a block computes {tiles_per_block} tiles one after another, and {split_k} blocks share the k of one: only "
            "one of the two is possible",
        ),
        Rule(
            "ping_pong",
            lambda ping_pong, consumer_warpgroups, tiles_per_block: (
                np.equal(ping_pong, 0) | (np.equal(consumer_warpgroups, 2) & (tiles_per_block > 1))
            ),
            "{consumer_warpgroups} consumers cannot alternate between {tiles_per_block} tiles of a block: "
            "that takes two of each",
        ),
        Rule.refusing("stream_k", why_not, "stream-K distributes the k of the last tiles"),
        Rule(
            "stream_k_tiles",
            lambda tile_k, stream_k: np.equal(stream_k, 0) | (tile_k < problem.k),
            f"stream-K distributes k-tiles, but k = {problem.k} is one of {{tile_k}}",
        ),
    )


def persistent_pruning(problem: Matmul, device: Device) -> tuple[Rule, ...]:
    """Return the rule that exactly the resident number of persistent blocks is launched, so that all end together."""

    def why_not(
        tile_m: int, tile_n: int, min_blocks: int, cluster_m: int, cluster_n: int, tiles_per_block: int, stream_k: int
    ) -> str | None:
        if tiles_per_block == 1:
            return None
        cluster = cluster_m * cluster_n
        tiles = problem.batch * -(-problem.m // tile_m) * -(-problem.n // tile_n)
        resident = device.sms_of_clusters(cluster) * min_blocks
        needed, of_block = tiles_that_end_together(tiles, resident)
        if tiles_per_block != of_block:
            return (
                f"a block computes {tiles_per_block} tiles, but {needed} from each of {resident} blocks, which run at "
                f"a time on {device.name}, are all {tiles}"
            )
        return too_little_idle(tiles, resident) if stream_k else None

    return (Rule.refusing("tiles_per_block_waves", why_not),)
