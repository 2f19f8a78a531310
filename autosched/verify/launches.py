"""Verify one launch: make the planned runs, compare the outputs of each run with the oracle, and merge the findings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from autosched.verify.launch import LaunchUnderTest
from autosched.verify.launch_plan import TWICE, LaunchPlan, LaunchRun, not_run
from autosched.verify.oracle import NOTHING_EXPECTED, Comparison, Oracle
from autosched.verify.planned_run import PlannedRun, make_runs, results
from autosched.verify.run import Run
from autosched.verify.verdict import Verdict
from measurements.emulator import Emulation, Finding


def ended(emulation: Emulation) -> bool:
    """Return True if a launch ran to its end, with or without faults, so that it has outputs."""
    return emulation.status in ("ok", "findings")


def launch_runs(
    launch: LaunchUnderTest, plan: LaunchPlan, oracle: Oracle = NOTHING_EXPECTED, *, count: bool = False
) -> Iterator[PlannedRun]:
    """Yield the runs of a plan. If the first run does not end, no further run is made.

    Args:
        launch: Launch under test.
        plan: Plan of its runs.
        oracle: Expected outputs of each run.
        count: If True, the first run counts its executed instructions.
    """
    blocks = None if launch.blocks is None else len(launch.blocks)
    first: list[Emulation] = []

    def make(item: LaunchRun) -> Run:
        done = launch.run(
            item.order, launches=item.launches, perturb=item.perturb, time_limit=plan.time_limit,
            count=count and not first,
        )  # fmt: skip
        if not first:
            first.append(done)
        return compared(item, done, oracle, blocks)

    for item in plan.runs:
        yield PlannedRun(item.name, partial(make, item))
        if not ended(first[0]) or (plan.best_effort and first[0].run_seconds > plan.time_limit / 2):
            return


def runs_of_launch(
    launch: LaunchUnderTest, plan: LaunchPlan, oracle: Oracle = NOTHING_EXPECTED, *, count: bool = False
) -> Iterator[Run]:
    """Make the runs of a plan lazily; see ``launch_runs`` for the arguments.

    Raises:
        HostFailure: This machine cannot run the emulator.
        ValueError: Inputs that do not fit the launch.
    """
    return results(make_runs(launch_runs(launch, plan, oracle, count=count), suppressions=plan.suppressions))


def compared(item: LaunchRun, done: Emulation, oracle: Oracle, blocks: int | None = None) -> Run:
    """Convert an emulation to a run. If the emulation ended, compare its outputs with the oracle.

    Args:
        item: Planned run.
        done: Its emulation.
        oracle: Expected outputs.
        blocks: Number of blocks that ran; None for all.

    Returns:
        The run.
    """
    comparison = oracle.compare(done) if ended(done) else Comparison(None)
    return Run(
        None, (), 0, item.order, blocks,
        comparison.status if comparison.reason else done.status,
        "; ".join(text for text in (comparison.reason, done.reason) if text),
        comparison.worst, comparison.max_abs_error, done, item.perturb, item.name, comparison.left_out,
        launches=item.launches,
    )  # fmt: skip


def verdict_of(runs: Sequence[Run], plan: LaunchPlan) -> Verdict:
    """Return the verdict on a launch.

    The verdict has the faults and notes of all runs, without duplicates of the same grade, kind and line. The status is
    that of the first run with a wrong result, else of the first run with a fault, else of the first run that did not
    end.

    Args:
        runs: The completed runs, at least one.
        plan: Their plan.

    Returns:
        The verdict.
    """
    emulation = replace(runs[0].emulation.with_findings(merged_findings(runs)), suppressed=_merged_suppressed(runs))
    failed = next((run for run in runs if run.status not in ("ok", "findings")), None)
    status: str = emulation.status
    reason = emulation.reason
    if failed is not None and (emulation.status == "ok" or failed.status == "wrong_result"):
        status, reason = failed.status, failed.reason
    errors = [run.worst for run in runs if run.worst is not None]
    absolute = [run.max_abs_error for run in runs if run.max_abs_error is not None]
    return Verdict(
        None, status, reason, max(errors, default=None), max(absolute, default=None), emulation, tuple(runs),
        depth="full" if len(runs) > 1 else "quick", whole=len(runs) == len(plan.runs),
        differing=_differing(runs), accumulating=_accumulating(runs), not_run=not_run(plan, len(runs)),
    )  # fmt: skip


def verify_launch(
    launch: LaunchUnderTest, plan: LaunchPlan, oracle: Oracle = NOTHING_EXPECTED, *, count: bool = False
) -> Verdict:
    """Make all runs of a plan and return the verdict.

    Args:
        launch: Launch under test.
        plan: Plan of its runs.
        oracle: Expected outputs of each run. Default: none.
        count: If True, the first run counts its executed instructions.

    Raises:
        HostFailure: This machine cannot run the emulator.
        ValueError: Inputs that do not fit the launch.
    """
    return verdict_of(list(runs_of_launch(launch, plan, oracle, count=count)), plan)


def verdict_of_program(
    launches: Sequence[Verdict], output: Comparison | None = None, between: Sequence[Finding] = ()
) -> Verdict:
    """Return the verdict on a program that launched kernels, and on its output.

    Args:
        launches: The verdicts on its launches.
        output: Comparison of its output with an oracle; None without an oracle.
        between: Findings that concern memory between launches.

    Returns:
        The verdict. Its status is that of the first launch with a fault. Without a fault, it is that of the first
        launch that is not ok, or else that of the output.
    """
    if not launches:
        return Verdict.not_launched("unsupported", "no kernel was launched")
    runs = tuple(run for verdict in launches for run in verdict.runs)
    findings: dict[tuple[object, ...], Finding] = {}
    for f in (*(f for verdict in launches for f in verdict.findings), *between):
        findings.setdefault((f.grade, f.kind, f.file, f.line), f)
    emulation = launches[0].emulation.with_findings(tuple(findings.values()))
    failed = next((verdict for verdict in launches if not verdict.ok), None)
    is_whole = all(verdict.whole for verdict in launches)
    status: str = emulation.status
    reason, worst = emulation.reason, None if output is None else output.worst
    if emulation.status == "ok" and failed is not None:
        status, reason = failed.status, failed.reason
    elif emulation.status == "ok" and output is not None and output.reason:
        status, reason = output.status, output.reason
    differing = tuple(dict.fromkeys(name for verdict in launches for name in verdict.differing))
    return Verdict(
        None, status, reason, worst, None if output is None else output.max_abs_error, emulation, runs,
        depth=launches[0].depth, whole=is_whole, differing=differing, not_run=launches[0].not_run,
    )  # fmt: skip


def run_of_program(verdict: Verdict, seed: int, plan: LaunchPlan) -> Run:
    """Convert the verdict on one call of a program to a ``Run``.

    Args:
        verdict: Verdict on the call's launches and output.
        seed: Seed of its inputs.
        plan: The plan of each launch.

    Returns:
        The run.
    """
    return Run(
        None, (), seed, plan.orders[0], None, verdict.status, verdict.reason, verdict.worst, verdict.max_abs_error,
        verdict.emulation.without_arrays(), plan.perturb_all, launches=plan.launches,
    )  # fmt: skip


def merged_findings(runs: Iterable[Run]) -> tuple[Finding, ...]:
    """Return the findings of all runs, once per grade, kind and line. Findings of later runs include the run's name."""
    merged: dict[tuple[object, ...], Finding] = {}
    for i, run in enumerate(runs):
        for f in run.emulation.findings:
            finding = f if i == 0 else replace(f, message=f"{f.message}; {_named(run)}")
            merged.setdefault((f.grade, f.kind, f.file, f.line), finding)
    return tuple(merged.values())


def _merged_suppressed(runs: Iterable[Run]) -> tuple[tuple[Finding, str], ...]:
    """Return the expected findings of all runs, once per grade, kind and line."""
    merged: dict[tuple[object, ...], tuple[Finding, str]] = {}
    for f, reason in (one for run in runs for one in run.emulation.suppressed):
        merged.setdefault((f.grade, f.kind, f.file, f.line), (f, reason))
    return tuple(merged.values())


def _named(run: Run) -> str:
    return f"blocks {run.name}" if run.name == run.order.name else run.name


def _differing(runs: Sequence[Run]) -> tuple[str, ...]:
    """Return the arrays whose bits differ between runs in different orders."""
    first, *further = (run for run in runs if run.name == run.order.name)
    return tuple(
        name
        for name, values in first.emulation.outputs.items()
        if any(
            name in other.emulation.outputs and values.tobytes() != other.emulation.outputs[name].tobytes()
            for other in further
        )
    )


def _accumulating(runs: Sequence[Run]) -> tuple[str, ...]:
    """Return the arrays whose bits differ after a second launch on the same memory."""
    once = runs[0].emulation
    twice = next((run.emulation for run in runs if run.name == TWICE), None)
    if twice is None or once.status != "ok" or twice.status != "ok":
        return ()
    return tuple(name for name, values in once.outputs.items() if values.tobytes() != twice.outputs[name].tobytes())
