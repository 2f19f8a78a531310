"""CSV file of the problems that an application computes. The columns are ``count`` and ``problem`` (the problem's key).

An optional third column ``seconds`` contains the time of one call. Only readers support this column: ``CallLog`` does
not write it.
"""

from __future__ import annotations

import atexit
import csv
import io
import math
import os
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from autosched.dispatch import launch_caches
from measurements.files import atomic_write, file_lock
from measurements.files.bounded import read_bounded
from search_spaces.operators.problem import Problem

VARIABLE = "AUTOSCHED_CALL_LOG"
HEADER = ["count", "problem"]
TIMED_HEADER = [*HEADER, "seconds"]
_LARGEST = 1 << 26  # maximum file size in bytes
_MOST_COUNT = 10**15


class CallLogError(ValueError):
    """Invalid call log. The message is one line."""


class CallLog:
    """Number of calls per problem. ``write`` adds the counts to the counts in a CSV file. Thread-safe."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.counts: Counter[Problem] = Counter()
        self._lock = threading.Lock()

    def add(self, problem: Problem) -> None:
        """Count one call of ``problem``."""
        with self._lock:
            self.counts[problem] += 1

    def write(self) -> None:
        """Add the counts of this log to the counts in the file, then reset this log.

        Several processes may write to one file. Raises OSError, and ValueError if the existing file is not a call log.
        On an error, the file is unchanged.
        """
        with self._lock:
            counts, self.counts = Counter({p.key(): n for p, n in self.counts.items()}), Counter()
        if not counts:
            return
        with open(self.path.with_name(f".{self.path.name}.lock"), "w") as lock:
            file_lock.lock(lock)
            if self.path.exists():
                counts.update(_read_own(self.path))
            text = io.StringIO()
            writer = csv.writer(text, lineterminator="\n")
            writer.writerow(HEADER)
            writer.writerows((count, key) for key, count in counts.most_common())
            atomic_write.publish(self.path, text.getvalue().encode())


_active: list[CallLog] = []


def active() -> bool:
    """Return True if a call log is open."""
    return bool(_active)


def add(problem: Problem) -> None:
    """Count a call of ``problem`` in every open log."""
    for log in tuple(_active):
        log.add(problem)


@contextmanager
def log_calls(path: str | Path) -> Iterator[CallLog]:
    """Count the calls of autosched's functions and PyTorch operators in all threads, and add the counts to a CSV file.

    Args:
        path: CSV file, written at the end of the block.

    Yields:
        The call log.

    Raises:
        OSError: The file cannot be written.
    """
    log = CallLog(path)
    _active.append(log)
    launch_caches.clear()  # calls that use cached launches would not be counted
    try:
        yield log
    finally:
        _active.remove(log)
        log.write()


def start_from_environment() -> None:
    """If AUTOSCHED_CALL_LOG names a file, count calls until the process ends, and write the counts to the file.

    Only the first call of this function has an effect.
    """
    path = os.environ.get(VARIABLE)
    if path and all(log.path != Path(path).absolute() for log in _active):
        log = CallLog(Path(path).absolute())
        _active.append(log)
        launch_caches.clear()
        atexit.register(_write_at_exit, log)


def _write_at_exit(log: CallLog) -> None:
    try:
        log.write()
    except (OSError, ValueError) as error:
        print(f"autosched: {VARIABLE}: calls are not counted: {' '.join(str(error).split())}", file=sys.stderr)


def _read_own(path: Path) -> Counter[str]:
    """Return the counts in a call log that autosched wrote, by problem key.

    Raises CallLogError for any other file, and OSError.
    """
    text = text_of(path)
    if text.partition("\n")[0].strip() != ",".join(HEADER):
        raise CallLogError(f"{path} is not a call log written by autosched: name another file")
    counts: Counter[str] = Counter()
    for key, count, _ in counted(path, text):
        counts[key] += count
    return counts


def counted(path: Path, text: str) -> Iterator[tuple[str, int, float | None]]:
    """Yield the problem key, the count and the seconds per call of each line; seconds is None without that column.

    Raises CallLogError, which names ``path``.
    """
    for number, row in enumerate(_rows(path, text), 2):
        if (
            len(row) not in (len(HEADER), len(TIMED_HEADER))
            or not row[0].isascii()
            or not row[0].isdigit()
            or not 0 < int(row[0]) < _MOST_COUNT
        ):
            raise CallLogError(
                f"line {number} of {path} does not consist of a count and a problem: correct the line, or record the "
                "calls again"
            )
        yield row[1], int(row[0]), _seconds(path, number, row[2]) if row[2:] and row[2] else None


def _seconds(path: Path, number: int, text: str) -> float:
    """Parse the ``seconds`` field of a line. Raises CallLogError unless it is a positive number."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise CallLogError(f"invalid seconds in line {number} of {path}: {text!r:.40}; use a positive number")
    return seconds


def _rows(path: Path, text: str) -> Iterator[list[str]]:
    rows = csv.reader(text.splitlines()[1:])
    while True:
        try:
            yield next(rows)
        except StopIteration:
            return
        except csv.Error as error:  # raised by csv, for example for a field of more than 131,072 characters
            raise CallLogError(f"line {rows.line_num + 1} of {path} cannot be read: {error}") from None


def text_of(path: Path) -> str:
    """Return the text of a call log. Raises OSError, and CallLogError for a file that is binary or too large."""
    try:
        return read_bounded(path, _LARGEST).decode()
    except UnicodeDecodeError as error:
        raise CallLogError(f"{path} is not a call log: it is not text") from error
    except ValueError as error:
        raise CallLogError(f"{path} is not a call log: {error}") from None
