"""Call logs, ours, TunableOp's and FlashInfer's, as members of a suite."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from autosched.dispatch.call_log import HEADER, CallLogError, counted, text_of
from autosched.integrations.flashinfer import trace_dump
from autosched.integrations.tunableop import log
from autosched.suites.suite import Member
from measurements.records.problem_key import problem_of
from search_spaces.operators.problem import Problem


@dataclass(frozen=True)
class Calls:
    """The problems of a log, each with its count as weight; and how many lines were left out, by reason."""

    members: tuple[Member, ...]
    skipped: Counter[str]


def read_calls(path: str | Path, rows: Sequence[int] = ()) -> Calls:
    """Return the problems of a CSV, one that autosched recorded or TunableOp's of untuned or tuned GEMMs; or of
    FlashInfer's trace dump, a JSON file or a folder of them, where ``rows`` are the sizes that its open axes take.

    Raises CallLogError for another file and for one without a problem that kernels compute, and OSError.
    """
    file = Path(path)
    if file.is_dir() or file.suffix in (".json", ".jsonl"):
        try:
            counts, skipped = trace_dump.problems(list(trace_dump.documents(file, text_of)), rows)
        except ValueError as error:
            raise CallLogError(str(error)) from None
    else:
        counts, skipped = _of_csv(file, path)
    if not counts:
        why = f": {skipped.most_common(1)[0][0]}" if skipped else ""
        raise CallLogError(f"{path} holds no problem that can be tuned{why}")
    members = tuple(Member(problem, float(count)) for problem, count in counts.most_common())
    return Calls(members, skipped)


def _of_csv(file: Path, path: str | Path) -> tuple[Counter[Problem], Counter[str]]:
    text = text_of(file)
    first = text.partition("\n")[0].strip()
    skipped: Counter[str] = Counter()
    counts: Counter[Problem] = Counter()
    if first == ",".join(HEADER):
        for key, count in counted(file, text):
            try:
                counts[problem_of(key)] += count
            except ValueError as error:
                skipped[" ".join(str(error).split())] += 1
    elif log.is_log(first):
        for line in text.splitlines():
            try:
                problem = log.problem(line)
            except ValueError as error:
                skipped[str(error)] += 1
                continue
            if problem is not None:
                counts[problem] += 1
    else:
        raise CallLogError(
            f"{path} is not a log of calls: it starts neither with {','.join(HEADER)} nor as TunableOp's"
        )
    return counts, skipped
