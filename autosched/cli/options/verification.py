"""The options of ``verify``, ``run`` and ``judge``, each declared once, and which kinds of files take them."""

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
    """How long and how thoroughly, of everything that is run."""

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
        """Return the time limit. Raises InputError for one that is not positive."""
        if self.time_limit is None:
            return default
        if not 0 < self.time_limit < math.inf:
            raise InputError(f"--time-limit must be more than 0 s, got {self.time_limit:g}")
        return self.time_limit


@dataclass(frozen=True)
class Findings:
    """How launches are run, and which findings count."""

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
            help="A finding that is expected, and why; * stands for any kind or line.",
        ),
    ] = None
    fail_on: Annotated[
        str, typer.Option("--fail-on", metavar="GRADE", help="Least grade that is refused: fault, or note as well.")
    ] = "fault"

    def own_order(self) -> Order | None:
        """Return the order that was asked for; None for the usual ones. Raises InputError."""
        order = order_from(self.order, self.turns, 1)
        return order if self.order is not None or self.turns else None

    def plan(
        self, effort: VerificationEffort, default: LaunchPlan = QUICK, full: LaunchPlan = EVERY_ORDER
    ) -> LaunchPlan:
        """Return the runs of each launch.

        Args:
            effort: Depth; the time limit is left to the caller, since it is not always that of a launch.
            default: Without ``--full``.
            full: With it; an order that was asked for then runs first.

        Raises:
            InputError: The options cannot be used.
        """
        plan, own = full if effort.full else default, self.own_order()
        if own is not None:
            plan = plan.beginning_with(own, alone=not effort.full)
        return replace(plan, perturb_all=self.perturb, suppressions=self.suppressions())

    def suppressions(self) -> tuple[Suppression, ...]:
        """Return what is expected. Raises InputError."""
        with bad_input():
            return tuple(Suppression.parse(one) for one in self.suppress or ())

    def notes_fail(self) -> bool:
        """Return whether a note is refused. Raises InputError."""
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
        bool, typer.Option("--cooperative", help="All blocks run at a time, as grid.sync() needs.")
    ] = False
    dependent: Annotated[
        str,
        typer.Option(
            "--dependent",
            metavar="all|K[,K]",
            help="Programmatic dependent launch: the launch before may still write these arguments, or all.",
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
        typer.Option("--expect", metavar="K=FILE.npy", help="What argument K (from 0) must hold after the launch."),
    ] = None
    keep: Annotated[
        str, typer.Option("--keep", metavar="FOLDER", help="Write the arrays that the kernel left: 0.npy, 1.npy, ...")
    ] = ""
    option: Annotated[
        list[str] | None, typer.Option("--option", metavar="OPTION", help="For the compiler: --option=-DN=4.")
    ] = None
    seed: Annotated[int, typer.Option("--seed", parser=whole_number, metavar="S", help="Seed of noise.")] = 0
    launches: LaunchesOption = 1


@dataclass(frozen=True)
class Script:
    """How a Python script is run."""

    blocks: Annotated[
        int | None,
        typer.Option(
            "--blocks",
            metavar="N",
            min=1,
            help="Of a launch with more blocks, run only N: the first, the last and some in between.",
        ),
    ] = None
    first_config: Annotated[
        bool, typer.Option("--first-config", help="Run only the first configuration of each triton.autotune.")
    ] = False


@dataclass(frozen=True)
class UndefinedMemory:
    """Whether memory of the device holds values before something writes it."""

    allow_undefined: Annotated[
        bool,
        typer.Option(
            "--allow-undefined",
            help="Reading memory of torch.empty or cudaMalloc before it is written is no fault.",
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
        typer.Option("--memory-limit", parser=real_number, metavar="GIB", help="Address space of its process, in GiB."),
    ] = 16.0


@dataclass(frozen=True)
class Inputs:
    """Sizes, and how exact results must be."""

    size: Annotated[
        list[str] | None,
        typer.Option(
            "--size",
            metavar="NAME=N",
            help="A size: of the task of a submission, or of FILE:FUNCTION, which is called with values that provoke "
            "from A to B with NAME=A..B. May be repeated.",
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
        """Return the tolerance. Raises InputError for one that is no positive number, or above ``most``."""
        if self.tolerance is None:
            return default
        if not 0 <= self.tolerance < most:
            limit = "" if math.isinf(most) else f" and below {most:g}"
            raise InputError(f"--tolerance is a number from 0 up{limit}, not {self.tolerance:g}")
        return self.tolerance


@dataclass(frozen=True)
class Executable:
    """How an executable is run."""

    driver: Annotated[
        bool,
        typer.Option("--driver", help="The executable opens libcuda itself, as an interpreter of Python does."),
    ] = False


SUBMISSION = "a submission with --task"
_KERNEL = (FileKind.CUDA, FileKind.PTX, FileKind.BINARY)
# What takes the options of a group, or single ones of them.
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
    """Return the names of the options that stand on the command line."""
    sources = {name: ctx.get_parameter_source(name) for name in ctx.params}
    return {name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"}


def describes_a_launch(ctx: typer.Context) -> bool:
    """Return whether options describe the launch of one kernel."""
    return bool(given_names(ctx) & {field.name for field in dataclasses.fields(KernelLaunch)})


def refuse_others(ctx: typer.Context, file: str, kind: str) -> None:
    """Refuse options that mean nothing for a file.

    Args:
        ctx: Of the command.
        file: As on the command line.
        kind: What it is, one of ``FileKind`` or ``SUBMISSION``.

    Raises:
        InputError: Names the first such option, and what takes it.
    """
    for name in sorted(given_names(ctx)):
        takers = TAKERS.get(name, (kind,))
        if kind not in takers:
            flag = "--" + name.replace("_", "-")
            raise InputError(f"{flag} is for {listed(takers, 'or')}, and {file} is {kind}: leave it out")
