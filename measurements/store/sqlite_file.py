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

BUSY_SECONDS = 20.0  # time limit of waiting for another writer; a commit takes milliseconds
NOTICE_SECONDS = 2.0  # wait after which it is logged (at level INFO, which the command line shows)

_log = logging.getLogger(__name__)

# the last one is raised if a file is so damaged that SQLite's message is not text
DATABASE_ERRORS = (sqlite3.Error, SQLAlchemyError, UnicodeDecodeError)

_LONGEST = 500  # bytes of a path; SQLite's limit is 512 including the suffix of its journal
_TIME_RESOLUTION = 2_000_000_000  # ns, the coarsest resolution of file times
_LEAST_FREE = 2**16  # bytes; SQLite's shared memory file alone takes half of that

_ADVICE = {
    sqlite3.SQLITE_BUSY: "another process holds it, try again when that has ended",
    sqlite3.SQLITE_LOCKED: "another process holds it, try again when that has ended",
    sqlite3.SQLITE_FULL: "free disk space; all stored trials are kept",
    sqlite3.SQLITE_READONLY: "change its permissions, or choose another path",
    sqlite3.SQLITE_CORRUPT: "the file is damaged, restore a copy or choose another path",
    sqlite3.SQLITE_NOTADB: "the file is damaged, restore a copy or choose another path",
}
_SYSTEM_ADVICE = {
    errno.EACCES: "change the permissions of it and its folder, or choose another path",
    errno.EPERM: "change the permissions of it and its folder, or choose another path",
    errno.EROFS: "choose another path",
    errno.ENOSPC: "free disk space",
    errno.EDQUOT: "free disk space",
    errno.ENAMETOOLONG: "choose a shorter name",
}


def locate(text: str) -> Path:
    """Return the file of a path, whether or not it exists. Raises StoreError for an invalid path."""
    if not text.strip():
        raise StoreError("the path of the database is empty: give one, such as best.db")
    if "\0" in text:
        raise StoreError("the path of the database holds a zero byte: choose another path")
    if text.startswith("file:"):
        raise StoreError(f"{text} is an SQLite URI: give only the path, such as best.db")
    if os.path.basename(text) in ("", os.curdir, os.pardir):
        raise StoreError(f"{text} names a folder: give the path of a database file")
    path = Path(os.path.realpath(text))  # the journal is next to the file itself, not next to a link to it
    if len(os.fsencode(path)) > _LONGEST:
        raise StoreError(f"the path of the database is longer than {_LONGEST} bytes: choose a shorter one ({path})")
    return path


def check(path: Path, create: bool) -> None:
    """Raise StoreError for a file that cannot be autosched's database, with nothing changed on disk."""
    with _system_errors(path, "be used"):
        exists = _exists(path)
        # The journal, which SQLite creates for writing, must not have too long a name either.
        _exists(Path(f"{path}-journal"))
        if not exists:
            if not create:
                raise StoreError(f"there is no database {path}: check the path, or tune into it first")
            if not path.parent.is_dir():
                folder = path.parent
                if folder.exists():
                    raise StoreError(f"{folder} is not a folder: choose another path for the database")
                raise StoreError(f"the folder {folder} for the database does not exist: create it, or choose another")
            return
        if not path.is_file():
            kind = "a folder" if path.is_dir() else "not a regular file"
            raise StoreError(f"{path} is {kind}: give the path of a database file")
        with path.open("rb") as file:
            start = file.read(len(MAGIC))
    if start not in (b"", MAGIC):
        raise StoreError(f"{path} is not an SQLite database: choose another path")
    if not start and not create:
        raise StoreError(f"{path} is empty and holds no trials: check the path, or tune into it first")
    if create and not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
        # SQLite puts its journal into the folder, which must also be writable
        raise StoreError(f"the database {path} or its folder is read-only: change that, or choose another path")
    if start:
        _look(path)


def _look(path: Path) -> None:
    """Reject files of other programs without changing them.

    ``immutable`` takes no lock and creates no -wal or -shm file. This check does not need the write-ahead log, because
    the tables are created before write-ahead mode is entered. It does not check the trials: a checkpoint that is
    running or was interrupted may have written half of the file. SQLite itself waits for a running one and repairs the
    other.
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
    """Return an identity of the file at ``path``, which changes if the file is replaced; None if it is missing."""
    with suppress(OSError):
        status = os.stat(path)
        return status.st_dev, status.st_ino
    return None


def settled_state(path: Path) -> tuple[int, ...] | None:
    """Return a state that changes with any commit to the file at ``path``; None if a commit may be too recent.

    A commit changes the size or the time of the file, or of the write-ahead log next to it. File times differ by at
    most two seconds of resolution (FAT).
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
    """Return an engine whose connections keep the journal mode and do not stay open."""

    def connect() -> sqlite3.Connection:
        if not os.access(path.parent, os.W_OK) and not _exists(Path(f"{path}-wal")):
            # reading a file in write-ahead mode creates files next to it
            return _connect(path, "mode=ro&immutable=1")
        return _connect(path, "mode=rw")

    return _engine(connect, path)


def writing_engine(path: Path) -> Engine:
    """Return an engine in write-ahead mode; if that is unavailable, every commit is synchronised to disk."""

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
    """Copy the write-ahead log into the file and leave that mode, unless another process has the file open."""
    if path.is_file():
        with suppress(sqlite3.Error), closing(_connect(path, "mode=rw", 0.0)) as connection:
            connection.execute("PRAGMA journal_mode = DELETE")


def compact(path: Path) -> None:
    """Shrink the file to its contents. Raises sqlite3.Error."""
    with closing(_connect(path, "mode=rw")) as connection:
        connection.execute("VACUUM")


def begin_explicitly(engine: Engine, path: Path | None = None) -> Engine:
    """Make an engine begin transactions before CREATE TABLE and SELECT too, which the sqlite3 module does not.

    The lock is acquired at the begin of a transaction, with a time limit: two writers that both read first would
    otherwise deadlock. ``path`` is the file that others may lock.
    """

    @sa.event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        write = connection.get_execution_options().get("autosched_write", False)
        if not write:
            connection.exec_driver_sql("BEGIN")
        raw = connection.connection.driver_connection
        if path is not None and raw is not None:
            _lock(raw, "BEGIN IMMEDIATE" if write else "PRAGMA schema_version", path)  # a read also takes a lock
        elif write:
            connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def _lock(connection: sqlite3.Connection, statement: str, path: Path) -> None:
    """Execute a statement that takes a lock, and log a long wait.

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
    """Return the remedy for an SQLite error with the file at ``path``."""
    code = getattr(error, "sqlite_errorcode", None)
    known = None if code is None else _ADVICE.get(code & 0xFF)
    if known is not None:
        return known
    if isinstance(error, UnicodeDecodeError) or "decode" in str(error).lower():
        return _ADVICE[sqlite3.SQLITE_CORRUPT]
    # "unable to open database file" and "disk I/O error": SQLite does not give the reason
    with suppress(OSError):
        if shutil.disk_usage(path.parent).free < _LEAST_FREE:
            return _ADVICE[sqlite3.SQLITE_FULL]
    if not os.access(path, os.R_OK) or not os.access(path.parent, os.W_OK):
        return _SYSTEM_ADVICE[errno.EACCES]
    return "check the disk, its quota and the limit on the size of files; everything stored so far is kept"


def _engine(connect: Callable[[], sqlite3.Connection], path: Path) -> Engine:
    return begin_explicitly(sa.create_engine("sqlite://", creator=connect, poolclass=NullPool), path)


def _connect(path: Path, mode: str, busy_seconds: float = BUSY_SECONDS) -> sqlite3.Connection:
    """Return a connection to an existing file; the file is never created."""
    uri = f"{path.absolute().as_uri()}?{mode}"
    connection = sqlite3.connect(uri, uri=True, timeout=busy_seconds, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA trusted_schema = OFF")  # no side effects from the schema of an untrusted file
    return connection


def _enter_write_ahead(connection: sqlite3.Connection, path: Path) -> str:
    """Request write-ahead mode and return the journal mode.

    Unlike statements, this request does not wait for other processes: it fails while one enters or leaves the mode.
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
    """Return True if a path exists. Unlike ``Path.exists``, raise other system errors in every version of Python."""
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
