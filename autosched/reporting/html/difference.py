"""Difference between the winners of two databases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autosched.reporting.html.entry import ReportEntry

_SAME = 0.01  # times with a smaller relative difference count as the same


@dataclass(frozen=True)
class Change:
    """Difference between two databases for one problem and device.

    ``ratio`` is the time in this database divided by that in the other; None if a time is missing, or only one is
    measured. ``decisions`` lists differing decisions as ``name: other -> this``.
    """

    entry: ReportEntry
    verdict: str
    ratio: float | None
    there: ReportEntry | None
    decisions: tuple[str, ...]


def changes(here: Sequence[ReportEntry], there: Sequence[ReportEntry]) -> tuple[Change, ...]:
    """Compare the winners of two databases, slower ones first. Problems that are only in one database are marked.

    The two databases were not timed alternately on one machine, so differences of measured times may be due to the
    machines.
    """
    others = {(e.name, e.device): e for e in there}
    differences = [_change(e, others.pop((e.name, e.device), None)) for e in here]
    differences += [Change(e, "only in the other", None, e, ()) for e in others.values()]
    order = ("slower", "not compared", "faster", "same", "only in this one", "only in the other")
    return tuple(sorted(differences, key=lambda c: (order.index(c.verdict), -(c.ratio or 0.0))))


def _change(here: ReportEntry, there: ReportEntry | None) -> Change:
    if there is None:
        return Change(here, "only in this one", None, None, ())
    decisions = _decisions(here, there)
    if here.seconds is None or there.seconds is None or here.provenance != there.provenance:
        return Change(here, "not compared", None, there, decisions)
    ratio = here.seconds / there.seconds
    verdict = "slower" if ratio > 1 + _SAME else "faster" if ratio < 1 / (1 + _SAME) else "same"
    return Change(here, verdict, ratio, there, decisions)


def _decisions(here: ReportEntry, there: ReportEntry) -> tuple[str, ...]:
    if here.best is None or there.best is None:
        return ()
    one, other = here.best.schedule, there.best.schedule
    if one.template != other.template:
        return (f"template: {there.winner} -> {here.winner}",)
    names = dict.fromkeys((*other.values, *one.values))
    return tuple(
        f"{name}: {other.values.get(name, '-')} -> {one.values.get(name, '-')}"
        for name in names
        if one.values.get(name) != other.values.get(name)
    )
