"""Working folders of a process, and cleanup of the folders and compilers that a process leaves when it is killed.

The process that works in a folder holds a lock on a file in that folder. The system releases the lock when the process
ends, so an unlocked folder is abandoned. A process that kills a worker removes the worker's folders immediately. Other
abandoned folders are removed by the next process that needs a working folder; compilers that still run in them are
killed.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO

from measurements.files.file_lock import lock

_BUILD, _TEMPORARY = "build-", "autosched-work-"
_LOCK, _NEW, _GROUP = "lock", "lock.new", "group-"
_own: set[Path] = set()  # temporary folders of this process
_LOCK_WITHIN = 60.0  # seconds that a process may take between creating a folder and locking it


@contextmanager
def build_folder(parent: Path) -> Iterator[Path]:
    """Yield an empty folder below ``parent`` for a compilation, and delete it afterwards. Raises OSError."""
    remove_abandoned(parent, _BUILD)
    with _locked(parent, _BUILD) as folder:
        yield folder


@contextmanager
def temporary_folder(purpose: str = "emulator") -> Iterator[Path]:
    """Yield an empty folder in the system's temporary folder, and delete it afterwards.

    Args:
        purpose: Word that becomes part of the folder's name.

    Raises:
        OSError: The folder cannot be created.
    """
    parent = Path(tempfile.gettempdir())
    _look_once(parent)
    with _locked(parent, f"{_TEMPORARY}{purpose}-") as folder:
        _own.add(folder)
        try:
            yield folder
        finally:
            _own.discard(folder)


def process_folder(purpose: str) -> Path:
    """Return a folder like ``temporary_folder`` that lasts as long as this process. Raises OSError."""
    return _folder_of(os.getpid(), purpose)


@cache
def _folder_of(process: int, purpose: str) -> Path:
    parent = Path(tempfile.gettempdir())
    _look_once(parent)
    folder = Path(tempfile.mkdtemp(dir=parent, prefix=f"{_TEMPORARY}{purpose}-"))
    file = _lock_of(folder)
    _own.add(folder)

    def remove() -> None:
        if os.getpid() == process:  # a forked child must not remove the folder of its parent
            shutil.rmtree(folder, ignore_errors=True)
            file.close()

    atexit.register(remove)
    return folder


@cache
def _look_once(parent: Path) -> None:
    """Remove abandoned folders below ``parent``, only once per process because the search may be slow."""
    remove_abandoned(parent, _TEMPORARY)


def remove_own_temporary() -> None:
    """Remove the temporary folders of this process, which is about to end without running exit handlers."""
    for folder in list(_own):
        shutil.rmtree(folder, ignore_errors=True)


def remove_temporary_of_killed() -> None:
    """Remove temporary folders of ended processes. This is called after a process was killed."""
    remove_abandoned(Path(tempfile.gettempdir()), _TEMPORARY)


@contextmanager
def _locked(parent: Path, prefix: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=parent, prefix=prefix) as name:
        folder = Path(name)
        with _lock_of(folder):
            yield folder


def _lock_of(folder: Path) -> IO[str]:
    """Create and lock the lock file of a new folder. Closing the returned file releases the lock."""
    file = (folder / _NEW).open("w")
    lock(file)
    # other processes look for the final name, which exists only once the file is locked
    os.rename(file.name, folder / _LOCK)
    return file


def note_compiler(folder: Path, group: int) -> None:
    """Record that the process group ``group``, which was just started, works in ``folder``."""
    started = _start_time(group)
    if (folder / _LOCK).exists() and started is not None:
        with suppress(OSError):  # the record is only needed if this process is killed
            (folder / f"{_GROUP}{group}").write_text(started)


def remove_abandoned(parent: Path, prefix: str) -> None:
    """Remove this user's abandoned folders below ``parent`` that start with ``prefix``, and terminate their compilers.

    A folder without a lock file is removed only if it is empty; otherwise another program may have created it.
    """
    for folder in parent.glob(f"{prefix}*"):
        with suppress(OSError):
            if folder.is_symlink() or not folder.is_dir() or folder.stat().st_uid != os.getuid():
                continue
            lock_file = folder / _LOCK
            if not lock_file.is_file():
                if time.time() - folder.stat().st_mtime > _LOCK_WITHIN:
                    (folder / _NEW).unlink(missing_ok=True)
                    folder.rmdir()
                continue
            with lock_file.open("r+") as file:
                lock(file, wait=False)  # raises OSError while a process works in the folder
                _end_compilers(folder)
                shutil.rmtree(folder, ignore_errors=True)


def _end_compilers(folder: Path) -> None:
    """Kill the recorded process groups, unless the system has reused their numbers for other processes."""
    for noted in folder.glob(f"{_GROUP}*"):
        with suppress(OSError, ValueError):
            group = int(noted.name.removeprefix(_GROUP))
            if group > 1 and _start_time(group) == noted.read_text():
                os.killpg(group, signal.SIGKILL)


def _start_time(pid: int) -> str | None:
    """Return the start time of a process in kernel ticks (proc(5), field 22 of stat); None if it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return text.rpartition(")")[2].split()[19]
