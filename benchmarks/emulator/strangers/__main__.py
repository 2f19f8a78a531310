"""Runs other people's CUDA programs under `autosched run` and writes down how each ended.

    python -m benchmarks.emulator.strangers FOLDER --out page.md [--journal FILE.jsonl]
        [--only NAME ...] [--again NAME|VERDICT ...]

FOLDER holds copies of programs, which are built in place: folders with a makefile (HeCBench) and .cu files with a main.
It needs nvcc. What the journal has is not run again; arguments, readings of findings and what cannot run without its
data are in programs.toml. A night's work: some 10 s of CPU for each program.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.emulator.strangers.limited import ends_within
from benchmarks.emulator.strangers.page import page
from benchmarks.emulator.strangers.programs import BuildFailed, Program, arguments_of, build, programs_in
from benchmarks.emulator.strangers.table import TABLE

_PASS = re.compile(
    r"\bPASS(ED)?\b|\bPassed\b|Test passed|SUCCESS|results? (are|is) correct|\bcorrect\b|matches? CPU|Result: PASS",
    re.I,
)
_FAIL = re.compile(r"\bFAIL(ED|URE)?\b|\bincorrect\b|mismatch|\bwrong\b|verification failed", re.I)


@dataclass
class Run:
    """How a program ended. ``verdict``: "pass" and "fail" (as it says itself), "ended" (it does not say), "stopped" (it
    calls what is not emulated), "time limit", "died", "no launch", "not built", "refused"."""

    program: str
    arguments: list[str] = field(default_factory=list)
    verdict: str = ""
    why: str = ""
    status: int = 0
    launches: int = 0
    seconds: float = 0.0
    emulated_seconds: float = 0.0
    findings: list[dict[str, Any]] = field(default_factory=list)
    lacking: list[str] = field(default_factory=list)
    output: str = ""


def judge(program: Program, arguments: list[str], options: argparse.Namespace) -> Run:
    run = Run(program.name, arguments)
    flags = TABLE.flags.get(program.name, [])
    try:
        file = build(program, options.sm, flags, options.build_limit)
    except BuildFailed as failed:
        run.verdict, run.why = "not built", str(failed)
        return run
    with tempfile.TemporaryDirectory() as work:
        report, printed = Path(work) / "report.json", Path(work) / "printed"
        command = [
            sys.executable, "-m", "autosched", "run", "--device", options.device,
            "--time-limit", str(options.launch_limit), "--report", str(report), "--", f"./{file.name}", *arguments,
        ]  # fmt: skip
        started = time.monotonic()
        with printed.open("wb") as to:
            late = not ends_within(options.time_limit, command, program.folder, to)
        run.seconds = round(time.monotonic() - started, 1)
        with printed.open(errors="replace") as text:
            said = text.read(2_000_000)
        run.output = said[-3000:]
        if report.exists():
            document = json.loads(report.read_text())
            run.status, run.launches = document["status"], document["launches"]
            run.findings, run.lacking = document["findings"], document["lacking"]
            run.emulated_seconds = round(document.get("emulated_seconds", 0.0), 1)
    conclude(run, said, late=late)
    return run


def conclude(run: Run, said: str, *, late: bool) -> None:
    """Set the verdict by what the run found and the program printed."""
    own = "\n".join(line for line in said.splitlines() if not line.startswith("========="))
    timeouts = [f for f in run.findings if f["kind"] in ("timeout", "crash")]
    if late:
        run.verdict, run.why = "time limit", "the whole program"
    elif timeouts:
        run.verdict, run.why = "time limit", timeouts[0]["message"][:200]
    elif run.lacking:
        run.verdict, run.why = "stopped", "; ".join(run.lacking)[:300]
    elif not run.launches and "=========" not in said:
        run.verdict, run.why = "refused", said.strip()[-200:]
    elif run.launches == 0:
        run.verdict, run.why = "no launch", own.strip()[-160:]
    elif _FAIL.search(own):
        run.verdict = "fail"
    elif run.status != 0 and not _PASS.search(own):
        run.verdict, run.why = "died", f"exit status {run.status}: {own.strip()[-120:]}"
    else:
        run.verdict = "pass" if _PASS.search(own) else "ended"


def in_repository(text: str, folder: Path) -> str:
    """Return a message with paths below ``folder`` as they are in the repository, and those beside it from there."""
    for place in dict.fromkeys((folder, folder.resolve())):
        text = text.replace(f"{place}/", "").replace(f"{place.parent}/", "../")
    return text


def of_repository(run: Run, folder: Path) -> Run:
    """Return the run without the place of this machine's copy in what it says."""
    texts = json.loads(json.dumps(asdict(run)), object_hook=lambda d: {k: _in(v, folder) for k, v in d.items()})
    return Run(**texts)


def _in(value: Any, folder: Path) -> Any:
    if isinstance(value, str):
        return in_repository(value, folder)
    return [_in(one, folder) for one in value] if isinstance(value, list) else value


def journal_of(file: Path) -> dict[str, Run]:
    """Return the last run of each program."""
    runs: dict[str, Run] = {}
    if file.exists():
        for line in file.read_text().splitlines():
            run = Run(**json.loads(line))
            runs[run.program] = run
    return runs


def _wanted(program: Program, runs: Mapping[str, Run], options: argparse.Namespace, arguments: list[str]) -> bool:
    if options.only and program.name not in options.only:
        return False
    run = runs.get(program.name)
    return run is None or run.arguments != arguments or bool({program.name, run.verdict} & set(options.again))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="the page")
    parser.add_argument("--journal", type=Path, help="one JSON document a program (default: FOLDER/strangers.jsonl)")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME")
    parser.add_argument("--again", nargs="*", default=[], metavar="NAME|VERDICT")
    parser.add_argument("--device", default="a100")
    parser.add_argument("--sm", type=int, default=80)
    parser.add_argument("--launch-limit", type=float, default=60.0, help="CPU seconds of a launch")
    parser.add_argument("--time-limit", type=float, default=100.0, help="CPU seconds of a program")
    parser.add_argument("--build-limit", type=float, default=300.0, help="seconds of a build")
    parser.add_argument(
        "--limits", default="", help="what the page says of limits, where the journal's runs had several"
    )
    options = parser.parse_args()
    journal = options.journal or options.folder / "strangers.jsonl"
    runs = journal_of(journal)
    programs = list(programs_in(options.folder))
    for program in programs:
        if program.name in TABLE.left_out:
            continue
        arguments = arguments_of(program, TABLE.arguments)
        if not _wanted(program, runs, options, arguments):
            continue
        run = runs[program.name] = of_repository(judge(program, arguments, options), options.folder)
        with journal.open("a") as file:
            file.write(json.dumps(asdict(run)) + "\n")
        print(
            f"{run.verdict:10} {run.program} {' '.join(run.arguments)}: {run.seconds} s, "
            f"{len(run.findings)} findings {run.why}",
            flush=True,
        )
    known = {p.name for p in programs} - set(TABLE.left_out)
    limits = options.limits or (
        f"Limits: {options.launch_limit:g} CPU seconds of a launch, {options.time_limit:g} of a program; "
        f"device {options.device}, PTX for sm_{options.sm}."
    )
    options.out.write_text(
        page([of_repository(r, options.folder) for name, r in sorted(runs.items()) if name in known], TABLE, limits)
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
