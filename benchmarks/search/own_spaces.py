"""Run the default search in the spaces of the built-in templates. The time model replaces the GPU.

    python -m benchmarks.search.own_spaces [--trials 300] [--reference 20000] [--repeats 3] [--device h200]
        [--families F ...]

The measured time of a schedule is the time model's estimate with 2% random noise; the sampler does not use the model.
The reference is the schedule with the shortest time without noise, among ``--reference`` random schedules and the
schedules of all searches. A family is an operator, represented by its first problem in ``benchmarks/gpu/problems.py``.
Families without cost counts are skipped. Goal: the search's schedule is at most 2% slower than the reference. Writes
``benchmarks/results/own_spaces.md``.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from autosched.samplers import DEFAULT, Sampler, sampler
from benchmarks.gpu.problems import matmuls, other_problems
from cost_models.estimates import AnalyticEstimates
from measurements.trials.measurement import Measurement, Provenance, Status, Timing
from search_spaces.catalogue import templates_for
from search_spaces.hardware.devices import Device, device
from search_spaces.operators.problem import Problem
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.template import TemplateSet

NOISE = 0.02
GOAL = 0.02
RESULTS = Path(__file__).parents[1] / "results"
_PART = 1000  # number of random schedules whose times are estimated in one call


@dataclass(frozen=True)
class Family:
    """Results for a family of problems.

    ``gaps`` lists how much slower the choice of each search is than the reference (0.1: 10%). ``seconds`` is the
    sampler's CPU time per proposal.
    """

    name: str
    problem: Problem
    schedules: int
    gaps: tuple[float, ...]
    seconds: float

    @property
    def gap(self) -> float:
        return statistics.median(self.gaps)


def families() -> dict[str, Problem]:
    """Return the first problem of each operator."""
    by_operator: dict[str, Problem] = {"matmul": matmuls()[0][1]}
    for name, problem in other_problems():
        if not isinstance(problem, str):
            by_operator.setdefault(name, problem)
    return by_operator


def run(name: str, problem: Problem, chip: Device, trials: int, reference: int, repeats: int) -> Family | None:
    """Search one family. Return None if no template has cost counts, which the time model needs for an estimate."""
    templates = TemplateSet([t for t in templates_for(problem, chip) if t.counts is not None])
    if not len(templates):
        return None
    space = templates.space(problem, chip)
    model = AnalyticEstimates(problem, templates, chip)
    random = space.sample(reference, 10**6)
    best = min(float(model.log_seconds(random[i : i + _PART]).min()) for i in range(0, len(random), _PART))
    chosen, spent = [], 0.0

    def log_seconds(schedule: Schedule) -> float:
        return float(model.log_seconds([schedule])[0])

    for seed in range(repeats):
        best_found, own = search(log_seconds, sampler(DEFAULT, space, seed=seed), seed, trials)
        chosen.append(best_found[-1])
        spent += own
    best = min(best, *chosen)
    gaps = tuple(math.exp(best_found - best) - 1.0 for best_found in chosen)
    return Family(name, problem, space.count(), gaps, spent / (repeats * trials))


def search(
    log_seconds: Callable[[Schedule], float], searcher: Sampler, seed: int, trials: int
) -> tuple[list[float], float]:
    """Return the noise-free ``log_seconds`` of the best measured schedule after each trial, and CPU seconds.

    CPU seconds are the seconds that the sampler takes. A schedule with infinite time is reported as a failure. Other
    times are reported with noise.
    """
    rng = np.random.default_rng([seed, 1])
    fastest, spent = math.inf, 0.0
    chosen = [math.inf]
    for _ in range(trials):
        began = time.process_time()
        proposals = searcher.ask(1)
        spent += time.process_time() - began
        if not proposals:
            break
        true = log_seconds(proposals[0])
        chosen.append(chosen[-1])
        result = Measurement(Status.LAUNCH_ERROR, Provenance.ESTIMATED, reason="does not fit on the device")
        if math.isfinite(true):
            seconds = math.exp(true) * math.exp(NOISE * rng.normal())
            result = Measurement(Status.OK, Provenance.ESTIMATED, timing=Timing.of([seconds]))
            if seconds < fastest:
                fastest, chosen[-1] = seconds, true
        began = time.process_time()
        searcher.tell(proposals[0], result)
        spent += time.process_time() - began
    return chosen[1:], spent


def report(results: Sequence[Family], trials: int, reference: int, repeats: int, chip: str) -> str:
    """Return a Markdown page."""
    lines = [
        "# Searches in autosched's own spaces",
        f"`python -m benchmarks.search.own_spaces --trials {trials} --reference {reference} --repeats {repeats}`, "
        f"{datetime.now(UTC):%Y-%m-%d}, on {os.cpu_count()} {platform.machine()} cores without a GPU.",
        f"Times are estimates of the time model for {chip} with {NOISE:.0%} noise. The sampler does not use the model.",
        "A row is one operator (family), represented by one problem.",
        f"The *gap* is how much slower the best schedule after {trials} trials is than the best known schedule.",
        f"The best known schedule is the best one among {reference:,} random schedules and the schedules of all "
        "searches.",
        "",
        "| family | problem | schedules | median gap | worst | CPU time per proposal |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for f in results:
        numbers = f"{f.schedules:.1e} | {100 * f.gap:.1f}% | {100 * max(f.gaps):.1f}% | {1e3 * f.seconds:.0f} ms"
        lines.append(f"| {f.name} | {f.problem} | {numbers} |")
    reached = sum(f.gap <= GOAL for f in results)
    last = f"The median gap is at most {100 * GOAL:.0f}% in {reached} of {len(results)} families."
    return "\n".join([*lines, "", last, ""])


def main(arguments: Sequence[str] | None = None) -> int:
    """Search the space of every family and write the page."""
    known = families()
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.search.own_spaces", description="Searches in autosched's own spaces."
    )
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--reference", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--device", default="h200")
    parser.add_argument("--families", nargs="+", default=list(known), choices=known, metavar="F")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    results: list[Family] = []
    for name in options.families:
        family = run(name, known[name], device(options.device), options.trials, options.reference, options.repeats)
        if family is None:
            print(f"own_spaces: {name} has no cost counts", file=sys.stderr)
            continue
        results.append(family)
        text = report(results, options.trials, options.reference, options.repeats, options.device)
        options.results.mkdir(parents=True, exist_ok=True)
        (options.results / "own_spaces.md").write_text(text, encoding="utf-8")
        print(f"{name}: {100 * family.gap:.1f}%", file=sys.stderr, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
