"""Suppress expected findings by kind, file and line. Each suppression has a reason why the code needs no fix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import NamedTuple

from measurements.emulator.findings import Emulation, Finding, FindingKind

_FORM = "write KIND:FILE:LINE:REASON, where * stands for any kind or line"


class Suppression(NamedTuple):
    """An expected finding of a kind (None: any kind) at a line (None: any line) of a file.

    ``file`` is a name, or the end of a path. ``reason`` is shown to readers of the result.
    """

    kind: FindingKind | None
    file: str
    line: int | None
    reason: str

    @classmethod
    def parse(cls, text: str) -> Suppression:
        """Parse text such as ``global_race:bfs.cu:31:all threads store true``. Raises ValueError for invalid text."""
        kind, file, line, reason = (*(part.strip() for part in text.split(":", 3)), "", "", "", "")[:4]
        if not file or not reason or not (line == "*" or line.isdigit()):
            raise ValueError(f"invalid suppression {text!r}: {_FORM}")
        if kind != "*" and kind not in set(FindingKind):
            raise ValueError(f"unknown kind of finding {kind!r}: {_FORM}")
        return cls(None if kind == "*" else FindingKind(kind), file, None if line == "*" else int(line), reason)

    def __str__(self) -> str:
        """Return the text that ``parse`` reads."""
        return f"{self.kind or '*'}:{self.file}:{'*' if self.line is None else self.line}:{self.reason}"

    def matches(self, finding: Finding) -> bool:
        """Return True if a finding is suppressed."""
        parts, named = PurePath(finding.file).parts, PurePath(self.file).parts
        return (
            self.kind in (None, finding.kind)
            and self.line in (None, finding.line)
            and bool(named)
            and parts[-len(named) :] == named
        )


def suppress(emulation: Emulation, suppressions: Sequence[Suppression]) -> Emulation:
    """Return the emulation without the findings that one of ``suppressions`` matches; ``suppressed`` keeps them.

    The status is determined by the remaining findings. If a launch crashed or did not end, nothing is removed.
    """
    if emulation.status not in ("ok", "findings") or not suppressions:
        return emulation
    remaining, suppressed = [], []
    for finding in emulation.findings:
        reason = next((s.reason for s in suppressions if s.matches(finding)), None)
        if reason is None:
            remaining.append(finding)
        else:
            suppressed.append((finding, reason))
    return replace(emulation.with_findings(remaining), suppressed=(*emulation.suppressed, *suppressed))
