"""``--triton FILE:FUNCTION``: a Triton kernel, its search space, and a user's function that builds its calls.

In ``best --triton FILE:FUNCTION`` the option replaces an operator, and the command shows the kernel's database entries.

The Triton function is registered in the catalogue as an operator. A problem of this operator is one call of the kernel.
The function of ``--args`` returns the call's arguments for the values of ``--size``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autosched.cli.options.kernel import extracted
from autosched.cli.terminal.errors import InputError, bad_input
from measurements.files.python_file import said

if TYPE_CHECKING:
    from autosched.triton.tuning.search import TritonTuning


COMMANDS = (("best",), ("db", "threshold"))


def expanded(arguments: Sequence[str]) -> list[str]:
    """Expand ``best --triton ...`` and ``db threshold --triton ...``; return any other command line unchanged.

    Raises:
        InputError: Options are repeated or incomplete, or a function cannot be loaded.
    """
    command = next((c for c in COMMANDS if tuple(arguments[: len(c)]) == c), None)
    if command is None:
        return list(arguments)
    locations, rest = extracted(arguments[len(command) :], "--triton")
    if not locations:
        return list(arguments)
    makers, rest = extracted(rest, "--args")
    size_values, rest = extracted(rest, "--size")
    if len(locations) > 1 or len(makers) > 1:
        raise InputError("give --triton FILE:FUNCTION and --args FILE:FUNCTION exactly once")
    if size_values and not makers:
        raise InputError("--size needs --args FILE:FUNCTION, the function that takes the sizes")
    names, _ = extracted(rest, "--db")
    tuning = registered(locations[0], names[-1] if names else None)
    problem: list[str] = []
    if makers:
        from autosched.triton.session import emulated
        from autosched.triton.tuning.call import KernelCall
        from autosched.triton.tuning.loading import load

        with (
            bad_input(),
            emulated("h100", check=False),
        ):  # any device will do, because the device does not affect the arguments
            make_arguments = load(makers[0], "--args")
            call = KernelCall.of(tuning.function, call_factory(make_arguments, sizes("--size", size_values), makers[0]))
            problem = ["--arguments", tuning.problem(call).arguments]
    return [*command, tuning.problem_name, *problem, *rest]


def registered(source: str, database: str | None) -> TritonTuning:
    """Register a Triton kernel and return it. Parameter values that it does not declare come from a database.

    Raises:
        InputError: The function cannot be loaded.
    """
    tuning = loaded(source)
    tuning.register()
    if database is not None and tuning.space is None and not tuning.function.configs:
        tuning = replace(tuning, space=_recorded(database, tuning.problem_name))
        tuning.register()
    return tuning


def _recorded(db: str, operator: str) -> dict[str, list[Any]] | None:
    """Return the parameter values that occur in a database's trials, for a kernel that was tuned with ``--param``."""
    from measurements.store.store import Store

    values_by_name: dict[str, dict[Any, None]] = {}
    store = Store.open(db, create=False)
    for summary in store.problems(operator):
        for trial in store.trials(store.problem(summary), summary.device, summary.provenance):
            for name, value in trial.schedule.items:
                values_by_name.setdefault(name, {})[value] = None
    return {name: list(values) for name, values in values_by_name.items()} or None


def loaded(
    source: str, param: Sequence[str] | None = None, rule: Sequence[str] | None = None, reference: str | None = None
) -> TritonTuning:
    """Load a Triton function with its options.

    Args:
        source: "file.py:function".
        param: Texts "name=1,2,4" that replace the function's own search space; None or empty to keep it.
        rule: Further conditions on configurations.
        reference: "file.py:function" that computes the expected outputs; None for the reference that the function
            declares, if any.

    Raises:
        InputError: Triton is missing, or a file, a name or a text cannot be used.
    """
    try:
        from autosched.triton.tuning.decorator import TunedFunction
        from autosched.triton.tuning.function import TritonFunction
        from autosched.triton.tuning.loading import load
        from autosched.triton.tuning.search import TritonTuning
    except ImportError as error:
        raise InputError(f"--triton needs Triton and torch ({error}): pip install 'autosched[triton,torch]'") from None
    try:
        value = load(source, "--triton")
        computes = None if reference is None else load(reference, "--reference")
        tuning = value.tuning if isinstance(value, TunedFunction) else TritonTuning(TritonFunction.of(value))
    except ValueError as error:
        raise InputError(str(error)) from error
    space = _space(param) if param else tuning.space
    return TritonTuning(
        tuning.function,
        space,
        (*tuning.rules, *(rule or ())),
        tuning.default,
        computes or tuning.reference,
        tuning.tolerance,
    )


def _space(param: Sequence[str]) -> dict[str, list[Any]]:
    """Parse ``--param NAME=V,V``. Values are integers, True, False, None, or else text."""
    words: dict[str, Any] = {"True": True, "False": False, "None": None}
    domains: dict[str, list[Any]] = {}
    for text in param:
        name, sign, values = text.partition("=")
        if not sign or not name or not values:
            raise InputError(f"--param {text}: write NAME=VALUE,VALUE, such as --param BLOCK_M=64,128")
        domains[name] = [
            words[v] if v in words else int(v) if v.removeprefix("-").isdigit() else v for v in values.split(",")
        ]
    return domains


def sizes(flag: str, assignments: Sequence[str] | None) -> dict[str, int]:
    """Parse the options ``--size NAME=N``.

    Raises:
        InputError: A text is not NAME=N.
    """
    ranges = {}
    for text in assignments or ():
        name, sign, value = text.partition("=")
        if not sign or not name.isidentifier() or not value.removeprefix("-").isdigit():
            raise InputError(f"{flag} {text}: write NAME=N, such as {flag} m=4096")
        ranges[name] = int(value)
    return ranges


def call_factory(make_arguments: Callable[..., Any], sizes: Mapping[str, int], source: str) -> Any:
    """Call the user's function with sizes and return its result.

    Raises:
        InputError: The function raised an error.
    """
    try:
        return make_arguments(**sizes)
    except (Exception, SystemExit) as error:
        raise InputError(f"--args: {Path(source).name} raised {said(error)}") from error
