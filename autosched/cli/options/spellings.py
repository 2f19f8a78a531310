"""Map some command lines to hidden commands.

These command lines are ``tune --suite``, ``--moe`` and ``--triton``, ``verify FILE``, and ``best`` without a problem.
Help does not list the hidden commands, and usage errors show what the user typed. This module imports no command.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from autosched.cli.terminal.errors import InputError
from search_spaces.catalogue import is_operator

SUITE, MOE, TRITON = "tune --suite FILE", "tune --moe FILE", "tune --triton FILE:FUNCTION"
VERIFY_FILE, KNOWN = "verify FILE", "best --db DB"
HIDDEN = (SUITE, MOE, TRITON, VERIFY_FILE, KNOWN)


def expanded(arguments: Sequence[str]) -> list[str]:
    """Return the command line of the hidden command for which these arguments stand, or the arguments unchanged.

    Raises:
        InputError: ``verify`` does not accept the file.
    """
    if len(arguments) > 1 and arguments[0] == "tune":
        return _tune(arguments)
    if len(arguments) > 1 and arguments[0] == "verify":
        return _verify(arguments)
    if arguments and arguments[0] == "best":
        return _best(arguments)
    return list(arguments)


def _tune(arguments: Sequence[str]) -> list[str]:
    flags = {a.partition("=")[0] for a in arguments}
    if "--moe" in flags:
        return [MOE, *arguments[1:]]
    if "--triton" in flags:
        return [TRITON, *arguments[1:]]
    if arguments[1].startswith("-") and flags & {"--suite", "--from"}:
        return [SUITE, *arguments[1:]]
    return list(arguments)


def _best(arguments: Sequence[str]) -> list[str]:
    """If ``best`` is given without a problem, replace it by the command that lists all problems' best schedules."""
    flags = {a.partition("=")[0] for a in arguments[1:]}
    if flags & {"--kernel", "--program", "--triton", "--help", "-h"} or not all(
        a.startswith("-") or before in ("--db", "--device") for before, a in pairwise(arguments)
    ):
        return list(arguments)
    return [KNOWN, *arguments[1:]]


def _verify(arguments: Sequence[str]) -> list[str]:
    """Expand ``verify FILE`` to ``VERIFY_FILE``, or to ``verify --program FILE`` or ``verify --kernel FILE``.

    A word that is an operator's name always stands for the operator. Write ``./matmul`` for a file called ``matmul``.

    Raises:
        InputError: ``verify`` does not accept the file.
    """
    word, rest = arguments[1], arguments[2:]
    if word == "FILE" and {"--help", "-h"} & set(rest):
        return [VERIFY_FILE, *rest]
    if word.startswith("-") or is_operator(word):
        return list(arguments)
    from autosched.cli.options.recognition import (
        FileKind,
        looks_like_a_file,
        recognise,
    )  # imported lazily, because few commands take files

    if not looks_like_a_file(word):
        return list(arguments)
    if any(a.partition("=")[0] == "--task" for a in rest) or not Path(word.partition(":")[0]).is_file():
        return [VERIFY_FILE, *arguments[1:]]  # the file may be a pipe, which can be read only once: do not read it here
    user_file = recognise(word)
    if user_file.kind is FileKind.TILE_PROGRAM:
        return ["verify", "--program", word, *rest]
    if user_file.kind is FileKind.KERNEL_FILE:
        if user_file.name:
            raise InputError(f"{user_file.path} is {user_file.kind} with a single kernel: leave :{user_file.name} out")
        return ["verify", "--kernel", word, *rest]
    return [VERIFY_FILE, *arguments[1:]]
