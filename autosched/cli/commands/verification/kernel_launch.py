"""``autosched verify FILE``: verify one launch of a kernel from CUDA source, PTX or a binary with PTX.

``--json`` adds ``file``, ``kernel``, ``order``, ``turns``, ``orders`` (the name of each run), ``not_run``,
``launches``, ``status``, ``reason``, ``printed``, ``findings``, ``suppressed`` (findings, each with its ``reason``),
``differences`` (from the arrays of --expect, by argument), ``shared_sites``, ``global_sites`` (as in
``measurements.emulator``) and ``seconds``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from json import dumps
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from autosched.cli.answers import CommandAnswer, Output, give, line, write_files
from autosched.cli.commands.verification.batches import verify_kernel_in_batches
from autosched.cli.commands.verification.cases import launch_case, status_of
from autosched.cli.options.arrays import read_argument, read_arguments, read_array
from autosched.cli.options.launch import order_from
from autosched.cli.options.recognition import FileKind, UserFile
from autosched.cli.options.verification import Findings, VerificationEffort
from autosched.cli.options.verified_files import Inputs, KernelLaunch
from autosched.cli.terminal.errors import MOST_SEED, InputError, bad_input, shortened, within
from autosched.cli.terminal.findings import print_findings
from autosched.reporting.ci import CheckedCase, Summary
from autosched.reporting.exit_status import ExitStatus
from measurements.emulator import check_ready
from measurements.trials.comparison import distinct_texts, errors, magnitudes
from search_spaces.arrays import BoolArray
from search_spaces.hardware.dtype_names import canonical
from search_spaces.hardware.dtypes import SCALAR_DTYPES

_TOLERANCE = 1e-5  # default relative tolerance of --expect


def verify_launch(
    user_file: UserFile,
    launch: KernelLaunch,
    findings: Findings,
    effort: VerificationEffort,
    inputs: Inputs,
    output: Output,
) -> ExitStatus:
    """Emulate one launch of a kernel and print the answer.

    Args:
        user_file: The file and the kernel's name.
        launch: Launch configuration and arguments.
        findings: Order of execution, and the findings that make the verification fail.
        effort: Depth and time limit.
        inputs: Tolerance of ``--expect``.
        output: Output format and files.

    Returns:
        The exit status.

    Raises:
        InputError: The code does not compile, or the options do not fit it.
    """
    from autosched.verify.emulate.emulate import emulate
    from autosched.verify.remedies import remedy

    within("--seed", launch.seed, 0, MOST_SEED)
    order = order_from(findings.order, findings.turns, launch.launches)
    chosen_order = findings.own_order()
    tolerance, notes_fail = inputs.within(_TOLERANCE), findings.notes_fail()
    suppressions, time_limit = findings.suppressions(), effort.seconds(60.0)
    output.check([str(user_file.path)])
    rng = np.random.default_rng(launch.seed)
    program, is_source, options = _program(user_file, launch.option or [])
    if effort.batch_invariant:
        return verify_kernel_in_batches(user_file, program, launch, findings, effort, inputs, output, options)
    if inputs.size:
        raise InputError(f"--size of {user_file.kind} needs --batch-invariant: add --batch-invariant, or omit --size")
    values, outputs = read_arguments(launch.argument or [], rng)
    symbols = dict(_assignment("--symbol", text, rng) for text in launch.symbol or [])
    expected = {
        _position(text, len(values)): read_array(text.partition("=")[2], "--expect") for text in launch.expect or []
    }
    check_ready(source=is_source)
    with bad_input():
        run = emulate(
            program,
            kernel=user_file.name,
            arguments=values,
            grid=_sizes("--grid", launch.grid),
            block=_sizes("--block", launch.block),
            cluster=_sizes("--cluster", launch.cluster) if launch.cluster else None,
            shared_bytes=launch.shared,
            cooperative=launch.cooperative,
            dependent=_dependent(launch.dependent, len(values)),
            outputs=outputs,
            symbols=symbols,
            options=options,
            perturb=findings.perturb,
            order=chosen_order,
            launches=launch.launches,
            full=effort.full,
            time_limit=time_limit,
            suppressions=suppressions,
        )
    if run.status == "compile_error":
        raise InputError(run.reason if user_file.path.name in run.reason else f"{user_file.path}: {run.reason}")
    differences = {k: _difference(run.arrays[k], array, tolerance) for k, array in expected.items()}
    if launch.keep:
        _keep(launch.keep, run.arrays)
    seconds = run.emulation.seconds
    cases = [launch_case(_named(user_file), run.status, run.findings, run.reason, seconds, notes=notes_fail)]
    cases += [
        CheckedCase(f"argument {k}", "refused" if text else "accepted", text or "as expected", file=str(user_file.path))
        for k, text in differences.items()
    ]
    clean = "nothing was found" if not run.findings else "no fault was found"
    conclusion = clean if run.ok else run.status if run.findings else f"{run.status}: {run.reason}"
    if run.shared_sites:
        conclusion += f"; bank conflicts up to {max(s.conflict_degree for s in run.shared_sites):.1f} x"
    summary = Summary("verify", "kernel", str(user_file.path), status_of(cases), conclusion, tuple(cases), seconds)

    def text(console: Console) -> None:
        if run.printed:
            console.print(run.printed, end="", markup=False, highlight=False, soft_wrap=True)
        print_findings(console, run.emulation, run.not_run if run.status in ("ok", "findings") else ())
        if advice := remedy(run.findings, _remedy_of_unset):
            line(console, advice)
        for k, difference in differences.items():
            line(console, f"argument {k}: {difference or 'as expected'}")
        line(console, conclusion)

    document = {
        "file": str(user_file.path),
        "kernel": user_file.name,
        "order": order.blocks,
        "turns": order.seed,
        "orders": [o.name for o in run.orders],
        "not_run": run.not_run,
        "launches": launch.launches,
        "status": run.status,
        "reason": run.reason,
        "printed": run.printed,
        "findings": [asdict(f) for f in run.findings],
        "suppressed": [asdict(f) | {"reason": reason} for f, reason in run.suppressed],
        "differences": {str(k): text for k, text in differences.items()},
        "shared_sites": [s._asdict() for s in run.shared_sites],
        "global_sites": [s._asdict() for s in run.global_sites],
        "seconds": seconds,
    }
    write_files(summary, output)
    return give(CommandAnswer(summary, document, text), output)


def _named(user_file: UserFile) -> str:
    return f"{user_file.path}:{user_file.name}" if user_file.name else str(user_file.path)


def _program(user_file: UserFile, options: Sequence[str]) -> tuple[str, bool, tuple[str, ...]]:
    """Return the source or PTX to emulate, True if it is CUDA source, and options for the compiler.

    Raises:
        InputError: The file cannot be compiled, or contains no PTX.
    """
    from autosched.verify.emulate.kernel_files import NoKernelFile, include_folders, ptx_of_file

    file, text = user_file.path, user_file.text
    if user_file.kind is FileKind.PTX:
        return text, False, ()
    if user_file.kind is not FileKind.CUDA:
        try:
            ptx = ptx_of_file(file)
        except NoKernelFile as error:
            raise InputError(str(error)) from None
        assert ptx is not None, "the file is binary, not text"
        return ptx, False, ()
    options = [f"-I{file.parent}", *options, *(f"-I{folder}" for folder in include_folders(text))]
    # with this name, findings refer to lines of the user's file
    return f"#line 1 {dumps(file.name, ensure_ascii=False)}\n{text}", True, tuple(options)


def _remedy_of_unset(name: str) -> str:
    return f"if the kernel adds to {name}, pass 'zeros TYPE[SHAPE]' for it instead of 'out TYPE[SHAPE]'"


def _sizes(flag: str, text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not 1 <= len(parts) <= 3 or not all(re.fullmatch(r"0*[1-9]\d{0,9}", p.strip()) for p in parts):
        raise InputError(f'invalid {flag} "{shortened(text)}": write X, or X,Y,Z')
    return tuple(int(p) for p in parts)


def _dependent(text: str, count: int) -> bool | tuple[int, ...]:
    """Parse ``--dependent``: return True for "all", False for "", or the positions of the named arguments.

    The previous launch may still write these arguments.
    """
    if text in ("", "all"):
        return text == "all"
    parts = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch(r"\d{1,9}", part) and int(part) < count for part in parts):
        raise InputError(f'invalid --dependent "{shortened(text)}": write "all", or positions from 0 to {count - 1}')
    return tuple(int(part) for part in parts)


def _assignment(flag: str, text: str, rng: np.random.Generator) -> tuple[str, Any]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise InputError(f'invalid {flag} "{shortened(text)}": write NAME=data.npy or NAME=f32[4]')
    return name.strip(), read_argument(value.strip(), rng, flag)[0]


def _position(text: str, count: int) -> int:
    number = text.partition("=")[0].strip()
    if "=" not in text or not re.fullmatch(r"\d{1,9}", number) or int(number) >= count:
        raise InputError(f'invalid --expect "{shortened(text)}": write K=FILE.npy, with K from 0 to {count - 1}')
    return int(number)


def _difference(result: Any, reference: np.ndarray[Any, Any], tolerance: float) -> str:
    """Describe the differing elements in one sentence; "" if there are none."""
    if result is None:
        return "there is nothing to compare"
    if result.size != reference.size:
        return f"{reference.size} elements are expected, but the array has {result.size}"
    bad = _differ(result.reshape(-1), reference.reshape(-1), tolerance)
    if not bad.any():
        return ""
    first = int(np.argmax(bad))
    actual, should = distinct_texts(result.reshape(-1)[first].item(), reference.reshape(-1)[first].item())
    where = f"the first is element {first}: {actual}, not {should}"
    return f"{int(bad.sum())} of {bad.size} elements differ, {where}"


def _differ(result: np.ndarray[Any, Any], reference: np.ndarray[Any, Any], tolerance: float) -> BoolArray:
    """Return a mask of the elements that differ by more than ``tolerance``, a relative and an absolute tolerance."""
    dtype, rounded_to = (SCALAR_DTYPES.get(canonical(array.dtype)) for array in (result, reference))
    # a type that the emulator's tolerances do not cover, such as complex numbers
    if dtype is None or rounded_to is None:
        with np.errstate(invalid="ignore", over="ignore"):
            unlike: BoolArray = ~np.isclose(result, reference, rtol=tolerance, atol=tolerance, equal_nan=True)
            return unlike
    is_exact = result.dtype == reference.dtype and dtype.name in ("i64", "u64")
    expected = reference if is_exact else reference.astype(np.float64)
    with np.errstate(over="ignore"):
        allowed = tolerance + tolerance * magnitudes(expected, rounded_to)
    return errors(dtype, result, expected, allowed, rounded_to=rounded_to).wrong


def _keep(folder: str, arrays: Sequence[Any]) -> None:
    Path(folder).mkdir(parents=True, exist_ok=True)
    for k, array in enumerate(arrays):
        if isinstance(array, np.ndarray):
            np.save(Path(folder) / f"{k}.npy", array)
