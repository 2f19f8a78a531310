"""``autosched verify SCRIPT.py``: run a Python script with its Triton launches in the emulator.

``--json`` adds ``device``, ``ok``, ``failure``, ``notes``, ``fidelity``, ``host_findings`` (about host code between
launches), and ``launches``. Each launch has ``kernel``, ``called_at``, ``grid``, ``threads``, ``constants``, ``runs``,
``findings``, and:

- ``blocks`` (all blocks of all clusters) and ``left_out`` (number of these blocks that did not run)
- ``size``: the size from ``--size``
- ``differing``: arrays whose bits depend on the order of blocks
- ``shared_sites`` and ``global_sites``: as in ``measurements.emulator``
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from autosched.cli.answers import CommandAnswer, Output, give, line, write_files
from autosched.cli.commands.verification.batches import answer, batch_size
from autosched.cli.commands.verification.cases import launch_case, outcome_of_launch, status_of
from autosched.cli.options.devices import target
from autosched.cli.options.recognition import UserFile
from autosched.cli.options.verification import Findings, VerificationEffort
from autosched.cli.options.verified_files import Inputs, Script, UndefinedMemory
from autosched.cli.terminal.console import stderr_console
from autosched.cli.terminal.errors import InputError
from autosched.reporting.ci import CheckedCase, Summary
from autosched.reporting.exit_status import ExitStatus
from autosched.verify.launch_plan import THOROUGH
from autosched.verify.verdict import Verdict
from measurements.emulator import check_ready
from search_spaces.hardware.devices import Device

if TYPE_CHECKING:
    from autosched.triton.script import ScriptReport
    from autosched.triton.session import Session


def verify_script(
    user_file: UserFile,
    arguments: Sequence[str],
    effort: VerificationEffort,
    findings: Findings,
    script: Script,
    undefined: UndefinedMemory,
    inputs: Inputs,
    output: Output,
) -> ExitStatus:
    """Run a Python script on the CPU with each Triton launch in the emulator, and print the answer.

    Args:
        user_file: The script, and the function to call.
        arguments: Command-line arguments of the script.
        effort: Device, depth and time limit.
        findings: Order of execution, and which findings fail the verification.
        script: Options for running the script.
        undefined: Whether to report reads of uninitialised memory.
        inputs: Sizes for the function.
        output: Output format and files.

    Returns:
        The exit status.

    Raises:
        InputError: The script cannot be run, or the options do not fit it.
    """
    try:
        from autosched.triton.script import run_script
    except ImportError as error:
        raise InputError(
            f"a Python script needs Triton and torch ({error}): pip install 'autosched[triton,torch]'"
        ) from None
    check_ready(source=False)
    device = target(effort.device)
    notes_fail = findings.notes_fail()
    plan = replace(findings.plan(effort, full=THOROUGH), blocks=script.blocks)
    if effort.batch_invariant:
        return _in_batches(user_file, arguments, device, effort, findings, script, inputs, output)
    sizes = _ranges(inputs.size or [])
    if bool(user_file.name) != bool(sizes):
        raise InputError(
            "give --size NAME=A..B and a function together: "
            f"'autosched verify {user_file.path}:FUNCTION --size n=1..300'"
        )
    output.check([str(user_file.path)])
    started = time.monotonic()
    report = run_script(
        user_file.path,
        arguments,
        device,
        plan,
        quiet=output.json,
        seconds=None if effort.time_limit is None else effort.seconds(0.0),
        function=user_file.name,
        sizes=sizes,
        undefined_memory=not undefined.allow_undefined,
        first_configuration=script.first_config,
    )
    cases = _cases(report, user_file.path, notes_fail)
    conclusion = _conclusion(report)
    seconds = time.monotonic() - started
    summary = Summary("verify", "script", str(user_file.path), status_of(cases), conclusion, tuple(cases), seconds)

    def text(console: Console) -> None:
        _show(console, report)
        line(console, conclusion)
        if not report.session.launches and (hint := _of_another_front_end(user_file.path)):
            line(console, hint)

    write_files(summary, output)
    return give(CommandAnswer(summary, report.document(), text), output)


def _in_batches(
    user_file: UserFile,
    arguments: Sequence[str],
    device: Device,
    effort: VerificationEffort,
    findings: Findings,
    script: Script,
    inputs: Inputs,
    output: Output,
) -> ExitStatus:
    """Call a function in several batches, and print whether a row has the same bits in each. Raises InputError."""
    from autosched.triton.batch_script import verify_function
    from autosched.triton.script import run_script

    name, least, most = batch_size(inputs.size or [])
    if not user_file.name:
        raise InputError(f"name the function that takes {name}: autosched verify {user_file.path}:FUNCTION")
    output.check([str(user_file.path)])
    verdicts: list[Verdict] = []

    def call(function: Callable[..., Any], session: Session) -> None:
        verdicts.append(verify_function(function, session, name, least, most, full=effort.full))

    report = run_script(
        user_file.path, arguments, device, replace(findings.plan(effort), blocks=script.blocks), quiet=output.json,
        seconds=None if effort.time_limit is None else effort.seconds(0.0), function=user_file.name, call=call,
        first_configuration=script.first_config,
    )  # fmt: skip
    if report.trace:
        line(stderr_console(), report.trace)
    verdict = verdicts[0] if verdicts else Verdict.not_launched("failed", report.failure)
    return answer(verdict, f"{user_file.path}:{user_file.name}", name, output)


def _cases(report: ScriptReport, path: Path, notes: bool) -> list[CheckedCase]:
    """Return one case for each launch, and one for the script if it fails outside a launch."""
    launches = report.session.launches
    cases = [
        launch_case(
            f"{launch.kernel}, launched at {launch.called_at}" + (f", {launch.size}" if launch.size else ""),
            launch.verdict.status,
            launch.findings,
            launch.verdict.reason,
            sum(run.seconds for _, run in launch.runs),
            notes=notes,
        )
        for launch in launches
    ]
    cases += [
        CheckedCase(str(f.kind), "refused", str(f.kind), (f.message,), file=f.file, line=f.line)
        for f in report.session.host_findings
        if f.is_fault or notes
    ]
    if report.failure and not (launches and outcome_of_launch(launches[-1].verdict.status) == "uncertain"):
        cases.append(CheckedCase("the script", "refused", "fails", (report.failure,), file=str(path)))
    return cases


def _conclusion(report: ScriptReport) -> str:
    kinds = Counter(str(f.kind) for f in report.session.findings if f.is_fault)
    counts = ", ".join(f"{count} {kind}" for kind, count in kinds.items()) or "nothing was found"
    if report.failure:
        return f"{report.failure}; {counts}"
    return counts if report.session.launches else "the program launched no Triton kernel"


def _show(console: Console, report: ScriptReport) -> None:
    if report.trace:
        line(stderr_console(), report.trace)
    for text in (*report.session.fault_lines(), *report.session.note_lines()):
        line(console, text)
    for launch in report.session.launches:
        if launch.differing:
            differing = ", ".join(launch.differing)
            where = f"{launch.kernel}, launched at {launch.called_at}"
            line(console, f"note: {where}: the bits of {differing} depend on the order of blocks")
    for text in report.fidelity.lines():
        line(console, text)


def _of_another_front_end(path: Path) -> str:
    """Return a hint if the script's kernels use a front end other than Triton; else ""."""
    from autosched.verify.emulate.kernel_files import front_end_of

    front_end = front_end_of(path)
    return f"{path} {front_end.refusal}" if front_end is not None and front_end.instead else ""


def _ranges(texts: Sequence[str]) -> dict[str, tuple[int, int]]:
    ranges = {}
    for text in texts:
        match = re.fullmatch(r"([A-Za-z_]\w*)=(\d+)(?:\.\.(\d+))?", text)
        least, most = (int(match[2]), int(match[3] or match[2])) if match else (1, 0)
        if match is None or least > most:
            raise InputError(f'invalid --size "{text[:60]}": write NAME=A..B with A not above B, such as rows=1..300')
        ranges[match[1]] = (least, most)
    return ranges
