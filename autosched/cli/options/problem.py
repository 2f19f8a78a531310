"""Problem options of commands, built from an operator's ``options``. A new operator needs no change in this module."""

import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer
from typer.models import OptionInfo

from autosched.cli.terminal import interrupts
from autosched.cli.terminal.errors import InputError, bad_input, listed, shortened
from autosched.reporting.exit_status import ExitStatus
from search_spaces.hardware.dtype_names import canonical
from search_spaces.operators.operator import Operator, Option
from search_spaces.operators.problem import Problem

_PREFIX = "problem_"  # prefix that distinguishes a problem option, such as "out", from a parameter of the command
# maximum characters of a list of choices in the option's placeholder; longer lists appear in the help text
_METAVAR_WIDTH = 20

# options that are removed before a command runs, so the command must not declare them
OF_FILES = ("--kernel", "--program", "--size", "--set", "--help")

Command = Callable[..., int]


class MissingOptions(InputError):
    """An option that the problem needs is missing."""


def for_operator(command: Command, operator: Operator, name: str) -> Command:
    """Add the problem options of an operator to the signature of a command.

    Args:
        command: Called as ``command(operator, values, **its own options)``. ``values`` maps the name of each problem
            option to its value; None if the user omitted it.
        operator: Operator whose options are added.
        name: Name of the command as users type it.

    Returns:
        A function with the combined signature. Ctrl-C inside ``command`` ends it with status 130.

    Raises:
        InputError: An option of the operator, such as a size of a user's kernel, has the name of an option of the
            command.
    """

    def run(ctx: typer.Context, **options: Any) -> int:
        values = {o.name: options.pop(_PREFIX + o.name) for o in operator.options}
        try:
            return command(operator, values, **options)
        except MissingOptions as error:
            raise InputError(f"{error}: see '{ctx.command_path} --help'") from error
        except KeyboardInterrupt:
            print(interrupts.STOPPED_LINE, file=sys.stderr)
            return ExitStatus.STOPPED

    command_parameters = list(inspect.signature(command, eval_str=True).parameters.values())[2:]
    used_flags = {*OF_FILES, *(flag for parameter in command_parameters for flag in _flags(parameter))}
    for option in operator.options:
        if used_flags & set(option.flags):
            raise InputError(
                f"{option.flags[-1]} is an option of 'autosched {name}' and also a size of {operator.name}: "
                "rename the size"
            )
    context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    parameters = [context, *(_parameter(o) for o in operator.options), *command_parameters]
    # typer reads order and defaults from the signature, and types from the annotations
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    paragraphs = (operator.summary, *(inspect.getdoc(command) or "").split("\n\n"))
    run.__doc__ = "\n\n".join(
        " ".join(p.split()) for p in paragraphs
    )  # join the lines of each paragraph, because typer would print the line breaks
    return run


def problem_from(operator: Operator, values: Mapping[str, Any]) -> Problem:
    """Return the problem that the user described.

    Raises:
        InputError: A required option is missing, or a value is invalid for the problem.
    """
    missing = [o.flags[-1] for o in operator.options if o.default is None and values[o.name] is None]
    if missing:
        raise MissingOptions(f"{operator.name} needs {listed(missing)}")
    with bad_input():
        return operator.make(**{o.field: values[o.name] for o in operator.options if values[o.name] is not None})


def maybe_problem(operator: Operator, values: Mapping[str, Any]) -> Problem | None:
    """Return the problem that the user described; None if no problem option was given."""
    return None if all(v is None for v in values.values()) else problem_from(operator, values)


def whole_number(text: str) -> int:
    """Parse the value of an integer option."""
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f'invalid value "{shortened(text)}": write a whole number') from None


def real_number(text: str) -> float:
    """Parse the value of a real-valued option."""
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f'invalid value "{shortened(text)}": write a number') from None


def one_of(choices: tuple[str, ...]) -> Callable[[str], str]:
    """Return a parser that accepts only the listed values. For data types, any known spelling is accepted."""

    def parse(text: str) -> str:
        if text not in choices and canonical(text) in choices:
            return canonical(text)
        if text not in choices:
            raise typer.BadParameter(f'invalid value "{shortened(text)}": use {listed(choices, "or")}')
        return text

    return parse


def _flags(parameter: inspect.Parameter) -> list[str]:
    """Return the flags of a parameter of the command."""
    declared = [m for m in getattr(parameter.annotation, "__metadata__", ()) if isinstance(m, OptionInfo)]
    spelled = [part for info in declared for text in info.param_decls or () for part in text.split("/")]
    return spelled or [f"--{parameter.name.replace('_', '-')}"]


def _parameter(option: Option) -> inspect.Parameter:
    choices = option.choices
    if option.default is None:
        note = " (required)"
    elif option.default == "":
        note = ""
    else:
        note = f" (default {option.default})"
    parser: Callable[[str], Any] = str
    metavar = "VALUE"
    if option.type is int:
        parser, metavar = whole_number, "N"
    elif option.type is float:
        parser, metavar = real_number, "X"
    elif choices:
        parser, metavar = one_of(choices), "|".join(choices)
    declared = typer.Option(
        *option.flags,
        parser=parser,
        metavar=metavar if len(metavar) <= _METAVAR_WIDTH else "NAME",
        help=option.help + (f": {metavar.replace('|', ', ')}" if len(metavar) > _METAVAR_WIDTH else "") + note,
        show_default=False,
    )
    # the default is None, so that the command can tell which options the user gave
    return inspect.Parameter(
        _PREFIX + option.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[option.type | None, declared],
    )
