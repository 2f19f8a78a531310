"""Expected savings from tuning each problem, which determine the order of a suite's first trials."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from autosched.suites.suite import SuiteMember
from autosched.worth.headroom import CannotEstimate, Estimator


def with_headroom(
    members: Sequence[SuiteMember], estimator: Estimator, on_progress: Callable[[int], None] = lambda done: None
) -> tuple[SuiteMember, ...]:
    """Add the current time and the headroom to each of ``members``, and sort them by expected saving, largest first.

    Problems without an estimate come first. ``on_progress`` is called with the number of completed estimates.
    """
    estimated = list(_estimates(members, estimator, on_progress))
    return tuple(sorted(estimated, key=lambda m: -m.saving))


def _estimates(
    members: Sequence[SuiteMember], estimator: Estimator, on_progress: Callable[[int], None]
) -> Iterator[SuiteMember]:
    for done, member in enumerate(members, 1):
        try:
            headroom = estimator.estimate(member.problem, member.seconds)
        except CannotEstimate:
            yield member
        else:
            yield replace(member, seconds=headroom.seconds, headroom=headroom.expected)
        on_progress(done)
