"""The page: how programs ended, and each finding with who read it."""

from __future__ import annotations

import platform
import sys
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from benchmarks.emulator.strangers.table import Table

if TYPE_CHECKING:
    from benchmarks.emulator.strangers.__main__ import Run

_MEANING = {
    "pass": "came to their end and say that their results are right",
    "ended": "came to their end and say nothing about their results",
    "fail": "came to their end and say that their results are wrong",
    "died": "ended themselves with an error",
    "stopped": "call what is not emulated",
    "time limit": "ran into a limit",
    "no launch": "launched nothing (arguments or data are lacking)",
    "refused": "were refused",
    "not built": "were not built",
}
ENDED = ("pass", "ended", "fail")


def page(runs: Sequence[Run], table: Table, limits: str = "") -> str:
    verdicts = Counter(r.verdict for r in runs)
    ended = sum(verdicts[v] for v in ENDED)
    faults = [(r, f) for r in runs for f in r.findings if f.get("grade", "fault") == "fault" and f["kind"] != "timeout"]
    launching = len(runs) - sum(verdicts[v] for v in ("no launch", "not built", "refused"))
    with_faults = len({r.program for r, _ in faults})
    lines = [
        f"# Other people's programs under `autosched run`, {datetime.now(UTC):%Y-%m-%d}",
        "",
        f"`python -m benchmarks.emulator.strangers` on {platform.machine()}, Python {sys.version.split()[0]}. "
        "Sources are unchanged; sizes on the",
        "command line are small, with one repetition (`benchmarks/emulator/strangers/programs.toml`).",
        *([limits] if limits else []),
        "",
        f"**{ended} of the {launching} programs that launch a kernel came to their end** ({len(runs)} were tried). "
        f"Faults were found in {with_faults}.",
        "",
        "| programs | that |",
        "|---|---|",
        *(f"| {verdicts[v]} | {meaning} |" for v, meaning in _MEANING.items() if verdicts[v]),
        "",
        "## Faults",
        "As read in the source: `true` is a fault of the program or of its library, `false` one of the emulator.",
        "",
        "| program | fault | where | times | judged | why |",
        "|---|---|---|---|---|---|",
        *(_fault(r, f, table) for r, f in faults),
        "",
        "## Not to their end",
        "| program | arguments | how | why |",
        "|---|---|---|---|",
        *(
            f"| {r.program} | {_cell(' '.join(r.arguments))} | {r.verdict} | {_cell(r.why)} |"
            for r in runs
            if r.verdict not in ENDED
        ),
        "",
        "## All that came to their end",
        "| program | arguments | says | launches | faults | notes | seconds |",
        "|---|---|---|---|---|---|---|",
        *(_program(r) for r in runs if r.verdict in ENDED),
        "",
    ]
    if table.left_out:
        lines += ["## Left out", "", "| program | why |", "|---|---|"]
        lines += [f"| {name} | {_cell(why)} |" for name, why in sorted(table.left_out.items())]
        lines.append("")
    return "\n".join(lines)


def _fault(run: Run, f: dict[str, Any], table: Table) -> str:
    judged, why = table.reading(run.program, f["kind"], f.get("line", 0))
    where = f"{f['file'].rpartition('/')[2]}:{f['line']}" if f.get("file") else f["message"][:100]
    return f"| {run.program} | {f['kind']} | {_cell(where)} | {f.get('count', 1)} | {judged} | {_cell(why)} |"


def _program(run: Run) -> str:
    notes = sum(f.get("grade", "fault") == "note" for f in run.findings)
    return (
        f"| {run.program} | {_cell(' '.join(run.arguments))} | {'' if run.verdict == 'ended' else run.verdict} "
        f"| {run.launches} | {len(run.findings) - notes or ''} | {notes or ''} | {run.seconds:.0f} |"
    )


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
