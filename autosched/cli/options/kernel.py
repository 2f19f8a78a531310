"""``--kernel FILE`` or ``--program FILE[:NAME]``: use the user's kernel in place of a built-in operator.

The kernel is registered in the catalogue as an operator whose options are the kernel's sizes. Commands then handle it
like a built-in operator. ``--size width=4096`` becomes ``--width 4096``. ``--set block_x=128`` fixes the value of a
parameter.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from autosched.cli.terminal.errors import InputError, bad_input, listed

_OF_ONE_PROBLEM = ("--json", "--junit", "--markdown")
INSTEAD = ("--kernel", "--program")  # options that take the place of an operator's name on the command line
COMMANDS = (("space",), ("tune",), ("best",), ("verify",), ("db", "threshold"))


def expanded(arguments: Sequence[str]) -> list[list[str]]:
    """Replace ``--kernel`` and ``--program`` by an operator. Return one or more command lines.

    Returns:
        With --kernel, one command line for each problem of the kernel file. If sizes are given or the command queries a
        database, a single command line. Without these options, the unchanged arguments.

    Raises:
        InputError: The file cannot be used, or the kernel has no such size.
    """
    command = next((c for c in COMMANDS if tuple(arguments[: len(c)]) == c), None)
    if command is None:
        return [list(arguments)]
    paths, rest = extracted(arguments[len(command) :], "--kernel")
    programs, rest = extracted(rest, "--program")
    references, rest = extracted(rest, "--reference") if programs else ([], rest)
    size_values, rest = extracted(rest, "--size")
    chosen, rest = extracted(rest, "--set")
    if chosen and not paths:
        raise InputError("--set NAME=VALUE needs --kernel FILE: it fixes a parameter of that kernel")
    if programs:
        if paths or len(programs) > 1:
            raise InputError("give one --program FILE[:NAME] at a time, without --kernel")
        if len(references) > 1:
            raise InputError("give one --reference FILE.py:FUNCTION at a time")
        return [_of_program(command, programs[0], size_values, rest, *references)]
    if not paths:
        if size_values:
            raise InputError("--size needs --kernel FILE or --program FILE: operators have their own options for sizes")
        return [list(arguments)]
    if len(paths) > 1:
        raise InputError("give one --kernel FILE at a time")
    from autosched.user_kernels.user_kernel import KernelSpec

    with bad_input():
        kernel = KernelSpec.from_file(paths[0])
        if chosen:
            kernel = kernel.pinned(**_values(chosen))
        kernel.register()
    flags = {option.name: option.flags[-1] for option in kernel.operator.options}
    sizes = _sizes(size_values, flags, paths[0])
    start = [*command, kernel.file.name]
    named = sizes or any(argument.partition("=")[0] in flags.values() for argument in rest)
    asks_a_database = command == ("best",) or (command == ("verify",) and any(a.startswith("--db") for a in rest))
    if named or asks_a_database or _asks_for_help(rest):
        return [[*start, *sizes, *rest]]
    problems = [problem.sizes for problem in kernel.problems]
    flag = next((a for a in (argument.partition("=")[0] for argument in rest) if a in _OF_ONE_PROBLEM), None)
    if len(problems) > 1 and flag is not None:
        raise InputError(f"{flag} applies to one problem, but {paths[0]} lists {len(problems)}: choose one with --size")
    return [[*start, *(part for n, v in p.items() for part in (flags[n], str(v))), *rest] for p in problems]


def written(arguments: Sequence[str]) -> str | None:
    """Return the text of the option that replaces an operator, such as "--kernel FILE"; None if there is none.

    Raises:
        InputError: Such an option has no value.
    """
    if not any(tuple(arguments[: len(command)]) == command for command in COMMANDS):
        return None
    named = (f"{flag} {shlex.quote(source)}" for flag in INSTEAD for source in extracted(arguments, flag)[0])
    return next(named, None)


def _of_program(
    command: tuple[str, ...], source: str, size_values: Sequence[str], rest: Sequence[str], reference: str = ""
) -> list[str]:
    """Register a tile program and return its command line."""
    from autosched.programs.loading import register_at
    from search_spaces import catalogue
    from search_spaces.programs.program_template import ProgramTemplate
    from search_spaces.programs.template import operator

    with bad_input():
        program = register_at(source, reference)
        if isinstance(program, ProgramTemplate):
            name, options = program.operator, catalogue.operator(program.operator).options
        else:
            name, options = program.name, operator(program).options
    sizes = _sizes(size_values, {option.name: option.flags[-1] for option in options}, source)
    every = command == ("best",) and not size_values  # ``best`` without sizes lists the entries of all sizes
    if not every and not {"--help", "-h"} & set(rest):
        missing = [o for o in options if o.default is None and o.flags[-1] not in (*sizes, *rest)]
        if missing:
            raise InputError(f"{name} needs {listed([f'--size {o.name}=N' for o in missing])}")
    return [*command, name, *sizes, *rest]


def _values(assignments: Sequence[str]) -> dict[str, str]:
    """Parse the options ``--set NAME=VALUE``; return a map from parameters to values.

    Raises:
        InputError: A text is not NAME=VALUE.
    """
    values = {}
    for text in assignments:
        name, sign, value = text.partition("=")
        if not sign or not name:
            raise InputError(f'invalid --set "{text}": write NAME=VALUE, such as --set block_x=128')
        values[name] = value
    return values


def _sizes(assignments: Sequence[str], flags: Mapping[str, str], source: str) -> list[str]:
    """Convert the options ``--size NAME=N`` to the operator's options for sizes.

    Raises:
        InputError: A name is unknown.
    """
    sizes: list[str] = []
    for text in assignments:
        name, sign, value = text.partition("=")
        if not sign or name not in flags:
            raise InputError(f'invalid --size "{text}": {source} takes NAME=N with {listed(tuple(flags), "or")}')
        sizes += [flags[name], value]
    return sizes


def _asks_for_help(arguments: Sequence[str]) -> bool:
    return "--help" in arguments or "-h" in arguments


def extracted(arguments: Sequence[str], flag: str) -> tuple[list[str], list[str]]:
    """Remove all occurrences of an option from the arguments; return the option's values and the other arguments."""
    values, rest, waiting = list[str](), list[str](), iter(arguments)
    for argument in waiting:
        name, sign, value = argument.partition("=")
        if name != flag:
            rest.append(argument)
        elif sign:
            values.append(value)
        else:
            following = next(waiting, None)
            if following is None:
                raise InputError(f"{flag} needs a value: see 'autosched --help'")
            values.append(following)
    return values, rest
