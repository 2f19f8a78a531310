"""``autosched run PROGRAM`` and ``verify EXECUTABLE``: run a CUDA program without a GPU, with emulated launches.

Findings are printed on stderr as they occur, since stdout belongs to the program. With ``--json``, the program's stdout
is redirected to stderr. ``--json`` adds ``program``, ``launches``, ``seconds``, ``emulated_seconds``, and:

- ``status`` (exit status of the program) and ``reason`` (of the verdict)
- ``findings``: ``kind``, ``message``, ``kernel``, ``launch``, ``shape``, ``file``, ``line``, ``instruction`` and
  ``callers`` of each finding
- ``lacking``: features that the program needs and the emulator lacks
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Annotated

import typer

from autosched.cli.answers import CommandAnswer, Output, give, write_files
from autosched.cli.commands.verification.cases import status_of
from autosched.cli.options.devices import target
from autosched.cli.options.groups import grouped
from autosched.cli.options.verification import Findings, VerificationEffort
from autosched.cli.options.verified_files import Executable, UndefinedMemory
from autosched.cli.terminal import interrupts
from autosched.cli.terminal.errors import InputError
from autosched.cli.terminal.output import say
from autosched.reporting.ci import CheckedCase, Summary
from autosched.reporting.exit_status import ExitStatus
from autosched.verify.executables import run_planned
from autosched.verify.launch_plan import TIME_LIMIT
from autosched.verify.verdict import Verdict
from measurements.emulator.executables import ExecutableRefused, ExecutableResult, LaunchFinding
from measurements.files.text import harmless

# the prefix of compute-sanitizer, so that tools that parse compute-sanitizer's output can parse these lines
_MARK = "========="


@grouped
def run(
    program: Annotated[
        list[str],
        typer.Argument(metavar="PROGRAM [ARGUMENTS]", help="Executable, linked with the shared CUDA runtime."),
    ],
    *,
    effort: VerificationEffort,
    findings: Findings,
    executable: Executable,
    undefined: UndefinedMemory,
    output: Output,
) -> int:
    """Run a CUDA program without a GPU (same as verify PROGRAM).

    Each launch of the program is emulated and checked for races, accesses out of bounds and wrong barriers. Options go
    before the program.

    Compile the program with nvcc -cudart shared -lineinfo. Copies, streams, events, symbols, textures and managed
    memory are emulated. Times that the program measures are CPU times.
    """
    return verify_executable("run", program, effort, findings, executable, undefined, output)


def verify_executable(
    command: str,
    program: Sequence[str],
    effort: VerificationEffort,
    findings: Findings,
    executable: Executable,
    undefined: UndefinedMemory,
    output: Output,
) -> ExitStatus:
    """Run an executable with emulated launches and print the answer.

    Args:
        command: Name of the command that the user typed.
        program: The executable and its arguments.
        effort: Device, depth and time limit.
        findings: Order of execution, and which findings fail the verification.
        executable: Options for running the executable.
        undefined: Whether to report reads of uninitialised memory.
        output: Output format and files.

    Returns:
        The exit status.

    Raises:
        InputError: The executable cannot be run with these options.
    """
    notes_fail = findings.notes_fail()
    output.check([program[0]])
    plan = replace(findings.plan(effort), time_limit=effort.seconds(TIME_LIMIT))
    try:
        with interrupts.raised(), _stdout_as_stderr(output.json):
            result, verdict = run_planned(
                program,
                target(effort.device),
                plan,
                _print_finding,
                driver=executable.driver,
                undefined_memory=not undefined.allow_undefined,
            )
    except ExecutableRefused as refused:
        raise InputError(str(refused)) from None
    except KeyboardInterrupt:  # the program has been killed
        say("stopped")
        return ExitStatus.STOPPED
    conclusion = _conclusion(result)
    cases = _cases(result, verdict, program[0], notes_fail)
    summary = Summary(command, "executable", program[0], status_of(cases), conclusion, cases, result.seconds)
    document = {
        "program": list(program),
        "status": result.status,
        "reason": verdict.reason,
        "launches": result.launches,
        "findings": [_to_json(f) for f in result.findings],
        "lacking": result.lacking,
        "seconds": result.seconds,
        "emulated_seconds": result.emulated_seconds,
    }
    write_files(summary, output)
    return give(CommandAnswer(summary, document, lambda _: _line(conclusion)), output)


@contextmanager
def _stdout_as_stderr(redirected: bool) -> Iterator[None]:
    """Within this context, redirect the stdout of child processes to stderr."""
    if not redirected:
        yield
        return
    sys.stdout.flush()
    saved = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(saved, 1)
        os.close(saved)


def _cases(result: ExecutableResult, verdict: Verdict, program: str, notes: bool) -> tuple[CheckedCase, ...]:
    """Return a case for each counted finding and missing feature; if there are none, one case for all launches."""
    cases = [
        CheckedCase(
            name=f"{f.kind} in {f.kernel}" if f.kernel else f.kind,
            outcome="refused",
            verdict=f.kind,
            reasons=(f.message,),
            file=f.finding.file if f.finding is not None else "",
            line=f.finding.line if f.finding is not None else 0,
        )
        for f in result.findings
        if f.is_fault or notes
    ]
    cases += [CheckedCase("not emulated", "uncertain", "uncertain", (text,)) for text in result.lacking]
    if not cases:
        name = _launches(result.launches) if verdict.ok else program
        reasons = (verdict.reason,) if verdict.reason else ()
        cases.append(CheckedCase(name, verdict.outcome, verdict.outcome, reasons, seconds=result.emulated_seconds))
    return tuple(cases)


def _launches(count: int) -> str:
    return f"{count} launch{'es' if count != 1 else ''}"


def _print_finding(finding: LaunchFinding | str) -> None:
    if isinstance(finding, str):
        _line(finding)
        return
    f = finding.finding
    where = f" in {finding.kernel}" if finding.kernel else ""
    where += f" at {f.file}:{f.line}" if f is not None and f.file else ""
    _line(f"{'' if finding.is_fault else 'note: '}{finding.kind}{where}")
    _line(f"    {finding.message}{f' ({f.count} times)' if f is not None and f.count > 1 else ''}")
    if f is not None and f.instruction:
        _line(f"    {f.instruction}")
    if f is not None and f.callers:
        _line(f"    inlined at {', '.join(f.callers)}")
    if finding.launch:
        called_at = f", launched at {finding.called_at}" if finding.called_at else ""
        _line(f"    launch {finding.launch}: {finding.shape}{called_at}")


def _conclusion(result: ExecutableResult) -> str:
    faults, lacking = result.faults, result.lacking
    notes = len(result.findings) - faults
    summary = (
        f"{faults} fault{'s' if faults != 1 else ''}" if faults else "nothing was found" if not notes else "no fault"
    )
    summary += f" and {notes} note{'s' if notes != 1 else ''}" if notes else ""
    lacks = f"; {len(lacking)} thing{'s are' if len(lacking) != 1 else ' is'} not emulated" if lacking else ""
    ended = f"; {result.ended}" if result.status else ""
    return f"{summary} in {_launches(result.launches)}, emulated in {result.emulated_seconds:.1f} s{lacks}{ended}"


def _line(text: str) -> None:
    print(f"{_MARK} {harmless(text)}", file=sys.stderr, flush=True)


def _to_json(f: LaunchFinding) -> dict[str, object]:
    finding = f.finding
    location: dict[str, object] = {
        "file": finding.file, "line": finding.line, "count": finding.count, "instruction": finding.instruction,
        "callers": list(finding.callers),
    } if finding is not None else {}  # fmt: skip
    location |= {"grade": finding.grade} if finding is not None else {}
    launch = {"launch": f.launch, "shape": f.shape, "called_at": f.called_at}
    return {"kind": f.kind, "message": f.message, "kernel": f.kernel, **launch, **location}
