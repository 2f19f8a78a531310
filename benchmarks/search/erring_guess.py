"""Searches with a guess that errs by factors, as the time model's does on a GPU, in the spaces of our own kernels.

    python -m benchmarks.search.erring_guess [--trials 150] [--repeats 10] [--families F ...] [--methods M ...]
        [--device h200]

The time of a schedule is what the analytic model says, times factors that nobody is told: one for its template, one
for each of its parameters' values, one for the two values of each of PAIRS pairs of parameters. Their logarithms are
normal, with the deviations below. Each repeat has factors of its own, the same for all methods, and 2% noise on top.
``bayes+`` is ``bayes`` with the model as its guess, ``bayes`` the same sampler without one; so with ``evolution``. The
gap is how much slower what looks fastest is than the fastest that any search of the same repeat chose. A family is as
in ``benchmarks/search/own_spaces.py``. Writes ``benchmarks/results/erring_guess.md``.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import platform
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from zlib import crc32

import numpy as np

from autosched.samplers import sampler
from autosched.samplers.first_choices.prior import AnalyticPrior
from benchmarks.search.own_spaces import families, search
from search_spaces.arrays import FloatArray
from search_spaces.catalogue import templates_for
from search_spaces.hardware.devices import device
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.template import TemplateSet

TEMPLATE, VALUE, PAIR = 0.1, 0.05, 0.05  # deviations of the logarithms of factors
PAIRS = 10
FAMILIES = ("matmul", "softmax", "matvec")
METHODS = ("bayes+", "bayes", "evolution+", "evolution", "random")
AFTER = (15, 30, 60, 100, 150)
RESULTS = Path(__file__).parents[1] / "results"

Work = tuple[str, str, int, int, str]  # family, method, seed, trials, device


def distorted(log_seconds: Callable[[Schedule], float], seed: int) -> Callable[[Schedule], float]:
    """``log_seconds`` plus the logarithms of the factors of ``seed``."""

    @cache
    def error(*key: object) -> float:
        return float(np.random.default_rng([seed, crc32(repr(key).encode())]).normal())

    @cache
    def pairs(template: str, names: tuple[str, ...]) -> list[tuple[str, str]]:
        all_pairs = list(itertools.combinations(names, 2))
        rng = np.random.default_rng([seed, crc32(template.encode())])
        return [all_pairs[i] for i in rng.permutation(len(all_pairs))[:PAIRS]]

    def changed(schedule: Schedule) -> float:
        template = schedule.template
        total = log_seconds(schedule) + TEMPLATE * error(template)
        total += VALUE * sum(error(template, name, value) for name, value in schedule.items)
        for a, b in pairs(template, tuple(schedule)):
            total += PAIR * error(template, a, schedule[a], b, schedule[b])
        return total

    return changed


def run(work: Work) -> list[float]:
    """The logarithm of the time of what looks fastest, after each trial of one search."""
    family, method, seed, trials, chip = work
    problem = families()[family]
    templates = TemplateSet([t for t in templates_for(problem, device(chip)) if t.counts is not None])
    model = AnalyticPrior(templates, problem, device(chip))

    def log_seconds(schedule: Schedule) -> float:
        return float(model.log_seconds([schedule])[0])

    space = templates.space(problem, device(chip))
    made = sampler(method.removesuffix("+"), space, seed=seed, prior=model if method.endswith("+") else None)
    found, _ = search(distorted(log_seconds, seed), made, seed, trials)
    return found + found[-1:] * (trials - len(found))


def report(found: dict[str, dict[str, FloatArray]], given: argparse.Namespace) -> str:
    """A Markdown page of the curves [repeats, trials] by family and method."""
    after = [n for n in AFTER if n <= given.trials] or [given.trials]
    lines = [
        "# Searches with a guess that errs by factors",
        "",
        f"Written by `python -m benchmarks.search.erring_guess --trials {given.trials} --repeats {given.repeats}`, "
        f"{datetime.now(UTC):%Y-%m-%d}, on {os.cpu_count()} cores ({platform.machine()}) without a GPU.",
        f"Times are those of the analytic model for {given.device}, times factors that no search knows, and 2% noise.",
        "How much slower what looks fastest is than the best that any search with the same factors chose: the mean and",
        "its standard error. With `+` a search has the model as its guess.",
        "",
        "| family | method | " + " | ".join(f"after {n}" for n in after) + " |",
        "|---|---|" + "---:|" * len(after),
    ]
    for family, curves in found.items():
        best = np.min([curve.min(axis=1) for curve in curves.values()], axis=0)
        for method, curve in curves.items():
            gaps = 100 * np.expm1(curve[:, [n - 1 for n in after]] - best[:, None])
            mean, error = gaps.mean(axis=0), gaps.std(axis=0, ddof=1) / math.sqrt(len(gaps))
            cells = [f"{m:.1f} ± {e:.1f}%" for m, e in zip(mean, error, strict=True)]
            lines.append(f"| {family} | {method} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all searches and write the page."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.search.erring_guess", description="Searches with a guess that errs by factors."
    )
    parser.add_argument("--trials", type=int, default=150)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--device", default="h200")
    parser.add_argument(
        "--families", nargs="+", default=["matmul", "softmax", "matvec"], choices=families(), metavar="F"
    )
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS, metavar="M")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = parser.parse_args(arguments)
    if given.repeats < 2 or given.trials < 1:
        print("erring_guess: a standard error needs two or more --repeats, and a search a trial", file=sys.stderr)
        return 2
    found: dict[str, dict[str, FloatArray]] = {family: {} for family in given.families}
    with ProcessPoolExecutor(given.workers) as pool:
        for family, method in itertools.product(given.families, given.methods):
            todo = [(family, method, seed, given.trials, given.device) for seed in range(given.repeats)]
            found[family][method] = np.array(list(pool.map(run, todo)))
            print(f"{family} {method}", file=sys.stderr, flush=True)
    given.results.mkdir(parents=True, exist_ok=True)
    text = report(found, given)
    (given.results / "erring_guess.md").write_text(text, encoding="utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
