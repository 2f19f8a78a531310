"""``autosched verify FILE``: recognise the file and verify it."""

from __future__ import annotations

from typing import Annotated

import typer

from autosched.cli.answers import Output
from autosched.cli.options.groups import grouped
from autosched.cli.options.recognition import FileKind, recognise
from autosched.cli.options.verification import Findings, VerificationEffort
from autosched.cli.options.verified_files import (
    SUBMISSION,
    Executable,
    Inputs,
    KernelLaunch,
    Script,
    Submission,
    UndefinedMemory,
    describes_a_launch,
    refuse_inapplicable,
)
from autosched.cli.terminal.errors import InputError


@grouped
def verify_file(
    ctx: typer.Context,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE[:NAME]",
            help="CUDA source, PTX, a cubin or fat binary, an executable, a Python script, or (with --task) a "
            "submission. "
            "NAME: one of its kernels, or a function of a script.",
        ),
    ],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[-- ARGS]", help="Arguments of a script or an executable.")
    ] = None,
    *,
    effort: VerificationEffort,
    launch: KernelLaunch,
    findings: Findings,
    script: Script,
    executable: Executable,
    undefined: UndefinedMemory,
    submission: Submission,
    inputs: Inputs,
    output: Output,
) -> int:
    """Verify that the code in a file is correct, without a GPU.

    Races, accesses out of bounds, uninitialised memory, wrong barriers and masks are reported with their source lines.

    For CUDA source, PTX and binaries with PTX, the launch that -a, --grid and --block describe is emulated. Blocks run
    in ascending and in random order; --order and --turns choose another order. A kernel with a missing wait or a
    counter that is not reset may still give correct results in these orders. --full tries more orders.

    An executable runs with the given arguments, and each of its launches is emulated. With -a, --grid or --block, one
    launch of one of its kernels is emulated instead. A Python script runs, and each Triton launch is emulated. A
    submission is compared with the reference of its task. A tile program or a kernel file takes the options of
    'autosched verify matmul --help', and --size NAME=N.

    A note is a finding about a violation of the PTX ISA that is harmless in practice.
    """
    if submission.task:
        from autosched.cli.commands.verification.submission import verify_submission

        refuse_inapplicable(ctx, file, SUBMISSION)
        _refuse_arguments(file, SUBMISSION, arguments)
        return verify_submission("verify", file, submission, effort, findings, inputs, output)
    user_file = recognise(file)
    launched = user_file.name or describes_a_launch(ctx)
    kind = FileKind.BINARY if user_file.kind is FileKind.EXECUTABLE and launched else user_file.kind
    refuse_inapplicable(ctx, file, kind)
    if kind is FileKind.EXECUTABLE:
        from autosched.cli.commands.verification.executable import verify_executable

        return verify_executable("verify", [file, *(arguments or ())], effort, findings, executable, undefined, output)
    if kind is FileKind.SCRIPT:
        from autosched.cli.commands.verification.script import verify_script

        return verify_script(user_file, arguments or (), effort, findings, script, undefined, inputs, output)
    if kind in (FileKind.TILE_PROGRAM, FileKind.KERNEL_FILE):
        raise InputError(f"{file} is {kind}: options go after the file, as in 'autosched verify {file} --sample 1'")
    from autosched.cli.commands.verification.kernel_launch import verify_launch

    _refuse_arguments(file, kind, arguments)
    return verify_launch(user_file, launch, findings, effort, inputs, output)


def _refuse_arguments(file: str, kind: str, arguments: list[str] | None) -> None:
    if arguments:
        raise InputError(
            f"{file} is {kind} and takes no arguments after the file: omit {arguments[0]}, or pass it with -a"
        )
