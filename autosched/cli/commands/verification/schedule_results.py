"""Convert the results of verified schedules to a table, to JSON, and to a ``CheckedCase`` for each schedule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console

from autosched.cli.terminal.console import show
from autosched.reporting import formatting
from autosched.reporting.ci import CheckedCase
from autosched.verify.verdict import Outcome, Verdict
from measurements.emulator import SharedSite
from search_spaces.operators.problem import Problem

_LEGEND = (
    "of tolerance: largest ratio of an element's error to the element's tolerance; values up to 1 pass",
    "error: largest absolute error of an element",
    "conflicts: shared-memory wavefronts divided by their minimum",
    "sectors: 32-byte sectors per global-memory request of a warp",
)
_SHOWN_FAILURES = 5  # maximum number of failures listed with their schedule below the table; --json prints all
_WORDS: Mapping[Outcome, str] = {"accepted": "pass", "refused": "FAIL", "uncertain": "unverified"}


def case(problem: Problem, number: int, v: Verdict, notes: bool = False) -> CheckedCase:
    """Return the case that describes one schedule in the answer.

    Args:
        problem: Problem that the schedule computes.
        number: Position of the schedule in the problem's list, counted from 1.
        v: Verdict on the schedule.
        notes: True to count a note as a failure.
    """
    first = next((f for f in v.findings if f.is_fault or notes), None)
    noted = v.ok and first is not None
    return CheckedCase(
        name=f"{formatting.one_line(problem)}: {v.schedule.template} {number}",
        outcome="refused" if noted else v.outcome,
        verdict=_WORDS["refused"] if noted else word(v),
        reasons=(str(first),) if noted else () if v.ok else (f"{v.status}: {v.reason}",),
        group=problem.operator,
        seconds=v.seconds,
        facts={} if v.worst is None else {"error_over_tolerance": v.worst},
        file=first.file if first is not None else "",
        line=first.line if first is not None else 0,
    )


def print_table(console: Console, problem: Problem, results: Sequence[Verdict]) -> None:
    """Print a table with one row per verified schedule."""
    numbers = ("of tolerance", "error", "conflicts", "sectors", "time")
    faults = [
        formatting.reasons(Counter(str(f.kind) for f in v.findings if f.is_fault)) or ("" if v.ok else v.status)
        for v in results
    ]
    shown = ("findings",) if any(faults) else ()
    table = formatting.table("#", "result", *numbers, *shown, right=("#", *numbers), fold=shown)
    for i, (v, fault) in enumerate(zip(results, faults, strict=True), 1):
        table.add_row(
            str(i),
            word(v),
            "-" if v.worst is None else f"{v.worst:.3f}",
            "-" if v.max_abs_error is None else f"{v.max_abs_error:.1e}",
            _degree(v.shared_sites),
            _sectors(v),
            f"{v.seconds:.1f} s",
            *((fault,) if shown else ()),
        )
    console.print()
    show(console, table)
    for line in _LEGEND:
        console.print(line, style="dim")
    if any(v.problem != problem for v in results):
        console.print(
            "the problem is too large to emulate: schedules ran on a smaller problem with the same partial tiles",
            style="dim",
        )
    missing: dict[str, list[int]] = {}
    for i, v in enumerate(results, 1):
        for text in v.lacks:
            missing.setdefault(text, []).append(i)
    for text, numbers_of in missing.items():
        console.print(f"{', '.join(map(str, numbers_of))}: {text}")
    failures = [(i, v) for i, v in enumerate(results, 1) if not v.ok]
    for i, v in failures[:_SHOWN_FAILURES]:
        console.print()
        console.print(f"{i} {'fails' if v.outcome == 'refused' else 'is unverified'}: {v.reason}")
        if v.status == "timeout":
            console.print("give smaller sizes, or add [proxy] to your kernel file", style="dim")
        show(console, formatting.decisions(v.schedule, console.width))
    if len(failures) > _SHOWN_FAILURES:
        console.print(f"and {len(failures) - _SHOWN_FAILURES} more, see --json")
    console.print()


def word(v: Verdict) -> str:
    """Return the word for a verdict in the table: pass, FAIL or unverified."""
    return _WORDS[v.outcome]


def _degree(sites: Sequence[SharedSite]) -> str:
    ideal = sum(s.ideal for s in sites)
    return f"{sum(s.wavefronts for s in sites) / ideal:.2f}" if ideal else "-"


def _sectors(v: Verdict) -> str:
    requests = sum(s.requests for s in v.global_sites)
    return f"{sum(s.sectors for s in v.global_sites) / requests:.1f}" if requests else "-"


def to_json(problem: Problem, v: Verdict) -> dict[str, Any]:
    """Return the result of one schedule as JSON."""
    return {
        "problem": problem.to_json(),
        "emulated_problem": v.problem.to_json(),
        "template": v.schedule.template,
        "schedule": v.schedule.to_json(),
        "ok": v.ok,
        "status": v.status,
        "reason": v.reason,
        "error_over_tolerance": v.worst,
        "max_abs_error": v.max_abs_error,
        "coverage": None if v.coverage is None else v.coverage.to_json(),
        "runs": [
            {
                "name": r.name,
                "problem": r.problem.to_json() if r.problem else None,
                "cases": list(r.cases),
                "seed": r.seed,
                "order": r.order.name,
                "blocks": r.blocks,
                "status": r.status,
            }
            for r in v.runs
        ],
        "findings": [asdict(f) for f in v.findings],
        "shared_sites": [{**s._asdict(), "conflict_degree": s.conflict_degree} for s in v.shared_sites],
        "global_sites": [{**s._asdict(), "sectors_per_request": s.sectors_per_request} for s in v.global_sites],
        "seconds": v.seconds,
    }
