"""``autosched tune --triton FILE:FUNCTION``: search a Triton kernel's configurations without a GPU.

``--json`` prints the same document as ``autosched tune``.
"""

import inspect
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autosched.cli.commands.tuning.tune import finish, searched
from autosched.cli.options.devices import target
from autosched.cli.options.groups import grouped
from autosched.cli.options.problem import whole_number
from autosched.cli.options.search import (
    DEFAULT_TRIALS,
    JsonOption,
    SearchControls,
    check_limits,
    trials_or_all,
)
from autosched.cli.options.triton import call_factory, loaded, sizes
from autosched.cli.terminal.errors import InputError, bad_input
from autosched.cli.terminal.output import answer
from autosched.reporting.exit_status import ExitStatus
from autosched.samplers import BRUTE_FORCE, DEFAULT

if TYPE_CHECKING:
    from autosched.triton.tuning.search import TritonTuning
    from autosched.tuning.result import SoFar, TuneResult

TritonOption = Annotated[
    str, typer.Option("--triton", metavar="FILE:FUNCTION", help="A function decorated with @triton.jit.")
]
ArgsOption = Annotated[
    str | None,
    typer.Option(
        "--args",
        metavar="FILE:FUNCTION",
        help="Function that takes sizes and returns a dict with the grid and the arguments by name. (required)",
    ),
]
SizeOption = Annotated[
    list[str] | None, typer.Option("--size", metavar="NAME=N", help="Size passed to the function of --args.")
]
ParamOption = Annotated[
    list[str] | None,
    typer.Option(
        "--param",
        metavar="NAME=V,V",
        help="Values to try for a tl.constexpr parameter, or for an option such as num_warps.",
    ),
]
RuleOption = Annotated[
    list[str] | None,
    typer.Option(
        "--rule", metavar="EXPR", help="Condition that configurations must satisfy, such as 'BM * BN <= 16384'."
    ),
]


@grouped
def tune_triton(
    triton: TritonOption,
    *,
    args: ArgsOption = None,
    size: SizeOption = None,
    calls: Annotated[
        str | None,
        typer.Option("--from", metavar="FILE", help="Tune each call recorded by autosched.triton.recording."),
    ] = None,
    verification_size: Annotated[
        list[str] | None,
        typer.Option(
            "--verification-size",
            metavar="NAME=N",
            help="Sizes for verification: choose small sizes that are no multiples of the block sizes.",
        ),
    ] = None,
    param: ParamOption = None,
    rule: RuleOption = None,
    reference: Annotated[
        str | None,
        typer.Option(
            "--reference",
            metavar="FILE:FUNCTION",
            help="Function that returns the expected outputs by name, given the arguments (default: outputs of the "
            "kernel's default configuration).",
        ),
    ] = None,
    db: Annotated[
        str | None,
        typer.Option("--db", metavar="DB", help="Database file or SQLAlchemy URL, created if missing. (required)"),
    ] = None,
    trials: Annotated[
        int | None,
        typer.Option(
            "--trials",
            parser=whole_number,
            metavar="N",
            help=f"Configurations to try (default {DEFAULT_TRIALS}; all with --sampler {BRUTE_FORCE}).",
        ),
    ] = None,
    search: SearchControls,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            parser=whole_number,
            metavar="W",
            help="Number of compiler processes (default: one per core; 0: compile in this process).",
        ),
    ] = None,
    json: JsonOption = False,
) -> int:
    """Search for the fastest configuration of a Triton kernel; no GPU is needed.

    Every configuration is compiled for the device, and its time is ESTIMATED by emulating its blocks. Each new best is
    verified against the kernel's default configuration. --from reads sizes that autosched.triton.recording collected
    while a program ran with Triton's autotuner. Each key of the autotuner gets --trials trials, and its sizes are
    passed to the function of --args by name. Exit status 1 if no configuration worked.
    """
    if args is None or db is None:
        lacks = "--args FILE:FUNCTION" if args is None else "--db best.db"
        usage = "autosched tune --triton k.py:kernel --args k.py:make --db best.db"
        raise InputError(f"tune --triton needs {lacks}: {usage}")
    trials = trials_or_all(trials, search.sampler) or DEFAULT_TRIALS
    check_limits(trials, search.seed, workers, least_workers=0)
    row = target(search.device)
    tuning = loaded(triton, param, rule, reference)
    from autosched.triton.session import emulated
    from autosched.triton.tuning.call import KernelCall
    from autosched.triton.tuning.loading import load
    from autosched.triton.tuning.search import tune_call
    from autosched.tuning.options import SearchOptions

    chosen_sizes = sizes("--size", size)
    if calls is not None:
        if json:
            raise InputError("--json prints a single document, but --from may tune several calls: give --size instead")
        status = 0
        for recorded in _recorded_sizes(calls, tuning, load, args):
            answer(f"{tuning.function.name}: {', '.join(f'{name} = {value}' for name, value in recorded.items())}")
            size_options = [f"{name}={value}" for name, value in {**chosen_sizes, **recorded}.items()]
            status = max(
                status,
                tune_triton(
                    triton, args=args, size=size_options, calls=None, verification_size=verification_size, param=param,
                    rule=rule, reference=reference, db=db, trials=trials, workers=workers, json=False, **asdict(search),
                ),
            )  # fmt: skip
            if status == ExitStatus.STOPPED:
                break
        return status

    def run(so_far: "SoFar") -> "TuneResult":
        make_arguments = load(args, "--args")
        with emulated(row, check=False) as session:
            call = KernelCall.of(tuning.function, call_factory(make_arguments, chosen_sizes, args))
            verification = (
                call_factory(make_arguments, sizes("--verification-size", verification_size), args)
                if verification_size
                else None
            )
            return tune_call(
                tuning,
                call,
                row,
                SearchOptions(
                    trials=trials,
                    database=db,
                    sampler=search.sampler or DEFAULT,
                    seed=search.seed,
                    verify=not search.no_verify,
                    progress=so_far,
                    seconds=search.seconds,
                    workers=workers,
                ),
                verification_call=None if verification is None else KernelCall.of(tuning.function, verification),
                storages=session.storages,
            )

    result = searched(run, json=json)
    return finish(result, db, search.seed, json=json)


def _recorded_sizes(
    calls: str, tuning: "TritonTuning", load: Callable[[str, str], Any], args: str
) -> list[dict[str, int]]:
    """Return the recorded sizes of a program as keyword arguments for the function of ``--args``.

    Raises:
        InputError: The recording cannot be read, or a parameter is missing.
    """
    from autosched.triton.tuning.listened import read

    with bad_input():
        try:
            recorded = read(calls, tuning.function)
        except OSError as error:
            raise InputError(f"{calls} cannot be read ({error.strerror}): name another file") from error
        parameters = inspect.signature(load(args, "--args")).parameters
        names = {name.lower(): name for name in parameters}
        missing = [key for key in tuning.function.keys if key.lower() not in names]
        if missing:
            raise InputError(
                f"the function of --args takes {', '.join(parameters) or 'nothing'}, but the autotuner's key also has "
                f"{' and '.join(missing)}: add parameters"
            )
    return [{names[key.lower()]: value for key, value in sizes_of.items()} for sizes_of in recorded]
