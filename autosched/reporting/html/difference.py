"""Differences between the winners in two databases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autosched.reporting.html.entry import ReportEntry

_SAME = 0.01  # times with a smaller relative difference count as equal


@dataclass(frozen=True)
class Change:
    """Difference between the winners in two databases, for one problem and device.

    ``ratio`` is the time in this database divided by the time in the other database. It is None if a time is missing,
    or if only one of the times is measured. ``decisions`` lists differing decisions as ``name: other -> this``.
    """

    entry: ReportEntry
    verdict: str
    ratio: float | None
    other_entry: ReportEntry | None
    decisions: tuple[str, ...]


def changes(entries: Sequence[ReportEntry], other_entries: Sequence[ReportEntry]) -> tuple[Change, ...]:
    """Compare the winners in two databases, slower winners first. Problems in only one database are marked.

    The winners were not timed alternately on the same machine, so the machines may cause differences of measured times.
    """
    unmatched = {(e.name, e.device): e for e in other_entries}
    differences = [_change(e, unmatched.pop((e.name, e.device), None)) for e in entries]
    differences += [Change(e, "only in the other", None, e, ()) for e in unmatched.values()]
    order = ("slower", "not compared", "faster", "same", "only in this one", "only in the other")
    return tuple(sorted(differences, key=lambda c: (order.index(c.verdict), -(c.ratio or 0.0))))


def _change(entry: ReportEntry, other: ReportEntry | None) -> Change:
    if other is None:
        return Change(entry, "only in this one", None, None, ())
    decisions = _decisions(entry, other)
    if entry.seconds is None or other.seconds is None or entry.provenance != other.provenance:
        return Change(entry, "not compared", None, other, decisions)
    ratio = entry.seconds / other.seconds
    verdict = "slower" if ratio > 1 + _SAME else "faster" if ratio < 1 / (1 + _SAME) else "same"
    return Change(entry, verdict, ratio, other, decisions)


def _decisions(entry: ReportEntry, other_entry: ReportEntry) -> tuple[str, ...]:
    if entry.best is None or other_entry.best is None:
        return ()
    one, other = entry.best.schedule, other_entry.best.schedule
    if one.template != other.template:
        return (f"template: {other_entry.winner} -> {entry.winner}",)
    names = dict.fromkeys((*other.values, *one.values))
    return tuple(
        f"{name}: {other.values.get(name, '-')} -> {one.values.get(name, '-')}"
        for name in names
        if one.values.get(name) != other.values.get(name)
    )
