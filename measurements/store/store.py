"""Trial store: an append-only table of trials, in an SQLite file or any database that SQLAlchemy supports.

Every append is a separate transaction; ``database.py`` describes the effect of a crash.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import sqlalchemy as sa
from sqlalchemy.engine import Connection, RowMapping

from measurements.files.text import one_line
from measurements.store import best_index
from measurements.store.database import StoreDatabase
from measurements.store.errors import EarlierProblem, StoreError, UnknownOperator
from measurements.store.rows import COLUMNS, RowReader, from_row, read_cells, to_row, unknown
from measurements.store.schema import (
    ENTRIES,
    GUARDS,
    SCHEMA_VERSION,
    TRIALS,
    Guard,
    digest_of,
    unreadable,
    wait_for_others,
)
from measurements.trials.measurement import Provenance, Status, Timing
from measurements.trials.policy import DEFAULT
from measurements.trials.problem_key import problem_of
from measurements.trials.trial import Trial
from measurements.trials.vendor_library import LIBRARY_SCHEDULE
from search_spaces.catalogue import is_operator
from search_spaces.operators.problem import EarlierReference, Problem

_MOST_ANSWERS = 10_000  # maximum number of cached results of ``best``
_Question = tuple[str, str, Provenance | None, str | None]
_SUMMARY = ("operator", "problem", "device", "provenance", "policy", "trials", "ok")
_RANKING = (Provenance.MEASURED, Provenance.REPLAYED, Provenance.ESTIMATED)


@dataclass(frozen=True)
class ProblemSummary:
    """Numbers of tried and of successful schedules of a problem, for one device, provenance and policy.

    A re-measured schedule counts once. ``library`` is true if the vendor's library was also timed; the library is not
    counted as a schedule. ``first`` is the id of the first trial.
    """

    first: int
    operator: str
    problem_key: str
    device: str
    provenance: Provenance
    policy: str
    trials: int
    ok: int
    library: bool = False

    @property
    def works(self) -> bool:
        """True if any schedule, or the library, was timed successfully."""
        return self.ok > 0 or self.library


class Store:
    """Trials in one database. Thread-safe. Open it with ``Store.open``, and close it with ``close``."""

    def __init__(self, database: StoreDatabase) -> None:
        self._database = database
        self._lock = threading.Lock()
        # cached results of ``best``, valid until the file changes
        self._answers: tuple[tuple[int, ...] | None, dict[_Question, Trial | None]] = (None, {})
        # for each entry, the database cells of the winning trial, and the trial that was parsed from them
        self._winners: dict[tuple[str, str, Provenance, str], tuple[object, Trial]] = {}
        self._grown: set[tuple[str, str]] = set()  # keys of entries with new trials

    @classmethod
    def open(cls, url_or_path: str | Path, *, create: bool = True) -> Self:
        """Open the store in an SQLite file, or by a URL. Raises StoreError as ``StoreDatabase.open`` does."""
        return cls(StoreDatabase.open(url_or_path, create=create))

    @property
    def name(self) -> str:
        """Path of the file, or URL without its password."""
        return self._database.name

    @property
    def in_memory(self) -> bool:
        """True if the data are lost when this object is closed."""
        return self._database.in_memory

    def close(self) -> None:
        """Close the database, which also happens at exit. Safe to call twice."""
        if self._database.is_open:
            with suppress(StoreError):  # if ranking fails now, the entries are ranked at the next query
                self.rank()
        self._database.close()

    def rank(self) -> None:
        """Rank the entries that this store has changed, so that later queries are fast. Raises StoreError."""
        with self._lock:
            grown, self._grown = sorted(self._grown), set()
        for problem_digest, device in grown:
            with self._database.transaction() as connection:
                entries = best_index.entries_of(connection, problem_digest, device)
            for (provenance, policy), (entry, _) in entries.items():
                if entry.ranked:
                    continue
                key = _key(problem_digest, device, provenance, policy)
                with self._database.transaction() as connection:
                    winner = best_index.rank(connection, key, self.name)
                with self._database.transaction(write=True) as connection:
                    best_index.keep(connection, key, entry.newest_id, winner)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def append(self, trial: Trial) -> Trial:
        """Append a trial, commit, and return it with its ``id``.

        Raises StoreError if the database rejects the trial, or if the file was removed or replaced since it was opened.
        """
        row = to_row(trial)
        with self._database.writing() as connection:
            primary_key = best_index.insert(connection, row)
            if primary_key is None:
                raise StoreError(f"the database {self.name} assigns no ids to new rows: use another database")
        with self._lock:
            self._grown.add((row["problem_digest"], row["device"]))
        return replace(trial, id=primary_key)

    def set_verification(self, trial: Trial, verification: str) -> None:
        """Store ``verification`` (canonical JSON of an object) with every trial of the same schedule and kernel.

        Earlier values are replaced. Raises StoreError as ``append`` does, and ValueError if the trial has no kernel.
        """
        if trial.kernel_digest is None:
            raise ValueError("a trial without a kernel has no verification")
        row, c = to_row(trial), TRIALS.c
        of_kernel = (c.kernel_digest == trial.kernel_digest, c.device == trial.device)
        digests = (c.problem_digest == row["problem_digest"], c.schedule_digest == row["schedule_digest"])
        with self._database.writing() as connection:
            connection.execute(TRIALS.update().where(*digests, *of_kernel).values(verification=verification))

    def newest(self) -> int:
        """Return the id of the newest trial; 0 if there are no trials."""
        with self._database.transaction() as connection:
            return connection.execute(sa.select(sa.func.max(TRIALS.c.id))).scalar_one() or 0

    def extend(self, trials: Sequence[Trial], unless_since: int | None = None) -> None:
        """Append trials in order, in one transaction.

        Trials that are already stored with an id above ``unless_since`` are skipped.

        Raises StoreError as ``append`` does.
        """
        rows = [to_row(trial) for trial in trials]
        if not rows:
            return
        with self._database.writing() as connection:
            if unless_since is not None:
                wait_for_others(connection)
                rows = unknown(connection, rows, unless_since)
            if rows:
                connection.execute(TRIALS.insert(), rows)
            for digest in sorted({row["problem_digest"] for row in rows}):
                best_index.rebuild(connection, self.name, digest)

    def entry(self, summary: ProblemSummary) -> list[Trial]:
        """Return all trials of a summary's entry, in the order in which they were stored."""
        c = TRIALS.c
        wanted = (
            c.device == summary.device,
            c.provenance == summary.provenance.value,
            c.policy == summary.policy,
        )
        digest = c.problem_digest == digest_of(summary.problem_key)
        return self._read(sa.select(*COLUMNS).where(digest, *wanted).order_by(c.id))

    def trial(self, number: int) -> Trial | None:
        """Return the trial with an id; None if it does not exist."""
        return next(iter(self._read(sa.select(*COLUMNS).where(TRIALS.c.id == number))), None)

    def _read(self, query: sa.Select[Any]) -> list[Trial]:
        reader = RowReader(self.name)
        with self._database.transaction() as connection:
            return [reader.trial(row) for row in connection.execute(query)]

    def trials(
        self,
        problem: Problem | None = None,
        device: str | None = None,
        provenance: Provenance | None = None,
        *,
        policy: str | None = None,
        status: Status | None = None,
    ) -> list[Trial]:
        """Return the trials that match all arguments, in the order in which they were stored.

        Args:
            problem: Problem of the trials; None for all.
            device: Name of the trials' device; None for all.
            provenance: Measured, estimated or replayed; None for all.
            policy: Timing policy (a text of ``Policy``); None for all.
            status: Status of the trials; None for all.

        Raises:
            StoreError: The database cannot be read.
        """
        columns = COLUMNS
        query = sa.select(*columns).where(*_where(problem, device, provenance, policy, status)).order_by(TRIALS.c.id)
        return self._read(query)

    def count(
        self, problem: Problem | None = None, device: str | None = None, provenance: Provenance | None = None
    ) -> int:
        """Return the number of trials that match all arguments, as in ``trials``."""
        query = sa.select(sa.func.count()).select_from(TRIALS).where(*_where(problem, device, provenance))
        with self._database.transaction() as connection:
            return int(connection.execute(query).scalar_one())

    def problems(self, operator: str | None = None) -> list[ProblemSummary]:
        """Return a summary per problem, device, provenance and policy, in order of first appearance.

        If ``operator`` is given, only problems of that operator are included.
        """
        columns = {name: ENTRIES.c[name] for name in _SUMMARY}
        t = TRIALS.c
        same = (t[name] == ENTRIES.c[name] for name in ("problem_digest", "device", "provenance", "policy"))
        library = sa.exists().where(*same, t.schedule_digest == digest_of(LIBRARY_SCHEDULE.key()))
        selected = (ENTRIES.c.first_id.label("id"), library.label("library"), *columns.values())
        query = sa.select(*selected).order_by(ENTRIES.c.first_id)
        if operator is not None:
            query = query.where(ENTRIES.c.operator == operator)
        summaries = []
        with self._database.transaction() as connection:
            for row in connection.execute(query).mappings():
                cells = read_cells(row, columns.values(), self.name)
                cells["problem_key"] = cells.pop("problem")
                has_library = bool(row["library"])
                cells["trials"] -= has_library
                cells["ok"] -= has_library
                summaries.append(ProblemSummary(row["id"], **cells, library=has_library))
        return summaries

    def problem(self, summary: ProblemSummary) -> Problem:
        """Return the problem of a summary.

        Raises UnknownOperator if the operator is not registered, and EarlierProblem if the operator's reference has
        changed since the trial. Raises StoreError if this version does not know the format.
        """
        if not is_operator(summary.operator):
            raise UnknownOperator(self.name, summary.operator)
        try:
            problem = problem_of(summary.problem_key)
        except EarlierReference as error:
            raise EarlierProblem(f"trial {summary.first} of the database {self.name} is skipped: {error}") from error
        except ValueError as error:
            raise unreadable(self.name, summary.first, str(error)) from error
        if (problem.operator, problem.key()) != (summary.operator, summary.problem_key):
            why = f"this version writes its {problem.operator} problem in another format"
            raise unreadable(self.name, summary.first, why)
        return problem

    def current(self, summaries: Iterable[ProblemSummary]) -> tuple[list[ProblemSummary], str]:
        """Return the summaries whose reference is current, and a message about the skipped trials.

        The message states the number of skipped trials; it is "" if none are skipped.
        """
        current, earlier = self.by_reference(summaries)
        left_out = sum(summary.trials for summary in earlier)
        if not left_out:
            return current, ""
        return current, (
            "1 trial that was verified with an earlier reference is skipped"
            if left_out == 1
            else f"{left_out:,} trials that were verified with an earlier reference are skipped"
        )

    def by_reference(self, summaries: Iterable[ProblemSummary]) -> tuple[list[ProblemSummary], list[ProblemSummary]]:
        """Return the summaries whose reference is current, and the summaries whose reference has changed."""
        current, earlier = [], []
        for summary in summaries:
            try:
                if is_operator(summary.operator):
                    self.problem(summary)
            except EarlierProblem:
                earlier.append(summary)
                continue
            except StoreError:  # count the summary as current: callers get this error when they read the problem
                pass
            current.append(summary)
        return current, earlier

    def devices(self, problem: Problem) -> tuple[str, ...]:
        """Return the sorted names of the devices on which the problem has a successful trial."""
        c = ENTRIES.c
        query = sa.select(c.device).distinct().where(c.problem_digest == digest_of(problem.key()), c.ok > 0)
        with self._database.transaction() as connection:
            return tuple(sorted(connection.execute(query).scalars()))

    def has_device(self, device: str) -> bool:
        """Return True if there is any trial on the device with exactly this name."""
        with self._database.transaction() as connection:
            query = sa.select(ENTRIES.c.device).where(ENTRIES.c.device == device).limit(1)
            return connection.execute(query).first() is not None

    def best_of(self, summary: ProblemSummary) -> Trial | None:
        """Return the best trial of a summary, as ``best`` does. The operator need not be registered."""
        return self._best(summary.problem_key, summary.device, summary.provenance, summary.policy)

    def guard(self, problem: Problem, device: str) -> Guard | None:
        """Return the guard of a problem on a device, or None."""
        return self.guard_of(problem.key(), device)

    def guard_of(self, problem_key: str, device: str) -> Guard | None:
        """Return the guard of a problem, given by its key, on a device. The operator need not be registered."""
        c = GUARDS.c
        query = sa.select(GUARDS).where(c.problem_digest == digest_of(problem_key), c.device == device)
        with self._database.transaction() as connection:
            row = connection.execute(query).mappings().one_or_none()
        if row is None:
            return None
        try:
            return Guard(**{name: row[name] for name in Guard.__dataclass_fields__})
        except ValueError as error:
            raise StoreError(
                f"the guard of {one_line(problem_key)} in the database {self.name} cannot be read ({error}): "
                "set it again"
            ) from error

    def set_guard(self, problem: Problem, device: str, guard: Guard | None) -> None:
        """Set the guard of a problem on a device; None removes it. Raises StoreError as ``append`` does."""
        self.set_guard_of(problem.key(), device, guard)

    def set_guard_of(self, problem_key: str, device: str, guard: Guard | None) -> None:
        """Set the guard of a problem, given by its key. The operator need not be registered."""
        key = {"problem_digest": digest_of(problem_key), "device": device}
        c = GUARDS.c
        with self._database.writing() as connection:
            connection.execute(GUARDS.delete().where(*(c[name] == value for name, value in key.items())))
            if guard is not None:
                connection.execute(GUARDS.insert(), {**key, **dataclasses.asdict(guard)})

    def best(
        self, problem: Problem, device: str, provenance: Provenance | None = None, policy: str | None = None
    ) -> Trial | None:
        """Return the trial of the fastest schedule by median time, on the device with exactly this name.

        Repeated trials of a schedule are combined: the result is the newest trial, with the medians of all times and
        the sum of the repeats. Only trials of the schedule's newest kernel are used. A kernel with a wrong result on
        any device is never the best. A schedule whose newest trial is unverified is not the best either. If several
        schedules are equally fast, the one that was tried first wins.

        The winner of the newest paired re-measurement ranks before all earlier schedules. Only a schedule that was
        tried later and has a lower median can replace the winner. The time of a re-measured schedule is the time in its
        newest re-measurement.

        Args:
            problem: Problem of the trials.
            device: Name of the GPU.
            provenance: Provenance of the ranked trials. None selects the first that has trials: measured, replayed,
                estimated.
            policy: Timing policy of the ranked trials, in the text form of ``Policy``. None selects the default policy
                if it has trials, otherwise the first in alphabetical order.

        Returns:
            The trial; None if there is no successful trial.

        Raises:
            StoreError: The database cannot be read.
        """
        self._database.refuse_closed()
        problem_key = problem.key()
        key = problem_key, device, provenance, policy
        state = self._database.settled_state()
        known, answers = self._answers
        if state is not None and state == known and key in answers:
            return answers[key]
        answer = self._best(problem_key, device, provenance, policy)
        if state is not None:
            if state != known or len(answers) == _MOST_ANSWERS:
                self._answers = state, answers = state, {}
            answers[key] = answer
        return answer

    def _best(self, problem_key: str, device: str, provenance: Provenance | None, policy: str | None) -> Trial | None:
        digest = digest_of(problem_key)
        with self._database.transaction() as connection:
            entries = best_index.entries_of(connection, digest, device)
            for kind in _RANKING if provenance is None else (provenance,):
                policies = sorted({p for k, p in entries if k == kind.value}, key=lambda p: (p != DEFAULT, p))
                for its in policies if policy is None else [p for p in policies if p == policy]:
                    entry, row = entries[kind.value, its]
                    winner = entry.winner
                    if not entry.ranked:
                        winner = best_index.rank(connection, _key(digest, device, kind.value, its), self.name)
                        if winner is not None:
                            whole = sa.select(*COLUMNS).where(TRIALS.c.id == winner.id)
                            row = connection.execute(whole).mappings().one()
                    if winner is not None:
                        return self._won(row, winner.timing, (problem_key, device, kind, its))
        return None

    def _won(self, row: RowMapping, timing: Timing, key: tuple[str, str, Provenance, str]) -> Trial:
        """Return the winner's trial.

        The same object is returned until the winner changes, so that callers need not check the trial again.
        """
        cells = timing, tuple(row.values())
        known, trial = self._winners.get(key, (None, None))
        if trial is not None and known == cells:
            return trial
        trial = from_row(row, self.name)
        if (trial.problem_key, trial.device, trial.provenance, trial.policy) != key:
            raise unreadable(self.name, trial.id, "the index lists it under another problem, device or policy")
        trial = replace(trial, measurement=replace(trial.measurement, timing=timing))
        if len(self._winners) == _MOST_ANSWERS:
            self._winners = {}
        self._winners[key] = cells, trial
        return trial

    def reading(self) -> AbstractContextManager[Connection]:
        """Begin a transaction that only reads, for ``maintenance``. Raises StoreError."""
        return self._database.transaction()

    def writing(self) -> AbstractContextManager[Connection]:
        """Begin a transaction that writes, which is committed at the end, or rolled back after an error."""
        return self._database.writing()

    def size(self) -> int | None:
        """Return the size of the file in bytes; None without a file."""
        return self._database.size()

    def damage(self) -> list[str]:
        """Return the errors that SQLite finds in the file, one sentence each."""
        return self._database.damage()

    def compact(self) -> None:
        """Shrink the file by the space of removed trials. Raises StoreError."""
        self._database.compact()


def _key(problem_digest: str, device: str, provenance: str, policy: str) -> dict[str, str]:
    return {"problem_digest": problem_digest, "device": device, "provenance": provenance, "policy": policy}


def _where(
    problem: Problem | None = None,
    device: str | None = None,
    provenance: Provenance | None = None,
    policy: str | None = None,
    status: Status | None = None,
) -> list[sa.ColumnElement[bool]]:
    c = TRIALS.c
    wanted = (
        (c.problem_digest, digest_of(problem.key()) if problem is not None else None),
        (c.device, device),
        (c.provenance, provenance.value if provenance is not None else None),
        (c.policy, policy),
        (c.status, status.value if status is not None else None),
    )
    return [column == value for column, value in wanted if value is not None]


__all__ = ["SCHEMA_VERSION", "Guard", "ProblemSummary", "Store", "StoreError", "UnknownOperator", "unreadable"]
