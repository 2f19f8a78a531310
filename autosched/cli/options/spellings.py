"""Command lines that stand for another: ``tune --suite``, ``--moe`` and ``--triton``, ``verify FILE`` and ``--python``,
``best`` without a problem.

What they stand for are commands that no help lists; usage errors name them as they are called here. Nothing here
imports a command.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from autosched.cli.terminal.errors import InputError

SUITE, MOE, TRITON = "tune --suite FILE", "tune --moe FILE", "tune --triton FILE:FUNCTION"
PYTHON, KNOWN = "verify --python FILE", "best --db DB"
HIDDEN = (SUITE, MOE, TRITON, PYTHON, KNOWN)


def expanded(arguments: Sequence[str]) -> list[str]:
    """Return the command line that ``arguments`` stand for: most often themselves. Raises InputError for a program
    whose kernels are not Triton's."""
    if len(arguments) > 1 and arguments[0] == "tune":
        return _tune(arguments)
    if len(arguments) > 1 and arguments[0] == "verify":
        return _verify(arguments)
    if arguments and arguments[0] == "best":
        return _best(arguments)
    return list(arguments)


def _tune(arguments: Sequence[str]) -> list[str]:
    given = {a.partition("=")[0] for a in arguments}
    if "--moe" in given:
        return [MOE, *arguments[1:]]
    if "--triton" in given:
        return [TRITON, *arguments[1:]]
    if arguments[1].startswith("-") and given & {"--suite", "--from"}:
        return [SUITE, *arguments[1:]]
    return list(arguments)


def _best(arguments: Sequence[str]) -> list[str]:
    """``best`` without a problem lists what a database knows."""
    given = {a.partition("=")[0] for a in arguments[1:]}
    if given & {"--kernel", "--program", "--triton", "--help", "-h"} or not all(
        a.startswith("-") or before in ("--db", "--device") for before, a in pairwise(arguments)
    ):
        return list(arguments)
    return [KNOWN, *arguments[1:]]


def _verify(arguments: Sequence[str]) -> list[str]:
    """``verify FILE ...`` of a kernel, and ``verify --ptx FILE ...``, an earlier spelling, as ``emulate FILE ...``;
    of a Python program as ``PYTHON``. Raises InputError for what looks like a file, and is none."""
    file = Path(arguments[1])
    if file.suffix and not arguments[1].startswith("-") and not file.exists():
        raise InputError(f"{file} cannot be read: No such file or directory")
    if file.suffix != ".py" and file.is_file():
        return ["emulate", *arguments[1:]]
    for k, a in enumerate(arguments[1:], 1):
        if a == "--ptx" and k + 1 < len(arguments):
            return ["emulate", arguments[k + 1], *arguments[1:k], *arguments[k + 2 :]]
        if a.startswith("--ptx="):
            return ["emulate", a.removeprefix("--ptx="), *arguments[1:k], *arguments[k + 1 :]]
    if _is_program(file):
        return [PYTHON, "--python", *arguments[1:]]
    if any(a.partition("=")[0] == "--python" for a in arguments):
        return [PYTHON, *arguments[1:]]
    return list(arguments)


def _is_program(path: Path) -> bool:
    """Whether it is a Python file with Triton kernels."""
    if path.suffix != ".py" or not path.is_file():
        return False
    from autosched.verify.emulate.kernel_files import NoKernelFile, front_end_of

    try:
        found = front_end_of(path)
    except NoKernelFile as error:
        raise InputError(str(error)) from None
    if found is not None and found.instead:
        raise InputError(f"{path} {found.refusal}")
    return True
