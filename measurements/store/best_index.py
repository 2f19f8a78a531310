"""Index of the best trials, with one entry per problem, device, provenance and policy.

The index only contains data derived from the trials. With the index, the best of a million trials is found by key.
Every append of a trial updates the trial's entry in the same transaction. For a repeated schedule or a re-measurement,
the winner depends on all trials of the entry. The append then does not determine the winner, and leaves the entry
unranked: ``ranked_id`` differs from ``newest_id``. The next query ranks the trials of an unranked entry with ``rank``,
which alone defines what is best.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, RowMapping
from sqlalchemy.exc import IntegrityError

from measurements.store.rows import COLUMNS, read_cells
from measurements.store.schema import ENTRIES, TRIALS, digest_of
from measurements.trials.measurement import Status, Timing

_KEY = ("problem_digest", "device", "provenance", "policy")
_RANKED_BY = (
    TRIALS.c.id,
    TRIALS.c.schedule_digest,
    TRIALS.c.kernel_digest,
    TRIALS.c.status,
    TRIALS.c.median,
    TRIALS.c.p25,
    TRIALS.c.p75,
    TRIALS.c.repeats,
    TRIALS.c.final_rank,
)
_NEWEST = (
    sa.select(sa.func.max(TRIALS.c.id))
    .where(*(TRIALS.c[name] == ENTRIES.c[name] for name in _KEY))
    .correlate(ENTRIES)
    .scalar_subquery()
)
_ENTRY = tuple(ENTRIES.c[name] for name in ("newest_id", "ranked_id", "winner_id", "median", "p25", "p75", "repeats"))
_ENTRY_CELLS = (_NEWEST.label("newest"), *(column.label(f"entry_{column.name}") for column in _ENTRY))
_CELLS = len(_ENTRY_CELLS)
_KEPT = sa.select(*_ENTRY_CELLS).where(*(ENTRIES.c[name] == sa.bindparam(name) for name in _KEY))
_KIND = (ENTRIES.c.provenance.label("entry_provenance"), ENTRIES.c.policy.label("entry_policy"))
_WINNERS = TRIALS.alias("winners")
_KEPT_OF = (
    sa.select(*_ENTRY_CELLS, *_KIND, *(_WINNERS.c[c.name] for c in COLUMNS))
    .join_from(ENTRIES, _WINNERS, _WINNERS.c.id == ENTRIES.c.winner_id, isouter=True)
    .where(*(ENTRIES.c[name] == sa.bindparam(name) for name in _KEY[:2]))
)
_STATUSES = frozenset(status.value for status in Status)
_OK, _UNVERIFIED = Status.OK.value, Status.UNVERIFIED.value


@dataclass(frozen=True)
class Winner:
    """Id of the newest trial of the fastest schedule, and the pooled times of that schedule's trials."""

    id: int
    timing: Timing


@dataclass(frozen=True)
class IndexEntry:
    """A stored entry. ``ranked`` is true if ``winner`` is the best of all trials up to ``newest_id``."""

    newest_id: int
    ranked: bool
    winner: Winner | None


def stored_entry(connection: Connection, key: Mapping[str, Any]) -> IndexEntry | None:
    """Return the entry with this key; None if it does not exist."""
    row = connection.execute(_KEPT, {name: key[name] for name in _KEY}).one_or_none()
    return None if row is None else _entry(row)


def entries_of(
    connection: Connection, problem_digest: str, device: str
) -> dict[tuple[str, str], tuple[IndexEntry, RowMapping]]:
    """Return the entries of a problem on a device, by provenance and policy.

    Each entry comes with the row of its winning trial; the row has only NULLs if there is no winner.
    """
    rows = connection.execute(_KEPT_OF, {"problem_digest": problem_digest, "device": device})
    return {(row.entry_provenance, row.entry_policy): (_entry(row), row._mapping) for row in rows}


def _entry(row: Any) -> IndexEntry:
    newest, newest_id, ranked_id, winner_id, *times = row[:_CELLS]
    ranked = newest == newest_id == ranked_id
    if not ranked or winner_id is None or not _are_times(times):
        return IndexEntry(newest_id, ranked and winner_id is None, None)
    return IndexEntry(newest_id, True, Winner(winner_id, Timing(*times)))


def insert(connection: Connection, row: Mapping[str, Any]) -> int | None:
    """Store a trial and update the trial's entry. Return the trial's id; None if the database assigns no ids.

    The entry is locked before the trial gets its id, so within an entry the order of ids is the order of commits.
    """
    t, key = TRIALS.c, {name: row[name] for name in _KEY}
    # A wrong result on any device excludes the kernel from all entries of the problem. Therefore, all these entries
    # must be ranked again.
    if row["status"] == Status.WRONG_RESULT.value and _has_worked(connection, row):
        same_problem = ENTRIES.c.problem_digest == row["problem_digest"]
        connection.execute(sa.select(ENTRIES.c.device).where(same_problem).order_by(*_ORDER).with_for_update()).all()
        connection.execute(ENTRIES.update().where(same_problem).values(ranked_id=None))
    entry = _locked(connection, key)
    if entry is None and not _created(connection, {**key, "operator": row["operator"], "problem": row["problem"]}):
        entry = _locked(connection, key)
    of_schedule = (*_matches(TRIALS, key), t.schedule_digest == row["schedule_digest"])
    count = sa.select(sa.func.count(), sa.func.count(t.median)).select_from(TRIALS).where(*of_schedule)
    tried, worked = connection.execute(count).one() if entry is not None else (0, 0)
    primary_key = connection.execute(TRIALS.insert(), row).inserted_primary_key
    if primary_key is None:
        return None
    new = int(primary_key[0])
    changed: dict[str, Any] = {"newest_id": new}
    if entry is None:
        changed |= {"first_id": new}
    changed["trials"] = (0 if entry is None else entry.trials) + (not tried)
    changed["ok"] = (0 if entry is None else entry.ok) + (row["status"] == _OK and not worked)
    if entry is None or (not tried and entry.ranked_id == entry.newest_id):
        changed["ranked_id"] = new
        slower = entry is not None and entry.median is not None and not (row["median"] or 0) < entry.median
        if row["status"] == _OK and not slower:
            if _is_wrong(connection, row):
                changed.pop("ranked_id")
            else:
                changed |= {"winner_id": new, **{name: row[name] for name in ("median", "p25", "p75", "repeats")}}
        if row["final_rank"] is not None:
            changed.pop("ranked_id", None)
    connection.execute(ENTRIES.update().where(*_matches(ENTRIES, key)).values(**changed))
    return new


def rank(connection: Connection, key: Mapping[str, Any], name: str) -> Winner | None:
    """Rank the trials of an entry as ``Store.best`` specifies, and return the winner. ``name`` names the database.

    Raises a StoreError that names the trial, if a trial cannot be read.
    """
    t = TRIALS.c
    tried = sa.select(*_RANKED_BY).where(*_matches(TRIALS, key)).order_by(t.id)
    wrong = (
        sa.select(t.schedule_digest, t.kernel_digest)
        .where(t.problem_digest == key["problem_digest"], t.status == Status.WRONG_RESULT.value)
        .distinct()
    )
    excluded = {(schedule, kernel) for schedule, kernel in connection.execute(wrong)}
    return _winner(connection.execute(tried), excluded, name)


def keep(connection: Connection, key: Mapping[str, Any], newest_id: int, winner: Winner | None) -> None:
    """Store the result of ``rank``, unless the entry has new trials since the ranking.

    Args:
        connection: Connection in a transaction of the caller.
        key: Problem, device, provenance and policy of the entry.
        newest_id: Id of the last ranked trial.
        winner: The winner; None if no trial is ok.
    """
    entry = ENTRIES.update().where(*_matches(ENTRIES, key), ENTRIES.c.newest_id == newest_id)
    connection.execute(entry.values(ranked_id=newest_id, **_cells(winner)))


def counted(connection: Connection, problem_digest: str | None = None) -> list[dict[str, Any]]:
    """Compute the entries of all problems, or of one problem, from the trials. The entries contain no winners."""
    t = TRIALS.c
    keys = tuple(t[name] for name in _KEY)
    grouped = sa.select(
        *keys,
        sa.func.min(t.operator).label("operator"),
        sa.func.min(t.problem).label("problem"),
        sa.func.count(t.schedule_digest.distinct()).label("trials"),
        sa.func.count(sa.case((t.median.is_not(None), t.schedule_digest)).distinct()).label("ok"),
        sa.func.min(t.id).label("first_id"),
        sa.func.max(t.id).label("newest_id"),
    ).group_by(*keys)
    if problem_digest is not None:
        grouped = grouped.where(t.problem_digest == problem_digest)
    return [dict(row) for row in connection.execute(grouped).mappings()]


def rebuild(connection: Connection, name: str, problem_digest: str | None = None) -> None:
    """Rebuild all entries, or one problem's entries, from the trials of the database ``name``.

    Raises StoreError as ``rank`` does.
    """
    devices = sa.select(ENTRIES.c.device).order_by(ENTRIES.c.problem_digest, *_ORDER).with_for_update()
    if problem_digest is not None:
        devices = devices.where(ENTRIES.c.problem_digest == problem_digest)
    connection.execute(devices).all()  # the lock waits for concurrent appends
    best = counted(connection, problem_digest)
    delete = ENTRIES.delete()
    if problem_digest is not None:
        delete = delete.where(ENTRIES.c.problem_digest == problem_digest)
    connection.execute(delete)
    for row in best:
        winner = rank(connection, row, name)
        connection.execute(ENTRIES.insert(), {**row, "ranked_id": row["newest_id"], **_cells(winner)})


def _cells(winner: Winner | None) -> dict[str, Any]:
    if winner is None:
        return dict.fromkeys(("winner_id", "median", "p25", "p75", "repeats"))
    timing = winner.timing
    return {
        "winner_id": winner.id,
        "median": timing.median,
        "p25": timing.p25,
        "p75": timing.p75,
        "repeats": timing.count,
    }


_ORDER = (ENTRIES.c.device, ENTRIES.c.provenance, ENTRIES.c.policy)


def _matches(table: sa.Table, key: Mapping[str, Any]) -> list[sa.ColumnElement[bool]]:
    return [table.c[name] == key[name] for name in _KEY]


def _locked(connection: Connection, key: Mapping[str, Any]) -> Any:
    return connection.execute(sa.select(ENTRIES).where(*_matches(ENTRIES, key)).with_for_update()).one_or_none()


def _created(connection: Connection, row: Mapping[str, Any]) -> bool:
    """Create an empty entry; return False if another process has just created it."""
    try:
        with connection.begin_nested():
            connection.execute(ENTRIES.insert(), {**row, "trials": 0, "ok": 0, "first_id": 0, "newest_id": 0})
    except IntegrityError:
        return False
    return True


def _has_worked(connection: Connection, row: Mapping[str, Any]) -> bool:
    t = TRIALS.c
    same = (t[name] == row[name] for name in ("problem_digest", "schedule_digest"))
    return connection.execute(sa.select(t.id).where(*same, t.status == _OK).limit(1)).first() is not None


def _is_wrong(connection: Connection, row: Mapping[str, Any]) -> bool:
    """Return True if any trial of this schedule and kernel had a wrong result on any device."""
    t = TRIALS.c
    wrong = sa.select(t.id).where(
        t.problem_digest == row["problem_digest"],
        t.status == Status.WRONG_RESULT.value,
        t.schedule_digest == row["schedule_digest"],
        t.kernel_digest.is_not_distinct_from(row["kernel_digest"]),
    )
    return connection.execute(wrong.limit(1)).first() is not None


def _winner(rows: Iterable[Any], wrong: set[tuple[str, str | None]], name: str) -> Winner | None:
    """Return the winner among the trials ``rows``, which are ordered by id and have the columns _RANKED_BY."""
    tried: dict[str, list[Any]] = {}
    for row in rows:
        tried.setdefault(row[1], []).append(row)
    usable: list[_Ranked] = []
    for schedule, trials in tried.items():
        newest = trials[-1]
        if newest.status == _UNVERIFIED:
            continue
        digest = newest.kernel_digest
        for row in trials:
            _check(row, name)
        same = [row for row in trials if row.status == _OK and row.kernel_digest == digest]
        if not same or (schedule, digest) in wrong:
            continue
        remeasured = [row for row in same if row.final_rank is not None]
        same = remeasured[-1:] or same
        newest = same[-1]
        won = newest.id if remeasured and newest.final_rank == 1 else 0
        alone = max((row.id for row in trials if row.final_rank is None), default=0)
        usable.append(_Ranked(newest.id, *_pooled(same), won, alone))
    if not usable:
        return None
    winner = max(usable, key=lambda s: s.won)  # if no schedule has won a re-measurement, max returns the first schedule
    if winner.won:
        usable = [winner, *(s for s in usable if s.tried_alone > winner.won)]
    fastest = min(usable, key=lambda s: s.median)
    return Winner(fastest.id, Timing(fastest.median, fastest.p25, fastest.p75, fastest.repeats))


def _pooled(rows: list[Any]) -> tuple[float, float, float, int]:
    if len(rows) == 1:
        row = rows[0]
        return row.median, row.p25, row.p75, row.repeats
    median, p25, p75 = (statistics.median(getattr(row, name) for row in rows) for name in ("median", "p25", "p75"))
    return median, p25, p75, sum(row.repeats for row in rows)


def _check(row: Any, name: str) -> None:
    """Raise StoreError if a row has values that autosched never stores."""
    times = (row.median, row.p25, row.p75, row.repeats)
    if row.status not in _STATUSES or not (_are_times(times) if row.status == _OK else times == _NO_TIMES):
        read_cells(row._mapping, _RANKED_BY, name)


def _are_times(cells: Sequence[Any]) -> bool:
    return tuple(map(type, cells)) == (float, float, float, int) and 0 < cells[1] <= cells[0] <= cells[2] < math.inf


_NO_TIMES = (None,) * 4


@dataclass(frozen=True, slots=True)
class _Ranked:
    """A schedule that may be the best, with the pooled times of its trials.

    ``won`` is the id of the schedule's trial in the newest re-measurement, if the schedule won it. ``tried_alone`` is
    the id of the schedule's newest trial outside re-measurements. Both are 0 if there is no such trial.
    """

    id: int
    median: float
    p25: float
    p75: float
    repeats: int
    won: int
    tried_alone: int


__all__ = [
    "IndexEntry",
    "Winner",
    "counted",
    "digest_of",
    "entries_of",
    "insert",
    "keep",
    "rank",
    "rebuild",
    "stored_entry",
]
