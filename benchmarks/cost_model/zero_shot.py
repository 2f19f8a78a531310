"""Times of unmeasured problems, foretold from others: ``python -m benchmarks.cost_model.zero_shot FOLDER``.

FOLDER holds the recordings of AutoHeuristic (``*_mm.txt``, see ``autoheuristic``); nothing is fetched.
Models learn from ``a100_mm.txt`` and ``h100_mm.txt`` and are judged on the problems of the other files that are not in
these: the analytic model alone, trees that learn time over the best of the problem, and trees that correct the
analytic time, as ``autosched train`` makes them. Where Triton is installed, every configuration is compiled
(``compiled_triton``), and both kinds of trees are also grown with features of the machine code: the first
from these, the problem, the device and the grid of the launch alone, which any kernel has. Where PyTorch is installed,
its own learned trees are judged too (``torch_trees``), and all models on the problems of which these name
at least one recorded configuration.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.cost_model.autoheuristic import NotARecording, Recorded, files, read, split, table
from benchmarks.cost_model.compiled_triton import COLUMNS, Build, all_features, builds, columns, installed
from benchmarks.cost_model.torch_trees import order
from cost_models.boosted import BoostedModel, Matrix, Settings
from cost_models.evaluation import rank_correlation, regret
from cost_models.features import FeatureTable
from cost_models.trained_model import CORRECTED
from measurements.compiler.disassembly import DisassemblerMissing
from measurements.files.cache_folder import CacheUnusable, cache_root
from search_spaces.arrays import FloatArray

LEARNED = ("a100_mm", "h100_mm")
_OF_ANY_KERNEL = ("problem.", "device.", "triton.tiles_")  # the last: the grid of a launch


@dataclass(frozen=True)
class Case:
    """A recorded matmul, the features of its configurations, and those of their ``code``, NaN where it is unknown."""

    recorded: Recorded
    features: FeatureTable
    code: Matrix

    def seen(self, by: str) -> tuple[tuple[str, ...], Matrix]:
        """Names and values of what a model learns from: "counts", "code" or "both"."""
        names, values = self.features.names, self.features.values
        if by == "counts":
            return names, values
        if by == "code":
            kept = [i for i, name in enumerate(names) if name.startswith(_OF_ANY_KERNEL)]
            names, values = tuple(names[i] for i in kept), values[:, kept]
        return (*names, *COLUMNS), np.concatenate([values, self.code], axis=1)


Predict = Callable[[Case], FloatArray]


@dataclass(frozen=True)
class Figures:
    """Over ``problems``: mean rank correlation, and mean and median of how much slower than the best the first choice
    is, and the mean for the best of the first ten."""

    problems: int
    spearman: float
    first: float
    first_median: float
    first_ten: float


def judge(predict: Predict, cases: Sequence[Case]) -> Figures:
    guesses = [predict(case) for case in cases]
    seconds = [case.recorded.seconds for case in cases]
    first = [regret(g, s) for g, s in zip(guesses, seconds, strict=True)]
    return Figures(
        problems=len(cases),
        spearman=float(np.mean([rank_correlation(g, s) for g, s in zip(guesses, seconds, strict=True)])),
        first=float(np.mean(first)),
        first_median=float(np.median(first)),
        first_ten=float(np.mean([regret(g, s, 10) for g, s in zip(guesses, seconds, strict=True)])),
    )


def learned(cases: Sequence[Case], by: str, corrects: str | None, settings: Settings) -> Predict:
    """A model of all of these that sees ``by`` (``Case.seen``), and how it predicts."""
    names, _ = cases[0].seen(by)
    matrix = np.concatenate([case.seen(by)[1] for case in cases])
    seconds = np.concatenate([case.recorded.seconds for case in cases])
    groups = np.repeat(np.arange(len(cases)), [len(case.recorded.seconds) for case in cases])
    model = BoostedModel.fit(matrix, seconds, groups, names=names, settings=settings, corrects=corrects)
    return lambda case: model.predict(case.seen(by)[1])


def known_order(found: FloatArray | None) -> FloatArray:
    """The order of a problem that is judged."""
    assert found is not None
    return found


def report(
    by_file: dict[str, list[Recorded]], settings: Settings, code: dict[Build, dict[str, float | None]]
) -> list[str]:
    """The lines of a Markdown table; ``code``: features of compiled configurations, none without Triton."""

    def case(recorded: Recorded) -> Case:
        return Case(recorded, table(recorded), columns(recorded, code))

    known = [r for name, recorded in by_file.items() if name in LEARNED for r in recorded]
    training = [case(r) for r in known]
    judged = {name: [case(r) for r in split(known, rest)] for name, rest in by_file.items() if name not in LEARNED}
    models: dict[str, Predict] = {
        "analytic model alone": lambda case: case.features[CORRECTED].astype(np.float64),
        "trees, time over the best": learned(training, "counts", None, settings),
        "trees that correct the analytic model": learned(training, "counts", CORRECTED, settings),
    }
    lines = [f"Learned from {len(training)} problems ({', '.join(LEARNED)})."]
    if code:
        models["trees over compiled code, time over the best"] = learned(training, "code", None, settings)
        models["trees that correct the analytic model, with compiled code"] = learned(
            training, "both", CORRECTED, settings
        )
        rows = [case.code for cases in judged.values() for case in cases]
        missing = float(np.mean(np.isnan(np.concatenate(rows)).all(axis=1)))
        lines.append(f"{len(code)} builds by Triton; {100 * missing:.1f}% of judged configurations are not compiled.")
    else:
        lines.append("Triton is not installed: features of compiled code are not judged.")
    if (torch_trees := order()) is None:
        lines.append("PyTorch is not installed: its trees are not judged.")
    else:
        orders = {id(c.recorded): torch_trees(c.recorded) for cases in judged.values() for c in cases}
        models["PyTorch's learned trees"] = lambda case: known_order(orders[id(case.recorded)])
        named = {name: [c for c in cases if orders[id(c.recorded)] is not None] for name, cases in judged.items()}
        left_out = sum(map(len, judged.values())) - sum(map(len, named.values()))
        lines.append(f"PyTorch's trees name no recorded configuration of {left_out} problems, which are left out.")
        judged = named
    lines += [
        "",
        "| judged on | problems | model | Spearman | first choice, mean | median | best of ten, mean |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, cases in judged.items():
        for model, predict in models.items():
            f = judge(predict, cases)
            figures = (
                f"{f.spearman:.3f} | {100 * f.first:.1f}% | {100 * f.first_median:.1f}% | {100 * f.first_ten:.2f}%"
            )
            lines.append(f"| {name} | {f.problems} | {model} | {figures} |")
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.cost_model.zero_shot", description="Foretell unmeasured times."
    )
    parser.add_argument("folder", type=Path, help="with the recordings (*_mm.txt)")
    parser.add_argument("--rounds", type=int, default=300, help="trees at most")
    parser.add_argument("--cache", type=Path, help="where features of compiled code are kept (the user's cache)")
    parser.add_argument("--workers", type=int, default=2, help="processes that compile")
    parser.add_argument("--builds", type=int, help="compile at most so many, the ones of most recorded times")
    given = parser.parse_args(arguments)
    try:
        by_file = {path.name.removesuffix(".txt"): read(path) for path in files(given.folder)}
        if not set(LEARNED) <= set(by_file) or set(by_file) == set(LEARNED):
            raise NotARecording(f"{given.folder} needs {' and '.join(LEARNED)} to learn from, and others to judge on")
        code: dict[Build, dict[str, float | None]] = {}
        if installed():
            wanted = builds((r for recorded in by_file.values() for r in recorded), given.builds)
            code = all_features(wanted, given.cache or cache_root() / "compiled-triton", given.workers)
    except (NotARecording, OSError, CacheUnusable, DisassemblerMissing) as error:
        print(f"zero_shot: {error}", file=sys.stderr)
        return 2
    print("\n".join(report(by_file, Settings(rounds=given.rounds, threads=2), code)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
