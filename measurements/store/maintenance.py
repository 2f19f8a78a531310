"""Maintenance of a database: statistics, checks, repair, and removal of unneeded trials."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from measurements.store import best_index, rows
from measurements.store.schema import ENTRIES, SCHEMA_VERSION, TRIALS, digest_of
from measurements.store.store import ProblemSummary, Store, StoreError

_PARAMETERS = 500  # maximum number of rows in one statement


@dataclass(frozen=True)
class Stats:
    """Statistics of a database. ``size`` is in bytes; None for a server. ``problems`` counts different problems."""

    schema: int
    size: int | None
    trials: int
    problems: int
    statuses: Mapping[str, int]
    entries: Sequence[ProblemSummary]


def stats(store: Store) -> Stats:
    """Return statistics of a store. Raises StoreError."""
    with store.reading() as connection:
        counted = connection.execute(sa.select(TRIALS.c.status, sa.func.count()).group_by(TRIALS.c.status)).all()
    entries = store.problems()
    statuses = {str(status): int(count) for status, count in counted}
    problems = len({entry.problem_key for entry in entries})
    return Stats(SCHEMA_VERSION, store.size(), sum(statuses.values()), problems, statuses, tuple(entries))


def check(store: Store) -> list[str]:
    """Read all of a store and return one sentence for each error in it.

    Errors are damage to the file, unreadable trials, and digests or entries that do not match the trials.

    Raises:
        StoreError: The file cannot be read.
    """
    damage = store.damage()
    reader = rows.RowReader(store.name)
    columns = (*rows.COLUMNS, TRIALS.c.problem_digest, TRIALS.c.schedule_digest, TRIALS.c.operator, TRIALS.c.policy)
    width = len(rows.COLUMNS)
    with store.reading() as connection:
        for row in connection.execute(sa.select(*columns).order_by(TRIALS.c.id)):
            try:
                trial = reader.trial(row)
            except StoreError as error:
                damage.append(str(error))
                continue
            if row[width : width + 2] != (digest_of(trial.problem_key), digest_of(trial.schedule.key())):
                damage.append(f"the problem or schedule digest of trial {trial.id} is wrong")
            if row[width + 2] != trial.operator:
                damage.append(
                    f"trial {trial.id} is stored under {row[width + 2]!a:.60}, but its operator is {trial.operator}"
                )
            if row[width + 3] != trial.policy:
                damage.append(f"trial {trial.id} is stored under a wrong policy: the correct policy is {trial.policy}")
        stored = {_key(row): dict(row) for row in connection.execute(sa.select(ENTRIES)).mappings()}
        if not damage:
            for counted in best_index.counted(connection):
                entry, where = stored.pop(_key(counted), None), f"{counted['problem']:.200} on {counted['device']}"
                if entry is None or any(entry[name] != counted[name] for name in counted):
                    damage.append(f"the entry of {where} ({counted['provenance']}) does not match its trials")
                elif entry["ranked_id"] == entry["newest_id"]:
                    winner = best_index.rank(connection, counted, store.name)
                    if entry["winner_id"] != (None if winner is None else winner.id):
                        damage.append(f"the best trial of {where} ({counted['provenance']}) is not the fastest")
            damage += [f"an entry has no trials: {entry['problem']:.200}" for entry in stored.values()]
    return damage


def repair(store: Store) -> None:
    """Rebuild the entries from the trials. Raises StoreError if a trial cannot be read."""
    with store.writing() as connection:
        best_index.rebuild(connection, store.name)


@dataclass(frozen=True)
class Collected:
    """Number of trials that ``collect`` removed, by reason, and number of remaining trials."""

    removed: Mapping[str, int]
    left: int


def collect(store: Store, keep: int | None = None, *, dry_run: bool = False) -> Collected:
    """Remove trials of outdated kernels.

    No ranking uses these trials, because their schedules now generate other kernels.

    With ``keep``, also remove failures and slow schedules of each entry. The ``keep`` fastest schedules, schedules of a
    paired timing, and wrong results remain, and the best trial does not change. Raises StoreError, and ValueError if
    ``keep`` is below 1. If an error is raised, nothing has been removed.
    """
    if keep is not None and keep < 1:
        raise ValueError(f"keep must be at least 1 schedule per entry, got {keep}")
    removed: Counter[str] = Counter()
    rejected: list[int] = []
    before: dict[tuple[str, ...], int | None] = {}
    for summary in store.problems():
        trials = store.entry(summary)
        newest = {trial.schedule: trial.kernel_digest for trial in trials}
        best = store.best_of(summary)
        before[summary.problem_key, summary.device, summary.provenance.value, summary.policy] = (
            None if best is None else best.id
        )
        fastest = sorted((r.seconds or 0.0, i, r.schedule) for i, r in enumerate(trials) if r.ok)
        chosen = list(dict.fromkeys(schedule for _, _, schedule in fastest))[:keep]
        retained = {*chosen, *(r.schedule for r in trials if r.rank is not None), *([best.schedule] if best else [])}
        for trial in trials:
            if trial.status.value == "wrong_result" or trial.id is None:
                continue
            if trial.kernel_digest != newest[trial.schedule]:
                removed["of an older kernel"] += 1
            elif keep is not None and trial.schedule not in retained:
                removed["slower than those kept, or failed"] += 1
            else:
                continue
            rejected.append(trial.id)
    left = store.count() - len(rejected)
    if rejected and not dry_run:
        with store.writing() as connection:
            for start in range(0, len(rejected), _PARAMETERS):
                part = rejected[start : start + _PARAMETERS]
                connection.execute(TRIALS.delete().where(TRIALS.c.id.in_(part)))
            best_index.rebuild(connection, store.name)
            _refuse_another_best(connection, store, before)
        store.compact()
    return Collected(dict(removed), left)


def _refuse_another_best(connection: sa.Connection, store: Store, before: Mapping[Any, int | None]) -> None:
    e = ENTRIES.c
    for row in connection.execute(sa.select(e.problem, e.device, e.provenance, e.policy, e.winner_id)):
        if before.get((row.problem, row.device, row.provenance, row.policy)) != row.winner_id:
            raise StoreError(f"{store.name} was not changed: without these trials another schedule would be the best")


def _key(row: Mapping[Any, Any]) -> tuple[Any, ...]:
    return row["problem_digest"], row["device"], row["provenance"], row["policy"]
