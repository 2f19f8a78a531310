"""Cost counts (``CostCounts``) of n launches, as one array per count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from search_spaces.arrays import BoolArray, FloatArray, IntArray
from search_spaces.hardware.costs.cost_counts import CostCounts
from search_spaces.hardware.units import unit

_WHOLE = ("blocks", "threads", "shared_bytes", "registers", "iterations", "stages", "cluster")
_REAL = (
    *("flops", "instructions", "shared_wavefronts", "load_bytes", "store_bytes", "dram_bytes", "multicast_bytes"),
    *("barriers_per_iteration", "special", "launches", "alone_bytes", "run_bytes"),
    *(
        "drains",
        "drain_instructions",
        "restarts",
        "boxed",
        "boxes",
        "box_buffers",
        "round_trips",
        "longest",
        "exposed_products",
        "alone_trips",
    ),
    "copying_cycles",
    "staged_bytes",
)
_AT_LEAST_ONE = (
    "blocks",
    "threads",
    "iterations",
    "stages",
    "cluster",
    "launches",
    "run_bytes",
    "boxes",
    "box_buffers",
    "longest",
)


@dataclass(frozen=True)
class CostColumns:
    """Fields of n ``CostCounts``, each as an array [n]. ``asynchronous`` is True if the unit is asynchronous."""

    blocks: IntArray
    threads: IntArray
    shared_bytes: IntArray
    registers: IntArray
    iterations: IntArray
    stages: IntArray
    cluster: IntArray
    flops: FloatArray
    instructions: FloatArray
    shared_wavefronts: FloatArray
    load_bytes: FloatArray
    store_bytes: FloatArray
    dram_bytes: FloatArray
    multicast_bytes: FloatArray
    barriers_per_iteration: FloatArray
    special: FloatArray
    launches: FloatArray
    alone_bytes: FloatArray
    run_bytes: FloatArray
    drains: FloatArray
    drain_instructions: FloatArray
    restarts: FloatArray
    boxed: FloatArray
    boxes: FloatArray
    box_buffers: FloatArray
    round_trips: FloatArray
    alone_trips: FloatArray
    copying_cycles: FloatArray
    staged_bytes: FloatArray
    longest: FloatArray
    exposed_products: FloatArray
    refills: BoolArray
    loads_last: BoolArray
    chained: BoolArray
    ping_pong: BoolArray
    asynchronous: BoolArray

    @classmethod
    def of(cls, works: Sequence[CostCounts]) -> Self:
        """Convert a sequence of counts to columns.

        Raises:
            ValueError: A count is negative, NaN, infinite or below its minimum.
        """
        numbers = {
            name: np.array([getattr(work, name) for work in works], dtype=np.float64) for name in (*_WHOLE, *_REAL)
        }
        if not all((np.isfinite(column) & (column >= 0)).all() for column in numbers.values()):
            raise ValueError("invalid CostCounts: every count must be finite and not negative")
        if any((numbers[name] < 1).any() for name in _AT_LEAST_ONE):
            raise ValueError(
                "invalid CostCounts: the numbers of blocks, threads, iterations, stages, blocks per cluster, "
                "launches, bytes per run, boxes and buffers must be at least 1"
            )
        columns: dict[str, Any] = numbers | {name: numbers[name].astype(np.int64) for name in _WHOLE}
        return cls(
            **columns,
            refills=np.array([work.refills for work in works], dtype=np.bool_),
            chained=np.array([work.chained for work in works], dtype=np.bool_),
            ping_pong=np.array([work.ping_pong for work in works], dtype=np.bool_),
            loads_last=np.array([work.loads_last for work in works], dtype=np.bool_),
            asynchronous=np.array([unit(work.unit).asynchronous for work in works], dtype=np.bool_),
        )
