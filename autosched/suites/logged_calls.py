"""Call logs, our own and those of other projects, as members of a suite."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from autosched.dispatch.call_log import HEADER, CallLogError, counted, text_of
from autosched.registry import CALL_READERS
from autosched.suites.suite import SuiteMember
from measurements.trials.problem_key import problem_of
from search_spaces.operators.problem import Problem


class CallReader(Protocol):
    """Reads what another project writes about the calls of a program."""

    def reads(self, path: Path, first_line: str) -> bool:
        """Whether a file is in this format, by its name and its first line; "" is that of a folder."""

    def problems(self, path: Path, rows: Sequence[int]) -> tuple[Counter[Problem], Counter[str]]:
        """Count the problems of a file or folder.

        Args:
            path: What ``reads`` accepted.
            rows: Sizes of dimensions that the file leaves open.

        Returns:
            How often each problem is computed, and how many calls were left out, by reason.

        Raises:
            CallLogError: The file cannot be read, or leaves sizes open and there are no ``rows``.
        """


@dataclass(frozen=True)
class LoggedCalls:
    """The problems of a log, each with its count as weight; and how many lines were left out, by reason."""

    members: tuple[SuiteMember, ...]
    skipped: Counter[str]


def read_calls(path: str | Path, rows: Sequence[int] = ()) -> LoggedCalls:
    """Return the problems of a CSV, one that autosched recorded or TunableOp's of untuned or tuned GEMMs; or of
    FlashInfer's trace dump, a JSON file or a folder of them, where ``rows`` are the sizes that its open axes take.

    Raises CallLogError for another file and for one without a problem that kernels compute, and OSError.
    """
    file = Path(path)
    first = "" if file.is_dir() else text_of(file).partition("\n")[0].strip()
    readers: Iterator[CallReader] = (CALL_READERS.load(name) for name in CALL_READERS)
    reader = next((reader for reader in readers if reader.reads(file, first)), None)
    if first == ",".join(HEADER):
        counts, skipped = _own(file)
    elif reader is not None:
        counts, skipped = reader.problems(file, rows)
    else:
        raise CallLogError(
            f"{path} is not a log of calls: give a CSV that starts with {','.join(HEADER)}, "
            f"or a file that {' or '.join(CALL_READERS)} wrote"
        )
    if not counts:
        why = f": {skipped.most_common(1)[0][0]}" if skipped else ""
        raise CallLogError(f"{path} holds no problem that can be tuned{why}")
    members = tuple(SuiteMember(problem, float(count)) for problem, count in counts.most_common())
    return LoggedCalls(members, skipped)


def _own(file: Path) -> tuple[Counter[Problem], Counter[str]]:
    skipped: Counter[str] = Counter()
    counts: Counter[Problem] = Counter()
    for key, count in counted(file, text_of(file)):
        try:
            counts[problem_of(key)] += count
        except ValueError as error:
            skipped[" ".join(str(error).split())] += 1
    return counts, skipped
