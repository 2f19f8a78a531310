"""``autosched judge SUBMISSION --task FILE``, also ``verify`` with ``--task``: judge a submitted Triton kernel.

``--json`` adds ``submission``, ``task``, ``device``, ``reasons``, and:

- ``status``: right, wrong, racing, out_of_bounds, faulty, cheating, failed, timed_out, out_of_memory or unverified
- ``cheats``: any of no_launch, output_not_written, zeros, inputs_changed, input_returned, kept_output, constant_output
  and work_left_to_torch
- ``cases``: ``name``, ``launches``, ``relative_error``, ``tolerance``, ``task_accepts``, ``findings`` and
  ``torch_operators`` of each case
- ``runs``: maps the name of each run to its status
- ``network``: "none", or why the process had network access
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from autosched.cli.answers import CommandAnswer, Output, give, line, write_files
from autosched.cli.commands.verification.cases import status_of
from autosched.cli.options.devices import target
from autosched.cli.options.groups import grouped
from autosched.cli.options.verification import Findings, VerificationEffort
from autosched.cli.options.verified_files import Inputs, Submission
from autosched.cli.terminal.errors import InputError
from autosched.reporting.ci import CheckedCase, Summary
from autosched.reporting.exit_status import ExitStatus
from autosched.verify.launch_plan import THOROUGH
from autosched.verify.verdict import Outcome
from measurements.emulator import check_ready

if TYPE_CHECKING:
    from autosched.judge.result import CaseResult, SubmissionResult

_SECONDS = 120.0  # default limit of CPU seconds for all runs of a submission


@grouped
def judge(
    submission: Annotated[str, typer.Argument(metavar="SUBMISSION", help="A Python file with Triton kernels.")],
    *,
    task: Submission,
    effort: VerificationEffort,
    findings: Findings,
    inputs: Inputs,
    output: Output,
) -> int:
    """Judge a submitted Triton kernel for a task (same as verify --task).

    The submission runs in its own process without network access. Its outputs are compared with the task's reference in
    float64, and its launches are verified in the emulator. The process is not a sandbox: run third-party code in a
    container or a virtual machine.
    """
    if not task.task:
        raise InputError("judge needs --task: autosched judge submission.py --task task.yml")
    return verify_submission("judge", submission, task, effort, findings, inputs, output)


def verify_submission(
    command: str,
    submission: str,
    options: Submission,
    effort: VerificationEffort,
    findings: Findings,
    inputs: Inputs,
    output: Output,
) -> ExitStatus:
    """Compare a submission with its task and print the answer.

    Args:
        command: Name of the command that the user typed.
        submission: Path of the submission.
        options: The task, and the limits of the process.
        effort: Device, depth and time limit.
        findings: Order of execution, and the findings that make the verification fail.
        inputs: Sizes, and the tolerance.
        output: Output format and files.

    Returns:
        The exit status.

    Raises:
        InputError: The task or the submission cannot be used.
    """
    for file in (submission, options.task):
        if not Path(file).is_file():
            raise InputError(f"{file} cannot be read: name an existing file")
    if not 1 <= options.memory_limit < 1e6:
        raise InputError(f"--memory-limit must be at least 1 GiB, got {options.memory_limit:g}")
    tolerance, time_limit = inputs.within(0.0, 1.0), effort.seconds(_SECONDS)
    if findings.notes_fail():
        raise InputError("--fail-on note does not apply to a submission, whose notes are not reported: leave it out")
    plan = findings.plan(effort, full=THOROUGH)
    sizes = dict(_size(text) for text in inputs.size or ())
    device = target(effort.device)
    output.check([submission, options.task])
    check_ready(source=False)
    try:
        import torch  # noqa: F401
        import triton  # noqa: F401
    except ImportError as error:
        raise InputError(f"judge needs Triton and torch ({error}): pip install 'autosched[triton,torch]'") from None
    from autosched.judge.run import Refused, run_judge

    started = time.monotonic()
    try:
        verdict = run_judge(
            Path(submission),
            Path(options.task),
            device,
            sizes=sizes,
            uneven=not options.no_uneven,
            plan=plan,
            tolerance=tolerance,
            time_limit=time_limit,
            memory_limit=int(options.memory_limit * 2**30),
        )
    except Refused as error:
        raise InputError(str(error)) from error
    cases = _cases(verdict, submission)
    shown = {finding for result in verdict.cases for finding in result.findings}
    other_reasons = [reason for reason in verdict.reasons if reason not in shown]
    conclusion = f"{verdict.status}: {'; '.join(other_reasons)}" if other_reasons else str(verdict.status)
    summary = Summary(
        command, "submission", submission, status_of(cases), conclusion, cases, time.monotonic() - started
    )

    def text(console: Console) -> None:
        for result in verdict.cases:
            _show(console, result)
        for cheat in verdict.cheats:
            line(console, f"cheat: {cheat}")
        line(console, conclusion)

    named = {"submission": submission, "task": options.task, "device": device.name}
    write_files(summary, output)
    return give(CommandAnswer(summary, {**verdict.to_json(), **named}, text), output)


def _cases(verdict: SubmissionResult, submission: str) -> tuple[CheckedCase, ...]:
    """Return a result per case of the task, and one for the submission if the cases do not explain the verdict."""
    overall = verdict.verdict.outcome
    cases = [_case(result, submission) for result in verdict.cases]
    if overall == "accepted" or any(case.outcome == overall for case in cases):
        return tuple(cases) or (CheckedCase("the submission", overall, str(verdict.status), file=submission),)
    return (*cases, CheckedCase("the submission", overall, str(verdict.status), verdict.reasons, file=submission))


def _case(result: CaseResult, submission: str) -> CheckedCase:
    wrong = result.relative_error is not None and not result.relative_error <= result.tolerance
    reasons = [*result.findings]
    if wrong:
        reasons.append(f"relative error {result.relative_error:.2g}, tolerance {result.tolerance:g}")
    outcome: Outcome = "refused" if reasons else "accepted"
    return CheckedCase(result.name, outcome, outcome, tuple(reasons), file=submission)


def _show(console: Console, result: CaseResult) -> None:
    error = "no output" if result.relative_error is None else f"relative error {result.relative_error:.2g}"
    launches = f"{result.launches} launch{'es' if result.launches != 1 else ''}"
    line(console, f"{result.name}: {error}, tolerance {result.tolerance:g}, {launches}")
    for finding in result.findings:
        line(console, f"  {finding}")


def _size(text: str) -> tuple[str, int]:
    name, equals, value = text.partition("=")
    if not equals or not value.isdigit():
        raise InputError(f'invalid --size "{text[:60]}": write NAME=N')
    return name, int(value)
