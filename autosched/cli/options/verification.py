"""The options of ``verify``, ``run`` and ``judge``, each declared once, and the kinds of files that they apply to."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, get_args

import typer

from autosched.cli.options.devices import DeviceOption
from autosched.cli.options.launch import LaunchesOption, OrderOption, TurnsOption, order_from
from autosched.cli.options.problem import real_number, whole_number
from autosched.cli.options.recognition import FileKind
from autosched.cli.terminal.errors import InputError, bad_input, listed
from autosched.verify.launch_plan import EVERY_ORDER, QUICK, LaunchPlan
from measurements.emulator import Order, Suppression
from measurements.emulator.findings import Grade
from measurements.trials.tolerance import checked_tolerance

FullOption = Annotated[
    bool,
    typer.Option(
        "--full",
        help="More runs: every order of blocks and threads, a second launch on the same memory; for a schedule also "
        "large sizes, long loops, addresses beyond 2^32.",
    ),
]


@dataclass(frozen=True)
class VerificationEffort:
    """Depth and time limit of a verification."""

    device: DeviceOption = None
    full: FullOption = False
    time_limit: Annotated[
        float | None,
        typer.Option(
            "--time-limit",
            parser=real_number,
            metavar="S",
            help="CPU seconds of each launch (default 60), or of a submission (default 120); seconds of a script.",
        ),
    ] = None
    batch_invariant: Annotated[
        bool,
        typer.Option(
            "--batch-invariant",
            help="A row must have the same bits in every batch, at every position and in every launch. A file also "
            "needs the sizes of the batch, --size NAME=A..B.",
        ),
    ] = False

    def seconds(self, default: float) -> float:
        """Return the time limit in seconds.

        Raises:
            InputError: The limit is not positive.
        """
        if self.time_limit is None:
            return default
        if not 0 < self.time_limit < math.inf:
            raise InputError(f"--time-limit must be more than 0 s, got {self.time_limit:g}")
        return self.time_limit


@dataclass(frozen=True)
class Findings:
    """Order of execution of launches, and the findings that count."""

    order: OrderOption = None
    turns: TurnsOption = 0
    perturb: Annotated[
        bool, typer.Option("--perturb", help="Approximate functions err as much as the PTX ISA allows.")
    ] = False
    suppress: Annotated[
        list[str] | None,
        typer.Option(
            "--suppress",
            metavar="KIND:FILE:LINE:REASON",
            help="Expected finding to suppress, with the reason; * matches any kind or line.",
        ),
    ] = None
    fail_on: Annotated[
        str,
        typer.Option(
            "--fail-on", metavar="GRADE", help="Lowest grade that fails the verification: fault, or note as well."
        ),
    ] = "fault"

    def own_order(self) -> Order | None:
        """Return the order that the options choose; None for the default orders.

        Raises:
            InputError: The options are invalid.
        """
        order = order_from(self.order, self.turns, 1)
        return order if self.order is not None or self.turns else None

    def plan(
        self, effort: VerificationEffort, default: LaunchPlan = QUICK, full: LaunchPlan = EVERY_ORDER
    ) -> LaunchPlan:
        """Return the runs of each launch.

        Args:
            effort: Depth. The caller applies the time limit, since it is not always per launch.
            default: Plan without ``--full``.
            full: Plan with ``--full``. An order chosen by the user then runs first.

        Raises:
            InputError: The options cannot be used.
        """
        plan, own = full if effort.full else default, self.own_order()
        if own is not None:
            plan = plan.beginning_with(own, alone=not effort.full)
        return replace(plan, perturb_all=self.perturb, suppressions=self.suppressions())

    def suppressions(self) -> tuple[Suppression, ...]:
        """Return the expected findings to suppress.

        Raises:
            InputError: A suppression cannot be parsed.
        """
        with bad_input():
            return tuple(Suppression.parse(one) for one in self.suppress or ())

    def notes_fail(self) -> bool:
        """Return whether a note fails the verification.

        Raises:
            InputError: The grade is unknown.
        """
        if self.fail_on not in get_args(Grade):
            raise InputError(f'invalid --fail-on "{self.fail_on}": write {" or ".join(get_args(Grade))}')
        return self.fail_on == "note"


@dataclass(frozen=True)
class KernelLaunch:
    """The launch of one kernel."""

    argument: Annotated[
        list[str] | None,
        typer.Option(
            "--argument",
            "-a",
            metavar="ARG",
            help="In the order of the parameters: f32[64,32] (noise), 'zeros f32[64]' (or ones, range, fill=7), "
            "'out f32[64]' for an array to fill, data.npy, a number, or null.",
        ),
    ] = None
    grid: Annotated[str, typer.Option("--grid", metavar="X[,Y,Z]", help="Blocks.")] = "1"
    block: Annotated[str, typer.Option("--block", metavar="X[,Y,Z]", help="Threads of a block.")] = "32"
    cluster: Annotated[str, typer.Option("--cluster", metavar="X[,Y,Z]", help="Blocks of a cluster.")] = ""
    cooperative: Annotated[
        bool, typer.Option("--cooperative", help="Run all blocks at the same time, as grid.sync() needs.")
    ] = False
    dependent: Annotated[
        str,
        typer.Option(
            "--dependent",
            metavar="all|K[,K]",
            help="Programmatic dependent launch: the previous launch may still write these arguments, or all.",
        ),
    ] = ""
    shared: Annotated[
        int, typer.Option("--shared", parser=whole_number, metavar="BYTES", help="Dynamic shared memory.")
    ] = 0
    symbol: Annotated[
        list[str] | None,
        typer.Option("--symbol", metavar="NAME=ARG", help="Content of a __device__ or __constant__ variable."),
    ] = None
    expect: Annotated[
        list[str] | None,
        typer.Option(
            "--expect", metavar="K=FILE.npy", help="Expected content of argument K (from 0) after the launch."
        ),
    ] = None
    keep: Annotated[
        str, typer.Option("--keep", metavar="FOLDER", help="Write the final content of the arrays: 0.npy, 1.npy, ...")
    ] = ""
    option: Annotated[
        list[str] | None, typer.Option("--option", metavar="OPTION", help="For the compiler: --option=-DN=4.")
    ] = None
    seed: Annotated[int, typer.Option("--seed", parser=whole_number, metavar="S", help="Seed of noise.")] = 0
    launches: LaunchesOption = 1


@dataclass(frozen=True)
class Script:
    """Options for running a Python script."""

    blocks: Annotated[
        int | None,
        typer.Option(
            "--blocks",
            metavar="N",
            min=1,
            help="Run at most N blocks of a launch: the first, the last and some in between.",
        ),
    ] = None
    first_config: Annotated[
        bool, typer.Option("--first-config", help="Run only the first configuration of each triton.autotune.")
    ] = False


@dataclass(frozen=True)
class UndefinedMemory:
    """Treatment of uninitialised device memory."""

    allow_undefined: Annotated[
        bool,
        typer.Option(
            "--allow-undefined",
            help="Do not report reads of uninitialised memory from torch.empty or cudaMalloc.",
        ),
    ] = False


@dataclass(frozen=True)
class Submission:
    """The task of a submission, and the limits of its process."""

    task: Annotated[
        str,
        typer.Option("--task", metavar="FILE", help="A KernelBench file, or a KernelBot task.yml."),
    ] = ""
    no_uneven: Annotated[
        bool, typer.Option("--no-uneven", help="Only the task's own sizes, without an uneven one.")
    ] = False
    memory_limit: Annotated[
        float,
        typer.Option(
            "--memory-limit",
            parser=real_number,
            metavar="GIB",
            help="Limit on the address space of its process, in GiB.",
        ),
    ] = 16.0


@dataclass(frozen=True)
class Inputs:
    """Sizes and tolerance."""

    size: Annotated[
        list[str] | None,
        typer.Option(
            "--size",
            metavar="NAME=N",
            help="Size of a submission's task; or with NAME=A..B a range for FILE:FUNCTION, which is called with "
            "critical values from A to B. May be repeated.",
        ),
    ] = None
    tolerance: Annotated[
        float | None,
        typer.Option(
            "--tolerance",
            parser=real_number,
            metavar="T",
            help="Relative error of --expect (default 1e-5), or of a submission's output (default: by its type).",
        ),
    ] = None

    def within(self, default: float, most: float = math.inf) -> float:
        """Return the tolerance.

        Raises:
            InputError: The tolerance is not a finite number from 0 up, or not below ``most``.
        """
        if self.tolerance is None:
            return default
        with bad_input():
            return checked_tolerance(self.tolerance, "--tolerance", most=most)


@dataclass(frozen=True)
class Executable:
    """Options for running an executable."""

    driver: Annotated[
        bool,
        typer.Option("--driver", help="Use this if the executable opens libcuda itself, as a Python interpreter does."),
    ] = False


SUBMISSION = "a submission with --task"
_KERNEL = (FileKind.CUDA, FileKind.PTX, FileKind.BINARY)
# Kinds of files that accept the options of a group, or single options.
_TAKERS: Mapping[type[Any], tuple[str, ...]] = {
    KernelLaunch: _KERNEL,
    Findings: (*_KERNEL, FileKind.EXECUTABLE, FileKind.SCRIPT, SUBMISSION),
    Script: (FileKind.SCRIPT,),
    Submission: (SUBMISSION,),
    Executable: (FileKind.EXECUTABLE,),
    UndefinedMemory: (FileKind.SCRIPT, FileKind.EXECUTABLE),
}
_SINGLE: Mapping[str, tuple[str, ...]] = {
    "device": (FileKind.EXECUTABLE, FileKind.SCRIPT, SUBMISSION),
    "fail_on": (*_KERNEL, FileKind.EXECUTABLE, FileKind.SCRIPT),
    "batch_invariant": (*_KERNEL, FileKind.SCRIPT),
    "size": (*_KERNEL, FileKind.SCRIPT, SUBMISSION),
    "tolerance": (*_KERNEL, SUBMISSION),
}
TAKERS: Mapping[str, tuple[str, ...]] = {
    **{field.name: kinds for group, kinds in _TAKERS.items() for field in dataclasses.fields(group)},
    **_SINGLE,
}


def given_names(ctx: typer.Context) -> set[str]:
    """Return the names of the options given on the command line."""
    sources = {name: ctx.get_parameter_source(name) for name in ctx.params}
    return {name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"}


def describes_a_launch(ctx: typer.Context) -> bool:
    """Return whether the given options describe the launch of one kernel."""
    return bool(given_names(ctx) & {field.name for field in dataclasses.fields(KernelLaunch)})


def refuse_others(ctx: typer.Context, file: str, kind: str) -> None:
    """Reject options that do not apply to a kind of file.

    Args:
        ctx: Context of the command.
        file: File argument on the command line.
        kind: Kind of the file: a ``FileKind`` or ``SUBMISSION``.

    Raises:
        InputError: An option does not apply. The message names it, and the kinds that accept it.
    """
    for name in sorted(given_names(ctx)):
        takers = TAKERS.get(name, (kind,))
        if kind not in takers:
            flag = "--" + name.replace("_", "-")
            raise InputError(f"{flag} is for {listed(takers, 'or')}, and {file} is {kind}: leave it out")
