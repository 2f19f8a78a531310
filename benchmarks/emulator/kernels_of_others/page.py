"""The page: how many kernels of each repository run and are right, and each finding with who read it."""

from __future__ import annotations

import argparse
import platform
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from benchmarks.emulator.kernels_of_others.outcome import Outcome

VERDICTS = ("right", "wrong", "time limit", "died", "unsupported", "no launch", "not built")


def page(
    outcomes: Sequence[Outcome],
    readings: Sequence[Mapping[str, Any]],
    commits: Mapping[str, str],
    options: argparse.Namespace,
) -> str:
    verdicts = Counter(o.verdict for o in outcomes)
    ran = verdicts["right"] + verdicts["wrong"]
    faulty = [o for o in outcomes if o.faults]
    judged = Counter(reading_of(o, f, readings)[0] for o in faulty for f in o.faults)
    of_faults = ", ".join(f"{count} {word}" for word, count in sorted(judged.items()))
    python = sys.version.split()[0]
    lines = [
        f"# Kernels of other people's repositories in the emulator, {datetime.now(UTC):%Y-%m-%d}",
        f"`python -m benchmarks.emulator.kernels_of_others`, {platform.machine()}, Python {python}, no GPU.",
        f"Limits: {options.launch_limit:g} CPU seconds of a launch, {options.time_limit:g} of a program.",
        "Each kernel is compared with the reference of its repository, or with torch. Sizes are made small; that and",
        "all else that is changed in the programs' sources is in `recipes.toml`.",
        "",
        f"**{ran} of {len(outcomes)} kernels ran to their end, {verdicts['right']} of them right.** "
        f"Faults were found in {len(faulty)}: {of_faults}.",
        "",
        "| repository | commit | " + " | ".join(VERDICTS) + " | with faults |",
        "|---" * (3 + len(VERDICTS)) + "|",
    ]
    for name in sorted({o.repository for o in outcomes}):
        mine = [o for o in outcomes if o.repository == name]
        counts = Counter(o.verdict for o in mine)
        cells = " | ".join(str(counts[v] or "") for v in VERDICTS)
        lines.append(f"| {name} | {commits.get(name, '')} | {cells} | {sum(bool(o.faults) for o in mine) or ''} |")
    lines += [
        "",
        "## Faults",
        "As read in the source: `true` is a fault of the kernel or of its use at that size, `false` of the emulator.",
        "",
        "| kernel | fault | where | times | judged | why |",
        "|---|---|---|---|---|---|",
    ]
    lines += dict.fromkeys(_fault(o, f, readings) for o in faulty for f in o.faults)
    lines += ["", "## Not right", "| kernel | how | why |", "|---|---|---|"]
    lines += [f"| {_name(o)} | {o.verdict} | {_cell(o.why)} |" for o in outcomes if o.verdict != "right"]
    lines += [
        "",
        "## All",
        "| kernel | how | launches | faults | notes | seconds | by |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {_name(o)} | {o.verdict} | {o.launches} | {len(o.faults) or ''} | "
        f"{sum(f.get('grade') == 'note' for f in o.findings) or ''} | {o.seconds:.0f} | {o.triton} |"
        for o in outcomes
    ]
    return "\n".join([*lines, ""])


def reading_of(o: Outcome, f: Mapping[str, Any], readings: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    for r in readings:
        if (r["repository"], r["source"]) != (o.repository, o.source) or f["kind"] not in r["kinds"]:
            continue
        if o.kernel in r.get("kernels", [o.kernel]):
            return r["judged"], r["why"]
    return "not read", ""


def _name(o: Outcome) -> str:
    return f"{o.repository.rpartition('/')[2]} {o.source} {o.kernel}".strip()


def _fault(o: Outcome, f: Mapping[str, Any], readings: Sequence[Mapping[str, Any]]) -> str:
    judged, why = reading_of(o, f, readings)
    where = f"{f['file'].rpartition('/')[2]}:{f['line']}" if f.get("file") else f["message"][:100]
    return f"| {_name(o)} | {f['kind']} | {_cell(where)} | {f.get('count', 1)} | {judged} | {_cell(why)} |"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
