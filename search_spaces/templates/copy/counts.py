"""Cost counts of a copy schedule."""

from __future__ import annotations

from search_spaces.hardware.costs.cost_counts import CostCounts
from search_spaces.hardware.devices import Device
from search_spaces.operators.copy import Copy
from search_spaces.spaces.config import Config


def counts(problem: Copy, config: Config, device: Device) -> CostCounts:
    """Return the cost counts of a valid config. Each round counts as one iteration of the main loop."""
    rounds, through_shared = config.integer("rounds"), config.integer("shared_bytes") > 0
    moved = float(min(config.integer("round_bytes") * rounds, problem.bytes))
    vectors = moved / config.integer("vector_x") / device.warp_size
    return CostCounts(
        blocks=config.integer("blocks"),
        threads=config.integer("threads"),
        shared_bytes=config.integer("shared_bytes"),
        registers=config.integer("registers"),
        unit="fma",
        operand_dtype="f32",
        flops=0.0,
        instructions=(6.0 if through_shared else 4.0) * vectors + 8.0 * rounds * config.integer("threads") / 32,
        shared_wavefronts=2.0 * moved / device.shared_bytes_per_cycle if through_shared else 0.0,
        load_bytes=moved,
        store_bytes=moved,
        dram_bytes=float(problem.min_bytes),
        iterations=rounds,
        stages=config.integer("stages"),
        barriers_per_iteration=0,
    )
