"""Result of one run of a verification: an emulated launch with its findings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from measurements.emulator import Emulation, Order
from search_spaces.arrays import Array
from search_spaces.operators.problem import Problem
from search_spaces.short_repr import short_repr

Depth = Literal["quick", "full"]
FAILED_LAUNCH = "device_limit"  # status of a launch that exceeds the device's limits


@dataclass(frozen=True)
class Run:
    """One emulated launch of a verification.

    Attributes:
        problem: Problem that the launch computes, or None.
        cases: Names of the input cases, such as random or edge cases.
        seed: Seed of its inputs.
        order: Order of blocks and threads.
        blocks: Number of blocks that ran; None for all.
        status: "ok", "wrong_result", "device_limit", or the status of the emulation.
        reason: Reason of a failure, in one line.
        worst: Largest ratio of an error to its tolerance; None if nothing was compared.
        max_abs_error: Largest absolute error on random inputs; None for other inputs.
        emulation: The emulation, usually without its arrays.
        perturbed: True if approximate instructions had the largest error that the PTX ISA allows.
        name: Name of the run in the plan.
        left_out: Description of elements that were not compared.
        outputs: Output arrays, kept only if later runs are compared with them bit by bit.
        launches: Number of back-to-back launches.
    """

    problem: Problem | None
    cases: tuple[str, ...]
    seed: int
    order: Order
    blocks: int | None
    status: str
    reason: str
    worst: float | None
    max_abs_error: float | None
    emulation: Emulation
    perturbed: bool = False
    name: str = ""
    left_out: str = ""
    outputs: Mapping[str, Array] = field(default_factory=dict, repr=False, compare=False)
    launches: int = 1

    __repr__ = short_repr
