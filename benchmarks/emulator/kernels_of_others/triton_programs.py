"""Triton kernels of other repositories, called as users do and compared with torch by the programs of programs/."""

from __future__ import annotations

import ast
import json
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.emulator.kernels_of_others.cuda_programs import Workshop
from benchmarks.emulator.kernels_of_others.outcome import Outcome
from benchmarks.emulator.strangers.limited import ends_within

PROGRAMS = Path(__file__).with_name("programs")


def triton_kernels(recipe: Mapping[str, Any]) -> list[str]:
    """Return the checks of a program: its public functions."""
    tree = ast.parse((PROGRAMS / recipe["program"]).read_text())
    return [f.name for f in tree.body if isinstance(f, ast.FunctionDef) and not f.name.startswith("_")]


def run_triton(recipe: Mapping[str, Any], kernel: str, workshop: Workshop) -> Outcome:
    copy = workshop.copy(recipe["name"], recipe["folder"])
    folder = copy.parent if recipe.get("package") else copy
    with tempfile.TemporaryDirectory() as work:
        report, printed = Path(work) / "report.json", Path(work) / "printed"
        job = [recipe["program"], kernel, recipe["device"], str(folder), str(workshop.time_limit), str(report)]
        started = time.monotonic()
        with printed.open("wb") as to:
            late = not ends_within(2 * workshop.time_limit, [sys.executable, "-m", __name__, *job], Path.cwd(), to)
        seconds = round(time.monotonic() - started, 1)
        document = json.loads(report.read_text()) if report.exists() else {}
        said = printed.read_text(errors="replace")
    place = f"{workshop.work}/{recipe['name'].replace('/', '+')}/"
    document = json.loads(json.dumps(document).replace(place, "").replace(f"{PROGRAMS}/", ""))
    failure = document.get("failure", said.strip()[-200:])
    launches, findings = document.get("launches", 0), document.get("findings", [])
    if late or "was ended" in failure:
        verdict = "time limit"
    elif "AssertionError" in failure:
        verdict = "wrong"
    elif not failure and launches:
        verdict = "right"
    else:
        verdict = "no launch" if not failure else "died"
    return Outcome(
        recipe["name"],
        recipe["program"],
        kernel,
        verdict,
        " ".join(failure.split())[:300],
        launches,
        seconds,
        document.get("triton", ""),
        findings,
    )


def _run_here(program: str, kernel: str, device: str, folder: str, limit: str, report: str) -> None:
    import triton

    from autosched.triton import ProofSettings
    from autosched.triton.program import run_program
    from search_spaces.hardware.devices import device as device_named

    sys.path.insert(0, folder)
    proof = run_program(PROGRAMS / program, [kernel], device_named(device), ProofSettings(), seconds=float(limit))
    findings = {}
    for number, launch in enumerate(proof.session.launches, 1):
        for f in launch.findings:
            row = {
                "kind": str(f.kind), "grade": str(f.grade), "file": f.file, "line": f.line, "message": f.message,
                "kernel": launch.kernel, "launch": number, "count": f.count,
            }  # fmt: skip
            findings.setdefault((f.grade, f.kind, f.file, f.line), row)
    document = {
        "failure": proof.failure,
        "launches": len(proof.session.launches),
        "triton": triton.__version__,
        "findings": list(findings.values()),
    }
    Path(report).write_text(json.dumps(document))


if __name__ == "__main__":
    _run_here(*sys.argv[1:])
