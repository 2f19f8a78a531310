"""Paired timing of a kernel (the challenger) and the fastest kernel so far (the incumbent).

A search needs the ratio of a candidate's time to the incumbent's time. The ratio of two consecutive times is not
affected by slow changes of the clock. The two kernels are launched in the order A B B A, which cancels a steady rise or
fall of the clock. A candidate that is much slower in its first three launches is not timed further.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass

from measurements.runners.cuda.launch_timer import LaunchTimer, Work

_FIRST_LAUNCHES = 3
# Duration of consecutive launches of one kernel, much longer than the resolution of events (0.5 us).
_GROUP_SECONDS = 0.3e-3
# Maximum consecutive launches of one kernel. A held stream has space for about 1000 launches, and each launch of a
# pipeline runs several kernels.
_MOST_IN_GROUP = 50
# Duration of a launch in seconds. Shorter launches run faster than the host queues them, so the stream is held while
# they are queued.
_HELD_BELOW = 20e-6
_LEAD_SECONDS = 0.5e-3  # duration of launches that keep the GPU busy while the first timed launches are queued
_MOST_IN_LEAD = 50
_EVENT_SECONDS = 0.5e-6  # resolution of CUDA events in seconds


@dataclass(frozen=True)
class RaceRule:
    """Rule that decides when a paired comparison (race) of challenger and incumbent ends.

    Attributes:
        out_factor: A challenger that is slower than the incumbent by more than this factor is launched only three
            times.
        seconds: Wall time after which no further round begins.
        min_rounds: Rounds (A B B A) that are always timed.
        max_rounds: Rounds after which a race ends.
        lost_factor: After ``min_rounds``, a challenger is not timed further if all its ratios exceed this factor.

    Raises:
        ValueError: A factor is below 1, or there are no rounds.
    """

    out_factor: float = 1.15
    seconds: float = 0.015
    min_rounds: int = 2
    max_rounds: int = 12
    lost_factor: float = 1.02

    def __post_init__(self) -> None:
        if not (self.out_factor >= 1 and 1 <= self.min_rounds <= self.max_rounds and self.seconds >= 0):
            raise ValueError(
                "a race needs out_factor >= 1, seconds >= 0 and 1 <= min_rounds <= max_rounds, got "
                f"{self.out_factor}, {self.seconds}, {self.min_rounds} and {self.max_rounds}"
            )


@dataclass(frozen=True)
class Raced:
    """Result of a race: ratios of the challenger's to the incumbent's time, one per pair of consecutive times.

    ``out`` is true if the challenger was rejected after its first three launches.
    """

    ratios: tuple[float, ...]
    out: bool


def race(
    timer: LaunchTimer,
    incumbent: Callable[[int], None],
    challenger: Callable[[int], None],
    incumbent_seconds: float,
    copies: int,
    limit: float,
    rule: RaceRule,
) -> Raced | None:
    """Time a challenger in pairs with the incumbent.

    Args:
        timer: Timer of the stream of both kernels.
        incumbent: Queues the fastest kernel so far on copy i of the operands.
        challenger: Queues the candidate.
        incumbent_seconds: Approximate time of the incumbent in seconds.
        copies: Number of copies of the operands. Launches of both kernels use the copies in one rotation, so that no
            launch finds its operands in the L2 cache.
        limit: Time limit of a launch, in seconds.
        rule: Rule that decides when the race ends.

    Returns:
        The ratios; None if the times are invalid because short launches waited for the host.

    Raises:
        LaunchTimeout: A launch takes longer than ``limit``. Errors of CUDA are raised unchanged.
    """
    began = timer.host.perf_counter()
    next_copy = _rotation(copies)
    kernels = (lambda: incumbent(next_copy()), lambda: challenger(next_copy()))
    short = incumbent_seconds < _HELD_BELOW
    lead = _repeated(kernels[0], min(math.ceil(_LEAD_SECONDS / incumbent_seconds), _MOST_IN_LEAD))
    first = timer.timed(8 * limit, [*kernels] * _FIRST_LAUNCHES, lead, held=short)
    if timer.with_host:
        return None
    ratios = tuple(second / one for one, second in zip(first[0::2], first[1::2], strict=True))
    if statistics.median(ratios) > rule.out_factor + 2 * _EVENT_SECONDS / min(first[0::2]):
        return Raced(ratios, out=True)

    single = max(min(first), 1e-6)
    count = min(math.ceil(_GROUP_SECONDS / single), _MOST_IN_GROUP)
    incumbents, challengers = (_repeated(kernel, count) for kernel in kernels)
    held = short or single < _HELD_BELOW
    pairs: list[float] = []
    for done in range(rule.max_rounds):
        late = timer.host.perf_counter() - began >= rule.seconds
        if done >= rule.min_rounds and (late or min(pairs) > rule.lost_factor):
            break
        work = [incumbents, challengers, challengers, incumbents]
        a, b, c, d = timer.timed(5 * limit * count, work, incumbents, held=held)
        if timer.with_host:
            return None
        pairs += [b / a, c / d]
    return Raced(tuple(pairs), out=False)


def _rotation(copies: int) -> Callable[[], int]:
    position = -1

    def following() -> int:
        nonlocal position
        position = (position + 1) % copies
        return position

    return following


def _repeated(work: Work, count: int) -> Work:
    def group() -> None:
        for _ in range(count):
            work()

    return group
