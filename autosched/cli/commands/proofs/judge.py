"""``autosched judge SUBMISSION --task FILE``: a JSON verdict on a submitted Triton kernel.

``status`` (right, wrong, racing, out_of_bounds, faulty, cheating, failed, timed_out, out_of_memory, unproven),
``reasons``, ``cheats`` (no_launch, output_not_written, zeros, inputs_changed, input_returned, kept_output,
constant_output, work_left_to_torch),
``cases`` (each ``name``, ``launches``, ``relative_error``, ``tolerance``, ``task_accepts``, ``findings``,
``torch_operators``), ``network`` (none, or why there was one), ``submission``, ``task``, ``device``.
"""

from pathlib import Path
from typing import Annotated

import typer

from autosched.cli.options.devices import DeviceOption, target
from autosched.cli.options.problem import real_number
from autosched.cli.terminal.errors import InputError
from autosched.cli.terminal.output import print_json
from autosched.reporting.exit_status import ExitStatus
from measurements.emulator import check_ready


def judge(
    submission: Annotated[str, typer.Argument(metavar="SUBMISSION", help="A Python file with Triton kernels.")],
    task: Annotated[
        str, typer.Option("--task", metavar="FILE", help="A KernelBench file, or a KernelBot task.yml. (required)")
    ] = "",
    device: DeviceOption = None,
    size: Annotated[
        list[str] | None,
        typer.Option("--size", metavar="NAME=N", help="A size of the task, to emulate less: batch_size=4."),
    ] = None,
    even_only: Annotated[
        bool, typer.Option("--no-uneven", help="Only the task's own sizes, no uneven one beside them.")
    ] = False,
    full: Annotated[
        bool, typer.Option("--full", help="Each launch in several orders of blocks and threads, and once more.")
    ] = False,
    tolerance: Annotated[
        float,
        typer.Option(
            "--tolerance", parser=real_number, metavar="T", help="Relative error of the output (default: by its type)."
        ),
    ] = 0.0,
    time_limit: Annotated[
        float,
        typer.Option("--time-limit", parser=real_number, metavar="S", help="Seconds of the CPU for the whole run."),
    ] = 120.0,
    memory_limit: Annotated[
        float,
        typer.Option("--memory-limit", parser=real_number, metavar="GIB", help="Address space of its process, in GiB."),
    ] = 16.0,
) -> int:
    """Run a submission without a GPU, in a process of its own without a network, and print a JSON verdict.

    Outputs are compared with the task's reference in float64; launches are proven in the emulator. The process is no
    sandbox: run what strangers write in a container or a virtual machine. Exit status 1 if it is not right.
    """
    if not task:
        raise InputError("judge needs --task: autosched judge submission.py --task task.yml")
    for file in (submission, task):
        if not Path(file).is_file():
            raise InputError(f"{file}: no such file")
    if not 0 <= tolerance < 1 or not 0 < time_limit < 1e6 or not 1 <= memory_limit < 1e6:
        raise InputError("--tolerance is from 0 to 1, --time-limit more than 0 s, --memory-limit at least 1 GiB")
    row = target(device)
    check_ready(source=False)
    try:
        import torch  # noqa: F401
        import triton  # noqa: F401
    except ImportError as error:
        raise InputError(f"judge needs Triton and torch ({error}): pip install 'autosched[triton,torch]'") from None
    from autosched.judge.run import Refused, run_judge

    try:
        verdict = run_judge(
            Path(submission),
            Path(task),
            row,
            sizes=dict(_size(text) for text in size or ()),
            uneven=not even_only,
            full=full,
            tolerance=tolerance,
            time_limit=time_limit,
            memory_limit=int(memory_limit * 2**30),
        )
    except Refused as error:
        raise InputError(str(error)) from error
    print_json({**verdict.to_json(), "submission": submission, "task": task, "device": row.name})
    return 0 if verdict.status == "right" else ExitStatus.NO


def _size(text: str) -> tuple[str, int]:
    name, equals, value = text.partition("=")
    if not equals or not value.isdigit():
        raise InputError(f"--size {text[:60]} is no size: write NAME=N")
    return name, int(value)
