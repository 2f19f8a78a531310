"""The record store: one append-only table of trials, in SQLite (a path) or any database SQLAlchemy knows (a URL).

Every append is a transaction of its own. While a store is open for writing, an SQLite file is in write-ahead mode: a
commit then waits for no disk, readers and writers do not block each other, a killed process loses nothing it had
committed, and a power cut loses at most the last seconds and damages nothing. The last writer to close turns the file
back, so that at rest a database is exactly one file that can be copied, committed to a repository, or read from a
read-only folder. Where write-ahead mode is not to be had (some network file systems), every commit is synchronised.
"""

from __future__ import annotations

import json
import os
import sqlite3
import statistics
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, Engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import NullPool, QueuePool, StaticPool

from measurements.measurement import Measurement, Provenance, Resources, Status, Timing
from measurements.record import Record
from search_spaces.problem import Problem
from search_spaces.schedule import Schedule

SCHEMA_VERSION = 2
APPLICATION = "autosched"
BUSY_SECONDS = 60.0  # how long a writer waits for another one; a commit takes milliseconds

_RANKING = (Provenance.MEASURED, Provenance.REPLAYED, Provenance.ESTIMATED)
_RESOURCES = tuple(Resources.__dataclass_fields__)
_SQLITE_MAGIC = b"SQLite format 3\0"

_metadata = sa.MetaData()
_meta = sa.Table(
    "meta",
    _metadata,
    sa.Column("key", sa.String(64), primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)
_trials = sa.Table(
    "trials",
    _metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("family", sa.Text, nullable=False),
    sa.Column("problem", sa.Text, nullable=False),  # canonical JSON, which is also the key
    sa.Column("device", sa.Text, nullable=False),
    sa.Column("fingerprint", sa.Text, nullable=False),  # JSON
    sa.Column("space_version", sa.Text, nullable=False),
    sa.Column("kernel_digest", sa.Text),
    sa.Column("schedule", sa.Text, nullable=False),  # JSON in the order of the parameters
    sa.Column("schedule_key", sa.Text, nullable=False),  # canonical JSON
    sa.Column("provenance", sa.Text, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("median", sa.Float(53)),  # seconds, as the quartiles
    sa.Column("p25", sa.Float(53)),
    sa.Column("p75", sa.Float(53)),
    sa.Column("repeats", sa.Integer),
    sa.Column("error", sa.Float(53)),
    *(sa.Column(name, sa.Integer) for name in _RESOURCES),
    sa.Column("compile_seconds", sa.Float(53)),
    sa.Column("clock_mhz", sa.Float(53)),
    sa.Column("toolchain", sa.Text, nullable=False),
    sa.Column("driver", sa.Text, nullable=False),
    sa.Column("autosched_version", sa.Text, nullable=False),
    sa.Column("created", sa.Text, nullable=False),  # ISO 8601, UTC
    sa.Column("sampler", sa.Text, nullable=False),
    sa.Column("seed", sa.BigInteger, nullable=False),
    sa.Column("final_rank", sa.Integer),  # among finalists timed in turns, else NULL
    sa.CheckConstraint("(status = 'ok') = (median IS NOT NULL)", name="time_exactly_when_ok"),
    sa.CheckConstraint("median > 0 AND p25 > 0 AND p75 > 0", name="time_is_positive"),
    sa.CheckConstraint(
        "(p25 IS NULL) = (median IS NULL) AND (p75 IS NULL) = (median IS NULL) "
        "AND (repeats IS NULL) = (median IS NULL)",
        name="time_is_whole",
    ),
    sa.Index("trials_by_problem", "problem", "device", "provenance", "status"),
    sqlite_autoincrement=True,
)


class StoreError(ValueError):
    """The database cannot be used. The message is one sentence that says what to do."""


@dataclass(frozen=True)
class ProblemSummary:
    """How many trials of one provenance a store holds for a problem on a device, and how many of them are ok."""

    problem_key: str
    device: str
    provenance: Provenance
    trials: int
    ok: int


class Store:
    """The trials in one database, for any number of threads. Make one with ``Store.open``, end it with ``close``."""

    def __init__(self, engine: Engine, name: str, written_file: Path | None = None) -> None:
        self._engine = engine
        self._close = weakref.finalize(self, _let_go, engine, written_file)
        self.name = name

    def close(self) -> None:
        """Let go of the database; done at exit, too. Harmless when repeated."""
        self._close()

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
        text = str(url_or_path)
        if "://" not in text:
            return cls._open_file(text, create)
        try:
            url = make_url(text)
        except (ArgumentError, ValueError):
            raise StoreError("the database URL cannot be parsed: write dialect://user:password@host/name") from None
        if url.get_backend_name() == "sqlite" and url.database not in (None, "", ":memory:"):
            return cls._open_file(str(url.database), create)
        return cls._open_url(url, create)

    @classmethod
    def _open_file(cls, text: str, create: bool) -> Self:
        if "\0" in text:
            raise StoreError("the path of the database holds a zero byte: choose another path")
        path = Path(os.path.realpath(text))  # the journal stands next to the file itself, not next to a link to it
        _check_place(path, create)
        created = _create_empty(path) if create else False
        store = cls(_file_engine(path, write_ahead=False), str(path))
        try:
            store._prepare(create)
        except BaseException:
            if created and path.stat().st_size == 0:
                path.unlink()
            raise
        # only now, so that the tables are in the file itself, where ``_look_at`` sees them
        return cls(_file_engine(path, write_ahead=True), str(path), path) if create else store

    @classmethod
    def _open_url(cls, url: URL, create: bool) -> Self:
        name = url.render_as_string(hide_password=True)
        try:
            if url.get_backend_name() == "sqlite":
                engine = _begin_explicitly(
                    sa.create_engine(
                        url,
                        poolclass=StaticPool,  # one connection: a database in memory ends with its connection
                        connect_args={"isolation_level": None, "check_same_thread": False},
                    )
                )
            else:
                engine = sa.create_engine(url, poolclass=NullPool)
        except (NoSuchModuleError, ModuleNotFoundError) as error:
            raise StoreError(f"the database {name} needs a driver: install it ({_one_line(error)})") from error
        except (ArgumentError, TypeError, ValueError) as error:
            raise StoreError(f"the database URL {name} cannot be used: {_one_line(error)}") from error
        store = cls(engine, name)
        store._prepare(create)
        return store

    def append(self, record: Record) -> Record:
        """Store a record and commit; returns it with its ``id``. Raises StoreError where the database refuses."""
        with self._transaction(write=True) as connection:
            key = connection.execute(_trials.insert().values(_to_row(record))).inserted_primary_key
            if key is None:
                raise StoreError(f"the database {self.name} gives no ids to new rows: use another one")
        return replace(record, id=int(key[0]))

    def trials(
        self,
        problem: Problem | None = None,
        device: str | None = None,
        provenance: Provenance | None = None,
        *,
        status: Status | None = None,
        space_version: str | None = None,
        after: int = 0,
    ) -> list[Record]:
        """The records that match everything given, in the order they were stored; ``after`` skips ids up to it."""
        wanted = _where(problem, device, provenance, status, space_version)
        query = sa.select(_trials).where(_trials.c.id > after, *wanted).order_by(_trials.c.id)
        with self._transaction() as connection:
            return [_from_row(row) for row in connection.execute(query).mappings()]

    def count(
        self, problem: Problem | None = None, device: str | None = None, provenance: Provenance | None = None
    ) -> int:
        """How many records match everything given."""
        query = sa.select(sa.func.count()).select_from(_trials).where(*_where(problem, device, provenance))
        with self._transaction() as connection:
            return int(connection.execute(query).scalar_one())

    def problems(self) -> list[ProblemSummary]:
        """What the store holds, one summary per problem, device and provenance, in the order they first came."""
        c = _trials.c
        query = (
            sa.select(
                c.problem,
                c.device,
                c.provenance,
                sa.func.count().label("trials"),
                sa.func.count(c.median).label("ok"),
            )
            .group_by(c.problem, c.device, c.provenance)
            .order_by(sa.func.min(c.id))
        )
        with self._transaction() as connection:
            return [
                ProblemSummary(row.problem, row.device, Provenance(row.provenance), row.trials, row.ok)
                for row in connection.execute(query)
            ]

    def devices(self, problem: Problem) -> tuple[str, ...]:
        """Names of the devices that have an ok trial of the problem, sorted."""
        query = sa.select(_trials.c.device).distinct().where(*_where(problem, status=Status.OK))
        with self._transaction() as connection:
            return tuple(sorted(connection.execute(query).scalars()))

    def measured(self, problem: Problem, device: str, provenance: Provenance) -> frozenset[str]:
        """Keys of the schedules that have been tried, failures included."""
        query = sa.select(_trials.c.schedule_key).distinct().where(*_where(problem, device, provenance))
        with self._transaction() as connection:
            return frozenset(connection.execute(query).scalars())

    def best(
        self,
        problem: Problem,
        device: str,
        provenance: Provenance | None = None,
        *,
        space_version: str | None = None,
    ) -> Record | None:
        """The fastest schedule by median time, on exactly this device; None if there is no ok trial.

        One provenance is ranked, never a mixture: the one asked for, else measured before replayed before estimated.
        Repeated trials of a schedule count as one, with the medians of their times and the sum of their repeats, on the
        newest record; only trials of the schedule's newest kernel count. A kernel with a wrong result on any device is
        never the best, nor is a schedule while its newest trial is unproven. The first one tried wins a tie.

        Where finalists were timed in turns, the newest winner of that stands before everything tried up to then, and
        only schedules tried since may beat it by their medians. A finalist's time is that of its newest final.
        """
        c = _trials.c
        tried = sa.select(
            c.id,
            c.schedule_key,
            c.kernel_digest,
            c.provenance,
            c.status,
            c.median,
            c.p25,
            c.p75,
            c.repeats,
            c.final_rank,
        )
        tried = tried.where(*_where(problem, device, provenance, space_version=space_version)).order_by(c.id)
        wrong = (
            sa.select(c.schedule_key, c.kernel_digest).where(*_where(problem, status=Status.WRONG_RESULT)).distinct()
        )
        with self._transaction() as connection:
            rows = connection.execute(tried).all()
            ranked = _ranked(rows, {(key, digest) for key, digest in connection.execute(wrong)})
            for kind in _RANKING:
                if kind.value in ranked:
                    row_id, timing = ranked[kind.value]
                    record = _from_row(connection.execute(sa.select(_trials).where(c.id == row_id)).mappings().one())
                    return replace(record, measurement=replace(record.measurement, timing=timing))
        return None

    @contextmanager
    def _transaction(self, *, write: bool = False) -> Iterator[Connection]:
        if not self._close.alive:
            raise StoreError(f"the database {self.name} has been closed: open it again")
        try:
            with self._engine.execution_options(autosched_write=write).begin() as connection:
                yield connection
        except IntegrityError as error:
            raise StoreError(f"the database {self.name} refuses the record: {_one_line(error.orig)}") from error
        except (DBAPIError, sqlite3.Error) as error:
            cause = error.orig if isinstance(error, DBAPIError) else error
            problem = f"cannot be {'written' if write else 'read'} ({_one_line(cause)})"
            raise StoreError(f"the database {self.name} {problem}: {_advice(cause)}") from error
        except SQLAlchemyError as error:
            raise StoreError(f"the database {self.name} cannot be used: {_one_line(error)}") from error

    def _prepare(self, create: bool) -> None:
        """Make the tables where there are none, and check that they are ours and of a schema we know."""
        with self._transaction(write=create) as connection:
            tables = set(sa.inspect(connection).get_table_names())
            if create and not tables & set(_metadata.tables):
                _metadata.create_all(connection)
                rows = {"application": APPLICATION, "schema_version": str(SCHEMA_VERSION)}
                connection.execute(_meta.insert(), [{"key": k, "value": v} for k, v in rows.items()])
                return
            if not tables >= set(_metadata.tables):
                raise _foreign(self.name, tables)
            rows = {row.key: row.value for row in connection.execute(sa.select(_meta.c.key, _meta.c.value))}
            _check_version(self.name, rows, tables)


def _check_place(path: Path, create: bool) -> None:
    """Refuse what cannot be our database, by looking at it without SQLite's locks, which could leave files behind."""
    if not path.exists():
        if not create:
            raise StoreError(f"there is no database {path}: check the path, or tune into it first")
        if not path.parent.is_dir():
            raise StoreError(f"the folder {path.parent} for the database does not exist: create it, or choose another")
        return
    if not path.is_file():
        kind = "a folder" if path.is_dir() else "not a regular file"
        raise StoreError(f"{path} is {kind}: give the path of a database file")
    try:
        with path.open("rb") as file:
            start = file.read(len(_SQLITE_MAGIC))
    except OSError as error:
        raise StoreError(f"the database {path} cannot be read ({error.strerror}): change its permissions") from error
    if start not in (b"", _SQLITE_MAGIC):
        raise StoreError(f"{path} is not an SQLite database: choose another path")
    if not start and not create:
        raise StoreError(f"{path} is empty and holds no trials: check the path, or tune into it first")
    if create and not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
        # SQLite puts its journal into the folder, so that has to be writable too
        raise StoreError(f"the database {path} or its folder is read-only: change that, or choose another path")
    if start:
        _look_at(path)


def _look_at(path: Path) -> None:
    """Read tables and version of an existing file as it is: ``immutable`` takes no lock and makes no -wal or -shm.

    Our own tables never change once made, so what another process is writing does not matter; where that other process
    is making them just now, the version is not there yet, and the caller looks again under a lock.
    """
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
            names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            tables = {str(name) for (name,) in names}
            if not tables >= set(_metadata.tables):
                raise _foreign(str(path), tables)
            rows = dict(connection.execute("SELECT key, value FROM meta"))
    except sqlite3.OperationalError as error:  # such as: no such column
        raise _foreign(str(path), tables) from error
    except sqlite3.DatabaseError as error:
        raise StoreError(f"the database {path} is damaged ({error}): choose another path") from error
    if rows:
        _check_version(str(path), rows, tables)


def _foreign(name: str, tables: set[str]) -> StoreError:
    shown = sorted(tables - {"sqlite_sequence"})
    listed = ", ".join(shown[:3]) + (", ..." if len(shown) > 3 else "") if shown else "none"
    return StoreError(f"{name} is a database that autosched did not make (tables: {listed}): choose another path")


def _check_version(name: str, rows: Mapping[str, str], tables: set[str]) -> None:
    version = rows.get("schema_version", "")
    if rows.get("application") != APPLICATION or not version.isdecimal():
        raise _foreign(name, tables)
    if int(version) > SCHEMA_VERSION:
        raise StoreError(
            f"the database {name} has schema {version} of a newer autosched, this one knows up to {SCHEMA_VERSION}: "
            "upgrade autosched, or choose another path"
        )
    if int(version) < SCHEMA_VERSION:
        raise StoreError(
            f"the database {name} has schema {version} of an older autosched, this one writes {SCHEMA_VERSION}: "
            "choose another path"
        )


def _create_empty(path: Path) -> bool:
    """Make the file if there is none; True if this call made it."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666))
    except FileExistsError:
        return False
    except OSError as error:
        raise StoreError(f"the database {path} cannot be created ({error.strerror}): choose another path") from error
    return True


def _file_engine(path: Path, *, write_ahead: bool) -> Engine:
    def connect() -> sqlite3.Connection:
        connection = _connect(path, BUSY_SECONDS)
        if write_ahead:
            try:
                mode = _enter_write_ahead(connection)
                connection.execute(f"PRAGMA synchronous = {'NORMAL' if mode == 'wal' else 'FULL'}")
            except BaseException:
                connection.close()
                raise
        return connection

    return _begin_explicitly(
        sa.create_engine("sqlite://", creator=connect, poolclass=QueuePool if write_ahead else NullPool)
    )


def _enter_write_ahead(connection: sqlite3.Connection) -> str:
    """The journal mode after asking for write-ahead. SQLite does not wait for others here as it does for statements:
    while one process enters or leaves the mode, another that asks is refused at once."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            return str(mode)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _connect(path: Path, busy_seconds: float) -> sqlite3.Connection:
    """A connection to an existing file, which it never makes."""
    mode = "mode=rw"
    if not os.access(path.parent, os.W_OK) and not path.with_name(f"{path.name}-wal").exists():
        mode = "mode=ro&immutable=1"  # a file in write-ahead mode could not be read without making files next to it
    uri = f"{path.absolute().as_uri()}?{mode}"
    return sqlite3.connect(uri, uri=True, timeout=busy_seconds, isolation_level=None, check_same_thread=False)


def _let_go(engine: Engine, written_file: Path | None) -> None:
    """Close the connections; the last one out folds the write-ahead log into the file and leaves that mode."""
    engine.dispose()
    if written_file is not None and written_file.is_file():
        with suppress(sqlite3.Error), closing(_connect(written_file, 0.0)) as connection:
            connection.execute("PRAGMA journal_mode = DELETE")  # refused while another process has it open


def _begin_explicitly(engine: Engine) -> Engine:
    """The sqlite3 module begins no transaction before CREATE TABLE or SELECT: do it here.

    A writer takes its lock at once and waits for it; taken later, two writers that both read first would deadlock.
    """

    @sa.event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        write = connection.get_execution_options().get("autosched_write", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")

    return engine


def _where(
    problem: Problem | None = None,
    device: str | None = None,
    provenance: Provenance | None = None,
    status: Status | None = None,
    space_version: str | None = None,
) -> list[sa.ColumnElement[bool]]:
    c = _trials.c
    wanted = (
        (c.problem, problem.key() if problem is not None else None),
        (c.device, device),
        (c.provenance, provenance.value if provenance is not None else None),
        (c.status, status.value if status is not None else None),
        (c.space_version, space_version),
    )
    return [column == value for column, value in wanted if value is not None]


def _ranked(rows: Sequence[Any], wrong: set[tuple[str, str | None]]) -> dict[str, tuple[int, Timing]]:
    """Per provenance, the row and the pooled timing of its fastest schedule; ``rows`` in the order of ids."""
    tried: dict[tuple[str, str], list[Any]] = {}
    for row in rows:
        tried.setdefault((row.provenance, row.schedule_key), []).append(row)
    usable: dict[str, list[_Ranked]] = {}
    for (provenance, key), all_of_schedule in tried.items():
        newest = all_of_schedule[-1]
        if newest.status == Status.UNPROVEN.value:
            continue
        digest = newest.kernel_digest
        same = [row for row in all_of_schedule if row.kernel_digest == digest and row.status == Status.OK.value]
        if not same or (key, digest) in wrong:
            continue
        finals = [row for row in same if row.final_rank is not None]
        same = finals[-1:] or same
        median, p25, p75 = (statistics.median(getattr(row, name) for row in same) for name in ("median", "p25", "p75"))
        timing = Timing(median, p25, p75, sum(row.repeats for row in same))
        won = same[-1].id if finals and finals[-1].final_rank == 1 else 0
        alone = max((row.id for row in all_of_schedule if row.final_rank is None), default=0)
        usable.setdefault(provenance, []).append(_Ranked(same[-1].id, timing, won, alone))
    best: dict[str, tuple[int, Timing]] = {}
    for provenance, schedules in usable.items():
        winner = max(schedules, key=lambda s: s.won)  # the first one where nobody has won
        if winner.won:
            schedules = [winner, *(s for s in schedules if s.tried_alone > winner.won)]
        fastest = min(schedules, key=lambda s: s.timing.median)
        best[provenance] = fastest.id, fastest.timing
    return best


@dataclass(frozen=True)
class _Ranked:
    """A schedule that may be the best. ``won`` and ``tried_alone`` are its newest such rows, 0 where there is none."""

    id: int
    timing: Timing
    won: int
    tried_alone: int


def _to_row(record: Record) -> dict[str, Any]:
    m = record.measurement
    timing, resources = m.timing, m.resources
    return {
        "family": record.schedule.family,
        "problem": record.problem_key,
        "device": record.device,
        "fingerprint": record.fingerprint,
        "space_version": record.space_version,
        "kernel_digest": record.kernel_digest,
        "schedule": json.dumps(record.schedule.to_json(), separators=(",", ":")),
        "schedule_key": record.schedule.key(),
        "provenance": m.provenance.value,
        "status": m.status.value,
        "reason": m.reason,
        "median": None if timing is None else timing.median,
        "p25": None if timing is None else timing.p25,
        "p75": None if timing is None else timing.p75,
        "repeats": None if timing is None else timing.count,
        "error": m.error,
        **{name: None if resources is None else getattr(resources, name) for name in _RESOURCES},
        "compile_seconds": m.compile_seconds,
        "clock_mhz": m.clock_mhz,
        "toolchain": record.toolchain,
        "driver": record.driver,
        "autosched_version": record.autosched_version,
        "created": record.created.isoformat(timespec="microseconds"),
        "sampler": record.sampler,
        "seed": record.seed,
        "final_rank": record.rank,
    }


def _from_row(row: Mapping[Any, Any]) -> Record:
    timed, sized = row["median"] is not None, row[_RESOURCES[0]] is not None
    return Record(
        problem_key=row["problem"],
        schedule=Schedule.from_json(row["family"], json.loads(row["schedule"])),
        device=row["device"],
        fingerprint=row["fingerprint"],
        space_version=row["space_version"],
        kernel_digest=row["kernel_digest"],
        measurement=Measurement(
            status=Status(row["status"]),
            provenance=Provenance(row["provenance"]),
            reason=row["reason"],
            timing=Timing(row["median"], row["p25"], row["p75"], row["repeats"]) if timed else None,
            error=row["error"],
            resources=Resources(**{name: row[name] for name in _RESOURCES}) if sized else None,
            compile_seconds=row["compile_seconds"],
            clock_mhz=row["clock_mhz"],
        ),
        toolchain=row["toolchain"],
        driver=row["driver"],
        autosched_version=row["autosched_version"],
        created=datetime.fromisoformat(row["created"]),
        sampler=row["sampler"],
        seed=row["seed"],
        rank=row["final_rank"],
        id=row["id"],
    )


def _one_line(error: BaseException | None) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _advice(error: BaseException | None) -> str:
    text = str(error).lower()
    if "locked" in text:
        return "another process holds it, try again when that has ended"
    if "full" in text:
        return "make room on the disk, everything stored so far is kept"
    if "readonly" in text or "read-only" in text:
        return "change its permissions, or choose another path"
    if "malformed" in text or "not a database" in text:
        return "the file is damaged, restore a copy or choose another path"
    return "check that it is there and may be used"
