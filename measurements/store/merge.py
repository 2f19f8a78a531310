"""Merge the trials of one database (the source) into another (the target).

An entry is a problem on a device, with one provenance and policy. Entries that only the source has are added. If both
databases have an entry, but with different best schedules, the better entry is kept. The trials of the other entry are
skipped. The provenance determines which entry is better:

- Measured times are only compared if both schedules were timed in alternation, in one re-measurement in either
  database. The ranking of that re-measurement decides. Without such a re-measurement, the times come from
  different days, clocks and machines. The result is then *unclear*, and the target's entry is kept.
- Estimated and replayed times with the same fingerprint (one model or recording) have no noise, so the smaller wins.

Wrong results are always added, because a kernel that is wrong on any device is never the best. Measured, replayed and
estimated times are separate entries, and ``Store.best`` ranks them in this order. A second merge changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from measurements.store.store import Guard, ProblemSummary, Store
from measurements.trials.measurement import Provenance, Status
from measurements.trials.trial import Trial


class MergeOutcome(StrEnum):
    """Result of merging one entry."""

    NEW = "new"  # the target did not have this entry
    REPLACED = "replaced"  # the source's best schedule is better, and replaces the target's
    KEPT = "kept"  # the target's best schedule is better, and remains
    SAME = "same"  # source and target have the same best schedule
    UNCLEAR = (
        "unclear"  # it is unknown whose best schedule is better, the source's or the target's; the target's is kept
    )
    REFUSED = "refused"  # the source's best schedule was rejected, so only trials with wrong results are added


@dataclass(frozen=True)
class MergedEntry:
    """Result of merging one entry of the source. ``taken`` is the number of trials that were added to the target."""

    summary: ProblemSummary
    verdict: MergeOutcome
    why: str
    taken: int


@dataclass(frozen=True)
class Conflict:
    """An entry whose guards differ between the databases. The target's guard is kept."""

    problem_key: str
    device: str


@dataclass(frozen=True)
class Merged:
    """Results of merging all entries."""

    entries: tuple[MergedEntry, ...]
    conflicts: tuple[Conflict, ...]

    @property
    def unclear(self) -> tuple[MergedEntry, ...]:
        """Entries whose outcome is unclear."""
        return tuple(entry for entry in self.entries if entry.verdict is MergeOutcome.UNCLEAR)


# Function that returns the reason why the best trial of an entry is not accepted, or "".
Doubt = Callable[[ProblemSummary, Trial], str]


def merge(source: Store, target: Store, doubt: Doubt = lambda summary, trial: "") -> Merged:
    """Merge the better entries of ``source`` into ``target``. ``doubt`` can reject an entry.

    All trials are added in one transaction, and then the guards that the target lacks. Trials that another process
    merges into the target at the same time are not added twice. Raises StoreError. If trials cannot be added, the
    target is unchanged.
    """
    before = target.newest()
    theirs = {(s.problem_key, s.device, s.provenance, s.policy): s for s in target.problems()}
    entries: list[MergedEntry] = []
    taken: list[Trial] = []
    for summary in source.problems():
        mine = theirs.get((summary.problem_key, summary.device, summary.provenance, summary.policy))
        trials = source.entry(summary)
        best = source.best_of(summary)
        why = "" if best is None else doubt(summary, best)
        if why:
            existing = [] if mine is None else target.entry(mine)
            known = set(map(_identity, existing))
            wrong = [r for r in trials if r.status is Status.WRONG_RESULT and _identity(r) not in known]
            entries.append(MergedEntry(summary, MergeOutcome.REFUSED, why, len(wrong)))
            taken += wrong
            continue
        if mine is None:
            entries.append(MergedEntry(summary, MergeOutcome.NEW, "", len(trials)))
            taken += trials
            continue
        existing = target.entry(mine)
        known = set(map(_identity, existing))
        new = [trial for trial in trials if _identity(trial) not in known]
        verdict, why = _decide(best, target.best_of(mine), trials, existing)
        if verdict is not MergeOutcome.REPLACED:
            new = [trial for trial in new if trial.status is Status.WRONG_RESULT]
        entries.append(MergedEntry(summary, verdict, why, len(new)))
        taken += new
    guards, conflicts = _guards(source, target)
    target.extend(taken, unless_since=before)
    for problem_key, device, guard in guards:
        target.set_guard_of(problem_key, device, guard)
    return Merged(tuple(entries), conflicts)


def _guards(source: Store, target: Store) -> tuple[list[tuple[str, str, Guard]], tuple[Conflict, ...]]:
    """Return the source's guards that the target lacks, and the entries whose guards differ between the databases."""
    missing, conflicts = [], []
    for problem_key, device in dict.fromkeys((s.problem_key, s.device) for s in source.problems()):
        theirs, mine = source.guard_of(problem_key, device), target.guard_of(problem_key, device)
        if theirs is not None and mine is None:
            missing.append((problem_key, device, theirs))
        elif theirs is not None and theirs != mine:
            conflicts.append(Conflict(problem_key, device))
    return missing, tuple(conflicts)


def _decide(
    source: Trial | None, target: Trial | None, source_trials: Sequence[Trial], target_trials: Sequence[Trial]
) -> tuple[MergeOutcome, str]:
    if source is None:
        return MergeOutcome.KEPT, "the source has no working schedule"
    if target is None:
        return MergeOutcome.REPLACED, "the target had no working schedule"
    if _kernel(source) == _kernel(target):
        return MergeOutcome.SAME, ""
    if source.provenance is not Provenance.MEASURED:
        if source.fingerprint != target.fingerprint:
            return MergeOutcome.UNCLEAR, "the times come from different models, recordings or tools"
        better = (source.seconds or 0) < (target.seconds or 0)
        return (MergeOutcome.REPLACED if better else MergeOutcome.KEPT), f"{source.provenance}, same fingerprint"
    order = _paired([*target_trials, *source_trials], source, target)
    if order is None:
        return MergeOutcome.UNCLEAR, "the schedules were never timed in alternation: tune the problem again to decide"
    return (MergeOutcome.REPLACED if order else MergeOutcome.KEPT), "timed alternately"


def _paired(trials: Iterable[Trial], source: Trial, target: Trial) -> bool | None:
    """Return True if ``source`` ranked before ``target`` in the newest common re-measurement; None if there is none."""
    newest: tuple[datetime, bool] | None = None
    for run in remeasurements(trials):
        ranks = {_kernel(trial): trial.rank or 0 for trial in run}
        if _kernel(source) in ranks and _kernel(target) in ranks:
            when = run[-1].created
            if newest is None or when > newest[0]:
                newest = when, ranks[_kernel(source)] < ranks[_kernel(target)]
    return None if newest is None else newest[1]


def remeasurements(trials: Iterable[Trial]) -> list[list[Trial]]:
    """Return the rows of each re-measurement in the ``trials`` of one entry.

    The trials of a re-measurement are stored consecutively, the winner last.
    """
    runs: list[list[Trial]] = [[]]
    for trial in trials:
        if trial.rank is not None:
            runs[-1].append(trial)
        if trial.rank in (None, 1) and runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def _kernel(trial: Trial) -> tuple[str, str | None]:
    return trial.schedule.key(), trial.kernel_digest


def _identity(trial: Trial) -> tuple[object, ...]:
    """Return values that identify a trial within its entry, to recognise copies of the trial in another database."""
    return trial.schedule.key(), trial.kernel_digest, trial.created, trial.status, trial.seconds, trial.rank
