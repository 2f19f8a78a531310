"""Exit statuses of all commands and of the pytest plug-in.

``docs/generate.py`` writes them to ``docs/reference/exit-statuses.md``.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum


class ExitStatus(IntEnum):
    """Exit statuses of the command line."""

    OK = 0
    NO = 1
    NO_ANSWER = 2
    STOPPED = 130  # the status that shells report after Ctrl-C

    @property
    def meaning(self) -> str:
        """Meaning of the status, for documentation."""
        return MEANINGS[self]


MEANINGS = {
    ExitStatus.OK: "success",
    ExitStatus.NO: "a check failed, or no result was found",
    ExitStatus.NO_ANSWER: "inconclusive: bad input (one line states the remedy), or nothing could be verified",
    ExitStatus.STOPPED: "stopped by Ctrl-C or SIGTERM; all stored results are kept",
}

VERDICTS = {
    ExitStatus.OK: "accepted",
    ExitStatus.NO: "refused",
    ExitStatus.NO_ANSWER: "uncertain",
    ExitStatus.STOPPED: "stopped",
}

# Meaning of the statuses 0, 1 and 2 for commands whose result can be negative. MEANINGS applies to other commands.
ANSWERS = {
    "verify of a schedule": (
        "every schedule passes",
        "a schedule fails",
        "a schedule could not be verified: the emulator lacks an instruction, or no time remained",
    ),
    "verify of CUDA, PTX or a binary": (
        "no fault was found, and --expect holds",
        "a fault was found, --expect does not hold, or a note was found and --fail-on note is set",
        "the code is invalid or does not compile, or the launch could not be emulated to its end",
    ),
    "verify of a Python script": (
        "the script launched a Triton kernel, and no fault was found",
        "a fault was found, the script failed, or it was stopped at --time-limit",
        "the script launched no Triton kernel, or a launch could not be emulated to its end",
    ),
    "verify of an executable, or run": (
        "the executable launched a kernel, no fault was found, and the executable's exit status is 0",
        "a fault was found, or the executable fails",
        "the executable launched no kernel, or uses a feature that is not emulated",
    ),
    "verify of a submission, or judge": (
        "the submission is correct",
        "the submission is not correct",
        "the task or the submission is malformed, or the check is inconclusive",
    ),
    "check": (
        "at least one entry was compared, and no entry is slower, wrong or broken",
        "an entry is slower, wrong or broken",
        "no entry could be compared, an entry's reference has changed, or the machine's timings are unreliable",
    ),
    "pytest --autosched-db, or --autosched-configs": (
        "as check",
        "as check",
        "as check",
    ),
    "best, space --explain, db check": (
        "a schedule was found; the schedule is legal; the database is intact",
        "no schedule was found; a rule is violated; the database is damaged",
        "bad input",
    ),
    "tune": ("a schedule was found", "no schedule works, or the search ended early", "bad input"),
    "serve": ("the program's own status", "the program's own status", "bad input, or the program's own status"),
}


def combined(statuses: Iterable[int]) -> ExitStatus:
    """Return the combined status of several runs.

    It is the first of the statuses stopped, failed and inconclusive that any run has. If no run has one of these, it is
    ok.
    """
    distinct = set(statuses)
    return next((s for s in (ExitStatus.STOPPED, ExitStatus.NO, ExitStatus.NO_ANSWER) if s in distinct), ExitStatus.OK)


def of_verdicts(accepted: int, refused: int, uncertain: int) -> ExitStatus:
    """Return the status of a command that passes only if all cases pass.

    Args:
        accepted: Number of cases that passed.
        refused: Number of cases that failed.
        uncertain: Number of undecided cases.
    """
    if refused:
        return ExitStatus.NO
    return ExitStatus.OK if accepted and not uncertain else ExitStatus.NO_ANSWER
