"""Whether anything depends on what a launch reads and nobody has written, judged by its effect.

The launch runs again, from the same memory, with other bits there, and with other answers of comparisons with them. Where
it leaves the same each time, the values went nowhere, as those that a sum takes up and gives off again.
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
KINDS_OF_GARBAGE = range(1, 7)  # runtime/memory/garbage.hpp
HARMLESS = "nothing depends on it: memory ends the same whatever it holds"


def may_go_nowhere(done: Emulation) -> bool:
    """Whether a launch that has ended has faults of values that nobody has written."""
    return done.status == "findings" and any(f.kind in UNWRITTEN for f in done.faults)


def time_limit_of(done: Emulation, time_limit: float) -> float:
    """CPU seconds for the launch with other bits, which may loop where it decides on them."""
    return min(time_limit, 1 + 10 * done.run_seconds)


def judge(done: Emulation, again: Callable[[int], Emulation], same: Callable[[Emulation, Emulation], bool]) -> Emulation:
    """Return the launch, its faults of values that nobody has written as notes where nothing depends on them.

    Args:
        done: What came of it.
        again: Runs it from the same memory with garbage of a number.
        same: Whether two runs of it have left the same in memory.

    Returns:
        ``done``, or the same with other grades.
    """
    if not may_go_nowhere(done) or not all(_as(done, other) and same(done, other) for other in map(again, KINDS_OF_GARBAGE)):
        return done
    return done.with_findings([_harmless(f) if f.is_fault and f.kind in UNWRITTEN else f for f in done.findings])


def _as(done: Emulation, other: Emulation) -> bool:
    ended = other.status in ("ok", "findings")
    return ended and other.printed == done.printed and _other_faults(other) == _other_faults(done)


def _other_faults(done: Emulation) -> set[tuple[str, str, int]]:
    return {(f.kind, f.file, f.line) for f in done.faults if f.kind not in UNWRITTEN}


def _harmless(finding: Finding) -> Finding:
    return replace(finding, grade="note", message=f"{finding.message}; {HARMLESS}")
