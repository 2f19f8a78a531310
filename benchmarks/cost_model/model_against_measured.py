"""Compare the time model with measured matmuls: ``python -m benchmarks.cost_model.model_against_measured FOLDER``.

FOLDER has the recordings of AutoHeuristic (``*_mm.txt``, see ``autoheuristic``). The model's constants may only be
fitted to ``a100_mm.txt`` and ``h100_mm.txt``; the other files serve for evaluation. f16 and bf16 matmuls of contiguous
operands are evaluated if n and k are multiples of 8. The recorder timed one launch at a time.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from benchmarks.cost_model.autoheuristic import NotARecording, Recorded, counts, files, read
from cost_models.analytic import LAUNCH_SECONDS, analyse
from cost_models.trees.evaluation import rank_correlation, regret
from search_spaces.arrays import FloatArray
from search_spaces.hardware.costs.cost_counts import CostCounts
from search_spaces.hardware.devices import Device
from search_spaces.operators.matmul import Matmul

FITTED = ("a100_mm", "h100_mm")
# Constants that describe the recording machines, not the kind of GPU. They were fitted to the files FITTED.
ALONE_SECONDS = {"a100": 6.8e-6, "h100": 4.4e-6}  # time of an empty kernel between two events
# Sustained f16 FLOP/s within the power limit. In the files FITTED, cuBLAS reaches at most 249 TFLOP/s on the A100 and
# 693 TFLOP/s on the H100; other sources report more. Between two launches, the recorder clears L2 by writing 256 MB.
# During these writes, the GPU does no arithmetic for about 120 us.
SUSTAINED_FLOPS = {"a100": 252e12, "h100": 820e12}
REST_SECONDS = 57e-6
BF16_ENERGY = 0.915  # energy of a bf16 FLOP relative to an f16 FLOP; bf16 significands have 8 bits, f16 significands 11
# GPUs that do no other work while they write a result that does not fit in L2. Observed only on H100; the cause is
# unknown.
WRITES_WAIT = ("h100",)
# p of the p-norm that combines the time at the power limit with the time without this limit; assumed, not fitted
SHARPNESS = 4.0
# Limits in seconds. Each column of the second table has the problems whose fastest time is between two limits.
BRACKETS = (0.0, 10e-6, 20e-6, 50e-6, 200e-6, float("inf"))


@dataclass(frozen=True)
class Judged:
    """Quality of the model on n problems. Each array has shape [n].

    - ``rank``: rank correlation of predicted and measured times.
    - ``first``: regret of the model's first choice (0.1: 10% slower than the fastest configuration).
    - ``first_five``: regret of the best of the model's first five choices.
    - ``ratio``: predicted divided by measured time of the fastest configuration.
    - ``best``: measured seconds of the fastest configuration.

    Configurations with equal predictions are ordered slowest first.
    """

    rank: FloatArray
    first: FloatArray
    first_five: FloatArray
    ratio: FloatArray
    best: FloatArray


def comparable(recorded: Recorded) -> bool:
    """Return True if this matmul is part of the evaluation."""
    p = recorded.problem
    contiguous = recorded.strides == (p.k, 1, p.n, 1)
    return p.a in ("f16", "bf16") and contiguous and p.n % 8 == 0 and p.k % 8 == 0


def predicted(recorded: Recorded) -> FloatArray:
    """Predict the time of each configuration in seconds.

    Like a recorded time, a predicted time extends from an event before the launch to an event after the launch.
    """
    return as_recorded(recorded.problem, recorded.device, [counts(recorded, c) for c in recorded.configs])


def as_recorded(problem: Matmul, chip: Device, works: Sequence[CostCounts]) -> FloatArray:
    """Predict the seconds of kernels for ``problem``, launched as the recorder launched Triton's kernels."""
    # without the power limit, which is applied below
    analysis = analyse(works, dataclasses.replace(chip, sustained_clock_hz=0.0))
    free = analysis.seconds - LAUNCH_SECONDS
    if chip.name in WRITES_WAIT:
        written = max(0, problem.m * problem.n * problem.out_dtype.bytes - chip.l2_bytes) / chip.dram_bandwidth
        free = free + np.minimum(written, analysis.sm_seconds)
    energy = BF16_ENERGY if problem.a == "bf16" else 1.0
    sustained = energy * np.array([work.flops * work.blocks for work in works]) / SUSTAINED_FLOPS[chip.name]
    limited = sustained * free / (free + REST_SECONDS)
    seconds: FloatArray = (free**SHARPNESS + limited**SHARPNESS) ** (1 / SHARPNESS) + ALONE_SECONDS[chip.name]
    return seconds


def judge(problems: Sequence[Recorded]) -> Judged:
    rows = []
    for recorded in problems:
        guess, seconds = predicted(recorded), np.array(recorded.seconds)
        fastest = int(seconds.argmin())
        ratio, best = guess[fastest] / seconds[fastest], seconds[fastest]
        rows.append((rank_correlation(guess, seconds), regret(guess, seconds), regret(guess, seconds, 5), ratio, best))
    return Judged(*np.array(rows, dtype=np.float64).T)


def lines(name: str, judged: Judged) -> list[str]:
    """Return a row of the first table and a row of the second table."""
    first = (
        f"| {name} | {len(judged.best)} | {np.median(judged.rank):.3f} | {np.quantile(judged.rank, 0.1):.3f} | "
        f"{100 * np.median(judged.first):.1f}% | {100 * np.quantile(judged.first, 0.9):.1f}% | "
        f"{100 * np.quantile(judged.first_five, 0.9):.1f}% |"
    )
    cells = []
    for low, high in pairwise(BRACKETS):
        ratio = judged.ratio[(judged.best >= low) & (judged.best < high)]
        near = np.mean((ratio > 0.85) & (ratio < 1.15)) if len(ratio) else 0.0
        cells.append(f"{np.median(ratio):.2f}, {100 * near:.0f}% of {len(ratio)}" if len(ratio) else "-")
    return [first, f"| {name} | " + " | ".join(cells) + " |"]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cost_model.model_against_measured", description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of the *_mm.txt files")
    folder = parser.parse_args(arguments).folder
    groups: dict[str, list[Recorded]] = {}
    try:
        for path in files(folder):
            comparable_problems = [recorded for recorded in read(path) if comparable(recorded)]
            for recorded in comparable_problems:
                use = "fitted" if path.stem in FITTED else "judging"
                groups.setdefault(f"{recorded.device.name}, {use}", []).append(recorded)
    except (OSError, NotARecording) as error:
        print(f"benchmarks.cost_model.model_against_measured: {error}", file=sys.stderr)
        return 2
    if not groups:
        print("benchmarks.cost_model.model_against_measured: no recorded matmul is comparable", file=sys.stderr)
        return 2
    tables = [lines(name, judge(problems)) for name, problems in sorted(groups.items())]
    print(
        "| problems | count | Spearman, median | 10th percentile | first choice, median | 90th percentile "
        "| best of five, 90th percentile |"
    )
    print("|---|---|---|---|---|---|---|")
    print("\n".join(first for first, _ in tables))
    print(
        "\nThe ratio of predicted to measured time of the fastest configuration, for ranges of the measured time.\n"
        "Each cell has the median ratio, and the share of problems whose ratio is within 15% of 1.\n"
    )
    print("| problems | under 10 us | 10-20 us | 20-50 us | 50-200 us | longer |")
    print("|---|---|---|---|---|---|")
    print("\n".join(second for _, second in tables))
    return 0


if __name__ == "__main__":
    sys.exit(main())
