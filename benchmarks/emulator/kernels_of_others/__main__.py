"""Runs the kernels of other people's repositories in the emulator, and writes down which are right and what was found.

    python -m benchmarks.emulator.kernels_of_others MIRRORS --out page.md [--journal FILE.jsonl] [--only WORD ...]

MIRRORS holds git repositories OWNER+NAME/repo; those of recipes.toml that are there are run. CUDA programs are built by
nvcc from copies, with small sizes, cuBLAS on the host (host_blas.c), and run under `autosched run`; Triton kernels run
in the programs of programs/, which compare each with torch. What the journal has is not run again.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.emulator.kernels_of_others.cuda_programs import NotBuilt, Workshop, build, kernels_of, run
from benchmarks.emulator.kernels_of_others.outcome import Outcome
from benchmarks.emulator.kernels_of_others.page import page
from benchmarks.emulator.kernels_of_others.triton_programs import run_triton, triton_kernels

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Recipes:
    """``repository``: how CUDA programs are built and run. ``readings``: whether a finding is "true" or "false"."""

    repository: list[dict[str, Any]]
    triton: list[dict[str, Any]] = field(default_factory=list)
    readings: list[dict[str, Any]] = field(default_factory=list)


def read(file: Path) -> Recipes:
    return Recipes(**tomllib.loads(file.read_text()))


def cuda_outcomes(recipe: Mapping[str, Any], workshop: Workshop, known: set[tuple[str, ...]]) -> Iterator[Outcome]:
    for source in workshop.sources(recipe):
        kernels = [k for k in kernels_of(recipe, source) if (recipe["name"], source.name, k) not in known]
        if not kernels:
            continue
        try:
            program = build(recipe, source, workshop)
        except NotBuilt as failed:
            yield Outcome(recipe["name"], source.name, "", "not built", str(failed))
            continue
        for kernel in kernels:
            outcome = run(recipe, program, source, kernel, workshop)
            if outcome is not None:
                yield outcome


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mirrors", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="the page")
    parser.add_argument("--journal", type=Path, help="one JSON document a kernel (default: MIRRORS/kernels.jsonl)")
    parser.add_argument("--only", nargs="*", default=[], metavar="WORD", help="of the name of a repository")
    parser.add_argument("--work", type=Path, help="where copies are built, and kept (default: a temporary folder)")
    parser.add_argument("--include", type=Path, help="where cublas_v2.h is, if nvcc does not know it")
    parser.add_argument("--launch-limit", type=float, default=30.0, help="CPU seconds of a launch")
    parser.add_argument("--time-limit", type=float, default=60.0, help="CPU seconds of a program")
    options = parser.parse_args()
    journal = options.journal or options.mirrors / "kernels.jsonl"
    lines = journal.read_text().splitlines() if journal.exists() else []
    outcomes = {o.key: o for o in (Outcome(**json.loads(line)) for line in lines)}
    recipes = read(HERE / "recipes.toml")
    with tempfile.TemporaryDirectory() as temporary:
        workshop = Workshop(
            options.mirrors, options.work or Path(temporary), options.include, options.launch_limit, options.time_limit
        )
        known = set(outcomes)
        for recipe in (*recipes.repository, *recipes.triton):
            if options.only and not any(word in recipe["name"] for word in options.only):
                continue
            if not workshop.has(recipe["name"]):
                print(f"{recipe['name']} is not among the mirrors", flush=True)
                continue
            if "program" in recipe:
                kernels = [k for k in triton_kernels(recipe) if (recipe["name"], recipe["program"], k) not in known]
                found = (run_triton(recipe, kernel, workshop) for kernel in kernels)
            else:
                found = cuda_outcomes(recipe, workshop, known)
            for outcome in found:
                outcomes[outcome.key] = outcome
                with journal.open("a") as file:
                    file.write(json.dumps(asdict(outcome)) + "\n")
                kinds = sorted({f["kind"] for f in outcome.faults})
                print(
                    f"{outcome.repository} {outcome.source} {outcome.kernel}: {outcome.verdict} {outcome.why} {kinds}",
                    flush=True,
                )
        commits = {
            r["name"]: workshop.commit(r["name"])
            for r in (*recipes.repository, *recipes.triton)
            if workshop.has(r["name"])
        }
    options.out.write_text(page(sorted(outcomes.values(), key=lambda o: o.order), recipes.readings, commits, options))
    return 0


if __name__ == "__main__":
    sys.exit(main())
