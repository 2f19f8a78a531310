"""A report as CI systems read it: JUnit XML, Markdown, GitHub's annotations, and JSON for benchmark dashboards.

Names and reasons come from databases, which may be a stranger's: each format escapes them in its own way.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

from autosched.regression.report import EntryStatus, Finding, Report, worst_first
from autosched.reporting import formatting
from measurements.files.text import harmless

_ICONS = {v: "🔴" for v in EntryStatus if v.fails} | {
    v: "🟢" for v in (EntryStatus.FASTER, EntryStatus.SAME, EntryStatus.SOUND)
}

_SUMMARY_ROWS = 200  # GitHub shows no summary of more than 1 MiB; failures come first
# what XML 1.0 cannot hold in any form (section 2.2, Char)
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(report: Report) -> bytes:
    """JUnit XML: one suite, one test case for each entry with its times and its interval as properties.

    Slower, wrong and broken are failures; uncertain and cannot compare are skipped. Where the check could not judge,
    the suite has an error of its own, as a run that proves nothing must not look green.
    """
    failures = sum(f.verdict.fails for f in report.findings)
    skipped = sum(not f.verdict.judged for f in report.findings)
    errors = int(report.status == 2)
    counts = {"tests": len(report.findings) + errors, "failures": failures, "errors": errors}
    seconds = f"{report.seconds:.3f}"
    root = ET.Element("testsuites", {"name": "autosched check", "time": seconds, **_texts(counts)})
    suite = ET.SubElement(
        root,
        "testsuite",
        {"name": f"autosched check {report.kind}", "time": seconds, **_texts({**counts, "skipped": skipped})},
    )
    left_out = {"left_out": report.left_out} if report.left_out else {}
    _properties(suite, {"database": report.database, "conclusion": report.conclusion, **left_out, **report.tools})
    for finding in report.findings:
        case = ET.SubElement(
            suite,
            "testcase",
            {
                "classname": _xml(f"autosched.{report.kind}.{finding.operator}"),
                "name": _xml(finding.name),
                "time": f"{finding.check_seconds:.3f}",
            },
        )
        _properties(case, {"verdict": finding.verdict.value, **_facts(finding)})
        message = {"message": _xml(finding.reason or finding.verdict.value)}
        if finding.verdict.fails:
            ET.SubElement(case, "failure", {"type": finding.verdict.value, **message}).text = _xml(_line(finding))
        elif not finding.verdict.judged:
            ET.SubElement(case, "skipped", message)
    if errors:
        case = ET.SubElement(suite, "testcase", {"classname": "autosched.check", "name": "the run", "time": "0.000"})
        ET.SubElement(case, "error", {"type": "could not judge", "message": _xml(report.conclusion)})
    ET.indent(root)
    document: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return document + b"\n"


def markdown(report: Report) -> str:
    """Return a summary for a job page ($GITHUB_STEP_SUMMARY): the conclusion, then a table, failures first."""
    lines = [f"### autosched check ({report.kind}): {_md(report.conclusion)}", ""]
    telling = [f for f in worst_first(report.findings) if f.reasons or f.verdict is not EntryStatus.SOUND]
    shown = telling[:_SUMMARY_ROWS]
    if shown:
        lines += ["| | entry | verdict | change | baseline | now | why |", "|---|---|---|---:|---:|---:|---|"]
    for f in shown:
        cells = [
            _ICONS.get(f.verdict, "🟡"),
            _md(f.name),
            f.verdict.value,
            "" if f.ratio is None else _change(f),
            "" if f.baseline_seconds is None else formatting.time(f.baseline_seconds),
            "" if f.candidate_seconds is None else formatting.time(f.candidate_seconds),
            _md(f.reason),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    if len(report.findings) > len(shown):
        left_out = f"{len(report.findings) - len(shown)} of {len(report.findings)} entries"
        lines += ["", f"Not shown here, but in the JSON and the JUnit XML of the check: {left_out}."]
    if report.kernels:
        lines += ["", f"Kernel: {_md(report.kernels)}."]
    tools = ", ".join(f"{name} {value}" for name, value in report.tools.items() if value)
    lines += ["", f"{_md(report.database)}, {formatting.duration(report.seconds)}{_md('; ' + tools if tools else '')}"]
    return "\n".join(lines) + "\n"


def workflow_commands(report: Report) -> list[str]:
    """GitHub's workflow commands: an ``::error`` for each failure, a ``::warning`` for each that could not be told."""
    found = []
    for f in worst_first(report.findings):
        level = "error" if f.verdict.fails else "warning" if not f.verdict.judged else None
        if level is not None:
            title = f"autosched: {f.verdict.value}"
            file = f.file or report.database
            place = f"file={_property(_from_here(file))}," if "://" not in file else ""
            place += f"line={f.line}," if f.line else ""
            found.append(f"::{level} {place}title={_property(title)}::{_data(_line(f))}")
    if report.status == 2:
        found.append(f"::error title=autosched check::{_data(report.conclusion)}")
    return found


def action_benchmark(report: Report) -> list[dict[str, Any]]:
    """For github-action-benchmark's ``customSmallerIsBetter``: what was timed in this run, as a ratio to its baseline.

    Absolute times drift with the machine, ratios of one run do not. Of a static check: registers, spills and code size.
    """
    found: list[dict[str, Any]] = []
    for f in report.findings:
        if f.ratio is not None:
            width = 100 * max(f.ratio.high - f.ratio.median, f.ratio.median - f.ratio.low)
            found.append(
                {"name": f.name, "unit": "times the baseline", "value": f.ratio.median, "range": f"± {width:.2f}%"}
            )
        for name in ("registers", "spill_bytes", "sass_bytes"):
            if f.ratio is None and isinstance(value := f.numbers.get(name), int):
                found.append({"name": f"{f.name}: {name}", "unit": name.replace("_", " "), "value": value})
    return found


def bencher(report: Report) -> dict[str, Any]:
    """Bencher Metric Format: measures by benchmark name. ``latency`` is in nanoseconds, as Bencher's own measure is."""
    found: dict[str, Any] = {}
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
            found[f.name] = measures
    return found


def _line(f: Finding) -> str:
    change = f" {_change(f)}" if f.ratio is not None else ""
    return f"{f.name}: {f.verdict.value}{change}" + (f": {f.reason}" if f.reason else "")


def _change(f: Finding) -> str:
    assert f.ratio is not None
    low, median, high = (100 * (x - 1) for x in (f.ratio.low, f.ratio.median, f.ratio.high))
    return f"{median:+.1f}% ({low:+.1f} to {high:+.1f})"


def _facts(f: Finding) -> dict[str, object]:
    facts: dict[str, object] = {"device": f.device, "provenance": f.provenance, "recorded_seconds": f.seconds}
    facts |= {"baseline_seconds": f.baseline_seconds, "candidate_seconds": f.candidate_seconds}
    if f.ratio is not None:
        facts |= {"ratio": f.ratio.median, "ratio_low": f.ratio.low, "ratio_high": f.ratio.high, "pairs": f.ratio.pairs}
    return {name: value for name, value in {**facts, **f.numbers}.items() if value not in (None, "")}


def _properties(parent: ET.Element, values: dict[str, Any]) -> None:
    if values:
        made = ET.SubElement(parent, "properties")
        for name, value in values.items():
            ET.SubElement(made, "property", {"name": _xml(name), "value": _xml(str(value))})


def _texts(numbers: dict[str, int]) -> dict[str, str]:
    return {name: str(value) for name, value in numbers.items()}


def _xml(text: str) -> str:
    return _NO_XML.sub("\ufffd", text)


def _md(text: str) -> str:
    """Text that is not a Markdown and no HTML, in one cell of a table."""
    escaped = re.sub(r"([\\`*_{}\[\]<>#|~$@])", r"\\\1", " ".join(harmless(text).split()))
    return escaped.replace("\\<", "&lt;").replace("\\>", "&gt;")


def _data(text: str) -> str:
    """Return the message of a workflow command, where only these three have a meaning."""
    return harmless(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _from_here(file: str) -> str:
    """Return a path relative to the current folder, which is where GitHub looks, if the file lies in it."""
    path, here = Path(file), Path.cwd()
    return str(path.relative_to(here)) if path.is_absolute() and path.is_relative_to(here) else file


def _property(text: str) -> str:
    """Return a property of a workflow command, which also ends at a comma and a colon."""
    return _data(text).replace(":", "%3A").replace(",", "%2C")
