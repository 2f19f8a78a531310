"""Distances between requested and recorded problems, and between devices. An infinite distance: not interchangeable.

Two problems are interchangeable if they have the same operator and differ only in integer sizes: types, storage orders,
epilogues, kinds and all other texts must be equal. The distance of two such problems is the sum over the sizes of
|log2(requested / recorded)|: 1 per doubling. One kernel serves every value of a dynamic size, so dynamic sizes add
little: OTHER_DIVISOR if the divisor (16, 8, or none) differs, and DYNAMIC_DOUBLING per doubling. Devices are
interchangeable if code for them is compiled for the same architecture ("sm_90a"). The distance of different devices is
the sum of |log2| of the ratios of their SM counts and their DRAM bandwidths, and at least OTHER_DEVICE.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from search_spaces.hardware.devices import Device
from search_spaces.operators.problem import Problem, divisor_of

MAX_DOUBLINGS = 4.0  # largest distance, in doublings, at which a recorded schedule is useful
OTHER_DEVICE = 0.25
# distance per doubling of a dynamic size; even 31 doublings count less than a different divisor
DYNAMIC_DOUBLING = 2.0**-7
OTHER_DIVISOR = 0.25
UNKNOWN_DEVICE = 1.0  # distance if a device has no row


@dataclass(frozen=True)
class ProblemDistance:
    """Distance in ``doublings``, infinite if the problems are not interchangeable.

    ``differences`` has one text per differing field, with the requested and the recorded value.
    """

    doublings: float
    differences: tuple[str, ...]

    @property
    def usable(self) -> bool:
        """True if the problems are similar enough for a schedule of the recorded problem to be useful."""
        return self.doublings <= MAX_DOUBLINGS


def problem_distance(problem: Problem, recorded: Mapping[str, Any]) -> ProblemDistance:
    """Return the distance from the requested problem to a recorded problem, which is given as JSON."""
    wanted = problem.to_json()
    sizes = {f.name for f in dataclasses.fields(problem) if f.type in ("int", int)}
    total, differences = 0.0, []
    for name in sorted(wanted.keys() | recorded.keys()):
        ours, theirs = wanted.get(name), recorded.get(name)
        if ours == theirs:
            continue
        is_size = name in sizes and type(ours) is int and type(theirs) is int and min(ours, theirs) > 0
        if is_size and name in problem.dynamic_sizes:
            total += DYNAMIC_DOUBLING * abs(math.log2(ours) - math.log2(theirs))  # type: ignore[arg-type]
            total += OTHER_DIVISOR * (divisor_of(ours) != divisor_of(theirs))  # type: ignore[arg-type]
            continue
        differences.append(f"{name} {theirs} instead of {ours}")
        if is_size:
            total += abs(math.log2(ours) - math.log2(theirs))  # type: ignore[arg-type]
        elif not isinstance(ours, float) or not isinstance(theirs, (int, float)):
            total = math.inf  # ignore floats such as eps, which do not affect the schedule
    return ProblemDistance(total, tuple(differences))


def device_distance(device: Device, recorded: str, row: Device | None) -> ProblemDistance:
    """Return the distance from the requested device to the recorded device.

    Args:
        device: The requested device.
        recorded: Name of the recorded device.
        row: The recorded device; None if it is unknown.
    """
    if device.name == recorded:
        return ProblemDistance(0.0, ())
    difference = (f"device {recorded} instead of {device.name}",)
    if row is None:
        return ProblemDistance(UNKNOWN_DEVICE, difference)
    if row.arch != device.arch:
        return ProblemDistance(math.inf, difference)
    ratios = (device.sm_count / row.sm_count, device.dram_bandwidth / row.dram_bandwidth)
    return ProblemDistance(max(sum(abs(math.log2(r)) for r in ratios), OTHER_DEVICE), difference)
