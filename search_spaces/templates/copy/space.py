"""Parameters, attributes and rules of the space of copy schedules.

The kernel is ``autosched/kernels/copy.cuh``; its ``static_assert``s carry the names of the rules here. Adjacent threads
copy adjacent vectors, because only this mapping accesses whole sectors. A *round* is ``unroll`` vectors per thread.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from search_spaces.hardware.devices import Device
from search_spaces.operators.copy import Copy
from search_spaces.spaces.columns import ceil_div
from search_spaces.spaces.parameters import Parameter, categorical, ordinal
from search_spaces.spaces.rules import Attribute, Rule
from search_spaces.spaces.space import Space
from search_spaces.templates.common.cache_hints import load_hint, no_hint_rule, store_hint
from search_spaces.templates.common.device_choices import offered
from search_spaces.templates.common.launch_rules import device_rules, grid_rule

REGISTER_OVERHEAD = 16  # registers for addresses and counters; compiled kernels have at least this number
MOST_BLOCK_BYTES = 2**18


@lru_cache(maxsize=64)
def space(problem: Copy, device: Device) -> Space:
    """Return all schedules of ``problem`` on ``device``."""
    return Space(
        "copy", offered(parameters(), device), attributes(problem), validity_constraints(device), pruning_rules(device)
    )


def parameters() -> tuple[Parameter, ...]:
    """Return the parameters with all their values, before rules exclude combinations."""
    return (
        ordinal("threads", (64, 128, 256, 512, 1024), "threads of a block", 256),
        ordinal("vector_x", (4, 8, 16), "bytes that a thread moves at a time", 16),
        ordinal("unroll", (1, 2, 4, 8, 16), "vectors that a thread loads before it stores them"),
        ordinal("rounds", (1, 2, 4, 8, 16, 32), "rounds of a block"),
        categorical(
            "order",
            ("block", "grid"),
            "block: the rounds of a block are adjacent in memory; grid: between two successive rounds of a block, "
            "there is one round of each of the other blocks",
        ),
        categorical("copy_x", ("ld.global", "cp.async"), "through registers or through shared memory"),
        ordinal("stages", (1, 2, 3, 4), "number of rounds that shared memory holds at the same time"),
        load_hint("cache_hint_x", "x"),
        store_hint("cache_hint_out", "out"),
        ordinal("min_blocks", (1, 2, 3, 4), "blocks per SM for which the compiler limits registers"),
    )


def attributes(problem: Copy) -> tuple[Attribute, ...]:
    """Return the attributes, for use in rules, code generation and cost models."""
    return (
        Attribute("round_bytes", lambda threads, vector_x, unroll: threads * vector_x * unroll, "bytes of a round"),
        Attribute(
            "blocks",
            lambda threads, vector_x, unroll, rounds: np.maximum(
                ceil_div(problem.bytes // vector_x, threads * unroll * rounds), 1
            ),
            "blocks of the launch",
        ),
        Attribute(
            "staged",
            lambda vector_x, unroll: vector_x * unroll // 4,
            "registers of a thread that hold elements",
        ),
        Attribute("registers", lambda staged: staged + REGISTER_OVERHEAD, "lower bound of the registers of a thread"),
        Attribute(
            "shared_bytes",
            lambda round_bytes, stages, copy_x: round_bytes * stages * (copy_x == "cp.async"),
            "dynamic shared memory of a block, in bytes",
        ),
    )


def validity_constraints(device: Device) -> tuple[Rule, ...]:
    """Return the rules that are necessary for the kernel to compile, launch and compute a problem."""
    return (
        Rule(
            "stages",
            lambda copy_x, stages: (stages == 1) | (copy_x == "cp.async"),
            "{stages} stages need cp.async: with {copy_x}, no round is in flight",
        ),
        grid_rule(),
        *device_rules(device),
    )


def pruning_rules(device: Device) -> tuple[Rule, ...]:
    """Return the rules that exclude a schedule if a simpler schedule is at least as fast."""
    return (
        Rule(
            "block_bytes",
            lambda round_bytes, rounds: round_bytes * rounds <= MOST_BLOCK_BYTES,
            f"{{rounds}} rounds of {{round_bytes}} bytes are more than the {MOST_BLOCK_BYTES} bytes that a block "
            "should copy",
        ),
        Rule(
            "rounds",
            lambda rounds, blocks: (rounds == 1) | (blocks >= device.sm_count),
            f"{{rounds}} rounds in a block leave some of the {device.sm_count} SMs without a block",
        ),
        Rule(
            "order",
            lambda rounds, order: (rounds > 1) | (order == "block"),
            "order has no effect on a block of one round: use order = block",
        ),
        Rule(
            "stages_filled",
            lambda stages, rounds: stages <= rounds,
            "{stages} stages are more than the {rounds} rounds of a block",
        ),
        no_hint_rule("cache_hint_x", "copy_x", "cp.async"),
    )
