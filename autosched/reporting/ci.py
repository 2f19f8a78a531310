"""Results in formats of CI systems: JUnit XML, Markdown for a job page, and GitHub's annotations.

The commands ``verify``, ``run``, ``judge`` and ``check`` each convert their result to a ``Summary``. Names and reasons
may come from third-party files, so each format must escape them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autosched.reporting import formatting
from autosched.reporting.exit_status import ExitStatus
from autosched.verify.verdict import Outcome
from measurements.files.text import harmless

if TYPE_CHECKING:
    import xml.etree.ElementTree as ET

_ICONS: Mapping[Outcome, str] = {"refused": "🔴", "accepted": "🟢", "uncertain": "🟡"}
_SUMMARY_ROWS = 200  # maximum number of cases in a summary, because GitHub shows at most 1 MiB
# Pattern of characters that XML 1.0 cannot represent (section 2.2, Char). It is compiled when first used, because
# compiling takes 5 ms.
_NO_XML = "[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"


@dataclass(frozen=True)
class CheckedCase:
    """Result of one verified or checked case.

    Attributes:
        name: Name that identifies the case.
        outcome: Whether the case passed, failed or is undecided.
        verdict: Name that the command uses for the outcome.
        reasons: Reasons for the outcome, one line each.
        group: Operator or kernel of the case.
        seconds: Duration of the case.
        file: File that defines the case; "" if that file is the subject of the summary.
        line: Line in ``file``; 0 for the whole file.
        facts: Further properties of the case, by name.
        cells: Texts for the columns ``Summary.columns``.
        change: A measured change, such as a ratio of times, shown next to the verdict; "" for none.
    """

    name: str
    outcome: Outcome
    verdict: str
    reasons: tuple[str, ...] = ()
    group: str = ""
    seconds: float = 0.0
    file: str = ""
    line: int = 0
    facts: Mapping[str, object] = field(default_factory=dict)
    cells: tuple[str, ...] = ()
    change: str = ""

    @property
    def reason(self) -> str:
        """All reasons, in one line."""
        return "; ".join(self.reasons)

    @property
    def line_of_text(self) -> str:
        """One line with name, verdict, change and reason."""
        change = f" {self.change}" if self.change else ""
        return f"{self.name}: {self.verdict}{change}" + (f": {self.reason}" if self.reason else "")


@dataclass(frozen=True)
class Summary:
    """Result of one command.

    Attributes:
        command: "verify", "run", "judge" or "check".
        kind: Kind of input or of check, such as "script" or "static".
        subject: The file, database, folder or problem.
        status: Exit status.
        conclusion: Conclusion in one line.
        cases: Results of all cases.
        seconds: Duration of the command.
        facts: Properties of the run, by name. The Markdown omits empty properties.
        columns: Headings of the cases' ``cells``.
        hidden: A verdict. The Markdown lists cases with this verdict only if they have a reason.
        footnote: A line below the table.
    """

    command: str
    kind: str
    subject: str
    status: ExitStatus
    conclusion: str
    cases: tuple[CheckedCase, ...]
    seconds: float = 0.0
    facts: Mapping[str, str] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    hidden: str = ""
    footnote: str = ""

    @property
    def title(self) -> str:
        """Title of the summary: the command."""
        return f"autosched {self.command}"


def junit(summary: Summary) -> bytes:
    """Return JUnit XML, with one test suite that has a test case for each case.

    Failed cases are failures, undecided cases are skipped tests. If the command has no result, the suite has an error,
    because a run that verified nothing must not appear successful.
    """
    import xml.etree.ElementTree as ET  # imported here, because most commands do not write JUnit XML

    failures = sum(c.outcome == "refused" for c in summary.cases)
    skipped = sum(c.outcome == "uncertain" for c in summary.cases)
    errors = int(summary.status == ExitStatus.NO_ANSWER)
    counts = {"tests": len(summary.cases) + errors, "failures": failures, "errors": errors}
    seconds = f"{summary.seconds:.3f}"
    root = ET.Element("testsuites", {"name": summary.title, "time": seconds, **_texts(counts)})
    suite = ET.SubElement(
        root,
        "testsuite",
        {"name": f"{summary.title} {summary.kind}", "time": seconds, **_texts({**counts, "skipped": skipped})},
    )
    _properties(suite, {"subject": summary.subject, "conclusion": summary.conclusion, **summary.facts})
    for one in summary.cases:
        group = f".{one.group}" if one.group else ""
        names = {"classname": _xml(f"autosched.{summary.kind}{group}"), "name": _xml(one.name)}
        case = ET.SubElement(suite, "testcase", {**names, "time": f"{one.seconds:.3f}"})
        _properties(case, {"verdict": one.verdict, **one.facts})
        message = {"message": _xml(one.reason or one.verdict)}
        if one.outcome == "refused":
            ET.SubElement(case, "failure", {"type": _xml(one.verdict), **message}).text = _xml(one.line_of_text)
        elif one.outcome == "uncertain":
            ET.SubElement(case, "skipped", message)
    if errors:
        names = {"classname": f"autosched.{summary.command}", "name": "the run", "time": "0.000"}
        case = ET.SubElement(suite, "testcase", names)
        ET.SubElement(case, "error", {"type": "no answer", "message": _xml(summary.conclusion)})
    ET.indent(root)
    document: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return document + b"\n"


def markdown(summary: Summary) -> str:
    """Return Markdown for a job page ($GITHUB_STEP_SUMMARY): the conclusion, then a table of cases, failures first."""
    lines = [f"### {summary.title} ({summary.kind}): {_md(summary.conclusion)}", ""]
    listed = [c for c in worst_first(summary.cases) if c.reasons or c.verdict != summary.hidden]
    shown = listed[:_SUMMARY_ROWS]
    if shown:
        lines += [f"| | {' | '.join(('case', 'verdict', *summary.columns, 'why'))} |"]
        lines += [f"|---|---|---|{'---:|' * len(summary.columns)}---|"]
    for case in shown:
        cells = (_ICONS[case.outcome], _md(case.name), _md(case.verdict), *map(_md, case.cells), _md(case.reason))
        lines.append(f"| {' | '.join(cells)} |")
    if len(summary.cases) > len(shown):
        omitted = f"{len(summary.cases) - len(shown)} of {len(summary.cases)} cases"
        lines += ["", f"Omitted here, but listed in the JSON and the JUnit XML: {omitted}."]
    if summary.footnote:
        lines += ["", f"{_md(summary.footnote)}."]
    facts = ", ".join(f"{name} {value}" for name, value in summary.facts.items() if value)
    duration = formatting.duration(summary.seconds)
    lines += ["", f"{_md(summary.subject)}, {duration}{_md('; ' + facts if facts else '')}"]
    return "\n".join(lines) + "\n"


def workflow_commands(summary: Summary) -> list[str]:
    """Return GitHub's workflow commands: ``::error`` for each failed case, ``::warning`` for each undecided case."""
    commands = []
    for case in worst_first(summary.cases):
        level = {"refused": "error", "uncertain": "warning"}.get(case.outcome)
        if level is not None:
            title = f"autosched: {case.verdict}"
            file = case.file or summary.subject
            location = f"file={_property(_relative_to_current_folder(file))}," if "://" not in file else ""
            location += f"line={case.line}," if case.line else ""
            commands.append(f"::{level} {location}title={_property(title)}::{_data(case.line_of_text)}")
    if summary.status == ExitStatus.NO_ANSWER:
        commands.append(f"::error title={summary.title}::{_data(summary.conclusion)}")
    return commands


def worst_first(cases: Sequence[CheckedCase]) -> list[CheckedCase]:
    """Sort cases: first failed, then undecided, then passed. Otherwise the order is unchanged."""
    order = ("refused", "uncertain", "accepted")
    return sorted(cases, key=lambda c: order.index(c.outcome))


def _properties(parent: ET.Element, values: Mapping[str, Any]) -> None:
    import xml.etree.ElementTree as ET

    if values:
        properties = ET.SubElement(parent, "properties")
        for name, value in values.items():
            ET.SubElement(properties, "property", {"name": _xml(name), "value": _xml(str(value))})


def _texts(numbers: Mapping[str, int]) -> dict[str, str]:
    return {name: str(value) for name, value in numbers.items()}


def _xml(text: str) -> str:
    return re.sub(_NO_XML, "\ufffd", text)


def _md(text: str) -> str:
    """Escape Markdown and HTML in a text, for a cell of a table."""
    escaped = re.sub(r"([\\`*_{}\[\]<>#|~$@])", r"\\\1", " ".join(harmless(text).split()))
    return escaped.replace("\\<", "&lt;").replace("\\>", "&gt;")


def _data(text: str) -> str:
    """Escape the message of a workflow command, in which only %, CR and LF are special."""
    return harmless(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _relative_to_current_folder(file: str) -> str:
    """Return the path relative to the current folder, as GitHub expects. Paths outside the folder are unchanged."""
    path, current_folder = Path(file), Path.cwd()
    return str(path.relative_to(current_folder)) if path.is_absolute() and path.is_relative_to(current_folder) else file


def _property(text: str) -> str:
    """Escape a property of a workflow command, in which comma and colon are also special."""
    return _data(text).replace(":", "%3A").replace(",", "%2C")
