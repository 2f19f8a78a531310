"""Number of persistent blocks that wgmma_matmul launches, and rules for clusters that compute several tiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from search_spaces.arrays import BoolArray, IntArray
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
    """Return the attribute ``launched_blocks``, the number of blocks of the launch.

    Without stream-K, the number is as small as ``tiles_per_block`` allows. With stream-K, the launch has as many
    blocks as the GPU can run at the same time, or fewer if there are few tiles.
    """

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
    """Return the rules that are necessary for blocks that compute several tiles, or parts of tiles."""

    def resident_clusters(cluster: int, min_blocks: int) -> int:
        return device.sms_of_clusters(cluster) // cluster * min_blocks

    def why_no_parts(cluster: int, tiles: int, resident: int, tiles_per_block: int, stream_k: int) -> str | None:
        return why_no_stream_k(tiles // cluster, resident, tiles_per_block, cluster) if stream_k else None

    return (
        Rule(
            "tiles_per_block",
            lambda tiles_per_block, split_k: np.equal(tiles_per_block, 1) | np.equal(split_k, 1),
            "a block computes {tiles_per_block} tiles one after another, and {split_k} blocks share the k range of one "
            "tile: use either tiles_per_block or split_k",
        ),
        Rule(
            "ping_pong",
            lambda ping_pong, consumer_warpgroups, tiles_per_block: (
                np.equal(ping_pong, 0) | (np.equal(consumer_warpgroups, 2) & (tiles_per_block > 1))
            ),
            "{consumer_warpgroups} consumers cannot alternate between {tiles_per_block} tiles of a block: "
            "ping_pong needs two consumers and several tiles per block",
        ),
        _rule_of_launch(
            "stream_k", problem, resident_clusters, why_no_parts, "stream-K distributes the k ranges of the last tiles"
        ),
        Rule(
            "stream_k_tiles",
            lambda tile_k, stream_k: np.equal(stream_k, 0) | (tile_k < problem.k),
            f"stream-K distributes k-tiles, but k = {problem.k} has only one k-tile of {{tile_k}}",
        ),
    )


def persistent_pruning(problem: Matmul, device: Device) -> tuple[Rule, ...]:
    """Return the rule that requires ``tiles_per_block`` to let all persistent blocks finish at about the same time."""

    def resident_blocks(cluster: int, min_blocks: int) -> int:
        return device.sms_of_clusters(cluster) * min_blocks

    def why_not(cluster: int, tiles: int, resident: int, tiles_per_block: int, stream_k: int) -> str | None:
        if tiles_per_block == 1:
            return None
        needed, of_block = tiles_that_end_together(tiles, resident)
        if tiles_per_block != of_block:
            return (
                f"a block computes {tiles_per_block} tiles, but {resident} blocks run at the same time on "
                f"{device.name}. They compute all {tiles} tiles if each computes {needed}"
            )
        return too_little_idle(tiles, resident) if stream_k else None

    return (_rule_of_launch("tiles_per_block_waves", problem, resident_blocks, why_not),)


def _rule_of_launch(
    name: str,
    problem: Matmul,
    resident_workers: Callable[[int, int], int],
    why_not: Callable[[int, int, int, int, int], str | None],
    doc: str = "",
) -> Rule:
    """Return the rule that rejects the launches for which ``why_not`` returns a reason.

    Many schedules have the same launch, so each distinct launch is checked once.

    Args:
        name: Name of the rule.
        problem: Problem that is computed.
        resident_workers: Function of (blocks of a cluster, blocks per SM): returns the number of workers that run at
            the same time.
        why_not: Function of (blocks of a cluster, tiles, resident workers, tiles_per_block, stream_k).
        doc: Purpose of the rule.
    """

    def tiles_of(tile_m: Any, tile_n: Any) -> Any:  # values of one launch (integers), or of many launches (arrays)
        return problem.batch * -(-problem.m // tile_m) * -(-problem.n // tile_n)

    def reason(
        tile_m: int, tile_n: int, min_blocks: int, cluster_m: int, cluster_n: int, tiles_per_block: int, stream_k: int
    ) -> str | None:
        cluster = cluster_m * cluster_n
        resident = resident_workers(cluster, min_blocks)
        return why_not(cluster, tiles_of(tile_m, tile_n), resident, tiles_per_block, stream_k)

    resident_of_each = each(resident_workers)
    allowed = each(lambda *launch: why_not(*launch) is None)

    def allows(
        tile_m: IntArray,
        tile_n: IntArray,
        min_blocks: IntArray,
        cluster_m: IntArray,
        cluster_n: IntArray,
        tiles_per_block: IntArray,
        stream_k: IntArray,
    ) -> BoolArray:
        cluster = cluster_m * cluster_n
        resident = resident_of_each(cluster, min_blocks)
        mask: BoolArray = allowed(cluster, tiles_of(tile_m, tile_n), resident, tiles_per_block, stream_k)
        return mask

    return Rule(name, allows, reason, doc)
