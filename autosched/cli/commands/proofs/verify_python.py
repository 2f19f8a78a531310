"""``autosched verify --python FILE``: a Python program whose Triton launches run in the emulator.

``--json``: ``device``, ``ok``, ``failure``, ``notes``, ``fidelity``, and ``launches``, each with ``kernel``,
``called_at``, ``grid``, ``blocks`` (with those of clusters), ``left_out`` (of them, that did not run), ``threads``,
``size`` (of ``--sizes``), ``constants``, ``runs``, ``differing`` (arrays whose bits depend on the order of blocks),
``findings``, ``shared_sites`` and ``global_sites`` (as in ``measurements.emulator``).
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autosched.cli.options.devices import DeviceOption, target
from autosched.cli.terminal.errors import InputError
from autosched.cli.terminal.output import print_json, stderr_console, stdout_console
from autosched.reporting.exit_status import ExitStatus
from measurements.emulator import check_ready

if TYPE_CHECKING:
    from autosched.triton.program import ProgramProof


def _of_another_front_end(path: Path) -> str:
    """Return a line for a program whose kernels are not Triton's; "" for others."""
    from autosched.verify.emulate.kernel_files import NoKernelFile, front_end_of

    try:
        found = front_end_of(path)
    except NoKernelFile:  # no Python, which the failure says
        return ""
    return f"{path} {found.refusal}" if found is not None and found.instead else ""


def verify_python(
    python: Annotated[
        str,
        typer.Option(
            "--python",
            metavar="FILE[:FUNCTION]",
            help="A Python program that launches Triton kernels; with a function, which is called with --sizes.",
        ),
    ],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[-- ARGS]", help="Arguments of the program.")
    ] = None,
    device: DeviceOption = None,
    full: Annotated[
        bool, typer.Option("--full", help="Each launch in several orders of blocks and threads, and once more.")
    ] = False,
    blocks: Annotated[
        int | None,
        typer.Option(
            "--blocks",
            metavar="N",
            min=1,
            help="Of a launch with more blocks, run only N: the first, the last and some in between.",
        ),
    ] = None,
    limit: Annotated[
        float | None,
        typer.Option("--limit", metavar="S", min=0.001, help="End the program after S seconds; report up to there."),
    ] = None,
    sizes: Annotated[
        list[str] | None,
        typer.Option(
            "--sizes",
            metavar="NAME=A..B",
            help="An argument of the function: it is called with values from A to B that provoke. May be repeated.",
        ),
    ] = None,
    allow_undefined: Annotated[
        bool,
        typer.Option("--allow-undefined", help="Reading memory of torch.empty before it is written is no fault."),
    ] = False,
    first_config: Annotated[
        bool, typer.Option("--first-config", help="Run only the first configuration of each triton.autotune.")
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document; the program prints to stderr.")
    ] = False,
) -> int:
    """Run a Python program on the CPU, each Triton launch in the emulator, and report what is wrong with its kernels.

    Exit status 1 where something is found or the program fails, 2 where it launches nothing.
    """
    try:
        from autosched.triton.program import run_program
        from autosched.triton.session import QUICK, THOROUGH
    except ImportError as error:
        raise InputError(f"--python needs Triton and torch ({error}): pip install 'autosched[triton,torch]'") from None
    check_ready(source=False)
    row = target(device)
    settings = replace(THOROUGH if full else QUICK, blocks=blocks)
    path, function = _split(python)
    ranges = _ranges(sizes or [])
    if bool(function) != bool(ranges):
        raise InputError("--sizes NAME=A..B needs a function to call, and a function sizes: --python FILE:FUNCTION")
    try:
        proof = run_program(
            path,
            arguments or [],
            row,
            settings,
            quiet=json,
            seconds=limit,
            function=function,
            sizes=ranges,
            undefined_memory=not allow_undefined,
            first_configuration=first_config,
        )
    except FileNotFoundError as error:
        raise InputError(str(error)) from None
    if json:
        print_json(proof.document())
        return _status(proof)
    console = stdout_console()

    def line(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    if proof.trace:
        stderr_console().print(proof.trace, markup=False, highlight=False, soft_wrap=True)
    for fault in proof.session.fault_lines():
        line(fault)
    for note in proof.session.note_lines():
        line(note)
    for launch in proof.session.launches:
        if launch.differing:
            line(
                f"note: {launch.kernel}, launched at {launch.called_at}: the bits of {', '.join(launch.differing)} "
                "depend on the order of blocks"
            )
    for text in proof.fidelity.lines():
        line(text)
    kinds = Counter(str(f.kind) for f in proof.session.findings if f.is_fault)
    found = ", ".join(f"{count} {kind}" for kind, count in kinds.items()) or "nothing was found"
    if proof.failure:
        found = f"{proof.failure}; {found}"
    elif not proof.session.launches:
        found = "the program launched no Triton kernel"
    line(found)
    if not proof.session.launches and (hint := _of_another_front_end(path)):
        line(hint)
    return _status(proof)


def _status(proof: "ProgramProof") -> int:
    if proof.ok:
        return 0
    return (
        ExitStatus.NO if proof.failure or proof.session.launches or not proof.session.ok else ExitStatus.NO_ANSWER
    )  # nothing was compared


def _split(python: str) -> tuple[Path, str]:
    file, colon, function = python.rpartition(":")
    return (Path(file), function) if colon and function.isidentifier() else (Path(python), "")


def _ranges(texts: Sequence[str]) -> dict[str, tuple[int, int]]:
    ranges = {}
    for text in texts:
        found = re.fullmatch(r"([A-Za-z_]\w*)=(\d+)\.\.(\d+)", text)
        if found is None or int(found[2]) > int(found[3]):
            raise InputError(f"--sizes takes NAME=A..B with A not above B, such as rows=1..300, not {text}")
        ranges[found[1]] = (int(found[2]), int(found[3]))
    return ranges
