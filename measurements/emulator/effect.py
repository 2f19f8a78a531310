"""Decide whether undefined values affect the result of a launch, by running it with other bits.

The launch runs again, from the same memory, with other bits there, and with other answers of comparisons with them.
Where it leaves the same each time, the values went nowhere, as those that a sum takes up and gives off again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from measurements.emulator.findings import Emulation, Finding, FindingKind

UNWRITTEN = frozenset(
    {
        FindingKind.UNDEFINED_REGISTER,
        FindingKind.UNINITIALIZED_SHARED_READ,
        FindingKind.UNINITIALIZED_GLOBAL_READ,
    }
)
KINDS_OF_GARBAGE = range(1, 10)  # runtime/memory/garbage.hpp
HARMLESS = "nothing depends on it: memory ends the same whatever it holds"
UNREAD = "memory that depends on it is not read"


def may_go_nowhere(done: Emulation) -> bool:
    """Whether all faults of a launch are of values that nobody has written. Where there are others, as races, what it
    has left is not what it leaves in each order.
    """
    return done.status == "findings" and all(f.kind in UNWRITTEN for f in done.faults)


def time_limit_of(done: Emulation, time_limit: float) -> float:
    """CPU seconds for the launch with other bits, which may loop where it decides on them."""
    return min(time_limit, 1 + 10 * done.run_seconds)


def without_harmless(
    done: Emulation, again: Callable[[int], Emulation], same: Callable[[Emulation, Emulation], bool]
) -> Emulation:
    """Return the launch, its faults of values that nobody has written as notes where nothing depends on them.

    Args:
        done: What came of it.
        again: Runs it from the same memory with garbage of a number.
        same: Whether two runs of it have left the same in memory.

    Returns:
        ``done``, or the same with other grades.
    """
    others = map(again, KINDS_OF_GARBAGE)
    if not may_go_nowhere(done) or not all(ends_as(done, other) and same(done, other) for other in others):
        return done
    return as_notes(done, HARMLESS)


def as_notes(done: Emulation, why: str) -> Emulation:
    """Return the launch, its faults of values that nobody has written as notes, which say why."""

    def graded(finding: Finding) -> Finding:
        if not finding.is_fault or finding.kind not in UNWRITTEN:
            return finding
        return replace(finding, grade="note", message=f"{finding.message}; {why}")

    return done.with_findings([graded(f) for f in done.findings])


def ends_as(done: Emulation, other: Emulation) -> bool:
    """Whether a launch with garbage ends as it has ended, with what it prints, what it leaves in variables, and without
    other faults.
    """
    ended = other.status == "ok" or may_go_nowhere(other)
    return ended and other.printed == done.printed and other.variables == done.variables
