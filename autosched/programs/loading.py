"""Load a user's tile program from ``FILE`` or ``FILE:NAME``."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from autosched.programs.references import with_reference
from measurements.files.bounded import read_bounded
from measurements.files.python_file import NotLoaded, load_module
from search_spaces.catalogue import register
from search_spaces.programs.builder import Program
from search_spaces.programs.language.ir import ProgramError
from search_spaces.programs.problem import ProgramProblem, computes, problem_type
from search_spaces.programs.program_template import ProgramTemplate
from search_spaces.programs.template import operator, template
from search_spaces.programs.text.program import parse

TEXTS = (".mlir", ".txt")
_MOST_BYTES = 1 << 22  # maximum size of a text file


def load(location: str) -> Program | ProgramTemplate:
    """Load a program, as ``load_program`` does. Also accept programs that add a kernel template to an operator.

    Raises:
        ProgramError: As ``load_program`` does.
    """
    return _load(location)


def load_program(location: str) -> Program:
    """Return a program from a Python file, or from a text file with a listing (``search_spaces.programs.text``).

    A Python file is executed, and its program NAME is returned. If NAME is omitted, the file must have a single
    program. A text file contains one program, which gets the name NAME (default: the name of the file).

    Args:
        location: ``FILE`` or ``FILE:NAME``.

    Returns:
        The program.

    Raises:
        ProgramError: There is no such program. The message is one line.
    """
    loaded = _load(location)
    if isinstance(loaded, ProgramTemplate):
        raise ProgramError(f"{location}: {loaded.name} is a kernel template of {loaded.operator}, not an operator")
    return loaded


def _load(location: str) -> Program | ProgramTemplate:
    path, name = _split(location)
    if not path.is_file():
        problem = f"{path} is not a regular file" if path.exists() else f"no such file: {path}"
        raise ProgramError(f"{problem}: use --program FILE[:NAME]")
    if path.suffix in TEXTS:
        return _read(path, name)
    module_name = f"autosched_program_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]}"
    try:
        module = load_module(path, module_name)
    except NotLoaded as error:
        raise ProgramError(str(error)) from error
    programs = {p.name: p for p in vars(module).values() if isinstance(p, Program | ProgramTemplate)}
    if name:
        if name not in programs:
            raise ProgramError(f"{path} has no program {name}: it has {', '.join(programs) or 'none'}")
        return programs[name]
    if len(programs) != 1:
        names = ", ".join(programs) or "none: declare one with @program"
        raise ProgramError(f"{path} has {len(programs)} programs ({names}): select one with --program {path}:NAME")
    return next(iter(programs.values()))


def _read(path: Path, name: str) -> Program:
    try:
        text = read_bounded(path, _MOST_BYTES).decode("utf-8")
    except (OSError, ValueError) as error:
        raise ProgramError(f"{path} cannot be read: {' '.join(str(error).split())}") from error
    own = re.sub(r"\W", "_", name or path.stem)
    return parse(text, own if own[:1].isalpha() else f"listing_{own}", path.name).program


def _split(location: str) -> tuple[Path, str]:
    head, colon, tail = location.rpartition(":")
    return (Path(head), tail) if colon and tail.isidentifier() else (Path(location), "")


def register_program(program: Program) -> None:
    """Add a program to the catalogue of this process, in place of an earlier program of the same name.

    Raises ValueError if a built-in operator has the same name.
    """
    register(operator(program), template(program), replace=True)


def register_program_template(declared: ProgramTemplate) -> None:
    """Add the program's template to the catalogue of this process, in place of an earlier one of the same name."""
    register(declared.template(), replace=True)


def register_at(location: str, reference: str = "") -> Program | ProgramTemplate:
    """Load the program at ``location`` and add it to the catalogue of this process.

    Args:
        location: ``FILE`` or ``FILE:NAME``.
        reference: ``FILE.py:FUNCTION`` that computes the expected outputs; "" for none.

    Returns:
        The registered program.

    Raises:
        ProgramError: The program or its reference cannot be loaded (``load``, ``with_reference``).
        ValueError: A built-in operator has the same name.
    """
    loaded = load(location)
    if reference and isinstance(loaded, ProgramTemplate):
        raise ProgramError(f"{loaded.name} is verified against {loaded.operator}'s reference: omit --reference")
    if isinstance(loaded, Program) and reference:
        loaded = with_reference(loaded, reference)
    if isinstance(loaded, ProgramTemplate):
        register_program_template(loaded)
    else:
        register_program(loaded)
    return loaded


def problem(program: Program, **sizes: int) -> ProgramProblem:
    """Register the program and return its problem with these sizes, for example for ``tune`` or ``Database.kernel``.

    Raises ValueError for unknown or missing sizes, and for sizes that the program rejects.
    """
    register_program(program)
    return problem_type(program).from_json({**sizes, "computes": computes(program)})
