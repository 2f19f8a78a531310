"""Decide whether undefined values affect the result of a launch, by re-running it with poisoned memory.

The launch runs several more times, always on the same initial memory. Each run replaces undefined values by other
bytes, and gives other results to comparisons with undefined values. If all runs leave the same memory, the undefined
values have no effect. For example, a sum may add an undefined value and later subtract it.
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
POISON_PATTERNS = range(1, 10)  # numbers of poison patterns (runtime/memory/poison.hpp)
HARMLESS = "harmless: the launch leaves the same memory for all tested replacements of the undefined value"
UNREAD = "harmless: nothing reads the memory that depends on the undefined value"


def only_undefined_values(done: Emulation) -> bool:
    """Return True if every fault of a launch is a use of an undefined value.

    After other faults, such as races, runs with poisoned memory are not conclusive, because results may also differ due
    to the order of execution.
    """
    return done.status == "findings" and all(f.kind in UNWRITTEN for f in done.faults)


def time_limit_of(done: Emulation, time_limit: float) -> float:
    """Return the limit in CPU seconds for a run with poisoned memory, in which a loop may never end."""
    return min(time_limit, 1 + 10 * done.run_seconds)


def without_harmless(
    done: Emulation, again: Callable[[int], Emulation], same: Callable[[Emulation, Emulation], bool]
) -> Emulation:
    """Downgrade faults caused by undefined values to notes if the launch's result does not depend on these values.

    Args:
        done: Result of the launch.
        again: Runs the launch again on the same initial memory. The argument is the number of a poison pattern.
        same: Returns True if the memory is the same after two runs.

    Returns:
        ``done``, or a copy with changed grades.
    """
    repeated = map(again, POISON_PATTERNS)
    if not only_undefined_values(done) or not all(ends_alike(done, other) and same(done, other) for other in repeated):
        return done
    return as_notes(done, HARMLESS)


def as_notes(done: Emulation, why: str) -> Emulation:
    """Downgrade faults caused by undefined values to notes, and append ``why`` to their messages."""

    def graded(finding: Finding) -> Finding:
        if not finding.is_fault or finding.kind not in UNWRITTEN:
            return finding
        return replace(finding, grade="note", message=f"{finding.message}; {why}")

    return done.with_findings([graded(f) for f in done.findings])


def ends_alike(done: Emulation, other: Emulation) -> bool:
    """Return True if a poisoned run ends like the original one, with the same printed text and variables.

    The only faults that the poisoned run may have are uses of undefined values.
    """
    ended = other.status == "ok" or only_undefined_values(other)
    return ended and other.printed == done.printed and other.variables == done.variables
