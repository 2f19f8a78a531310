"""Connections, transactions and errors of one open database, which is an SQLite file or on a server.

While an SQLite file is open for writing, it is in write-ahead mode: commits do not wait for the disk, and readers and
writers do not block each other. A killed process loses no committed trial. A power failure loses at most the last
seconds and damages nothing. The last writer ends write-ahead mode when it closes the file. A closed database is
therefore a single file that can be copied, committed to a repository, or read from a read-only folder. If write-ahead
mode is unavailable (on some network file systems), every commit is synchronised to disk.
"""

from __future__ import annotations

import sqlite3
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, Engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import NullPool, StaticPool

from measurements.files.text import first_line, one_line, without_password
from measurements.store import sqlite_file
from measurements.store.errors import StoreError
from measurements.store.schema import create_tables, has_none, refuse_other, wait_for_others

_IN_MEMORY = (None, "", ":memory:")


class StoreDatabase:
    """An open database with the tables of autosched. Thread-safe. Create it with ``StoreDatabase.open``."""

    def __init__(self, engine: Engine, name: str, file: Path | None = None) -> None:
        self._engines = _read_and_write(engine)
        self._file = file
        self._identity = None if file is None else sqlite_file.identity(file)
        self._unwritten = file is not None
        self._lock = threading.Lock()
        self._close = weakref.finalize(self, _dispose, engine, None)
        self.name = name

    @property
    def in_memory(self) -> bool:
        """True if the data are lost when this object is closed."""
        return self._engines[False].dialect.name == "sqlite" and self._file is None

    @property
    def is_open(self) -> bool:
        """True until the database is closed."""
        return self._close.alive

    def close(self) -> None:
        """Close the database, which also happens at exit. Safe to call twice."""
        self._close()

    @classmethod
    def open(cls, url_or_path: str | Path, *, create: bool = True) -> Self:
        """Open a database, by the path of an SQLite file or an SQLAlchemy URL ("postgresql+psycopg://host/name").

        If ``create`` is true, the database is opened for writing and created if missing. Otherwise it must exist and
        may be read-only. Raises StoreError if the location cannot be written (or read), if the file is not an SQLite
        database of autosched, or if it has another schema version. If StoreError is raised, nothing has been changed on
        disk.
        """
        if not isinstance(url_or_path, (str, Path)):
            raise StoreError(f"invalid database {url_or_path!r}: give a path or an SQLAlchemy URL")
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
            raise StoreError(f"{text} is a new database in memory and is empty: give the path of a file")
        return cls._open_memory(text)

    @classmethod
    def _open_file(cls, text: str, create: bool) -> Self:
        path = sqlite_file.locate(text)
        sqlite_file.check(path, create)
        created = sqlite_file.create_empty(path) if create else False
        database = cls(sqlite_file.plain_engine(path), str(path), path)
        try:
            database._prepare(create)
        except BaseException:
            if created and path.stat().st_size == 0:
                path.unlink()
            raise
        return database

    @classmethod
    def _open_memory(cls, name: str) -> Self:
        engine = sa.create_engine(
            "sqlite://",
            # all threads share one connection, because an in-memory database is lost when its connection closes
            poolclass=StaticPool,
            connect_args={"isolation_level": None, "check_same_thread": False},
        )
        database = cls(sqlite_file.begin_explicitly(engine), name)
        database._prepare(create=True)
        return database

    @classmethod
    def _open_server(cls, url: URL, create: bool) -> Self:
        name = without_password(url.render_as_string(hide_password=False))
        try:
            engine = sa.create_engine(url, poolclass=NullPool)
        except NoSuchModuleError as error:
            raise StoreError(
                f"the database {name} cannot be used: SQLAlchemy has no dialect and driver {url.drivername}; give the "
                "path of a file, or a URL like postgresql+psycopg://user@host/name, or install that dialect"
            ) from error
        except ModuleNotFoundError as error:
            how = "pip install 'autosched[postgresql]'" if url.drivername.startswith("postgresql") else "install it"
            raise StoreError(f"the database {name} needs a driver ({first_line(error)}): {how}") from error
        except (ArgumentError, TypeError, ValueError) as error:
            raise StoreError(f"the database URL {name} cannot be used: {first_line(error)}") from error
        database = cls(engine, name)
        database._prepare(create)
        return database

    def refuse_closed(self) -> None:
        """Raise StoreError once the database has been closed."""
        if not self._close.alive:
            raise StoreError(f"the database {self.name} has been closed: open it again")

    def settled_state(self) -> tuple[int, ...] | None:
        """Return a value that changes with every commit; None if there is no file, or shortly after a commit."""
        return None if self._file is None else sqlite_file.settled_state(self._file)

    def size(self) -> int | None:
        """Size of the file in bytes; None without a file."""
        return None if self._file is None else self._file.stat().st_size

    def damage(self) -> list[str]:
        """Return the errors that SQLite finds in the file, one sentence each."""
        if self._file is None:
            return []
        with self.transaction() as connection:
            lines = connection.exec_driver_sql("PRAGMA integrity_check(20)").scalars().all()
        return [f"the file is damaged: {one_line(str(line))}" for line in lines if line != "ok"]

    def compact(self) -> None:
        """Shrink the file by the space of removed trials. Raises StoreError."""
        if self._file is not None:
            try:
                sqlite_file.compact(self._file)
            except sqlite3.Error as error:
                todo = sqlite_file.advice(error, self._file)
                raise StoreError(
                    f"the database {self.name} cannot be compacted ({first_line(error)}): {todo}"
                ) from error

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Begin a transaction that writes trials, like ``transaction`` with ``write``.

        The first call puts the database into write-ahead mode.
        """
        self._enter_write_ahead()
        with self.transaction(write=True) as connection:
            yield connection

    @contextmanager
    def transaction(self, *, write: bool = False) -> Iterator[Connection]:
        """Begin a transaction, which is committed at the end, or rolled back after an error.

        Yields a connection. Every error of the database is raised as StoreError.
        """
        self.refuse_closed()
        try:
            with self._engines[write].begin() as connection:
                yield connection
        except IntegrityError as error:
            raise StoreError(
                f"the database {self.name} rejects the trial: {first_line(error.orig or error)}"
            ) from error
        except (DBAPIError, sqlite3.Error, UnicodeDecodeError) as error:
            cause = error.orig if isinstance(error, DBAPIError) else error
            todo = "check that the database exists and that you have access"
            if self._file is not None:
                todo = sqlite_file.advice(cause, self._file)
            problem = f"cannot be {'written' if write else 'read'} ({first_line(cause or error)})"
            raise StoreError(f"the database {self.name} {problem}: {todo}") from error
        except SQLAlchemyError as error:
            raise StoreError(f"the database {self.name} cannot be used: {first_line(error)}") from error

    def _enter_write_ahead(self) -> None:
        """Enter write-ahead mode before the first trial.

        Files that are only read or that are rejected must remain unchanged, so the mode is not entered at opening.
        """
        if self._file is None:
            return
        if sqlite_file.identity(self._file) != self._identity:
            raise StoreError(f"the database {self.name} was removed or replaced while it was in use: start again")
        with self._lock:
            if self._unwritten and self._close.detach() is not None:
                engine = sqlite_file.writing_engine(self._file)
                self._engines = _read_and_write(engine)
                self._close = weakref.finalize(self, _dispose, engine, self._file)
                self._unwritten = False

    def _prepare(self, create: bool) -> None:
        """Create the tables if there are none; otherwise check that the existing tables are autosched's."""
        with self.transaction(write=create) as connection:
            if create:
                wait_for_others(connection)
            if create and has_none(connection):
                create_tables(connection)
            refuse_other(connection, self.name)


def _read_and_write(engine: Engine) -> dict[bool, Engine]:
    """Return two engines: the engine with the key False reads, the engine with the key True writes."""
    return {write: engine.execution_options(autosched_write=write) for write in (False, True)}


def _dispose(engine: Engine, written_file: Path | None) -> None:
    """Close the connections.

    The last writer of an SQLite file also ends write-ahead mode, which leaves a single file.
    """
    engine.dispose()
    if written_file is not None:
        sqlite_file.leave_write_ahead(written_file)
