"""Entries of a report. Each entry describes a problem on a device."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from autosched.dispatch.staleness import UNKNOWN, stale_reasons
from autosched.dispatch.validity import refuse_invalid
from autosched.reporting import formatting
from autosched.reporting.html.decisions import Decision, decisions
from autosched.reporting.roofline import Costed, busy_shares, known, roofline
from autosched.verify import stored
from measurements.files.text import one_line
from measurements.store.store import ProblemSummary, Store
from measurements.trials.measurement import Provenance
from measurements.trials.policy import DEFAULT
from measurements.trials.problem_key import fields_of
from measurements.trials.trial import Trial, canonical_json
from measurements.trials.vendor_library import is_library
from search_spaces.catalogue import is_operator, template
from search_spaces.operators.problem import Problem

_RANKING = (
    Provenance.MEASURED,
    Provenance.REPLAYED,
    Provenance.ESTIMATED,
)  # provenances in the order in which ``Store.best`` prefers them
_FEW_TRIALS, _LOW_SHARE = 64, 0.5
_MOST_FAILURES = 12
_SHOWN = 200  # maximum number of characters of a reason, and of the name of an unknown problem


@dataclass(frozen=True)
class Failure:
    """Number of trials that failed with ``status`` and ``reason``, and their share of all trials (0 to 1)."""

    status: str
    reason: str
    count: int
    share: float


@dataclass(frozen=True)
class ReportEntry:
    """A problem on a device, with its trials.

    Attributes:
        trials: All trials with the winner's provenance, in order.
        share: Share of the roofline; None if unknown.
        problem: The problem; None if its operator is not installed.
        costed: ``problem``, or, if that is None, the problem's costs from a trial.
        replaced: True if a later revision of the user's kernel file has trials.
        advice: Suggested next step; "" if there is none.
    """

    name: str
    device: str
    provenance: str
    best: Trial | None
    problem: Problem | None
    costed: Costed | None
    replaced: bool
    trials: tuple[Trial, ...]
    share: float | None
    memory_bound: bool
    verification: str
    age: str
    advice: str
    decisions: tuple[Decision, ...]
    failures: tuple[Failure, ...]
    busy: tuple[tuple[str, float], ...]
    facts: tuple[tuple[str, str], ...]

    @property
    def winner(self) -> str:
        """Text that describes the best schedule."""
        if self.best is None:
            return "nothing works"
        return "the vendor's library" if is_library(self.best.schedule) else self.best.schedule.template

    @property
    def seconds(self) -> float | None:
        """Time of the best schedule in seconds; None if no schedule works."""
        return None if self.best is None else self.best.seconds

    @property
    def rate(self) -> str:
        """Rate of the best schedule with its unit; "" if unknown."""
        if self.costed is None or self.seconds is None:
            return ""
        return formatting.rate(self.costed, self.seconds, self.device)


def entries(
    store: Store, now: datetime, operator: str | None = None, device: str | None = None
) -> tuple[ReportEntry, ...]:
    """Return an entry for each problem and device of ``store``, in the order of their first trials.

    Args:
        store: The database, which is only read.
        now: Present time, with a time zone, to compute the ages of trials.
        operator: Only problems of this operator; None for all.
        device: Only trials on the device of this name; None for all.

    Returns:
        One entry for each problem and device, for all provenances and policies together.

    Raises:
        StoreError: The database cannot be read.
    """
    summaries_by_problem: dict[tuple[str, str], list[ProblemSummary]] = {}
    for summary in store.current(store.problems(operator))[0]:
        if device in (None, summary.device):
            summaries_by_problem.setdefault((summary.problem_key, summary.device), []).append(summary)
    newest = {_revised(s): (s.problem_key, s.device) for group in summaries_by_problem.values() for s in group}
    return tuple(
        _entry(store, group, now, newest[_revised(group[0])] != key) for key, group in summaries_by_problem.items()
    )


def _revised(summary: ProblemSummary) -> tuple[str, str]:
    """Return the fields of a problem's key that all revisions of a user's kernel file have in common."""
    fields = {name: value for name, value in fields_of(summary.problem_key).items() if name != "computes"}
    return canonical_json(fields), summary.device


def _entry(store: Store, summaries: Sequence[ProblemSummary], now: datetime, replaced: bool) -> ReportEntry:
    ranked = sorted(summaries, key=lambda s: (not s.works, _RANKING.index(s.provenance), s.policy != DEFAULT, s.policy))
    summary = ranked[0]
    best = store.best_of(summary) if summary.works else None
    problem = _problem(store, summary)
    trials = store.entry(summary)
    chip = known(summary.device)
    share, memory_bound = None, False
    newest = best if best is not None else trials[-1] if trials else None
    facts = None if newest is None else newest.facts
    costed = problem if problem is not None else facts
    if costed is not None and chip is not None and best is not None and best.seconds is not None:
        roof = roofline(costed, chip)
        share, memory_bound = roof.share(best.seconds), roof.memory_bound
    usable, stale = _today(problem, best)
    verification = "" if best is None or is_library(best.schedule) else stored.brief(best.verification)
    advised = best is not None and not is_library(best.schedule)
    shares = busy_shares(problem, best) if best is not None and problem is not None and not usable else None
    name = (
        formatting.one_line(problem)
        if problem is not None
        else formatting.cut(one_line(formatting.name_without_file(summary.problem_key, facts)), _SHOWN)
    )
    entry = ReportEntry(
        name=name,
        device=summary.device,
        provenance=summary.provenance.value,
        best=best,
        problem=problem,
        costed=costed,
        replaced=replaced,
        trials=tuple(t for t in trials if not is_library(t.schedule)),
        share=share,
        memory_bound=memory_bound,
        verification=verification,
        age="" if best is None else age(best.created, now),
        advice="",
        decisions=decisions(best, trials) if best is not None and advised else (),
        failures=_failures(trials),
        busy=() if shares is None else tuple(sorted(shares.items(), key=lambda item: -item[1])),
        facts=() if best is None or costed is None else tuple(formatting.trial_facts(costed, best)),
    )
    return dataclasses.replace(entry, advice=_advice(entry, usable, stale))


def age(created: datetime, now: datetime) -> str:
    """Format the age of a trial in the largest suitable unit: ``3 days``, ``2 hours``, ``now``."""
    seconds = (now - created.astimezone(UTC)).total_seconds()
    for unit, size in (("year", 365 * 86400), ("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= size:
            return formatting.plural(int(seconds // size), unit)
    return "now"


def _problem(store: Store, summary: ProblemSummary) -> Problem | None:
    return store.problem(summary) if is_operator(summary.operator) else None


def _today(problem: Problem | None, best: Trial | None) -> tuple[str, tuple[str, ...]]:
    """Return why this version cannot use the winner ("" if it can), and the changes since the winner was timed."""
    if problem is None or best is None or is_library(best.schedule):
        return "", ()
    try:
        refuse_invalid(problem, best)
    except ValueError as error:
        return one_line(str(error)), ()
    chip = known(best.device)
    if chip is None:
        return "", ()
    current_template = template(best.schedule.template)
    return "", stale_reasons(
        best, chip, UNKNOWN, current_template, current_template.kernel(problem, best.schedule, chip)
    )


def _advice(entry: ReportEntry, unusable: str, stale: Sequence[str]) -> str:
    """Return the most important next step that applies, or ""."""
    best = entry.best
    if entry.replaced:
        return ""
    if best is None:
        return "no trial worked: see the failures"
    if unusable:
        return f"tune again: this version cannot use the schedule ({unusable})"
    if stale:
        return f"tune again: {', '.join(stale)} has changed"
    if is_library(best.schedule):
        return ""
    if entry.provenance != Provenance.MEASURED:
        return f"measure on a GPU: the time is {entry.provenance}"
    if best.measurement.error is None and entry.verification not in (stored.FULL, stored.QUICK):
        return "verify: results of the schedule were neither checked on the GPU nor emulated"
    if best.rank is None and sum(t.ok for t in entry.trials) > 1:
        return "confirm: the schedule was not timed alternately with the next best"
    few = len(entry.trials) < _FEW_TRIALS
    if few and entry.share is not None and entry.share < _LOW_SHARE:
        return f"search longer: {formatting.plural(len(entry.trials), 'trial')} so far"
    return ""


def _failures(trials: Sequence[Trial]) -> tuple[Failure, ...]:
    counts = Counter(
        (t.status.value, formatting.cut(one_line(t.measurement.reason), _SHOWN)) for t in trials if not t.ok
    )
    return tuple(
        Failure(status, reason, count, count / len(trials))
        for (status, reason), count in counts.most_common(_MOST_FAILURES)
    )
