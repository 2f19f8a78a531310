"""Read call logs of autosched and of other projects, and convert the calls to members of a suite."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from autosched.dispatch.call_log import HEADER, TIMED_HEADER, CallLogError, counted, text_of
from autosched.registry import CALL_READERS
from autosched.suites.suite import SuiteMember
from measurements.trials.problem_key import problem_of
from search_spaces.operators.problem import Problem


@dataclass
class ProblemCounts:
    """Problems of a call log, with the number of calls of each problem.

    Also has the number of skipped calls by reason and, if the log has times, the mean seconds of a call by problem.
    """

    counts: Counter[Problem] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    seconds: dict[Problem, float] = field(default_factory=dict)
    _timed: Counter[Problem] = field(default_factory=Counter)

    def add(self, problem: Problem, count: int = 1, seconds: float | None = None) -> None:
        """Count calls of ``problem`` that took ``seconds`` each."""
        self.counts[problem] += count
        if seconds is not None:
            before = self._timed[problem]
            self._timed[problem] += count
            mean = self.seconds.get(problem, 0.0)
            self.seconds[problem] = mean + (seconds - mean) * count / (before + count)


class CallReader(Protocol):
    """Reader of another project's call logs."""

    def reads(self, path: Path, first_line: str) -> bool:
        """Return True if the file's name and first line ("" for a folder) show that it has this format."""

    def problems(self, path: Path, rows: Sequence[int]) -> ProblemCounts:
        """Count the problems of a file or folder.

        Args:
            path: A file that ``reads`` accepts.
            rows: Values for axes whose size is not in the file.

        Returns:
            The counts of calls by problem, and of skipped calls by reason.

        Raises:
            CallLogError: The file cannot be read, or it lacks sizes of axes and ``rows`` is empty.
        """


@dataclass(frozen=True)
class LoggedCalls:
    """The problems of a log, weighted by the number of calls, and the number of skipped lines by reason."""

    members: tuple[SuiteMember, ...]
    skipped: Counter[str]


def read_calls(path: str | Path, rows: Sequence[int] = ()) -> LoggedCalls:
    """Return the problems of a log of calls.

    A log is a CSV file recorded by autosched, TunableOp's CSV file, or FlashInfer's trace dump (a JSON file or a folder
    of such files). ``rows`` has the sizes for axes that FlashInfer's traces leave open.

    Raises:
        CallLogError: The file is not a call log, or has no supported problem.
        OSError: The file cannot be read.
    """
    file = Path(path)
    first = "" if file.is_dir() else text_of(file).partition("\n")[0].strip()
    readers: Iterator[CallReader] = (CALL_READERS.load(name) for name in CALL_READERS)
    reader = next((reader for reader in readers if reader.reads(file, first)), None)
    if first in (",".join(HEADER), ",".join(TIMED_HEADER)):
        calls = _own(file)
    elif reader is not None:
        calls = reader.problems(file, rows)
    else:
        raise CallLogError(
            f"{path} is not a call log: give a CSV that starts with {','.join(HEADER)}, "
            f"or a file that {' or '.join(CALL_READERS)} wrote"
        )
    if not calls.counts:
        why = f": {calls.skipped.most_common(1)[0][0]}" if calls.skipped else ""
        raise CallLogError(f"{path} has no problem that can be tuned{why}")
    members = tuple(
        SuiteMember(problem, float(count), calls.seconds.get(problem)) for problem, count in calls.counts.most_common()
    )
    return LoggedCalls(members, calls.skipped)


def _own(file: Path) -> ProblemCounts:
    counts = ProblemCounts()
    for key, count, seconds in counted(file, text_of(file)):
        try:
            counts.add(problem_of(key), count, seconds)
        except ValueError as error:
            counts.skipped[" ".join(str(error).split())] += 1
    return counts
