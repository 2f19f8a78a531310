"""Entries of a database to check: the best schedule of every problem and device."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass

from autosched.regression.report import CheckFinding, EntryStatus
from autosched.regression.since_tuning import AtTuning
from autosched.regression.slowdown import SlowdownLimits
from autosched.reporting import formatting
from autosched.verify.schedules import ProblemTooLarge
from measurements.files.text import one_line
from measurements.store.store import ProblemSummary, Store, StoreError
from measurements.trials.problem_key import fields_of
from measurements.trials.trial import Trial
from measurements.trials.vendor_library import is_library
from search_spaces.catalogue import templates
from search_spaces.hardware.devices import Device, UnknownDevice
from search_spaces.hardware.devices import device as device_row
from search_spaces.operators.problem import Problem

# Errors that concern a single entry, for example a failing reference. Other entries are still checked. In contrast,
# failures of this machine (HostFailure, MemoryError) end the check.
ENTRY_ERRORS = (ValueError, ProblemTooLarge)
LIBRARY_WON = "the vendor's library was the fastest when the entry was tuned, so there is no kernel to check"
RIVALS = 3  # number of schedules, the fastest after the entry's own, whose predicted ranks are also checked


@dataclass(frozen=True)
class CheckedEntry:
    """Best trial of a problem on a device, with the data that its check needs.

    ``rivals`` are the next fastest trials of the same provenance. ``at_tuning`` contains the times of the entry and of
    a control when the entry was tuned. ``limits`` and ``noise`` come from the database if it has values for this entry.
    ``position`` is the entry's index among all entries.
    """

    position: int
    problem: Problem
    device: Device
    trial: Trial
    rivals: tuple[Trial, ...]
    limits: SlowdownLimits
    noise: float
    at_tuning: AtTuning | None = None

    @property
    def name(self) -> str:
        """Problem and device in one line, such as ``matmul m=64 n=64 k=64 ... on h200``."""
        return entry_name(self.problem, self.device.name)

    def unchecked(self, error: BaseException) -> CheckFinding:
        """Return the finding of an entry whose check raised one of ENTRY_ERRORS."""
        reason = f"the entry could not be checked: {str(error) or type(error).__name__}"
        return self.finding(EntryStatus.UNCERTAIN, reason)

    def finding(self, verdict: EntryStatus, *reasons: str, **more: object) -> CheckFinding:
        """Return a finding about this entry. ``more`` are further fields of the finding."""
        file, line = self.problem.defined_at
        result = CheckFinding(
            name=self.name,
            operator=self.problem.operator,
            problem=self.problem.to_json(),
            device=self.device.name,
            verdict=verdict,
            reasons=tuple(one_line(reason) for reason in reasons if reason),
            provenance=self.trial.provenance.value,
            seconds=self.trial.seconds,
            file=file,
            line=line,
        )
        return dataclasses.replace(result, **more)  # type: ignore[arg-type]


def entry_name(problem: Problem, device: str) -> str:
    """Return the displayed name of an entry."""
    return f"{formatting.one_line(problem).strip()} on {device}"


def entries(
    store: Store,
    limits: SlowdownLimits,
    *,
    operators: Sequence[str] = (),
    device: Device | None = None,
) -> list[CheckedEntry | CheckFinding]:
    """Return the entries of ``store``, in the order of their first trials.

    There is one entry for each problem and device, with the trials of the preferred provenance.

    Args:
        store: The database.
        limits: Allowed slowdown of entries that have no limits in the database.
        operators: Only these operators; empty for all.
        device: Only this device; None for all.

    Returns:
        Entries. An entry that cannot be checked (unknown operator or device, damaged trial) is replaced by a finding.
        Trials that were verified with an earlier reference of the kernel file are skipped. If an entry has no other
        trials, it is also replaced by a finding.
    """
    checked: list[CheckedEntry | CheckFinding] = []
    seen: set[tuple[str, str]] = set()
    current, earlier = store.by_reference(store.problems())
    tuned_again = {_without_reference(summary) for summary in current if summary.works}
    last = {_without_reference(s): s.first for s in earlier if s.works}
    stale = {first for entry, first in last.items() if entry not in tuned_again}
    for summary in sorted((*current, *(s for s in earlier if s.first in stale)), key=lambda s: s.first):
        key = (summary.problem_key, summary.device)
        if not summary.works or key in seen or (operators and summary.operator not in operators):
            continue
        if device is not None and summary.device != device.name:
            continue
        seen.add(key)
        if summary.first in stale:
            checked.append(_unreadable(summary, _STALE, EntryStatus.STALE))
            continue
        one = _entry(store, summary, len(checked), limits, device)
        if one is not None:
            checked.append(one)
    return checked


def _entry(
    store: Store, summary: ProblemSummary, position: int, limits: SlowdownLimits, device: Device | None
) -> CheckedEntry | CheckFinding | None:
    """Return an entry, a finding if the entry cannot be checked, or None if every schedule of the problem was wrong."""
    try:
        problem = store.problem(summary)
        trial = store.best(problem, summary.device)
        if trial is None:
            return None
        trials = store.trials(problem, trial.device, trial.provenance, policy=trial.policy)
        guard = store.guard(problem, summary.device)
    except StoreError as error:
        return _unreadable(summary, str(error))
    try:
        where = device or device_row(summary.device)
    except UnknownDevice as error:
        return _unreadable(
            summary, f"{error}; add the device to the device table, or check on a machine with this device"
        )
    name = trial.schedule.template
    if not is_library(trial.schedule) and name not in (t.name for t in templates()):
        return _unreadable(
            summary,
            f"the kernel template {name!r:.60} of its best schedule is unknown: pass its tile program "
            "(--program FILE), or install the package that contains the template",
        )
    noise = 0.0
    if guard is not None:
        noise = guard.noise or 0.0
        try:
            limits = SlowdownLimits(
                limits.max_slowdown if guard.max_slowdown is None else guard.max_slowdown,
                limits.floor if guard.floor_seconds is None else guard.floor_seconds,
            )
        except ValueError as error:
            return _unreadable(summary, f"its thresholds in the database cannot be used: {error}")
    return CheckedEntry(
        position, problem, where, trial, _rivals(trials, trial), limits, noise, AtTuning.of(trials, trial)
    )


def _rivals(trials: Sequence[Trial], best: Trial) -> tuple[Trial, ...]:
    """Return the newest successful trial of each of the next fastest schedules, the fastest first."""
    newest = {r.schedule: r for r in trials}
    other_trials = [
        r
        for r in newest.values()
        if r.seconds is not None and r.schedule != best.schedule and not is_library(r.schedule)
    ]
    return tuple(sorted(other_trials, key=lambda r: r.seconds or 0.0)[:RIVALS])


_STALE = "the kernel file had another reference when the entry was tuned: tune the entry again"


def _without_reference(summary: ProblemSummary) -> tuple[str, str]:
    """Return a key of a summary's problem and device. It stays the same if the kernel file's reference changes."""
    fields = {name: value for name, value in fields_of(summary.problem_key).items() if name != "computes"}
    return json.dumps(fields, sort_keys=True), summary.device


def _unreadable(summary: ProblemSummary, why: str, verdict: EntryStatus = EntryStatus.CANNOT_COMPARE) -> CheckFinding:
    fields = fields_of(summary.problem_key)
    shown = " ".join(f"{name}={value}" for name, value in fields.items() if name != "operator")
    return CheckFinding(
        name=one_line(f"{summary.operator} {shown} on {summary.device}"),
        operator=summary.operator,
        problem=fields,
        device=summary.device,
        verdict=verdict,
        reasons=(one_line(why),),
        provenance=summary.provenance.value,
    )
