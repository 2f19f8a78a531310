"""How far a recorded problem and device are from those asked for; nothing between what must not be exchanged.

Two problems can stand in for each other if they are of one operator and differ in whole-number sizes only: types,
storage orders, epilogues, kinds and every other text must be equal. Their distance is the sum over the sizes of
|log2(asked / recorded)|: 1 for each doubling. Of a dynamic size one kernel serves every value, so that it is no
difference: its doublings only decide which trial is nearest, after what divides it (16, 8, or nothing). A device can
stand in for another of the same family, which is the architecture that code is compiled for ("sm_90a"); that adds
|log2| of the ratios of SM counts and of DRAM bandwidths, and OTHER_DEVICE at least.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from search_spaces.hardware.devices import Device
from search_spaces.operators.problem import Problem, divisor_of

MAX_DOUBLINGS = 4.0  # doublings, in all: beyond it, a schedule says nothing
OTHER_DEVICE = 0.25
DYNAMIC_DOUBLING = 2.0**-7  # 31 of them count less than another divisor
OTHER_DIVISOR = 0.25
UNKNOWN_DEVICE = 1.0  # of the same family, but of no known row


@dataclass(frozen=True)
class ProblemDistance:
    """``differences`` say, field by field, what was asked for and what is recorded. ``doublings`` is infinite where
    the one cannot stand in for the other."""

    doublings: float
    differences: tuple[str, ...]

    @property
    def usable(self) -> bool:
        return self.doublings <= MAX_DOUBLINGS


def problem_distance(asked: Problem, recorded: Mapping[str, Any]) -> ProblemDistance:
    """From the problem asked for to a recorded one, given as its JSON."""
    wanted = asked.to_json()
    sizes = {f.name for f in dataclasses.fields(asked) if f.type in ("int", int)}
    total, differences = 0.0, []
    for name in sorted(wanted.keys() | recorded.keys()):
        ours, theirs = wanted.get(name), recorded.get(name)
        if ours == theirs:
            continue
        is_size = name in sizes and type(ours) is int and type(theirs) is int and min(ours, theirs) > 0
        if is_size and name in asked.dynamic_sizes:
            total += DYNAMIC_DOUBLING * abs(math.log2(ours) - math.log2(theirs))  # type: ignore[arg-type]
            total += OTHER_DIVISOR * (divisor_of(ours) != divisor_of(theirs))  # type: ignore[arg-type]
            continue
        differences.append(f"{name} is {ours}, recorded {theirs}")
        if is_size:
            total += abs(math.log2(ours) - math.log2(theirs))  # type: ignore[arg-type]
        elif not isinstance(ours, float) or not isinstance(
            theirs, (int, float)
        ):  # an eps does not concern the schedule
            total = math.inf
    return ProblemDistance(total, tuple(differences))


def device_distance(asked: Device, recorded: str, row: Device | None) -> ProblemDistance:
    """From ``asked`` to the device called ``recorded``, of which ``row`` is known, or None."""
    if asked.name == recorded:
        return ProblemDistance(0.0, ())
    difference = (f"device is {asked.name}, recorded {recorded}",)
    if row is None:
        return ProblemDistance(UNKNOWN_DEVICE, difference)
    if row.arch != asked.arch:
        return ProblemDistance(math.inf, difference)
    ratios = (asked.sm_count / row.sm_count, asked.dram_bandwidth / row.dram_bandwidth)
    return ProblemDistance(max(sum(abs(math.log2(r)) for r in ratios), OTHER_DEVICE), difference)
