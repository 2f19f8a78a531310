"""Expected savings of tuning each problem, before its first trial. They decide where a suite's budget goes first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from autosched.suites.suite import SuiteMember
from autosched.worth.headroom import CannotEstimate, Estimator


def with_headroom(
    members: Sequence[SuiteMember], estimator: Estimator, told: Callable[[int], None] = lambda done: None
) -> tuple[SuiteMember, ...]:
    """Return ``members`` with today's seconds and the headroom of each, those with the largest saving first.

    A problem that cannot be estimated keeps its place at the front, as everything is possible there. ``told`` hears how
    many are done.
    """
    estimated = list(_estimates(members, estimator, told))
    return tuple(sorted(estimated, key=lambda m: -m.saving))


def _estimates(
    members: Sequence[SuiteMember], estimator: Estimator, told: Callable[[int], None]
) -> Iterator[SuiteMember]:
    for done, member in enumerate(members, 1):
        try:
            headroom = estimator.estimate(member.problem, member.seconds)
        except CannotEstimate:
            yield member
        else:
            yield replace(member, seconds=headroom.seconds, headroom=headroom.expected)
        told(done)
