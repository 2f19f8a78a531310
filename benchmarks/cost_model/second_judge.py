"""The time model beside NVIDIA's own: ``python -m benchmarks.cost_model.second_judge`` (needs autosched[judge]).

nvMatmulHeuristics proposes CUTLASS configurations of a matmul and predicts the time of each. The time model here ranks
the same ones: how alike are the two orders, and what does our first choice cost by NVIDIA's clock? Neither is a
measurement. Configurations with split k are left out, and clusters are not seen by the model here.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from autosched.samplers.first_choices import nvidia_heuristics
from benchmarks.cost_model.autoheuristic import Recorded, TritonConfig, counts
from cost_models.analytic import analyse
from cost_models.evaluation import rank_correlation, regret
from search_spaces.arrays import FloatArray
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul

SQUARE = tuple((side, side, side) for side in (1024, 2048, 3072, 4096, 6144, 8192))
MODELS = tuple((m, n, k) for n, k in ((6144, 4096), (28672, 4096), (4096, 14336)) for m in (64, 256, 1024, 4096))
MOST = 64  # configurations asked for
LEAST = 8  # of one problem that can be ranked
# GeForce products accumulate in f32 at half the rate of f16. The library predicts the same time for both: up to 127 and
# 195 TFLOP/s on the two, of 71 and 165 in their white papers.
HALVED = ("rtx3090", "rtx4090")


@dataclass(frozen=True)
class Judged:
    """One problem on one GPU: rank correlation over ``configs`` configurations, and what our first choice takes longer
    by NVIDIA's clock than its own best (0.1: 10%)."""

    problem: Matmul
    configs: int
    rank: float
    first: float
    ours: TritonConfig
    theirs: TritonConfig


def proposals(gpu: str, problem: Matmul) -> list[tuple[TritonConfig, float]]:
    """Configurations without split k, and their seconds as nvMatmulHeuristics predicts them; none where it fails."""
    try:
        asked = nvidia_heuristics.configurations(problem, gpu, MOST)
    except nvidia_heuristics.HeuristicsFailed:
        return []
    found: dict[TritonConfig, float] = {}
    for c in asked:
        if c.split_k == 1:
            config = TritonConfig(*c.tile, c.stages, c.warps)
            found[config] = min(c.seconds, found.get(config, c.seconds))
    return list(found.items())


def judge(name: str, pace: int = 1) -> list[Judged]:
    """All problems that have enough configurations, on the device ``name`` with tensor cores of ``pace`` times its
    rate."""
    row, judged = device(name), []
    rates = tuple((operand, pace * rate) for operand, rate in row.tensor_flops_per_cycle)
    chip = dataclasses.replace(row, tensor_flops_per_cycle=rates)
    for m, n, k in (*SQUARE, *MODELS):
        problem = Matmul(m, n, k, order_b="col")
        found = proposals(nvidia_heuristics.GPUS[name], problem)
        configs, seconds = tuple(config for config, _ in found), np.array([time for _, time in found])
        recorded = Recorded(problem, chip, (k, 1, 1, k), configs, (), tuple(seconds), None, ())
        shared = [_shared(problem, c) for c in configs]
        fit = [i for i, size in enumerate(shared) if size <= chip.shared_per_block]
        if len(fit) < LEAST:
            continue
        works = [counts(recorded, configs[i], own_buffers=True) for i in fit]
        guess: FloatArray = analyse(works, chip).seconds
        seconds, kept = seconds[fit], [configs[i] for i in fit]
        judged.append(
            Judged(
                problem,
                len(fit),
                rank_correlation(guess, seconds),
                regret(guess, seconds),
                kept[int(guess.argmin())],
                kept[int(seconds.argmin())],
            )
        )
    return judged


def _shared(problem: Matmul, config: TritonConfig) -> int:
    """Bytes of all stages: unlike Triton's, each of CUTLASS's has a buffer of its own, so that loads need not wait for
    the arithmetic of their step."""
    return prod((problem.input_dtype.bytes, config.block_k, config.block_m + config.block_n, config.stages))


def _text(config: TritonConfig) -> str:
    tile = f"{config.block_m}x{config.block_n}x{config.block_k}"
    return f"{tile}, {config.stages} stages, {config.warps} warps"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cost_model.second_judge", description=__doc__)
    parser.parse_args(arguments)
    if not nvidia_heuristics.installed():
        print("benchmarks.cost_model.second_judge: pip install nvidia-matmul-heuristics", file=sys.stderr)
        return 2
    rows = {name: judge(name) for name in nvidia_heuristics.GPUS}
    rows.update({f"{name}, at the rate of f16": judge(name, 2) for name in HALVED})
    if not all(rows.values()):
        print("benchmarks.cost_model.second_judge: nvMatmulHeuristics proposes too few configurations", file=sys.stderr)
        return 2
    print("| GPU | problems | Spearman, median | 10th percentile | our first choice, median | 90th |")
    print("|---|---|---|---|---|---|")
    for name, judged in rows.items():
        rank, first = np.array([(j.rank, j.first) for j in judged]).T
        print(
            f"| {name} | {len(judged)} | {np.median(rank):.2f} | {np.quantile(rank, 0.1):.2f} | "
            f"{100 * np.median(first):.1f}% | {100 * np.quantile(first, 0.9):.1f}% |"
        )
    print("\n| GPU | problem | by its clock | our choice | its choice |")
    print("|---|---|---|---|---|")
    for name, judged in rows.items():
        for j in sorted(judged, key=lambda j: -j.first)[:3]:
            size = f"{j.problem.m}x{j.problem.n}x{j.problem.k}"
            print(f"| {name} | {size} | +{100 * j.first:.0f}% | {_text(j.ours)} | {_text(j.theirs)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
