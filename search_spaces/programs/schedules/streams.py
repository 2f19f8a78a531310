"""The decision on stream-K: the k ranges of the last tiles are divided among all blocks, which then finish together.

The number of launched blocks is the number of resident blocks. Each block first computes whole tiles. The iterations of
the last whole wave and of the partial wave after it are then divided equally among the blocks, as in the hand-written
matmul (``autosched/common/stream_k.cuh``).
"""

from __future__ import annotations

import numpy as np

from search_spaces.arrays import BoolArray, IntArray
from search_spaces.hardware.devices import Device
from search_spaces.programs.planning.choices import Choices
from search_spaces.programs.planning.instructions import is_boxed
from search_spaces.programs.planning.memory import EARLY_COPIES
from search_spaces.programs.planning.splits import splittable
from search_spaces.spaces.parameters import Parameter, ordinal
from search_spaces.spaces.rules import Attribute, Rule
from search_spaces.templates.common.stream_k import too_little_idle, why_no_partial_wave
from search_spaces.templates.matmul.stream_k import ACCUMULATING, launched_blocks, workers

MOST_BLOCKS = 4  # largest value of the parameter min_blocks


def is_splittable(choices: Choices) -> bool:
    """Return True if the search may split the iterations of the only loop among blocks."""
    return all(splittable(i) is not None for i in choices.inferences.values())


def stream_k(choices: Choices) -> tuple[Parameter, ...]:
    """Return the decision on stream-K; none if the program's loop cannot be split."""
    if not is_splittable(choices):
        return ()
    doc = "whether the iterations of the last tiles are divided among all blocks, which then finish together"
    # The number of divided tiles is a constant of the kernel, so stream-K does not support dynamic sizes.
    return (ordinal("stream_k", (0,) if choices.first.trace.is_dynamic else (0, 1), doc, before=0),)


def stream_attributes(choices: Choices, device: Device) -> tuple[Attribute, ...]:
    """Return the attributes for stream-K."""
    return (launched_blocks(device),) if is_splittable(choices) else ()


def early_copies(stage_bytes: str) -> Attribute:
    """Return the attribute that is 1 if copies for a block's next tile start before the current results are stored.

    Only stream-K starts them early. They need no additional shared memory: exchanges use the last stage, which these
    copies do not fill.
    """
    return Attribute(
        EARLY_COPIES,
        lambda stream_k, stages, exchanged, stage: ((stream_k > 0) & (stages > 1) & (exchanged <= stage)).astype(
            np.int64
        ),
        "1 if copies for the first iterations of a block's next tile start before the current results are stored",
        names={"stream_k": "stream_k", "stages": "stages", "exchanged": "scratch_outside", "stage": stage_bytes},
    )


def stream_rules(choices: Choices, device: Device) -> tuple[Rule, ...]:
    """Return the validity rules of stream-K."""
    if not is_splittable(choices):
        return ()

    def why_not(blocks: int, min_blocks: int, stream_k: int) -> str | None:
        if stream_k == 0:
            return None
        return why_no_partial_wave(blocks, int(workers(device.sm_count * min_blocks, blocks)))

    def by_boxes(intrinsic: str, stream_k: int) -> str | None:
        if stream_k == 0 or not is_boxed(intrinsic):
            return None
        return f"the ring of {intrinsic} supports only one tile per block, but stream-K has several"

    def one_sharing(split_k: IntArray, stream_k: IntArray) -> BoolArray:
        answer: BoolArray = (stream_k == 0) | (split_k == 1)
        return answer

    return (
        Rule(
            "stream_k_split",
            one_sharing,
            "split_k {split_k} and stream-K both divide k: use only one of them",
        ),
        Rule.refusing("stream_k_waves", why_not, "stream-K has tiles to divide"),
        Rule(
            "stream_k_iterations",
            lambda iterations, stream_k: (stream_k == 0) | (iterations > 1),
            "stream-K cannot divide a loop with {iterations} iteration",
            names={"iterations": "turns"},
        ),
        Rule.refusing("stream_k_way", by_boxes, "stream-K needs an instruction that reads fragments"),
    )


def stream_pruning(choices: Choices, device: Device) -> tuple[Rule, ...]:
    """Return pruning rules that require, for stream-K, more than one wave of tiles and as many blocks as fit on an SM.

    Stream-K launches ``min_blocks`` blocks per SM.
    """
    if not is_splittable(choices):
        return ()

    def too_little(blocks: int, min_blocks: int, stream_k: int) -> str | None:
        if stream_k == 0:
            return None
        resident = device.sm_count * min_blocks
        if blocks <= resident:
            return f"{blocks} tiles are fewer than the {resident} blocks that run at a time: use split_k instead"
        return too_little_idle(blocks, resident)

    rules = [Rule.refusing("stream_k_idle", too_little, "stream-K saves more than it costs")]
    if len(choices.first.products) == 1:
        rules.append(_resident_rule(choices, device))
    return tuple(rules)


def _resident_rule(choices: Choices, device: Device) -> Rule:
    room, element = device.registers_per_sm // ACCUMULATING, choices.element
    assert element is not None
    lefts, rights = choices.first.operand_counts[0]
    sums = sum(1 for _ in choices.first.states)

    def too_few(tile_m: int, tile_n: int, tile_k: int, stages: int, min_blocks: int, stream_k: int) -> str | None:
        staged = stages * (lefts * tile_m + rights * tile_n) * tile_k * element.bytes
        fit = min(room // (sums * tile_m * tile_n), device.shared_per_sm // staged, MOST_BLOCKS)
        if stream_k == 0 or min_blocks >= fit:
            return None
        return (
            f"stream-K launches {min_blocks} blocks per SM, but there is room for {fit} (with "
            f"{tile_m}x{tile_n}x{tile_k} tiles and {stages} stages): more resident blocks hide latency, which saves "
            "more time than an equal division of k"
        )

    return Rule.refusing(
        "stream_k_resident", too_few, "stream-K has as many blocks per SM as a schedule of whole tiles"
    )
