"""Print the emulator's findings, grouped by cause."""

from collections.abc import Sequence

from rich.console import Console

from measurements.emulator import Emulation, Finding, by_cause

_CAUSES, _OF_CAUSE = 20, 4  # maximum number of causes to print, and of findings per cause


def print_findings(console: Console, emulation: Emulation, not_run: Sequence[str] = ()) -> None:
    """Print findings grouped by cause, then suppressed findings and skipped runs.

    The first finding of each cause is printed in full, and further findings of the cause only with their lines.
    """
    causes = by_cause(emulation.findings)
    for cause in causes[:_CAUSES]:
        _say(console, str(cause[0]))
        for other in cause[1 : 1 + _OF_CAUSE]:
            _say(console, f"  with it: {_short(other)}")
        if len(cause) > 1 + _OF_CAUSE:
            _say(console, f"  and {len(cause) - 1 - _OF_CAUSE} more at other lines")
    if len(causes) > _CAUSES:
        _say(console, f"and {len(causes) - _CAUSES} more: --json has all")
    for finding, reason in emulation.suppressed:
        _say(console, f"suppressed: {_short(finding)}: {reason}")
    if not_run:
        _say(console, f"not run: {', '.join(not_run)}: --full runs them")


def _short(finding: Finding) -> str:
    times = f" ({finding.count} times)" if finding.count > 1 else ""
    other = f", and {finding.other}" if finding.other else ""
    return f"{finding.file}:{finding.line}: {finding.kind}{other}{times}"


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
