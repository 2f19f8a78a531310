"""Conversion of a report to the summary for CI systems, and to JSON for benchmark dashboards."""

from __future__ import annotations

from typing import Any

from autosched.regression.report import CheckFinding, CheckReport, EntryStatus
from autosched.reporting import formatting
from autosched.reporting.ci import CheckedCase, Summary


def summary(report: CheckReport) -> Summary:
    """Return the report as a summary for ``reporting.ci``."""
    timed = report.kind != "configs"
    left_out = {"left_out": report.left_out} if report.left_out else {}
    return Summary(
        command="check",
        kind=report.kind,
        subject=report.database,
        status=report.status,
        conclusion=report.conclusion,
        cases=tuple(_case(f, timed) for f in report.findings),
        seconds=report.seconds,
        facts={**left_out, **report.tools},
        columns=("change", "baseline", "now") if timed else (),
        hidden=EntryStatus.SOUND.value,
        footnote=f"Kernel: {report.kernels}" if report.kernels else "",
    )


def action_benchmark(report: CheckReport) -> list[dict[str, Any]]:
    """Return data for github-action-benchmark's ``customSmallerIsBetter``: times relative to their baselines.

    The values are ratios, because absolute times drift with the machine. For a static check, the values are registers,
    spills and code size.
    """
    benches: list[dict[str, Any]] = []
    for f in report.findings:
        if f.ratio is not None:
            width = 100 * max(f.ratio.high - f.ratio.median, f.ratio.median - f.ratio.low)
            benches.append(
                {"name": f.name, "unit": "times the baseline", "value": f.ratio.median, "range": f"± {width:.2f}%"}
            )
        for name in ("registers", "spill_bytes", "sass_bytes"):
            if f.ratio is None and isinstance(value := f.numbers.get(name), int):
                benches.append({"name": f"{f.name}: {name}", "unit": name.replace("_", " "), "value": value})
    return benches


def bencher(report: CheckReport) -> dict[str, Any]:
    """Return the report in Bencher Metric Format: measures by name of the benchmark.

    ``latency`` is in nanoseconds, like Bencher's built-in measure of this name.
    """
    benches: dict[str, Any] = {}
    for f in report.findings:
        measures: dict[str, Any] = {}
        if f.ratio is not None:
            measures["ratio"] = {"value": f.ratio.median, "lower_value": f.ratio.low, "upper_value": f.ratio.high}
        if f.candidate_seconds is not None:
            measures["latency"] = {"value": f.candidate_seconds * 1e9}
        for name in ("registers", "spill_bytes", "sass_bytes"):
            if isinstance(value := f.numbers.get(name), int):
                measures[name.replace("_", "-")] = {"value": value}
        if measures:
            benches[f.name] = measures
    return benches


def _case(f: CheckFinding, timed: bool) -> CheckedCase:
    times = ("" if t is None else formatting.time(t) for t in (f.baseline_seconds, f.candidate_seconds))
    return CheckedCase(
        name=f.name,
        outcome="refused" if f.verdict.fails else "accepted" if f.verdict.judged else "uncertain",
        verdict=f.verdict.value,
        reasons=f.reasons,
        group=f.operator,
        seconds=f.check_seconds,
        file=f.file,
        line=f.line,
        facts=_facts(f),
        cells=(_change(f), *times) if timed else (),
        change=_change(f),
    )


def _change(f: CheckFinding) -> str:
    if f.ratio is None:
        return ""
    low, median, high = (100 * (x - 1) for x in (f.ratio.low, f.ratio.median, f.ratio.high))
    return f"{median:+.1f}% ({low:+.1f} to {high:+.1f})"


def _facts(f: CheckFinding) -> dict[str, object]:
    facts: dict[str, object] = {"device": f.device, "provenance": f.provenance, "recorded_seconds": f.seconds}
    facts |= {"baseline_seconds": f.baseline_seconds, "candidate_seconds": f.candidate_seconds}
    if f.ratio is not None:
        facts |= {"ratio": f.ratio.median, "ratio_low": f.ratio.low, "ratio_high": f.ratio.high, "pairs": f.ratio.pairs}
    return {name: value for name, value in {**facts, **f.numbers}.items() if value not in (None, "")}
