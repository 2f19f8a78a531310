"""``autosched emulate FILE``: one launch of anyone's kernel, from PTX or CUDA source, and what is wrong with it.

``--json``: ``file``, ``kernel``, ``order``, ``turns``, ``orders`` (of each run, its name), ``not_run``, ``launches``,
``status``, ``reason``, ``printed``, ``findings``, ``suppressed`` (findings, each with its ``reason``), ``differences``
(by argument, from --expect), ``shared_sites``, ``global_sites`` (as in ``measurements.emulator``) and ``seconds``.
"""

import math
import re
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from json import dumps
from pathlib import Path
from typing import Annotated, Any, get_args

import numpy as np
import typer

from autosched.cli.options.arrays import read_argument, read_arguments, read_array
from autosched.cli.options.launch import LaunchesOption, OrderOption, TurnsOption, order_from
from autosched.cli.options.problem import real_number, whole_number
from autosched.cli.terminal.errors import MOST_SEED, InputError, bad_input, shortened, within
from autosched.cli.terminal.findings import print_findings
from autosched.cli.terminal.output import print_json, say, stdout_console
from autosched.reporting.exit_status import ExitStatus
from measurements.emulator import Suppression, check_ready
from measurements.emulator.findings import Grade
from measurements.files.bounded import read_bounded
from measurements.records.comparison import told_apart

_MOST_BYTES = 1 << 26  # of a source or of PTX
_TOLERANCE = 1e-5  # relative, of --expect


def emulate(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="CUDA source, PTX, or a cubin, fat binary or program with PTX.")
    ],
    argument: Annotated[
        list[str] | None,
        typer.Option(
            "--argument",
            "-a",
            metavar="ARG",
            help="In the order of the parameters: f32[64,32] (noise), 'zeros f32[64]' (or ones, range, fill=7), "
            "'out f32[64]' for an array to fill, data.npy, a number, or null.",
        ),
    ] = None,
    grid: Annotated[str, typer.Option("--grid", metavar="X[,Y,Z]", help="Blocks.")] = "1",
    block: Annotated[str, typer.Option("--block", metavar="X[,Y,Z]", help="Threads of a block.")] = "32",
    shared: Annotated[
        int, typer.Option("--shared", parser=whole_number, metavar="BYTES", help="Dynamic shared memory.")
    ] = 0,
    name: Annotated[
        str, typer.Option("--kernel", "--name", metavar="KERNEL", help="The kernel, where there are several.")
    ] = "",
    symbol: Annotated[
        list[str] | None,
        typer.Option("--symbol", metavar="NAME=ARG", help="Content of a __device__ or __constant__ variable."),
    ] = None,
    expect: Annotated[
        list[str] | None,
        typer.Option("--expect", metavar="K=FILE.npy", help="What argument K (from 0) must hold after the launch."),
    ] = None,
    tolerance: Annotated[
        float, typer.Option("--tolerance", parser=real_number, metavar="T", help="Relative, of --expect.")
    ] = _TOLERANCE,
    keep: Annotated[
        str, typer.Option("--keep", metavar="FOLDER", help="Write the arrays that the kernel left: 0.npy, 1.npy, ...")
    ] = "",
    define: Annotated[
        list[str] | None, typer.Option("--option", metavar="OPTION", help="For the compiler: --option=-DN=4.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", parser=whole_number, metavar="S", help="Seed of noise.")] = 0,
    order: OrderOption = None,
    turns: TurnsOption = 0,
    launches: LaunchesOption = 1,
    perturb: Annotated[
        bool, typer.Option("--perturb", help="Approximate functions err as much as the PTX ISA allows.")
    ] = False,
    suppressed: Annotated[
        list[str] | None,
        typer.Option(
            "--suppress",
            metavar="KIND:FILE:LINE:REASON",
            help="A finding that is expected, and why; * stands for any kind or line.",
        ),
    ] = None,
    fail_on: Annotated[
        str, typer.Option("--fail-on", metavar="GRADE", help="What makes the exit status 1: fault, or note as well.")
    ] = "fault",
    time_limit: Annotated[
        float, typer.Option("--time-limit", parser=real_number, metavar="S", help="CPU seconds of the launch.")
    ] = 60.0,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> int:
    """Execute a kernel on the CPU and report races, bounds, uninitialised memory, barriers and masks.

    CUDA files may hold host code: nvcc compiles them where it is installed. Without nvcc, or where nvcc fails, NVRTC
    compiles their device part. The launch runs twice, with blocks in ascending and in random order, unless --order or
    --turns say how. A kernel that waits for nothing, or does not reset a counter, may be right by luck: --order
    interleaved and --launches 2 show it. A note is true by the letter of the PTX ISA and harms nothing.
    Exit status 1 where a fault is found, where the kernel does not run, or where --expect differs.
    """
    from autosched.verify.emulate.emulate import emulate as run_kernel
    from autosched.verify.emulate.emulate import is_ptx
    from autosched.verify.remedies import remedy

    within("--seed", seed, 0, MOST_SEED)
    asked = order_from(order, turns, launches)
    turned = asked if order is not None or turns else None
    if not 0 <= tolerance < math.inf:
        raise InputError(f"--tolerance is a number from 0 up, not {tolerance:g}")
    if fail_on not in get_args(Grade):
        raise InputError(f"--fail-on {fail_on} is not a grade: write {' or '.join(get_args(Grade))}")
    with bad_input():
        suppressions = [Suppression.parse(one) for one in suppressed or ()]
    rng = np.random.default_rng(seed)
    program, is_source, options = _program(file, is_ptx, define or [])
    values, outputs = read_arguments(argument or [], rng)
    symbols = dict(_assignment("--symbol", text, rng) for text in symbol or [])
    wanted = {_position(text, len(values)): read_array(text.partition("=")[2], "--expect") for text in expect or []}
    check_ready(source=is_source)
    with bad_input(), warnings.catch_warnings(record=True) as notices:
        warnings.simplefilter("always", UserWarning)
        run = run_kernel(
            program,
            kernel=name,
            arguments=values,
            grid=_sizes("--grid", grid),
            block=_sizes("--block", block),
            shared_bytes=shared,
            outputs=outputs,
            symbols=symbols,
            options=options,
            perturb=perturb,
            order=turned,
            launches=launches,
            time_limit=time_limit,
            suppressions=suppressions,
        )
    for notice in notices:
        say(str(notice.message))
    differences = {k: _difference(run.arrays[k], array, tolerance) for k, array in wanted.items()}
    if keep:
        _keep(keep, run.arrays)
    wrong = not run.ok or any(differences.values()) or (fail_on == "note" and bool(run.findings))
    if json:
        print_json(
            {
                "file": file,
                "kernel": name,
                "order": asked.blocks,
                "turns": asked.seed,
                "orders": [o.name for o in run.orders],
                "not_run": run.not_run,
                "launches": launches,
                "status": run.status,
                "reason": run.reason,
                "printed": run.printed,
                "findings": [asdict(f) for f in run.findings],
                "suppressed": [asdict(f) | {"reason": reason} for f, reason in run.suppressed],
                "differences": {str(k): text for k, text in differences.items()},
                "shared_sites": [asdict(s) for s in run.shared_sites],
                "global_sites": [asdict(s) for s in run.global_sites],
                "seconds": run.emulation.seconds,
            }
        )
        return ExitStatus.NO if wrong else 0
    console = stdout_console()
    if run.printed:
        console.print(run.printed, end="", markup=False, highlight=False, soft_wrap=True)
    print_findings(console, run.emulation, run.not_run)
    if advice := remedy(run.findings, _remedy_of_unset):
        console.print(advice, markup=False, highlight=False, soft_wrap=True)
    for k, text in differences.items():
        console.print(f"argument {k}: {text or 'as expected'}", markup=False, highlight=False, soft_wrap=True)
    clean = "nothing was found" if not run.findings else "no fault was found"
    verdict = clean if run.ok else run.status if run.findings else f"{run.status}: {run.reason}"
    if run.shared_sites:
        verdict += f"; bank conflicts up to {max(s.conflict_degree for s in run.shared_sites):.1f} x"
    console.print(verdict, markup=False, highlight=False, soft_wrap=True)
    return ExitStatus.NO if wrong else 0


def _program(file: str, is_ptx: Any, options: Sequence[str]) -> tuple[str, bool, tuple[str, ...]]:
    """Return the text to emulate, whether it is CUDA source, and options for its compiler. Raises
    InputError."""
    from autosched.verify.emulate.device_source import has_host_code, nvcc, ptx_by_nvcc
    from autosched.verify.emulate.kernel_files import NoKernelFile, include_folders, ptx_of_file
    from measurements.compiler.pool import error_reason
    from measurements.emulator.architecture import source_arch
    from search_spaces.templates.headers import Headers

    try:
        if (found := ptx_of_file(Path(file))) is not None:
            return found, False, ()
        text = read_bounded(file, _MOST_BYTES).decode()
    except NoKernelFile as error:
        raise InputError(str(error)) from None
    except UnicodeDecodeError:
        raise InputError(f"{file} cannot be read: it is not text") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if is_ptx(text):
        return text, False, ()
    options = [*options, *(f"-I{folder}" for folder in include_folders(text))]
    if has_host_code(text) and nvcc() is not None:
        ptx, log = ptx_by_nvcc(Path(file), source_arch(text, Headers.of({})), options)
        if ptx is not None:
            return ptx, False, ()
        say(f"nvcc cannot compile {file} ({error_reason(log)}): NVRTC compiles its device part")
    # Its lines are named by its file.
    return f"#line 1 {dumps(Path(file).name, ensure_ascii=False)}\n{text}", True, tuple(options)


def _remedy_of_unset(name: str) -> str:
    return f"if the kernel adds to what {name} holds, pass 'zeros TYPE[SHAPE]' for it in place of 'out TYPE[SHAPE]'"


def _sizes(flag: str, text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not 1 <= len(parts) <= 3 or not all(re.fullmatch(r"0*[1-9]\d{0,9}", p.strip()) for p in parts):
        raise InputError(f"{flag} {shortened(text)} is not a size: write X, or X,Y,Z")
    return tuple(int(p) for p in parts)


def _assignment(flag: str, text: str, rng: np.random.Generator) -> tuple[str, Any]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise InputError(f"{flag} {text} is not an assignment: write NAME=data.npy or NAME=f32[4]")
    return name.strip(), read_argument(value.strip(), rng, flag)[0]


def _position(text: str, count: int) -> int:
    number = text.partition("=")[0].strip()
    if "=" not in text or not re.fullmatch(r"\d{1,9}", number) or int(number) >= count:
        raise InputError(
            f"--expect {shortened(text)} names no argument: write K=FILE.npy, with K from 0 to {count - 1}"
        )
    return int(number)


def _difference(left: Any, wanted: np.ndarray[Any, Any], tolerance: float) -> str:
    """Return what differs, in one sentence; empty where nothing does."""
    if left is None:
        return "there is nothing to compare"
    if left.size != wanted.size:
        return f"{wanted.size} elements are expected, and it has {left.size}"
    got, expected = left.reshape(-1).astype(np.float64), wanted.reshape(-1).astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        bad = ~np.isclose(got, expected, rtol=tolerance, atol=tolerance, equal_nan=True)
    if not bad.any():
        return ""
    first = int(np.argmax(bad))
    found, should = told_apart(left.reshape(-1)[first].item(), wanted.reshape(-1)[first].item())
    where = f"the first is element {first}: {found}, not {should}"
    return f"{int(bad.sum())} of {bad.size} elements differ, {where}"


def _keep(folder: str, arrays: Sequence[Any]) -> None:
    Path(folder).mkdir(parents=True, exist_ok=True)
    for k, array in enumerate(arrays):
        if isinstance(array, np.ndarray):
            np.save(Path(folder) / f"{k}.npy", array)
