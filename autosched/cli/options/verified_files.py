"""Options specific to ``verify FILE``, ``run`` and ``judge``, and the kinds of files to which each option applies."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from autosched.cli.options.command import given_names
from autosched.cli.options.launch import LaunchesOption
from autosched.cli.options.problem import real_number, whole_number
from autosched.cli.options.recognition import FileKind
from autosched.cli.options.verification import Findings
from autosched.cli.terminal.errors import InputError, bad_input, listed
from measurements.trials.tolerance import checked_tolerance


@dataclass(frozen=True)
class KernelLaunch:
    """Options that describe the launch of one kernel."""

    argument: Annotated[
        list[str] | None,
        typer.Option(
            "--argument",
            "-a",
            metavar="ARG",
            help="Argument, in the order of the parameters: f32[64,32] (random), 'zeros f32[64]' (or ones, range, "
            "fill=7), "
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
            help="Emulate a programmatic dependent launch: the previous launch may still write all arguments, or "
            "only arguments K.",
        ),
    ] = ""
    shared: Annotated[
        int, typer.Option("--shared", parser=whole_number, metavar="BYTES", help="Dynamic shared memory.")
    ] = 0
    symbol: Annotated[
        list[str] | None,
        typer.Option("--symbol", metavar="NAME=ARG", help="Initial content of a __device__ or __constant__ variable."),
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
        list[str] | None,
        typer.Option("--option", metavar="OPTION", help="Option for the compiler, as in --option=-DN=4."),
    ] = None
    seed: Annotated[int, typer.Option("--seed", parser=whole_number, metavar="S", help="Seed of random arrays.")] = 0
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
            help="Run at most N blocks of each launch: the first, the last and some in between.",
        ),
    ] = None
    first_config: Annotated[
        bool, typer.Option("--first-config", help="Run only the first configuration of each triton.autotune.")
    ] = False


@dataclass(frozen=True)
class UndefinedMemory:
    """Option for reads of uninitialised device memory."""

    allow_undefined: Annotated[
        bool,
        typer.Option(
            "--allow-undefined",
            help="Do not report reads of uninitialised memory from torch.empty or cudaMalloc.",
        ),
    ] = False


@dataclass(frozen=True)
class Submission:
    """Options for the task of a submission, and limits of the submission's process."""

    task: Annotated[
        str,
        typer.Option("--task", metavar="FILE", help="A KernelBench file, or a KernelBot task.yml."),
    ] = ""
    no_uneven: Annotated[
        bool, typer.Option("--no-uneven", help="Use only the task's own sizes, without an additional uneven size.")
    ] = False
    memory_limit: Annotated[
        float,
        typer.Option(
            "--memory-limit",
            parser=real_number,
            metavar="GIB",
            help="Limit on the address space of the submission's process, in GiB.",
        ),
    ] = 16.0


@dataclass(frozen=True)
class Inputs:
    """Options for sizes and the tolerance."""

    size: Annotated[
        list[str] | None,
        typer.Option(
            "--size",
            metavar="NAME=N",
            help="Size of a submission's task. With NAME=A..B, call FILE:FUNCTION with critical values from A to B. "
            "May be repeated.",
        ),
    ] = None
    tolerance: Annotated[
        float | None,
        typer.Option(
            "--tolerance",
            parser=real_number,
            metavar="T",
            help="Relative tolerance of --expect (default 1e-5), or of a submission's output (default: depends on "
            "its type).",
        ),
    ] = None

    def within(self, default: float, most: float = math.inf) -> float:
        """Return the tolerance.

        Raises:
            InputError: The tolerance is negative, not finite, or not below ``most``.
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
        typer.Option("--driver", help="Needed if the executable loads libcuda itself, as a Python interpreter does."),
    ] = False


SUBMISSION = "a submission with --task"
_KERNEL = (FileKind.CUDA, FileKind.PTX, FileKind.BINARY)
# For each group of options, the kinds of files to which the group applies. ``_SINGLE`` has the exceptions: single
# options that apply to other kinds.
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


def describes_a_launch(ctx: typer.Context) -> bool:
    """Return True if the given options describe the launch of one kernel."""
    return bool(given_names(ctx) & {field.name for field in dataclasses.fields(KernelLaunch)})


def refuse_inapplicable(ctx: typer.Context, file: str, kind: str) -> None:
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
            raise InputError(f"{flag} applies to {listed(takers, 'or')}, but {file} is {kind}: omit this option")
