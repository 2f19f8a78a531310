"""Verify a CUDA executable: plan the runs of each launch and return one verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from autosched.verify.launch_plan import LaunchPlan, LaunchRun
from autosched.verify.launches import compared
from autosched.verify.oracle import NOTHING_EXPECTED
from autosched.verify.planned_run import PlannedRun, make_runs
from autosched.verify.run import Run
from autosched.verify.verdict import FAILED_PROGRAM, Verdict
from measurements.emulator import Emulation
from measurements.emulator.executables import (
    ExecutableLaunch,
    ExecutableOptions,
    ExecutableResult,
    LaunchFinding,
    run_executable,
)
from search_spaces.hardware.devices import Device


def run_planned(
    program: Sequence[str], device: Device, plan: LaunchPlan, on_finding: Callable[[LaunchFinding | str], None],
    *, driver: bool = False, undefined_memory: bool = True,
) -> tuple[ExecutableResult, Verdict]:  # fmt: skip
    """Run an executable whose launches are emulated.

    Args:
        program: The executable and its arguments.
        device: GPU that the executable detects.
        plan: Plan of the runs of each launch. The plan's first run is executed last, on the program's own memory, and
            the program continues with this memory. The other runs use copies of the memory. All blocks run (``blocks``
            and ``best_effort`` are ignored).
        on_finding: Called at once with each finding, and with each message about an unsupported feature.
        driver: True if the executable loads libcuda itself.
        undefined_memory: If True, device memory is undefined until it is written.

    Returns:
        The executed program, and the verdict.

    Raises:
        ExecutableRefused: The executable cannot be emulated.
        HostFailure: This machine cannot run the emulator.
    """
    options = ExecutableOptions(device, plan.suppressions, driver, undefined_memory, plan.time_limit)

    def verify(launch: ExecutableLaunch) -> None:
        for _ in make_runs(_runs_of(launch, plan), suppressions=plan.suppressions):
            pass  # each run already reports its findings to on_finding

    result = run_executable(program, options, verify, on_finding)
    return result, verdict_of_executable(result)


def _runs_of(launch: ExecutableLaunch, plan: LaunchPlan) -> Iterator[PlannedRun]:
    """Yield the runs of a launch.

    The plan's first run is yielded last, because it changes the program's memory.
    """
    first, *later = plan.runs
    for item in (*later, first):
        yield PlannedRun(item.name, partial(_run, launch, item, plan.time_limit, commit=item is first))


def _run(launch: ExecutableLaunch, item: LaunchRun, time_limit: float, *, commit: bool) -> Run:
    done = launch.run(item.order, launches=item.launches, perturb=item.perturb, time_limit=time_limit, commit=commit)
    return compared(item, done, NOTHING_EXPECTED)


def verdict_of_executable(result: ExecutableResult) -> Verdict:
    """Return the verdict on an executable.

    A fault takes precedence over an unsupported feature, and an unsupported feature over the exit status.
    """
    findings = tuple(f.finding for f in result.findings if f.finding is not None)
    emulation = Emulation("ok", {}, (), (), (), run_seconds=result.emulated_seconds).with_findings(findings)
    fault = next((f for f in result.findings if f.is_fault), None)
    if fault is not None:
        status, reason = "findings", f"{fault.kind}: {fault.message}"
    elif result.lacking:
        status, reason = "unsupported", result.lacking[0]
    elif result.status:
        status, reason = FAILED_PROGRAM, result.ended
    elif not result.launches:
        return Verdict.not_launched("unsupported", "no kernel was launched")
    else:
        status, reason = "ok", ""
    return Verdict(None, status, reason, None, None, emulation)
