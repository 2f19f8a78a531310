"""Procedure of a timed check: time rounds until each entry has a verdict, and confirm slowdowns in a second process.

The procedure does not depend on the source of times: it also runs with a simulated GPU and with recorded noise.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from autosched.regression.slowdown import (
    SlowdownLimits,
    TimeComparison,
    Times,
    compare,
    discoveries,
    moved_between,
    one_sided,
)
from measurements.trials.timing_statistics import SpeedChange

Measure = Callable[[int], Times]  # function that times a number of rounds of an entry in the current process


@dataclass(frozen=True)
class ComparisonEffort:
    """Number of rounds of a comparison.

    Each step has ``rounds`` rounds. Steps are repeated until the entry is decided, or until ``most_rounds`` rounds or
    ``seconds`` seconds are reached.
    """

    rounds: int = 40
    most_rounds: int = 320
    seconds: float = 10.0

    def __post_init__(self) -> None:
        if not 8 <= self.rounds <= self.most_rounds:
            raise ValueError(
                f"invalid rounds {self.rounds} or most_rounds {self.most_rounds}: use 8 <= rounds <= most_rounds, "
                "because fewer than 8 pairs are not significant"
            )
        if not self.seconds > 0:
            raise ValueError(f"invalid seconds per entry {self.seconds}: use more than 0")


@dataclass(frozen=True)
class ComparisonOutcome:
    """Verdict on one entry, with its reason. ``again`` is the comparison in the second process, if there was one."""

    verdict: SpeedChange
    reason: str
    comparison: TimeComparison
    again: TimeComparison | None = None


def until_decided(
    measure: Measure, limits: SlowdownLimits, noise: float = 0.0, effort: ComparisonEffort | None = None
) -> TimeComparison:
    """Time rounds of one entry until further rounds cannot change the verdict, or a limit is reached.

    Args:
        measure: Function that times further rounds.
        limits: Allowed slowdown.
        noise: Relative difference between two runs of the same kernel on this machine. Smaller slowdowns are not
            reported.
        effort: Number of rounds per step, and limits of rounds and seconds; None for the default.

    Returns:
        The comparison of all rounds.
    """
    effort = effort or ComparisonEffort()
    began, times = time.monotonic(), Times((), (), ())
    while True:
        times += measure(effort.rounds)
        comparisons = compare(times, limits, noise)
        full = comparisons.rounds + effort.rounds > effort.most_rounds
        if comparisons.decided or full or time.monotonic() - began >= effort.seconds:
            return comparisons


def flagged(comparisons: Mapping[int, TimeComparison]) -> list[int]:
    """Return the entries to time again in a second process.

    These entries are significantly slower, and their times are reliable. ``comparisons`` has the comparisons of all
    entries.
    """
    positions = list(comparisons)
    discovered = dict(zip(positions, discoveries([comparisons[i].p for i in positions]), strict=True))
    return [
        i
        for i in positions
        if comparisons[i].verdict is SpeedChange.SLOWER and discovered[i] and not comparisons[i].moved
    ]


def judged(
    comparisons: Mapping[int, TimeComparison],
    repeated: Mapping[int, TimeComparison],
    limits: Mapping[int, SlowdownLimits],
) -> tuple[dict[int, ComparisonOutcome], str]:
    """Return the verdict on every entry, and the reason if the whole run is unreliable ("" if it is reliable).

    ``repeated`` contains the comparisons of ``flagged`` entries in a second process.
    """
    suspects = set(flagged(comparisons))
    outcome = {
        i: _confirmed(first, repeated[i], limits[i])
        if i in suspects and i in repeated
        else _alone(first, i in suspects)
        for i, first in comparisons.items()
    }
    if not one_sided([j.verdict for j in outcome.values()]):
        return outcome, ""
    slower = [i for i, j in outcome.items() if j.verdict is SpeedChange.SLOWER]
    faster = sum(j.verdict is SpeedChange.FASTER for j in outcome.values())
    doubt = (
        f"{max(len(slower), faster)} of {len(outcome)} entries changed in the same direction and none in the opposite "
        "direction, which suggests a cause outside of the kernels"
    )
    for i in slower:
        outcome[i] = replace(outcome[i], verdict=SpeedChange.UNCERTAIN, reason=doubt)
    return outcome, doubt


def _alone(first: TimeComparison, suspect: bool) -> ComparisonOutcome:
    """Return the verdict on an entry that was not timed in a second process."""
    if first.moved:
        return ComparisonOutcome(SpeedChange.UNCERTAIN, first.moved, first)
    if first.verdict is SpeedChange.UNCERTAIN:
        return ComparisonOutcome(first.verdict, f"undecided after {first.rounds} rounds, because of noise", first)
    if first.verdict is not SpeedChange.SLOWER:
        return ComparisonOutcome(first.verdict, "", first)
    if suspect:
        return ComparisonOutcome(
            SpeedChange.UNCERTAIN, "slower in one process, and a second process could not run", first
        )
    return ComparisonOutcome(
        SpeedChange.UNCERTAIN, f"slower, but among so many entries this may be chance (p = {first.p:.2g})", first
    )


def _confirmed(first: TimeComparison, second: TimeComparison, limits: SlowdownLimits) -> ComparisonOutcome:
    moved = second.moved or moved_between(first, second, limits)
    if moved:
        return ComparisonOutcome(SpeedChange.UNCERTAIN, moved, first, second)
    if second.verdict is SpeedChange.SLOWER:
        return ComparisonOutcome(SpeedChange.SLOWER, "confirmed in a second process", first, second)
    return ComparisonOutcome(second.verdict, "slower in one process, but not in a second process", first, second)
