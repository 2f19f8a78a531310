"""``autosched run PROGRAM``: a whole CUDA program without a GPU, and what is wrong with its launches.

``--report FILE``, JSON: ``program``, ``status``, ``launches``, ``findings`` (``kind``, ``message``, ``kernel``,
``launch``, ``shape``, ``file``, ``line``, ``instruction``, ``callers``), ``lacking``, ``seconds`` and
``emulated_seconds``.
"""

import signal
import sys
from json import dumps
from pathlib import Path
from typing import Annotated

import typer

from autosched.cli.options.launch import OrderOption, TurnsOption, order_from
from autosched.cli.options.problem import real_number
from autosched.cli.terminal.errors import InputError, bad_input
from autosched.reporting.exit_status import ExitStatus
from measurements.emulator import Order, Suppression
from measurements.emulator.programs import LaunchFinding, ProgramOptions, ProgramRefused, ProgramResult, run_program
from measurements.files.text import harmless
from search_spaces.hardware.devices import device as device_by_name

DEFAULT_DEVICE = "h100"
_MORE_ORDERS = (Order("random", seed=7), Order("interleaved", seed=11))
_MARK = "========="  # as compute-sanitizer has it, so that tools which read its lines read these


def run(
    program: Annotated[
        list[str], typer.Argument(metavar="PROGRAM [ARGUMENTS]", help="Linked with the shared CUDA runtime.")
    ],
    device: Annotated[
        str, typer.Option("--device", metavar="NAME", help="The GPU that the program is told it has.")
    ] = DEFAULT_DEVICE,
    order: OrderOption = None,
    turns: TurnsOption = 0,
    more_orders: Annotated[
        bool,
        typer.Option(
            "--more-orders",
            help="Run each launch also with blocks at random and interleaved, on copies of memory: thrice the time.",
        ),
    ] = False,
    perturb: Annotated[
        bool, typer.Option("--perturb", help="Approximate functions err as much as the PTX ISA allows.")
    ] = False,
    time_limit: Annotated[
        float, typer.Option("--time-limit", parser=real_number, metavar="S", help="CPU seconds of each launch.")
    ] = 60.0,
    suppressed: Annotated[
        list[str] | None,
        typer.Option(
            "--suppress",
            metavar="KIND:FILE:LINE:REASON",
            help="A finding that is expected, and why; * stands for any kind or line.",
        ),
    ] = None,
    driver: Annotated[
        bool,
        typer.Option("--driver", help="The program opens libcuda itself, as an interpreter of Python does."),
    ] = False,
    report: Annotated[str, typer.Option("--report", metavar="FILE", help="Write what was found as JSON.")] = "",
) -> int:
    """Run a CUDA program without a GPU: its launches are emulated, and races, bounds and barriers checked.

    Compile it with nvcc -cudart shared -lineinfo. Copies, streams, events, symbols, textures and managed memory work;
    times are those of this machine's CPU. Options go before PROGRAM.
    Exit status 1 where a fault is found, 2 where the program calls what is not emulated or launches nothing, else the
    program's own.
    """
    try:
        gpu = device_by_name(device)
    except (KeyError, ValueError) as error:
        raise InputError(str(error).strip("'\"")) from None
    if not time_limit > 0:
        raise InputError("--time-limit must be more than 0 s")
    with bad_input():
        suppressions = tuple(Suppression.parse(one) for one in suppressed or ())
    more = _MORE_ORDERS if more_orders else ()
    options = ProgramOptions(gpu, time_limit, order_from(order, turns, 1), more, perturb, suppressions, driver)
    try:
        result = run_program(program, options, _tell)
    except ProgramRefused as refused:
        raise InputError(str(refused)) from None
    _summarize(result)
    if report:
        document = {
            "program": program,
            "status": result.status,
            "launches": result.launches,
            "findings": [_to_json(f) for f in result.findings],
            "lacking": result.lacking,
            "seconds": result.seconds,
            "emulated_seconds": result.emulated_seconds,
        }
        Path(report).write_text(dumps(document, indent=2) + "\n", encoding="utf-8")
    if result.faults:
        return ExitStatus.NO
    if result.lacking:
        return ExitStatus.NO_ANSWER
    if not result.launches and not result.status:
        return ExitStatus.NO_ANSWER  # nothing was compared
    return result.status if result.status >= 0 else 128 - result.status


def _tell(found: LaunchFinding | str) -> None:
    if isinstance(found, str):
        _line(found)
        return
    f = found.finding
    where = f" at {f.file}:{f.line}" if f is not None and f.file else ""
    _line(f"{'' if found.is_fault else 'note: '}{found.kind}{f' in {found.kernel}' if found.kernel else ''}{where}")
    _line(f"    {found.message}{f' ({f.count} times)' if f is not None and f.count > 1 else ''}")
    if f is not None and f.instruction:
        _line(f"    {f.instruction}")
    if f is not None and f.callers:
        _line(f"    inlined at {', '.join(f.callers)}")
    if found.launch:
        _line(f"    launch {found.launch}: {found.shape}")


def _summarize(result: ProgramResult) -> None:
    faults, launches, lacking = result.faults, result.launches, result.lacking
    notes = len(result.findings) - faults
    what = f"{faults} fault{'s' if faults != 1 else ''}" if faults else "nothing was found" if not notes else "no fault"
    what += f" and {notes} note{'s' if notes != 1 else ''}" if notes else ""
    times = f"{launches} launch{'es' if launches != 1 else ''}"
    lacks = f"; {len(lacking)} thing{'s are' if len(lacking) != 1 else ' is'} not emulated" if lacking else ""
    died = f"; the program was ended by {signal.Signals(-result.status).name}" if result.status < 0 else ""
    _line(f"{what} in {times}, emulated in {result.emulated_seconds:.1f} s{lacks}{died}")


def _line(text: str) -> None:
    print(f"{_MARK} {harmless(text)}", file=sys.stderr, flush=True)


def _to_json(f: LaunchFinding) -> dict[str, object]:
    found = f.finding
    place: dict[str, object] = {
        "file": found.file, "line": found.line, "count": found.count, "instruction": found.instruction,
        "callers": list(found.callers),
    } if found is not None else {}  # fmt: skip
    place |= {"grade": found.grade} if found is not None else {}
    return {"kind": f.kind, "message": f.message, "kernel": f.kernel, "launch": f.launch, "shape": f.shape, **place}
