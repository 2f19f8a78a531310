"""A CSV of the problems that a program computes: ``count,problem``, the problem as its key.

A third column ``seconds``, of one call, may be added by whoever timed them; it is read, and never written.
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

from measurements.files import atomic_write, file_lock
from measurements.files.bounded import read_bounded
from search_spaces.operators.problem import Problem

VARIABLE = "AUTOSCHED_CALL_LOG"
HEADER = ["count", "problem"]
TIMED_HEADER = [*HEADER, "seconds"]
_LARGEST = 1 << 26  # bytes of a file
_MOST_COUNT = 10**15


class CallLogError(ValueError):
    """A file that is not a call log. One line says why."""


class CallLog:
    """Counts of problems that will be added to those of a file. Any number of threads may add."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.counts: Counter[Problem] = Counter()
        self._lock = threading.Lock()

    def add(self, problem: Problem) -> None:
        """Count one call of ``problem``."""
        with self._lock:
            self.counts[problem] += 1

    def write(self) -> None:
        """Add the counts to those in the file, and start again from none.

        Any number of processes may write one file. Raises OSError, and ValueError where the file is not a call log; it
        is then left as it is.
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
    """Whether anything records."""
    return bool(_active)


def add(problem: Problem) -> None:
    """Count a call of ``problem`` in every log that is open."""
    for log in tuple(_active):
        log.add(problem)


@contextmanager
def log_calls(path: str | Path) -> Iterator[CallLog]:
    """Count the calls of autosched's functions and PyTorch operators, of all threads, and add them to the CSV at
    ``path`` at the end. Raises OSError where it cannot be written."""
    log = CallLog(path)
    _active.append(log)
    try:
        yield log
    finally:
        _active.remove(log)
        log.write()


def start_from_environment() -> None:
    """Record until the process ends where AUTOSCHED_CALL_LOG names a file; once, however often this is called."""
    path = os.environ.get(VARIABLE)
    if path and all(log.path != Path(path).absolute() for log in _active):
        log = CallLog(Path(path).absolute())
        _active.append(log)
        atexit.register(_write_at_exit, log)


def _write_at_exit(log: CallLog) -> None:
    try:
        log.write()
    except (OSError, ValueError) as error:
        print(f"autosched: {VARIABLE}: calls are not recorded: {' '.join(str(error).split())}", file=sys.stderr)


def _read_own(path: Path) -> Counter[str]:
    """Return counts by problem key of a file that autosched wrote. Raises CallLogError for another, and OSError."""
    text = text_of(path)
    if text.partition("\n")[0].strip() != ",".join(HEADER):
        raise CallLogError(f"{path} is not a log of calls that autosched wrote: name another file")
    counts: Counter[str] = Counter()
    for key, count, _ in counted(path, text):
        counts[key] += count
    return counts


def counted(path: Path, text: str) -> Iterator[tuple[str, int, float | None]]:
    """Yield the problem key, the count and the seconds of one call, None where nobody timed it, of each line.

    Raises CallLogError, which names ``path``.
    """
    for number, row in enumerate(_rows(path, text), 2):
        if (
            len(row) not in (len(HEADER), len(TIMED_HEADER))
            or not row[0].isascii()
            or not row[0].isdigit()
            or not 0 < int(row[0]) < _MOST_COUNT
        ):
            raise CallLogError(f"line {number} of {path} is not a count and problem: mend it, or record again")
        yield row[1], int(row[0]), _seconds(path, number, row[2]) if row[2:] and row[2] else None


def _seconds(path: Path, number: int, text: str) -> float:
    """Return the seconds of a line. Raises CallLogError for what is not a positive number."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise CallLogError(f"line {number} of {path} has the seconds {text!r:.40}: use a positive number")
    return seconds


def _rows(path: Path, text: str) -> Iterator[list[str]]:
    rows = csv.reader(text.splitlines()[1:])
    while True:
        try:
            yield next(rows)
        except StopIteration:
            return
        except csv.Error as error:  # a field of more than 131,072 characters
            raise CallLogError(f"line {rows.line_num + 1} of {path} cannot be read: {error}") from None


def text_of(path: Path) -> str:
    """Return what a log holds. Raises CallLogError for what is not text or too long, and OSError."""
    try:
        return read_bounded(path, _LARGEST).decode()
    except UnicodeDecodeError as error:
        raise CallLogError(f"{path} is not a log of calls: it is not text") from error
    except ValueError as error:
        raise CallLogError(f"{path} is not a log of calls: {error}") from None
