"""The SQLite file of a trial store: its location, inspection, opening, closing and errors."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool, QueuePool

from measurements.store import schema
from measurements.store.errors import StoreError
from measurements.store.sqlite_header import MAGIC

BUSY_SECONDS = 20.0  # maximum wait in seconds for another writer, whose commit takes milliseconds
NOTICE_SECONDS = 2.0  # seconds after which a wait is logged, at level INFO, which the command line shows

_log = logging.getLogger(__name__)

# UnicodeDecodeError: in a badly damaged file, SQLite's message may not be valid text
DATABASE_ERRORS = (sqlite3.Error, SQLAlchemyError, UnicodeDecodeError)

_LONGEST = 500  # maximum bytes of a path; SQLite's limit is 512, including the suffix of the journal
_TIME_RESOLUTION = 2_000_000_000  # coarsest resolution of file times, in ns
_LEAST_FREE = 2**16  # minimum free disk space in bytes; SQLite's -shm file alone takes half of it

_ADVICE = {
    sqlite3.SQLITE_BUSY: "another process has locked it, try again when that process has ended",
    sqlite3.SQLITE_LOCKED: "another process has locked it, try again when that process has ended",
    sqlite3.SQLITE_FULL: "free disk space; all stored trials are kept",
    sqlite3.SQLITE_READONLY: "change its permissions, or choose another path",
    sqlite3.SQLITE_CORRUPT: "the file is damaged: restore a copy, or choose another path",
    sqlite3.SQLITE_NOTADB: "the file is damaged: restore a copy, or choose another path",
}
_SYSTEM_ADVICE = {
    errno.EACCES: "change the permissions of the file and its folder, or choose another path",
    errno.EPERM: "change the permissions of the file and its folder, or choose another path",
    errno.EROFS: "choose another path",
    errno.ENOSPC: "free disk space",
    errno.EDQUOT: "free disk space",
    errno.ENAMETOOLONG: "choose a shorter name",
}


def locate(text: str) -> Path:
    """Return the path of a database file, which need not exist. Raises StoreError for an invalid path."""
    if not text.strip():
        raise StoreError("the path of the database is empty: give a path, such as best.db")
    if "\0" in text:
        raise StoreError("the path of the database contains a zero byte: choose another path")
    if text.startswith("file:"):
        raise StoreError(f"{text} is an SQLite URI: give only the path, such as best.db")
    if os.path.basename(text) in ("", os.curdir, os.pardir):
        raise StoreError(f"{text} names a folder: give the path of a database file")
    path = Path(os.path.realpath(text))  # links are resolved, because SQLite puts the journal next to the file itself
    if len(os.fsencode(path)) > _LONGEST:
        raise StoreError(f"the path of the database is longer than {_LONGEST} bytes: choose a shorter path ({path})")
    return path


def check(path: Path, create: bool) -> None:
    """Raise StoreError if the file cannot be a database of autosched. The disk is not changed."""
    with _system_errors(path, "be used"):
        exists = _exists(path)
        # The name of the journal, which SQLite creates for writing, must not be too long either.
        _exists(Path(f"{path}-journal"))
        if not exists:
            if not create:
                raise StoreError(f"there is no database {path}: check the path, or create the database by tuning")
            if not path.parent.is_dir():
                folder = path.parent
                if folder.exists():
                    raise StoreError(f"{folder} is not a folder: choose another path for the database")
                raise StoreError(
                    f"the folder {folder} for the database does not exist: create it, or choose another folder"
                )
            return
        if not path.is_file():
            kind = "a folder" if path.is_dir() else "not a regular file"
            raise StoreError(f"{path} is {kind}: give the path of a database file")
        with path.open("rb") as file:
            start = file.read(len(MAGIC))
    if start not in (b"", MAGIC):
        raise StoreError(f"{path} is not an SQLite database: choose another path")
    if not start and not create:
        raise StoreError(f"{path} is empty and contains no trials: check the path, or first tune with this database")
    if create and not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
        # the folder must also be writable, because SQLite puts its journal there
        raise StoreError(
            f"the database {path} or its folder is read-only: change the permissions, or choose another path"
        )
    if start:
        _look(path)


def _look(path: Path) -> None:
    """Reject files of other programs without changing them.

    The file is opened with SQLite's option ``immutable``, which takes no lock and creates no -wal or -shm file. This
    check does not need the write-ahead log, because the tables are created before write-ahead mode is entered. The
    trials are not checked, because a running or interrupted checkpoint may have written only part of the file. When the
    database is opened later, SQLite waits for a running checkpoint and completes an interrupted one.
    """
    with suppress(*DATABASE_ERRORS), _engine(lambda: _connect(path, "mode=ro&immutable=1"), path).begin() as c:
        schema.refuse_other(c, str(path))


def create_empty(path: Path) -> bool:
    """Create the file if it is missing; return True if this call created it."""
    with _system_errors(path, "be created"):
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666))
        except FileExistsError:
            return False
    return True


def identity(path: Path) -> tuple[int, int] | None:
    """Return a value that changes if the file at ``path`` is replaced; None if the file is missing."""
    with suppress(OSError):
        status = os.stat(path)
        return status.st_dev, status.st_ino
    return None


def settled_state(path: Path) -> tuple[int, ...] | None:
    """Return a value that changes with every commit to the file; None shortly after a commit.

    A commit changes the size or the time of the file or of its write-ahead log. File times have a resolution of up to
    two seconds (FAT), so two commits within that time may have the same value.
    """
    state: list[int] = []
    for name in (path, f"{path}-wal"):
        try:
            status = os.stat(name)
        except OSError:
            state.append(0)
            continue
        state += (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        if time.time_ns() - status.st_mtime_ns < _TIME_RESOLUTION:
            return None
    return tuple(state)


def plain_engine(path: Path) -> Engine:
    """Return an engine whose connections do not change the journal mode and are closed after use."""

    def connect() -> sqlite3.Connection:
        if not os.access(path.parent, os.W_OK) and not _exists(Path(f"{path}-wal")):
            # reading a database in write-ahead mode creates files in the database's folder
            return _connect(path, "mode=ro&immutable=1")
        return _connect(path, "mode=rw")

    return _engine(connect, path)


def writing_engine(path: Path) -> Engine:
    """Return an engine in write-ahead mode. If that mode is unavailable, every commit is synchronised to disk."""

    def connect() -> sqlite3.Connection:
        connection = _connect(path, "mode=rw")
        try:
            mode = _enter_write_ahead(connection, path)
            connection.execute(f"PRAGMA synchronous = {'NORMAL' if mode == 'wal' else 'FULL'}")
        except BaseException:
            connection.close()
            raise
        return connection

    return begin_explicitly(sa.create_engine("sqlite://", creator=connect, poolclass=QueuePool), path)


def leave_write_ahead(path: Path) -> None:
    """Copy the write-ahead log into the file and end write-ahead mode, unless another process has the file open."""
    if path.is_file():
        with suppress(sqlite3.Error), closing(_connect(path, "mode=rw", 0.0)) as connection:
            connection.execute("PRAGMA journal_mode = DELETE")


def compact(path: Path) -> None:
    """Shrink the file to its contents. Raises sqlite3.Error."""
    with closing(_connect(path, "mode=rw")) as connection:
        connection.execute("VACUUM")


def begin_explicitly(engine: Engine, path: Path | None = None) -> Engine:
    """Make an engine begin transactions explicitly, also before CREATE TABLE and SELECT, unlike the sqlite3 module.

    A writing transaction acquires its lock at the beginning, with a time limit. Otherwise two transactions that read
    before they write could deadlock. ``path`` is the file, for messages about a lock of another process.
    """

    @sa.event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        write = connection.get_execution_options().get("autosched_write", False)
        if not write:
            connection.exec_driver_sql("BEGIN")
        raw = connection.connection.driver_connection
        if path is not None and raw is not None:
            # a transaction that only reads also takes a lock
            _lock(raw, "BEGIN IMMEDIATE" if write else "PRAGMA schema_version", path)
        elif write:
            connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def _lock(connection: sqlite3.Connection, statement: str, path: Path) -> None:
    """Execute a statement that takes a lock. A long wait for the lock is logged.

    Raises sqlite3.OperationalError after BUSY_SECONDS.
    """
    try:
        connection.execute(f"PRAGMA busy_timeout = {1000 * NOTICE_SECONDS:.0f}")
        connection.execute(statement).fetchall()
    except sqlite3.OperationalError as error:
        if not _is_busy(error):
            raise
        _log_waiting(path)
        connection.execute(f"PRAGMA busy_timeout = {1000 * (BUSY_SECONDS - NOTICE_SECONDS):.0f}")
        connection.execute(statement).fetchall()
    connection.execute(f"PRAGMA busy_timeout = {1000 * BUSY_SECONDS:.0f}")


def _is_busy(error: sqlite3.OperationalError) -> bool:
    return error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY


def _log_waiting(path: Path) -> None:
    _log.info("another process has locked the database %s: waiting at most %.0f s", path, BUSY_SECONDS)


def advice(error: BaseException | None, path: Path) -> str:
    """Return the remedy for an SQLite error of the file at ``path``."""
    code = getattr(error, "sqlite_errorcode", None)
    known = None if code is None else _ADVICE.get(code & 0xFF)
    if known is not None:
        return known
    if isinstance(error, UnicodeDecodeError) or "decode" in str(error).lower():
        return _ADVICE[sqlite3.SQLITE_CORRUPT]
    # SQLite gives no reason for "unable to open database file" and "disk I/O error"
    with suppress(OSError):
        if shutil.disk_usage(path.parent).free < _LEAST_FREE:
            return _ADVICE[sqlite3.SQLITE_FULL]
    if not os.access(path, os.R_OK) or not os.access(path.parent, os.W_OK):
        return _SYSTEM_ADVICE[errno.EACCES]
    return "check the disk, its quota and the limit on the size of files; all stored trials are kept"


def _engine(connect: Callable[[], sqlite3.Connection], path: Path) -> Engine:
    return begin_explicitly(sa.create_engine("sqlite://", creator=connect, poolclass=NullPool), path)


def _connect(path: Path, mode: str, busy_seconds: float = BUSY_SECONDS) -> sqlite3.Connection:
    """Connect to an existing file. A missing file is not created."""
    uri = f"{path.absolute().as_uri()}?{mode}"
    connection = sqlite3.connect(uri, uri=True, timeout=busy_seconds, isolation_level=None, check_same_thread=False)
    # the schema of an untrusted file must not run functions with side effects
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection


def _enter_write_ahead(connection: sqlite3.Connection, path: Path) -> str:
    """Request write-ahead mode and return the journal mode.

    Unlike other statements, this request does not wait for other processes. The request fails while another process
    enters or leaves write-ahead mode.
    """
    began, reported = time.monotonic(), False
    while True:
        try:
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            return str(mode)
        except sqlite3.OperationalError as error:
            waited = time.monotonic() - began
            if not _is_busy(error) or waited > BUSY_SECONDS:
                raise
            if waited > NOTICE_SECONDS and not reported:
                reported = True
                _log_waiting(path)
            time.sleep(0.01)


def _exists(path: Path) -> bool:
    """Return True if a path exists. Unlike ``Path.exists``, raise system errors in every version of Python."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


@contextmanager
def _system_errors(path: Path, action: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        todo = _SYSTEM_ADVICE.get(error.errno or 0, "choose another path")
        raise StoreError(f"the database {path} cannot {action} ({error.strerror}): {todo}") from error
