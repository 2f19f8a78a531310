"""What one copy schedule asks of the machine: counts, none of them a time."""

from __future__ import annotations

from search_spaces.hardware.cost_counts import CostCounts
from search_spaces.hardware.devices import Device
from search_spaces.operators.copy import Copy
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.copy.space import space


def counts(problem: Copy, schedule: Schedule, device: Device) -> CostCounts:
    """The cost counts of a schedule that keeps the laws of ``problem``. Its step is a round."""
    facts = space(problem, device).describe(schedule)  # which attributes there are does not depend on the rules
    rounds, through_shared = schedule.integer("rounds"), facts["shared_bytes"] > 0
    moved = float(min(facts["round_bytes"] * rounds, problem.bytes))
    vectors = moved / schedule.integer("vector_bytes") / device.warp_size
    return CostCounts(
        blocks=facts["blocks"],
        threads=schedule.integer("threads"),
        shared_bytes=facts["shared_bytes"],
        registers=facts["registers"],
        unit="fma",
        operand_dtype="f32",
        flops=0.0,
        instructions=(6.0 if through_shared else 4.0) * vectors + 8.0 * rounds * schedule.integer("threads") / 32,
        shared_wavefronts=2.0 * moved / device.shared_bytes_per_cycle if through_shared else 0.0,
        load_bytes=moved,
        store_bytes=moved,
        dram_bytes=float(problem.min_bytes),
        iterations=rounds,
        stages=schedule.integer("stages"),
        barriers_per_iteration=0,
    )
