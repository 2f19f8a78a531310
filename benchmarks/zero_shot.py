"""Times of problems that were never measured, foretold from others: ``python -m benchmarks.zero_shot FOLDER``.

FOLDER holds the recordings of AutoHeuristic (``*_mm.txt``, see ``benchmarks/autoheuristic.py``); nothing is fetched.
Models learn from ``a100_mm.txt`` and ``h100_mm.txt`` and are judged on the problems of the other files that are not in
these: the analytic model alone, trees that learn time over the best of the problem, and trees that correct the
analytic time, as ``autosched train`` makes them. Where PyTorch is installed, its own learned trees are judged too
(``benchmarks/torch_trees.py``), and all models on the problems of which these name at least one recorded configuration.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.autoheuristic import NotARecording, Recorded, files, read, split, table
from benchmarks.torch_trees import order
from cost_models.boosted import BoostedModel, Settings
from cost_models.evaluation import rank_correlation, regret
from cost_models.features import FeatureTable
from cost_models.trained_model import CORRECTED
from search_spaces.arrays import FloatArray

LEARNED = ("a100_mm", "h100_mm")

Predict = Callable[[Recorded, FeatureTable], FloatArray]


@dataclass(frozen=True)
class Figures:
    """Over ``problems``: mean rank correlation, and mean and median of how much slower than the best the first choice
    is, and the mean for the best of the first ten."""

    problems: int
    spearman: float
    first: float
    first_median: float
    first_ten: float


def judge(predict: Predict, problems: Sequence[tuple[Recorded, FeatureTable]]) -> Figures:
    guesses = [predict(recorded, features) for recorded, features in problems]
    seconds = [recorded.seconds for recorded, _ in problems]
    first = [regret(g, s) for g, s in zip(guesses, seconds, strict=True)]
    return Figures(
        problems=len(problems),
        spearman=float(np.mean([rank_correlation(g, s) for g, s in zip(guesses, seconds, strict=True)])),
        first=float(np.mean(first)),
        first_median=float(np.median(first)),
        first_ten=float(np.mean([regret(g, s, 10) for g, s in zip(guesses, seconds, strict=True)])),
    )


def learned(problems: Sequence[tuple[Recorded, FeatureTable]], corrects: str | None, settings: Settings) -> Predict:
    """A model of all of these, and how it predicts."""
    names = problems[0][1].names
    matrix = np.concatenate([features.values for _, features in problems])
    seconds = np.concatenate([recorded.seconds for recorded, _ in problems])
    groups = np.repeat(np.arange(len(problems)), [len(recorded.seconds) for recorded, _ in problems])
    model = BoostedModel.fit(matrix, seconds, groups, names=names, settings=settings, corrects=corrects)
    return lambda _, features: model.predict(features.values)


def known_order(found: FloatArray | None) -> FloatArray:
    """The order of a problem that is judged."""
    assert found is not None
    return found


def report(by_file: dict[str, list[Recorded]], settings: Settings) -> list[str]:
    """The lines of a Markdown table."""
    known = [r for name, recorded in by_file.items() if name in LEARNED for r in recorded]
    training = [(r, table(r)) for r in known]
    judged = {
        name: [(r, table(r)) for r in split(known, recorded)]
        for name, recorded in by_file.items()
        if name not in LEARNED
    }
    models: dict[str, Predict] = {
        "analytic model alone": lambda _, features: features[CORRECTED].astype(np.float64),
        "trees, time over the best": learned(training, None, settings),
        "trees that correct the analytic model": learned(training, CORRECTED, settings),
    }
    lines = [f"Learned from {len(training)} problems ({', '.join(LEARNED)})."]
    if (torch_trees := order()) is None:
        lines.append("PyTorch is not installed: its trees are not judged.")
    else:
        orders = {id(r): torch_trees(r) for problems in judged.values() for r, _ in problems}
        models["PyTorch's learned trees"] = lambda recorded, _: known_order(orders[id(recorded)])
        named = {name: [(r, f) for r, f in problems if orders[id(r)] is not None] for name, problems in judged.items()}
        left_out = sum(map(len, judged.values())) - sum(map(len, named.values()))
        lines.append(f"PyTorch's trees name no recorded configuration of {left_out} problems, which are left out.")
        judged = named
    lines += [
        "",
        "| judged on | problems | model | Spearman | first choice, mean | median | best of ten, mean |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, problems in judged.items():
        for model, predict in models.items():
            f = judge(predict, problems)
            figures = (
                f"{f.spearman:.3f} | {100 * f.first:.1f}% | {100 * f.first_median:.1f}% | {100 * f.first_ten:.2f}%"
            )
            lines.append(f"| {name} | {f.problems} | {model} | {figures} |")
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.zero_shot", description="Foretell unmeasured times.")
    parser.add_argument("folder", type=Path, help="with the recordings (*_mm.txt)")
    parser.add_argument("--rounds", type=int, default=300, help="trees at most")
    given = parser.parse_args(arguments)
    try:
        by_file = {path.name.removesuffix(".txt"): read(path) for path in files(given.folder)}
        if not set(LEARNED) <= set(by_file) or set(by_file) == set(LEARNED):
            raise NotARecording(f"{given.folder} needs {' and '.join(LEARNED)} to learn from, and others to judge on")
    except (NotARecording, OSError) as error:
        print(f"zero_shot: {error}", file=sys.stderr)
        return 2
    print("\n".join(report(by_file, Settings(rounds=given.rounds, threads=2))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
