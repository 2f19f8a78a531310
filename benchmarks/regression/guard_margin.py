"""How far a neighbour's schedule may lie behind: ``python -m benchmarks.regression.guard_margin FOLDER``.

FOLDER holds the recordings of AutoHeuristic (``cost_model/autoheuristic.py``). Each recorded matmul in turn is one that
was not tuned: the fastest configuration of its nearest neighbours, as ``dispatch.distance`` has it, is taken if
the model predicts at most ``margin`` times what it predicts of its own choice, as ``dispatch.lookup`` does. Every
configuration's real time is known, so that what the guard lets through can be judged.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from autosched.dispatch.distance import FARTHEST, key_distance
from autosched.dispatch.lookup import MOST_TRIED
from benchmarks.cost_model.autoheuristic import NotARecording, Recorded, files, read
from benchmarks.cost_model.model_against_measured import comparable, predicted
from search_spaces.arrays import FloatArray

MARGINS = (1.0, 1.01, 1.03, 1.05, 1.1, 1.2, math.inf)


def answers(problems: Sequence[Recorded], margins: Sequence[float] = MARGINS) -> FloatArray:
    """[problem, margin]: the time of the answer over that of the model's choice; NaN where that is the answer. Problems
    without a neighbour are left out."""
    models = [predicted(recorded) for recorded in problems]
    rows = []
    for asked, model in zip(problems, models, strict=True):
        own = int(model.argmin())
        distances = [key_distance(asked.problem, other.problem.to_json()).doublings for other in problems]
        near = [i for i in np.argsort(distances, kind="stable") if 0 < distances[i] <= FARTHEST][:MOST_TRIED]
        fastest = [problems[i].configs[int(np.argmin(problems[i].seconds))] for i in near]
        there = [asked.configs.index(config) for config in fastest if config in asked.configs]
        if near:
            taken = [next((i for i in there if model[i] <= margin * model[own]), own) for margin in margins]
            rows.append([asked.seconds[i] / asked.seconds[own] if i != own else math.nan for i in taken])
    return np.array(rows, dtype=np.float64).reshape(len(rows), len(margins))


def lines(name: str, found: FloatArray) -> list[str]:
    made: list[str] = []
    if not len(found):
        return made
    for margin, ratios in zip(MARGINS, found.T, strict=True):
        taken = np.nan_to_num(ratios, nan=1.0)
        shares = [np.mean(~np.isnan(ratios)), *(np.mean(t) for t in (taken < 0.99, taken > 1.01, taken > 1.03))]
        cells = " | ".join(f"{100 * share:.1f}%" for share in shares)
        made.append(f"| {name}, {len(ratios)} | {margin:g} | {cells} | {100 * (np.mean(taken) - 1):+.2f}% |")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.regression.guard_margin", description="The guard's margin."
    )
    parser.add_argument("folder", type=Path, help="where the *_mm.txt files are")
    groups: dict[str, list[Recorded]] = {}
    try:
        for path in files(parser.parse_args(arguments).folder):
            for recorded in filter(comparable, read(path)):
                groups.setdefault(recorded.device.name, []).append(recorded)
    except (OSError, NotARecording) as error:
        print(f"benchmarks.regression.guard_margin: {error}", file=sys.stderr)
        return 2
    print(
        "| recorded on, problems | margin | neighbour's taken | over 1% faster | over 1% slower | over 3% | mean time |"
    )
    print("|---|---|---|---|---|---|---|")
    for name, problems in sorted(groups.items()):
        print("\n".join(lines(name, answers(problems))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
