"""Compare a direct search of the time model with 64 trials of the sampler. No GPU is used.

    python -m benchmarks.search.direct_search [--trials 64] [--only NAME ...]

A direct search computes the model's estimates of many schedules, and compiles only the best. Both searches call
``autosched.tune`` with a new database: the direct search with default options, the sampler with ``--trials``. Times
include set-up and full verification of the winner. CPU seconds include child processes. The emulator is already built,
and no kernel is cached. Writes ``benchmarks/results/direct_search.md`` after each problem.
Goal: the direct search finds schedules that are never slower, and takes less CPU time.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import autosched
from autosched.programs import loading
from measurements.emulator import cache_folder, check_ready
from search_spaces.operators.problem import Problem

RESULTS = Path(__file__).parents[1] / "results"
EXAMPLES = Path(__file__).parents[2] / "examples" / "programs"


@dataclass(frozen=True)
class Search:
    """Result of a search: estimated time of the best schedule, CPU seconds, and number of compiled schedules."""

    best: float
    seconds: float
    compiled: int


@dataclass(frozen=True)
class Case:
    """A problem on a GPU."""

    name: str
    device: str
    problem: Problem


def cases() -> list[Case]:
    """Return the problems and their GPUs."""
    square = {"m": 4096, "n": 4096, "k": 4096}
    program = loading.load_program(f"{EXAMPLES / 'softmax_rows.py'}:long_softmax")
    return [
        Case("matmul f16 4096^3", "h200", autosched.Matmul(**square)),
        Case("matmul e4m3 4096^3", "h200", autosched.Matmul(**square, a="e4m3", b="e4m3")),
        Case("matmul i8 4096^3", "h200", autosched.Matmul(**square, a="i8", b="i8", acc="i32", out="i32")),
        Case("matmul f16 1023x1025x1027", "h200", autosched.Matmul(m=1023, n=1025, k=1027)),
        Case("matmul f16 4096^3", "b200", autosched.Matmul(**square)),
        Case("matmul f16 4096^3", "a100", autosched.Matmul(**square)),
        Case("softmax 4096x8192", "h200", autosched.Softmax(rows=4096, columns=8192)),
        Case("reduce 4096x8192", "h200", autosched.Reduce(rows=4096, columns=8192)),
        Case("layernorm 4096x8192", "h200", autosched.LayerNorm(rows=4096, columns=8192)),
        Case("transpose 4096x4096", "h200", autosched.Transpose(rows=4096, columns=4096)),
        Case("tile program long_softmax", "h200", loading.problem(program, m=4096, n=8192)),
    ]


def searched(case: Case, trials: int | None) -> Search:
    """Run one search in a new database."""
    with tempfile.TemporaryDirectory() as folder, _only_the_emulator(Path(folder)):
        before = _cpu_seconds()
        result = autosched.tune(
            case.problem,
            trials=trials,
            device=case.device,
            backend="estimate",
            database=Path(folder) / "a.db",
            progress=False,
        )
        spent = _cpu_seconds() - before
    assert result.best is not None and result.best.seconds is not None
    return Search(result.best.seconds, spent, len(result.trials))


@contextmanager
def _only_the_emulator(folder: Path) -> Iterator[None]:
    """Use a cache in ``folder`` that contains the compiled emulator but no kernels."""
    check_ready()
    built = [path for path in cache_folder().iterdir() if path.suffix != ".program"]
    (folder / "emulator").mkdir()
    for path in built:
        (folder / "emulator" / path.name).symlink_to(path)
    before = os.environ.get("AUTOSCHED_CACHE_DIR")
    os.environ["AUTOSCHED_CACHE_DIR"] = str(folder)
    try:
        yield
    finally:
        del os.environ["AUTOSCHED_CACHE_DIR"]
        if before is not None:
            os.environ["AUTOSCHED_CACHE_DIR"] = before


def _cpu_seconds() -> float:
    used = [resource.getrusage(processes) for processes in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def report(searches: Sequence[tuple[Case, Search, Search]], trials: int) -> str:
    """Return a Markdown page."""
    lines = [
        f"# Direct search with the time model, compared with a search of {trials} trials",
        "Without a GPU, `tune` searches for schedules with short predicted times, and compiles only the best of them.",
        f"This page compares the result of this search with the best of {trials} compiled trials of the sampler.",
        "",
        f"`python -m benchmarks.search.direct_search`, {datetime.now(UTC):%Y-%m-%d}, on {os.cpu_count()} "
        f"shared {platform.machine()} cores without a GPU.",
        "Times of the best schedules are estimates of the time model, with the registers and spills of the compiled "
        "kernel.",
        "CPU seconds cover the whole search, including the full verification of the winner. No kernel was cached.",
        "",
        f"| problem | GPU | best, direct search | best, {trials} trials "
        "| CPU, direct search | CPU, trials | compiled kernels, direct search |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for case, direct, sampled in searches:
        times = f"{direct.best * 1e6:.2f} us | {sampled.best * 1e6:.2f} us"
        spent = f"{direct.seconds:.1f} s | {sampled.seconds:.1f} s | {direct.compiled}"
        lines.append(f"| {case.name} | {case.device} | {times} | {spent} |")
    worse = sum(direct.best > sampled.best * 1.001 for _, direct, sampled in searches)
    last = (
        f"In {worse} of {len(searches)} problems, the best schedule of the direct search is over 0.1% slower than the "
        "best schedule of the trials."
    )
    return "\n".join([*lines, "", last, ""])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--only", nargs="*", default=None, help="run only cases with these names or GPUs")
    options = parser.parse_args(arguments)
    searches: list[tuple[Case, Search, Search]] = []
    for case in cases():
        if options.only is not None and not {case.name, case.device} & set(options.only):
            continue
        searches.append((case, searched(case, None), searched(case, options.trials)))
        print(f"{case.name} on {case.device}: {searches[-1][1]}, {searches[-1][2]}", file=sys.stderr, flush=True)
        if options.only is None:
            (RESULTS / "direct_search.md").write_text(report(searches, options.trials), encoding="utf-8")
    print(report(searches, options.trials))
    return 0


if __name__ == "__main__":
    sys.exit(main())
