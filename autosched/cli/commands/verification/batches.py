"""``autosched verify --batch-invariant FILE``: check that a row has the same bits at every batch size.

``--json`` adds ``file``, ``kernel``, ``batch`` (the name of the batch size), ``batch_invariant``, ``status``,
``reason``, ``runs`` (each with ``name``, ``status`` and ``reason``) and ``causes``: the source lines at which the order
of sums may depend on the batch (each with ``file``, ``line`` and ``text``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Console

from autosched.cli.answers import CommandAnswer, Output, give, line, write_files
from autosched.cli.commands.verification.cases import status_of
from autosched.cli.options.arrays import read_argument
from autosched.cli.options.recognition import UserFile
from autosched.cli.options.verification import Findings, VerificationEffort
from autosched.cli.options.verified_files import Inputs, KernelLaunch
from autosched.cli.terminal.errors import MOST_SEED, InputError, bad_input, shortened, within
from autosched.reporting.ci import CheckedCase, Summary
from autosched.reporting.exit_status import ExitStatus
from autosched.user_kernels.expressions import ExpressionError, parse
from autosched.verify.verdict import Verdict, outcome_of
from measurements.emulator import check_ready
from search_spaces.hardware.dtypes import dtype_of

_SHAPE = re.compile(r"(?P<how>.*?\s)?(?P<dtype>\w+)\[(?P<shape>[^\]]+)\]")


def batch_size(texts: Sequence[str]) -> tuple[str, int, int]:
    """Parse ``--size NAME=A..B``; return the name and the range of the batch size. Raises InputError."""
    match = re.fullmatch(r"([A-Za-z_]\w*)=(\d{1,9})\.\.(\d{1,9})", texts[0]) if len(texts) == 1 else None
    if match is None or not 0 < int(match[2]) < int(match[3]):
        raise InputError(
            "--batch-invariant needs the range of batch sizes: give --size NAME=A..B, such as --size rows=1..64"
        )
    return match[1], int(match[2]), int(match[3])


def verify_kernel_in_batches(
    user_file: UserFile, program: str, launch: KernelLaunch, findings: Findings, effort: VerificationEffort,
    inputs: Inputs, output: Output, options: Sequence[str],
) -> ExitStatus:  # fmt: skip
    """Emulate a kernel in several batches, and print whether it is batch-invariant.

    Args:
        user_file: The file and the kernel's name.
        program: CUDA source or PTX.
        launch: Arguments and shape of the launch. Both may contain the name of the batch size.
        findings: Expected findings.
        effort: Depth and time limit.
        inputs: The range of the batch size.
        output: Where to print the answer.
        options: Options of the compiler.

    Raises:
        InputError: The description of the launch cannot be used.
    """
    from autosched.verify.batch_causes import BatchSources
    from autosched.verify.batch_kernel import KernelInBatches, verify_kernel
    from autosched.verify.batch_plan import BatchPlan
    from autosched.verify.batch_rows import BatchRows
    from autosched.verify.emulate.options import EmulatedLaunchOptions

    name, least, most = batch_size(inputs.size or [])
    within("--seed", launch.seed, 0, MOST_SEED)
    rng = np.random.default_rng(launch.seed)
    texts = launch.argument or []
    arguments: list[Any] = []
    axes: dict[str, int | None] = {}
    loads: dict[str, Any] = {}
    filled, changed = [], {}
    for k, text in enumerate(texts):
        array_name = f"argument {k}"
        shaped = _SHAPE.fullmatch(text.strip())
        if shaped is not None:
            axes[array_name] = _axis(shaped["shape"], name, text)
            loads[array_name] = dtype_of(shaped["dtype"]).load
            array, is_out = read_argument(_substituted(text, name, most).strip(), rng, "--argument")
            arguments.append(array)
            if is_out:
                filled.append(k)
        elif _mentions(text, name):
            changed[k] = text.strip()
            arguments.append(lambda rows, text=text: _number("--argument", text, name, rows))
        else:
            value, _ = read_argument(text.strip(), rng, "--argument")
            arguments.append(value)
            if isinstance(value, np.ndarray):
                axes[array_name], loads[array_name] = None, lambda array: np.asarray(array, dtype=np.float64)
    if not any(axis is not None for axis in axes.values()):
        raise InputError(f"no array has {name} rows: give one, such as -a 'f32[{name},64]'")

    def launched(rows: int) -> EmulatedLaunchOptions:
        return EmulatedLaunchOptions(
            kernel=user_file.name,
            grid=_sizes("--grid", launch.grid, name, rows),
            block=_sizes("--block", launch.block, name, rows),
            cluster=_sizes("--cluster", launch.cluster, name, rows) if launch.cluster else None,
            shared_bytes=launch.shared,
            cooperative=launch.cooperative,
            outputs=tuple(filled),
            options=tuple(options),
            time_limit=effort.seconds(60.0),
            perturb=findings.perturb,
            suppressions=findings.suppressions(),
        )

    output.check([str(user_file.path)])
    check_ready(source=True)
    sources = BatchSources(changed, grid=_mentions(launch.grid, name))
    subject = KernelInBatches(program, BatchRows(name, most, axes, loads), arguments, launched, sources)
    with bad_input():
        verdict = verify_kernel(subject, BatchPlan.of(most, full=effort.full, seed=launch.seed, least=least, most=most))
    if verdict.status == "compile_error":
        raise InputError(verdict.reason)
    return answer(
        verdict, f"{user_file.path}:{user_file.name}" if user_file.name else str(user_file.path), name, output
    )


def answer(verdict: Verdict, file: str, batch: str, output: Output) -> ExitStatus:
    """Print whether a kernel or function is batch-invariant, and return the exit status.

    Args:
        verdict: The verdict, with its runs and causes.
        file: File that was verified, with the name of its kernel or function.
        batch: Name of the batch size.
        output: Where to print the answer.
    """
    first = verdict.causes[0] if verdict.causes else None
    faults = tuple(str(f) for f in verdict.findings if f.is_fault)
    reasons = (verdict.reason, *map(str, verdict.causes), *faults) if not verdict.ok else ()
    case = CheckedCase(
        file, outcome_of(verdict.status), verdict.status, reasons, seconds=verdict.seconds,
        file="" if first is None else first.file, line=0 if first is None else first.line,
    )  # fmt: skip
    runs = len(verdict.runs)
    conclusion = f"batch-invariant: rows have the same bits in {runs} runs" if verdict.ok else verdict.status
    summary = Summary("verify", "batches", file, status_of([case]), conclusion, (case,), verdict.seconds)

    def text(console: Console) -> None:
        for run in verdict.runs:
            line(console, f"{run.name}: {'same bits' if run.status == 'ok' else run.status}")
        for reason in reasons:
            line(console, reason)
        line(console, conclusion)

    document: Mapping[str, Any] = {
        "file": file,
        "batch": batch,
        "batch_invariant": verdict.batch_invariant,
        "status": verdict.status,
        "reason": verdict.reason,
        "runs": [{"name": run.name, "status": run.status, "reason": run.reason} for run in verdict.runs],
        "causes": [cause._asdict() for cause in verdict.causes],
    }
    write_files(summary, output)
    return give(CommandAnswer(summary, document, text), output)


def _mentions(text: str, name: str) -> bool:
    return re.search(rf"\b{name}\b", text) is not None


def _substituted(text: str, name: str, value: int) -> str:
    return re.sub(rf"\b{name}\b", str(value), text)


def _axis(shape: str, name: str, text: str) -> int | None:
    parts = [part.strip() for part in shape.split(",")]
    if any(part != name and _mentions(part, name) for part in parts) or parts.count(name) > 1:
        raise InputError(f'--argument "{shortened(text)}": {name} must be a whole extent, such as f32[{name},64]')
    return parts.index(name) if name in parts else None


def _number(flag: str, text: str, name: str, value: int) -> int:
    try:
        size = parse(text, {name: "int"}).value({name: value})
    except ExpressionError as error:
        raise InputError(f'invalid {flag} "{shortened(text)}": {error}') from None
    if isinstance(size, bool) or not isinstance(size, int):
        raise InputError(
            f'invalid {flag} "{shortened(text)}": with {name} = {value} its value is {size}, not a whole number'
        )
    return size


def _sizes(flag: str, text: str, name: str, value: int) -> tuple[int, ...]:
    parts = text.split(",")
    numbers = tuple(_number(flag, part, name, value) for part in parts)
    if not 1 <= len(parts) <= 3 or min(numbers) < 1:
        raise InputError(f'invalid {flag} "{shortened(text)}": write X, or X,Y,Z, which may use {name}')
    return numbers
