"""Build the command line from commands and operators, and print each user error as one line on stderr."""

import errno
import gc
import os
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import partial
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from autosched import blas
from autosched.cli.command_functions import FUNCTIONS, call_of, summary
from autosched.cli.options import kernel as kernel_option
from autosched.cli.options import spellings
from autosched.cli.options import triton as triton_option
from autosched.cli.options.command import Command
from autosched.cli.terminal.errors import InputError
from autosched.cli.terminal.output import library_log_shown, say
from autosched.reporting.exit_status import ExitStatus, combined
from autosched.user_kernels import KernelFileError
from autosched.version import VERSION
from measurements.store.errors import StoreError
from search_spaces import catalogue

# Base class of typer's usage errors. Some releases of typer do not export this class, but all export its subclass
# BadParameter.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]
_MACHINE_ERRORS = (  # errors caused by the state of the machine, which are reported like errors of the user
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EROFS,
    errno.EACCES,
    errno.EPERM,
    errno.EIO,
)
# errors about invalid file paths
_INVALID_PATHS = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP)
# errors about limits on open files, processes and memory
_LIMITS = (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM)
_STATUSES = "Exit status: " + "; ".join(f"{status.value} {status.meaning}" for status in ExitStatus) + "."
_DB_HELP = "Maintain a database."
_EXTRAS = {  # extra of autosched that installs each module
    "torch": "triton,torch",
    "triton": "triton,torch",
    "helion": "helion",
    "matplotlib": "pictures",
    "ray": "ray",
    "psycopg": "postgresql",
    "lz4": "run",
    "zstandard": "run",
    "cupy": "cuda13",
    "cuda": "cuda13",
    "pynvml": "cuda13",
    "nvMatmulHeuristics": "heuristics",
}
_PROBLEM = "matmul -m 4096 -n 4096 -k 4096"
_EXAMPLES = {
    "space": f"autosched space {_PROBLEM} --device a100 --sample 2",
    "tune": f"autosched tune {_PROBLEM} --db best.db",
    "best": f"autosched best {_PROBLEM} --db best.db",
    "run": "autosched run ./program 1000",
    "judge": "autosched judge submission.py --task task.yml --device h100",
    "serve": "autosched serve --db best.db -- python serve.py",
    "worth": "autosched worth shapes.csv --device h100",
    "check": "autosched check --db best.db --static --junit check.xml",
    "train": "autosched train --db best.db --out model.json",
    "replay": "autosched replay gemm_RTX3090.json.gz --sampler bayes --sampler random --plot curves.svg",
    "report": "autosched report --db best.db --out report.html",
    "export": "autosched export --db best.db --out configs",
    "import": "autosched import configs --db best.db",
    "merge": "autosched merge theirs.db --into best.db",
    "db stats": "autosched db stats --db best.db",
    "db gc": "autosched db gc --db best.db --keep 10 --dry-run",
    "db check": "autosched db check --db best.db",
    "db threshold": "autosched db threshold transpose --rows 64 --columns 64 --db best.db --max-slowdown 5%",
    "verify": "autosched verify softmax --rows 100 --columns 300 --sample 20",
    spellings.VERIFY_FILE: "autosched verify axpy.cu -a 'out f32[1000]' -a 'f32[1000]' -a 1000 --grid 4 --block 256",
}
_ORDER = (
    "space",
    "tune",
    "best",
    "verify",
    "run",
    "check",
    "judge",
    "worth",
    "train",
    "replay",
    "report",
    "export",
    "import",
    "merge",
    "serve",
    "db",
    "devices",
    "doctor",
)
_COMMANDS = {name.partition(" ")[0] for name in FUNCTIONS}
_OF_OPERATORS = ("space", "tune", "best", "verify")
_OF_FILES = ("worth", "train", "replay", "report", "export", "import", "merge")
_SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"]}


class _Group(TyperGroup):
    """Group that lists commands in the order of ``_ORDER``. The error for an unknown name lists the known names."""

    noun = "command"

    def get_help_option(self, ctx: Any) -> Any:
        option = super().get_help_option(ctx)
        if option is not None:
            option.default = False  # avoids a slow conversion of None by pydantic
        return option

    def list_commands(self, ctx: Any) -> list[str]:
        names = super().list_commands(ctx)
        # a hidden command's name has several words; sort by the first
        first = {name: name.partition(" ")[0] for name in names}
        return sorted(
            names, key=lambda name: (_ORDER.index(first[name]) if first[name] in _ORDER else len(_ORDER), name)
        )

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        command = super().get_command(ctx, cmd_name)
        if command is None:
            known = [name for name in self.list_commands(ctx) if name not in spellings.HIDDEN]
            near = get_close_matches(cmd_name, known, 1)
            perhaps = f", did you mean {near[0]}?" if near else f": use one of {', '.join(known)}"
            instead = ", or give --kernel FILE or --program FILE" if self.name in _INSTEAD and not near else ""
            raise InputError(f"unknown {self.noun} {cmd_name!r}{perhaps}{instead}")
        return command


class _OperatorGroup(_Group):
    noun = "operator"

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Find an operator's command. Usage lines show what the user typed (``ctx.obj``), not the operator's name."""
        name, command, rest = super().resolve_command(ctx, args)
        return ctx.obj or name, command, rest


def build(only: str | None = None, operator: str | None = None) -> typer.Typer:
    """Build the command line, with one subcommand for every operator of ``search_spaces.catalogue.operators()``.

    Many commands run for less time than it takes to build all commands. ``only`` therefore builds a single command.

    Args:
        only: Name of the command to build. If no command has this name, all commands are built.
        operator: Name of the operator whose subcommand is built. If no operator has this name, the subcommands of all
            operators are built.

    Returns:
        The command line.
    """
    blas.import_numpy()  # imported late, because the list of commands does not need numpy
    # typer's completion options precede a command, so they are not needed if the first argument is a command
    app = _empty(add_completion=only not in _COMMANDS)
    commands = _commands(app, operator)
    for add in commands.values() if only not in commands else (commands[only],):
        add()
    return app


def _empty(add_completion: bool) -> typer.Typer:
    """Build an empty command line, to which commands are added."""
    app = typer.Typer(
        name="autosched",
        cls=_Group,
        add_completion=add_completion,
        context_settings=_SETTINGS,
        pretty_exceptions_enable=False,
        epilog=_epilog("tune"),
        rich_markup_mode=None,  # plain help: rich's panels cut the names of options on a narrow terminal
    )
    app.callback(invoke_without_command=True)(_root)
    return app


def outline(command: str | None = None) -> typer.Typer:
    """Build a command line that has the names and summaries of all commands, but cannot run the commands.

    It prints the help of ``autosched`` and rejects unknown commands, without importing any command.

    Args:
        command: The only command to include, with the names and summaries of its operators. Default: all commands.

    Returns:
        The command line.
    """
    app = _empty(add_completion=command is None)
    if command is not None:
        group = _operator_group(app, command, summary(command))
        for operator in catalogue.operators():
            group.command(operator.name, help=operator.summary)(_not_called)
        return app
    for name in _ORDER:
        if name == "db":
            app.add_typer(typer.Typer(), name=name, help=_DB_HELP)
            continue
        app.command(name, help=summary(name))(_not_called)
    return app


def _not_called() -> None:
    raise AssertionError("a command that only prints help was called")


def _commands(app: typer.Typer, operator: str | None) -> dict[str | None, Callable[[], object]]:
    """Map each command to the function that adds it to ``app``."""
    # Arguments after the program's name belong to the program.
    of_program = _SETTINGS | {"allow_interspersed_args": False}

    def plain(name: str, **options: Any) -> Callable[[], object]:
        return lambda: app.command(name, cls=Command, **options)(call_of(name))

    return {
        **{name: plain(name) for name in ("devices", "doctor")},
        **{name: plain(name, hidden=True, context_settings=_SETTINGS) for name in spellings.HIDDEN},
        spellings.VERIFY_FILE: plain(
            spellings.VERIFY_FILE, hidden=True, context_settings=_SETTINGS, epilog=_epilog(spellings.VERIFY_FILE)
        ),
        "run": plain("run", context_settings=of_program, epilog=_epilog("run")),
        "serve": plain("serve", context_settings=of_program, epilog=_example("serve")),
        **{name: partial(_add_operators, app, name, operator) for name in _OF_OPERATORS},
        **{name: plain(name, context_settings=_SETTINGS, epilog=_epilog(name)) for name in ("check", "judge")},
        **{name: plain(name, context_settings=_SETTINGS, epilog=_example(name)) for name in _OF_FILES},
        "db": lambda: app.add_typer(_database_group(), name="db", help=_DB_HELP, epilog=_example("db stats")),
    }


def _database_group() -> typer.Typer:
    group = typer.Typer(cls=_Group, context_settings=_SETTINGS)
    for name in ("db stats", "db gc", "db check"):
        add = group.command(name.removeprefix("db "), cls=Command, context_settings=_SETTINGS, epilog=_example(name))
        add(call_of(name))
    _add_operators(group, "db threshold")
    return group


def _root(
    ctx: typer.Context,
    show_version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> int:
    """Search-based auto-scheduler for GPU kernels."""
    if show_version:
        print(f"autosched {VERSION}")
        raise typer.Exit(0)
    if ctx.invoked_subcommand is None:
        raise InputError("name a command: see 'autosched --help'")
    return 0


_OWN = (
    "--kernel FILE [--size NAME=N] [OPTIONS]",
    "--program FILE[:NAME] --size NAME=N [--reference FILE.py:FUNCTION] [OPTIONS]",
)
_INSTEAD = {  # usage lines of each command for calls without an operator, where an option or a file defines the problem
    "space": _OWN,
    "best": (*_OWN, "[--db DB] [OPTIONS]"),
    "tune": (
        *_OWN,
        "--suite FILE [OPTIONS]",
        "--from CSV [OPTIONS]",
        "--triton FILE:FUNCTION --args FILE:FUNCTION [OPTIONS]",
    ),
    "verify": (*_OWN, "FILE[:NAME] [OPTIONS] [-- ARGUMENTS]"),
    "threshold": _OWN,
}


def _add_operators(app: typer.Typer, whole: str, only: str | None = None) -> None:
    # imported lazily, because the list of commands does not need this module
    from autosched.cli.options.problem import for_operator

    command = call_of(whole)
    group = _operator_group(app, whole, _first_line(command))
    names = (only,) if only is not None and catalogue.is_operator(only) else catalogue.operator_names()
    for operator in map(catalogue.operator, names):
        add = group.command(
            operator.name, cls=Command, context_settings=_SETTINGS, options_metavar="[PROBLEM] [OPTIONS]"
        )
        add(for_operator(command, operator, whole))


def _operator_group(app: typer.Typer, whole: str, summary_line: str) -> typer.Typer:
    """Add a command that has a subcommand for each operator, and return its group, still without subcommands."""
    name = whole.removeprefix("db ")
    group = typer.Typer(
        cls=_OperatorGroup,
        context_settings=_SETTINGS,
        options_metavar="",
        subcommand_metavar=" | ".join(("OPERATOR [PROBLEM] [OPTIONS]", *_INSTEAD[name])),
    )

    def without_operator(ctx: typer.Context) -> None:
        if ctx.invoked_subcommand is None:
            known = ", ".join(catalogue.operator_names())
            raise InputError(
                f"{whole} needs an operator ({known}), --kernel FILE or --program FILE: see 'autosched {whole} --help'"
            )

    group.callback(invoke_without_command=True)(without_operator)
    file = f", or 'autosched {spellings.VERIFY_FILE} --help'" if whole == "verify" else ""
    epilog = f"{_example(whole)}\n\nOptions: see 'autosched {whole} matmul --help', or another operator's{file}."
    app.add_typer(group, name=name, help=summary_line, epilog=epilog)
    return group


def _example(name: str) -> str:
    return f"Example: {_EXAMPLES[name]}"


def _epilog(name: str) -> str:
    return f"{_example(name)}\n\n{_STATUSES}"


def _first_line(command: Callable[..., int]) -> str:
    return (command.__doc__ or "").strip().partition("\n")[0]


def run(arguments: Sequence[str]) -> int:
    """Run the command line and return the exit status. A user error prints one line on stderr and returns 2."""
    try:
        with library_log_shown():
            arguments = triton_option.expanded(spellings.expanded(arguments))
            written = kernel_option.written(arguments)
            statuses = [_one(line, written) for line in kernel_option.expanded(arguments)]
    except _UsageError as error:
        return _print_error(_usage_line(error))
    except (InputError, KernelFileError, StoreError) as error:
        return _print_error(str(error))
    except SystemExit as stop:  # SystemExit comes from a user's file: commands never raise it
        return _print_error(
            f"a Python file called sys.exit ({stop.code}) before the command was done: remove that call"
        )
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _EXTRAS:
            raise
        return _print_error(
            f"this command needs {missing}, which is not installed: pip install 'autosched[{_EXTRAS[missing]}]'"
        )
    except MemoryError:
        return _print_error("out of memory: free some, or raise the limit (ulimit -v)")
    except OSError as error:
        if error.errno is None:  # errors that autosched raises have a complete message
            return _print_error(str(error))
        if not _current_folder_exists():
            return _print_error("the current folder has been deleted: change to another one")
        if error.errno in _LIMITS:
            return _print_error(f"a limit of this machine is reached ({error.strerror}): raise it (see ulimit -a)")
        file = error.filename or "a file"
        if error.errno in _INVALID_PATHS:
            return _print_error(f"{file} cannot be used ({error.strerror}): name another file")
        if error.errno not in _MACHINE_ERRORS:
            raise
        return _print_error(f"{file} cannot be written ({error.strerror}): free disk space, or change its permissions")
    except (ValueError, RuntimeError) as error:
        if not isinstance(error, _errors_of_work()):
            raise
        return _print_error(str(error))
    return combined(statuses)


def _one(arguments: Sequence[str], written: str | None = None) -> int:
    command, operator = [*arguments, "", ""][:2]
    # Shell completion passes no arguments, but needs the options of all commands.
    completes = "_AUTOSCHED_COMPLETE" in os.environ
    if not completes and command in _OF_OPERATORS and set(catalogue.operator_names()).isdisjoint(arguments):
        # without an operator's name, the program only prints help or an error, so it imports no command
        app = outline(command)
    elif completes or not _COMMANDS.isdisjoint(arguments) or command in spellings.HIDDEN:
        app = build(command, operator)
    else:
        app = outline()
    if not gc.isenabled():
        gc.freeze()  # exclude imported modules from garbage collection, because they are never freed
        gc.enable()
    return int(app(list(arguments) or ["--help"], prog_name="autosched", standalone_mode=False, obj=written) or 0)


def _errors_of_work() -> tuple[type[Exception], ...]:
    """Return the classes of users' errors that are imported late, because their modules are slow to import."""
    from measurements.emulator import HostFailure
    from measurements.trials.tolerance import ToleranceError
    from search_spaces.spaces.counting.limits import TooTightlyTied
    from search_spaces.spaces.space import EmptySpace

    return EmptySpace, TooTightlyTied, HostFailure, ToleranceError


def _current_folder_exists() -> bool:
    try:
        os.getcwd()
    except OSError:
        return False
    return True


def _usage_line(error: Any) -> str:
    text = " ".join(error.format_message().split()).rstrip(".")
    if hasattr(error, "possibilities") and error.ctx is not None:  # the error is an unknown option
        name, near = error.option_name, error.possibilities or []
        short = name[1:] if len(name) == len("--m") and name.startswith("--") else ""
        near = [short] if short and any(short in p.opts for p in error.ctx.command.params) else near
        text = f"no such option: {name}" + (f", did you mean {near[0]}?" if near else "")
    where = f": see '{error.ctx.command_path} --help'" if error.ctx is not None else ""
    if error.ctx is not None and isinstance(error.ctx.command, _OperatorGroup):
        first = "the operator or the file" if error.ctx.command.name == "verify" else "the operator"
        where = f": options go after {first}, as in '{error.ctx.command_path} matmul ...'"
    return f"{text[:1].lower()}{text[1:]}{where}"


def _print_error(sentence: str, status: int = ExitStatus.NO_ANSWER) -> int:
    say(sentence)
    return status
