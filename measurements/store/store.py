"""The record store: one append-only table of trials, in SQLite (a path) or any database SQLAlchemy knows (a URL).

Every append is a transaction of its own. While a store is open for writing, an SQLite file is in write-ahead mode: a
commit then waits for no disk, readers and writers do not block each other, a killed process loses nothing it had
committed, and a power cut loses at most the last seconds and damages nothing. The last writer to close turns the file
back, so that at rest a database is exactly one file that can be copied, committed to a repository, or read from a
read-only folder. Where write-ahead mode is unavailable (some network file systems), every commit is synchronised.
"""

from __future__ import annotations

import dataclasses
import sqlite3
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, Engine, RowMapping, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import NullPool, StaticPool

from measurements.files.text import first_line, one_line, without_password
from measurements.records.measurement import Provenance, Status, Timing
from measurements.records.policy import DEFAULT
from measurements.records.record import Record, problem_of
from measurements.records.vendor_library import LIBRARY_SCHEDULE
from measurements.store import best_index, migrate, sqlite_file
from measurements.store.errors import StoreError, UnknownOperator
from measurements.store.rows import COLUMNS, Reader, from_row, read_cells, to_row, unknown
from measurements.store.schema import (
    ENTRIES,
    GUARDS,
    SCHEMA_VERSION,
    TRIALS,
    Guard,
    create_tables,
    digest_of,
    has_none,
    refuse_other,
    unreadable,
    wait_for_others,
)
from search_spaces.catalogue import is_operator
from search_spaces.operators.problem import Problem

_IN_MEMORY = (None, "", ":memory:")
_MOST_ANSWERS = 10_000  # of ``best`` that are remembered
_Asked = tuple[str, str, Provenance | None, str | None]
_SUMMARY = ("operator", "problem", "device", "provenance", "policy", "trials", "ok")
_RANKING = (Provenance.MEASURED, Provenance.REPLAYED, Provenance.ESTIMATED)


@dataclass(frozen=True)
class ProblemSummary:
    """How many schedules of one provenance and policy were tried for a problem on a device, and how many were ok: a
    schedule that is re-measured counts once. ``library``: beside them the vendor's library was timed, which is no
    trial. ``first`` is the id of the first record."""

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
        """Whether anything that was tried or timed has worked."""
        return self.ok > 0 or self.library


class Store:
    """The trials in one database, for any number of threads. Make one with ``Store.open``, end it with ``close``."""

    def __init__(self, engine: Engine, name: str, file: Path | None = None) -> None:
        self._engines = _read_and_write(engine)
        self._file = file
        self._identity = None if file is None else sqlite_file.identity(file)
        self._unwritten = file is not None
        self._lock = threading.Lock()
        self._answers: tuple[tuple[int, ...] | None, dict[_Asked, Record | None]] = None, {}  # of ``best``, for a state
        self._winners: dict[
            tuple[str, str, Provenance, str], tuple[object, Record]
        ] = {}  # with the cells they were read of
        self._grown: set[tuple[str, str]] = set()  # entries that got trials
        self._close = weakref.finalize(self, _let_go, engine, None)
        self.name = name
        self.migrated_from: int | None = None  # the older schema that opening found

    @property
    def in_memory(self) -> bool:
        """Whether the data end with this object."""
        return self._engines[False].dialect.name == "sqlite" and self._file is None

    def close(self) -> None:
        """Release the database; done at exit, too. Safe to call twice."""
        if self._close.alive:
            with suppress(StoreError):  # what is not ranked now is ranked when it is asked for
                self.rank()
        self._close()

    def rank(self) -> None:
        """Find the winners of the entries that were written to here, so that no reader has to. Raises StoreError."""
        with self._lock:
            grown, self._grown = sorted(self._grown), set()
        for problem_digest, device in grown:
            with self._transaction() as connection:
                entries = best_index.kept_of(connection, problem_digest, device)
            for (provenance, policy), (entry, _) in entries.items():
                if entry.ranked:
                    continue
                key = _key(problem_digest, device, provenance, policy)
                with self._transaction() as connection:
                    winner = best_index.rank(connection, key, self.name)
                with self._transaction(write=True) as connection:
                    best_index.keep(connection, key, entry.newest_id, winner)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    @classmethod
    def open(cls, url_or_path: str | Path, *, create: bool = True) -> Self:
        """The store in an SQLite file, or behind an SQLAlchemy URL such as "postgresql+psycopg://host/name".

        With ``create`` it is opened for writing and made where it does not exist; without, it must exist and may be
        read-only. Raises StoreError, with nothing changed on disk, for a place that cannot be written (or read), for a
        file that is not SQLite or was not made by autosched, and for a newer schema.
        """
        if not isinstance(url_or_path, (str, Path)):
            raise StoreError(f"a database is given as a path or an SQLAlchemy URL, not {url_or_path!r}")
        text = str(url_or_path)
        if "://" not in text and text != ":memory:":
            return cls._open_file(text, create)
        try:
            url = URL.create("sqlite") if text == ":memory:" else make_url(text)
        except (ArgumentError, ValueError):
            raise StoreError("the database URL cannot be parsed: write dialect://user:password@host/name") from None
        if url.get_backend_name() != "sqlite":
            return cls._open_server(url, create)
        if url.database not in _IN_MEMORY:
            if url.query:
                raise StoreError(f"options in the URL of an SQLite file are not supported: give only {url.database}")
            return cls._open_file(str(url.database), create)
        if not create:
            raise StoreError(f"{text} is a new database in memory, which is empty: give the path of a file")
        return cls._open_memory(text)

    @classmethod
    def _open_file(cls, text: str, create: bool) -> Self:
        path = sqlite_file.locate(text)
        sqlite_file.check(path, create)
        created = sqlite_file.create_empty(path) if create else False
        store = cls(sqlite_file.plain_engine(path), str(path), path)
        try:
            store._prepare(create)
        except BaseException:
            if created and path.stat().st_size == 0:
                path.unlink()
            raise
        return store

    @classmethod
    def _open_memory(cls, name: str) -> Self:
        engine = sa.create_engine(
            "sqlite://",
            poolclass=StaticPool,  # one connection: a database in memory ends with its connection
            connect_args={"isolation_level": None, "check_same_thread": False},
        )
        store = cls(sqlite_file.begin_explicitly(engine), name)
        store._prepare(create=True)
        return store

    @classmethod
    def _open_server(cls, url: URL, create: bool) -> Self:
        name = without_password(url.render_as_string(hide_password=False))
        try:
            engine = sa.create_engine(url, poolclass=NullPool)
        except NoSuchModuleError as error:
            raise StoreError(
                f"the database {name} cannot be used: SQLAlchemy has no dialect and driver {url.drivername}; give the "
                "path of a file, or a URL like postgresql+psycopg://user@host/name, or install what that needs"
            ) from error
        except ModuleNotFoundError as error:
            how = "pip install 'autosched[postgresql]'" if url.drivername.startswith("postgresql") else "install it"
            raise StoreError(f"the database {name} needs a driver ({first_line(error)}): {how}") from error
        except (ArgumentError, TypeError, ValueError) as error:
            raise StoreError(f"the database URL {name} cannot be used: {first_line(error)}") from error
        store = cls(engine, name)
        store._prepare(create)
        return store

    def append(self, record: Record) -> Record:
        """Store a record and commit; returns it with its ``id``. Raises StoreError where the database refuses, and
        where its file is no longer the one that was opened."""
        self._enter_write_ahead()
        row = to_row(record)
        with self._transaction(write=True) as connection:
            made = best_index.insert(connection, row)
            if made is None:
                raise StoreError(f"the database {self.name} assigns no ids to new rows: use another one")
        with self._lock:
            self._grown.add((row["problem_digest"], row["device"]))
        return replace(record, id=made)

    def set_proof(self, record: Record, proof: str) -> None:
        """Keep ``proof`` (canonical JSON of an object) with every trial of the record's schedule that had its kernel,
        in place of what they have. Raises StoreError as ``append``, ValueError for a record without a kernel."""
        if record.kernel_digest is None:
            raise ValueError("a trial without a kernel has no proof")
        row, c = to_row(record), TRIALS.c
        of_kernel = (c.kernel_digest == record.kernel_digest, c.device == record.device)
        digests = (c.problem_digest == row["problem_digest"], c.schedule_digest == row["schedule_digest"])
        self._enter_write_ahead()
        with self._transaction(write=True) as connection:
            connection.execute(TRIALS.update().where(*digests, *of_kernel).values(proof=proof))

    def newest(self) -> int:
        """The id of the newest trial, 0 where there is none."""
        with self._transaction() as connection:
            return connection.execute(sa.select(sa.func.max(TRIALS.c.id))).scalar_one() or 0

    def extend(self, records: Sequence[Record], unless_since: int | None = None) -> None:
        """Store many records in their order, all or none; but not those that others have stored after the trial of the
        id ``unless_since``. Raises StoreError as ``append``."""
        rows = [to_row(record) for record in records]
        if not rows:
            return
        self._enter_write_ahead()
        with self._transaction(write=True) as connection:
            if unless_since is not None:
                wait_for_others(connection)
                rows = unknown(connection, rows, unless_since)
            if rows:
                connection.execute(TRIALS.insert(), rows)
            for digest in sorted({row["problem_digest"] for row in rows}):
                best_index.rebuild(connection, self.name, digest)

    def entry(self, summary: ProblemSummary) -> list[Record]:
        """All records of a problem, device, provenance and policy, in the order they were stored."""
        c = TRIALS.c
        wanted = (
            c.device == summary.device,
            c.provenance == summary.provenance.value,
            c.policy == summary.policy,
        )
        digest = c.problem_digest == digest_of(summary.problem_key)
        return self._read(sa.select(*COLUMNS).where(digest, *wanted).order_by(c.id))

    def _read(self, query: sa.Select[Any]) -> list[Record]:
        reader = Reader(self.name)
        with self._transaction() as connection:
            return [reader.record(row) for row in connection.execute(query)]

    def trials(
        self,
        problem: Problem | None = None,
        device: str | None = None,
        provenance: Provenance | None = None,
        *,
        policy: str | None = None,
        status: Status | None = None,
    ) -> list[Record]:
        """The records that match everything given, in the order they were stored."""
        columns = COLUMNS
        query = sa.select(*columns).where(*_where(problem, device, provenance, policy, status)).order_by(TRIALS.c.id)
        return self._read(query)

    def count(
        self, problem: Problem | None = None, device: str | None = None, provenance: Provenance | None = None
    ) -> int:
        """How many records match everything given."""
        query = sa.select(sa.func.count()).select_from(TRIALS).where(*_where(problem, device, provenance))
        with self._transaction() as connection:
            return int(connection.execute(query).scalar_one())

    def problems(self, operator: str | None = None) -> list[ProblemSummary]:
        """What the store holds, or only of one operator: one summary per problem, device, provenance and policy,
        in the order they first came."""
        columns = {name: ENTRIES.c[name] for name in _SUMMARY}
        t = TRIALS.c
        same = (t[name] == ENTRIES.c[name] for name in ("problem_digest", "device", "provenance", "policy"))
        library = sa.exists().where(*same, t.schedule_digest == digest_of(LIBRARY_SCHEDULE.key()))
        selected = (ENTRIES.c.first_id.label("id"), library.label("library"), *columns.values())
        query = sa.select(*selected).order_by(ENTRIES.c.first_id)
        if operator is not None:
            query = query.where(ENTRIES.c.operator == operator)
        summaries = []
        with self._transaction() as connection:
            for row in connection.execute(query).mappings():
                cells = read_cells(row, columns.values(), self.name)
                cells["problem_key"] = cells.pop("problem")
                beside = bool(row["library"])
                cells["trials"] -= beside
                cells["ok"] -= beside
                summaries.append(ProblemSummary(row["id"], **cells, library=beside))
        return summaries

    def problem(self, summary: ProblemSummary) -> Problem:
        """The problem itself. Raises UnknownOperator for one of a kernel that is not registered, and StoreError that
        names a trial for a form that this version does not know."""
        if not is_operator(summary.operator):
            raise UnknownOperator(self.name, summary.operator)
        try:
            problem = problem_of(summary.problem_key)
        except ValueError as error:
            raise unreadable(self.name, summary.first, str(error)) from error
        if (problem.operator, problem.key()) != (summary.operator, summary.problem_key):
            why = f"its problem is not in this version's form of {problem.operator} problems"
            raise unreadable(self.name, summary.first, why)
        return problem

    def devices(self, problem: Problem) -> tuple[str, ...]:
        """Names of the devices that have an ok trial of the problem, sorted."""
        c = ENTRIES.c
        query = sa.select(c.device).distinct().where(c.problem_digest == digest_of(problem.key()), c.ok > 0)
        with self._transaction() as connection:
            return tuple(sorted(connection.execute(query).scalars()))

    def has_device(self, device: str) -> bool:
        """Whether there is any trial on exactly this device."""
        with self._transaction() as connection:
            query = sa.select(ENTRIES.c.device).where(ENTRIES.c.device == device).limit(1)
            return connection.execute(query).first() is not None

    def best_of(self, summary: ProblemSummary) -> Record | None:
        """As ``best``, of the problem, device, provenance and policy of a summary, whose problem need not be known."""
        return self._best(summary.problem_key, summary.device, summary.provenance, summary.policy)

    def guard(self, problem: Problem, device: str) -> Guard | None:
        """What CI holds this entry to; None where nothing was said about it."""
        return self.guard_of(problem.key(), device)

    def guard_of(self, problem_key: str, device: str) -> Guard | None:
        """The same, of a problem that need not be known."""
        c = GUARDS.c
        query = sa.select(GUARDS).where(c.problem_digest == digest_of(problem_key), c.device == device)
        with self._transaction() as connection:
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
        """Hold this entry to ``guard`` from now on; None forgets what was said. Raises StoreError as ``append``."""
        self.set_guard_of(problem.key(), device, guard)

    def set_guard_of(self, problem_key: str, device: str, guard: Guard | None) -> None:
        """The same, of a problem that need not be known."""
        key = {"problem_digest": digest_of(problem_key), "device": device}
        c = GUARDS.c
        self._enter_write_ahead()
        with self._transaction(write=True) as connection:
            connection.execute(GUARDS.delete().where(*(c[name] == value for name, value in key.items())))
            if guard is not None:
                connection.execute(GUARDS.insert(), {**key, **dataclasses.asdict(guard)})

    def best(
        self, problem: Problem, device: str, provenance: Provenance | None = None, policy: str | None = None
    ) -> Record | None:
        """The fastest schedule by median time, on exactly this device; None if there is no ok trial.

        One provenance is ranked, never a mixture: the one asked for, else measured before replayed before estimated.
        So is one policy: the one asked for (a text of ``Policy``), else the default, else the first in the alphabet.
        Repeated trials of a schedule count as one, with the medians of their times and the sum of their repeats, in the
        newest record; only trials of the schedule's newest kernel count. A kernel with a wrong result on any device is
        never the best, nor is a schedule while its newest trial is unproven. The first one tried wins a tie.

        The winner of the newest paired re-measurement ranks before everything tried until then; only schedules tried
        since can beat it by their medians. The time of a re-measured schedule is that of its newest re-measurement.
        """
        self._refuse_closed()
        problem_key = problem.key()
        asked = problem_key, device, provenance, policy
        state = None if self._file is None else sqlite_file.settled_state(self._file)
        known, answers = self._answers
        if state is not None and state == known and asked in answers:
            return answers[asked]
        answer = self._best(problem_key, device, provenance, policy)
        if state is not None:
            if state != known or len(answers) == _MOST_ANSWERS:
                self._answers = state, answers = state, {}
            answers[asked] = answer
        return answer

    def _best(self, problem_key: str, device: str, provenance: Provenance | None, policy: str | None) -> Record | None:
        digest = digest_of(problem_key)
        with self._transaction() as connection:
            entries = best_index.kept_of(connection, digest, device)
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

    def _won(self, row: RowMapping, timing: Timing, key: tuple[str, str, Provenance, str]) -> Record:
        """The same object for the same winner, which whoever has checked it need not check again."""
        cells = timing, tuple(row.values())
        known, record = self._winners.get(key, (None, None))
        if record is not None and known == cells:
            return record
        record = from_row(row, self.name)
        if (record.problem_key, record.device, record.provenance, record.policy) != key:
            raise unreadable(self.name, record.id, "it is filed under another problem, device or policy")
        record = replace(record, measurement=replace(record.measurement, timing=timing))
        if len(self._winners) == _MOST_ANSWERS:
            self._winners = {}
        self._winners[key] = cells, record
        return record

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection for queries of ``store_care``, in one transaction. Raises StoreError."""
        with self._transaction() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """The same for statements that change something: all of it is kept, or nothing."""
        self._enter_write_ahead()
        with self._transaction(write=True) as connection:
            yield connection

    def size(self) -> int | None:
        """Bytes of the file; None where there is none."""
        return None if self._file is None else self._file.stat().st_size

    def damage(self) -> list[str]:
        """What SQLite itself finds wrong with the file, one sentence each."""
        if self._file is None:
            return []
        with self._transaction() as connection:
            said = connection.exec_driver_sql("PRAGMA integrity_check(20)").scalars().all()
        return [f"the file is damaged: {one_line(str(line))}" for line in said if line != "ok"]

    def compact(self) -> None:
        """Give the room of removed trials back to the disk. Raises StoreError."""
        if self._file is not None:
            try:
                sqlite_file.compact(self._file)
            except sqlite3.Error as error:
                todo = sqlite_file.advice(error, self._file)
                raise StoreError(
                    f"the database {self.name} cannot be compacted ({first_line(error)}): {todo}"
                ) from error

    def _refuse_closed(self) -> None:
        if not self._close.alive:
            raise StoreError(f"the database {self.name} has been closed: open it again")

    @contextmanager
    def _transaction(self, *, write: bool = False) -> Iterator[Connection]:
        self._refuse_closed()
        try:
            with self._engines[write].begin() as connection:
                yield connection
        except IntegrityError as error:
            raise StoreError(
                f"the database {self.name} refuses the record: {first_line(error.orig or error)}"
            ) from error
        except (DBAPIError, sqlite3.Error, UnicodeDecodeError) as error:
            cause = error.orig if isinstance(error, DBAPIError) else error
            todo = "check that it exists and may be used"
            if self._file is not None:
                todo = sqlite_file.advice(cause, self._file)
            problem = f"cannot be {'written' if write else 'read'} ({first_line(cause or error)})"
            raise StoreError(f"the database {self.name} {problem}: {todo}") from error
        except SQLAlchemyError as error:
            raise StoreError(f"the database {self.name} cannot be used: {first_line(error)}") from error

    def _enter_write_ahead(self) -> None:
        """Only before the first record: a file that is merely read, or refused, stays as it is."""
        if self._file is None:
            return
        if sqlite_file.identity(self._file) != self._identity:
            raise StoreError(f"the database {self.name} was removed or replaced while it was in use: start again")
        with self._lock:
            if self._unwritten and self._close.detach() is not None:
                engine = sqlite_file.writing_engine(self._file)
                self._engines = _read_and_write(engine)
                self._close = weakref.finalize(self, _let_go, engine, self._file)
                self._unwritten = False

    def _prepare(self, create: bool) -> None:
        """Create the tables where there are none; check that they are ours, and bring an older schema up to date."""
        with self._transaction(write=create) as connection:
            if create:
                wait_for_others(connection)
            if create and has_none(connection):
                create_tables(connection)
            schema = refuse_other(connection, self.name)
        self.migrated_from = schema if schema < SCHEMA_VERSION else None
        if schema < SCHEMA_VERSION:
            with self._transaction(write=True) as connection:
                migrate.migrate(connection, self.name)


def _read_and_write(engine: Engine) -> dict[bool, Engine]:
    """The engine as it is used for reading and, under True, for writing."""
    return {write: engine.execution_options(autosched_write=write) for write in (False, True)}


def _key(problem_digest: str, device: str, provenance: str, policy: str) -> dict[str, str]:
    return {"problem_digest": problem_digest, "device": device, "provenance": provenance, "policy": policy}


def _let_go(engine: Engine, written_file: Path | None) -> None:
    """Close the connections; the last writer turns an SQLite database back into one file."""
    engine.dispose()
    if written_file is not None:
        sqlite_file.leave_write_ahead(written_file)


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
