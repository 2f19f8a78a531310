"""Derived counts against counts written by hand, on recorded Triton matmuls: ``python -m ... derived_triton FOLDER``.

FOLDER holds the recordings of AutoHeuristic (``*_mm.txt``, see ``autoheuristic``); nothing is fetched. Each
configuration of a matmul is compiled by Triton for the recorded device, some of its blocks are emulated at the true
sizes, and the general time model (``launch_time``) ranks them: it knows nothing of matmuls. Beside it, the model of
matmuls with its hand-written counts (``model_against_measured``), on the same problems and configurations.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
import triton
import triton.language as tl

from autosched.triton.storages import Storages
from autosched.triton.tuning.call import KernelCall
from autosched.triton.tuning.compiling.candidate import NotLaunched, compiled
from autosched.triton.tuning.function import TritonFunction
from autosched.triton.tuning.runner import TritonEstimateRunner
from benchmarks.cost_model.autoheuristic import NotARecording, Recorded, files, read
from benchmarks.cost_model.model_against_measured import FITTED, comparable, predicted
from cost_models.trees.evaluation import rank_correlation, regret
from measurements.records.measurement import Status

MOST_STEPS = 2.0e10  # flops of the blocks of a column: what longer ones cost is many seconds of emulation


@triton.jit
def grouped_matmul(
    a,
    b,
    c,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    EVEN: tl.constexpr,
    GROUP: tl.constexpr,
):
    """As torch's template computes it: bands of GROUP rows of tiles, rows and columns that wrap around. Sizes
    are constants, as there: 1000 is no multiple of 16, of which alone Triton would know that a row is aligned."""
    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    block = tl.program_id(0)
    band = block // (GROUP * tiles_n)
    rows_of_band = min(tiles_m - band * GROUP, GROUP)
    tile_m = band * GROUP + block % rows_of_band
    tile_n = (block % (GROUP * tiles_n)) // rows_of_band
    rows = tile_m * BM + tl.arange(0, BM)
    columns = tile_n * BN + tl.arange(0, BN)
    at_m = tl.max_contiguous(tl.multiple_of(rows % M, BM), BM)
    at_n = tl.max_contiguous(tl.multiple_of(columns % N, BN), BN)
    k = tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(0, tl.cdiv(K, BK)):
        left = K - step * BK
        if EVEN:
            x = tl.load(a + at_m[:, None] * K + (step * BK + k)[None, :])
            y = tl.load(b + (step * BK + k)[:, None] * N + at_n[None, :])
        else:
            x = tl.load(a + at_m[:, None] * K + (step * BK + k)[None, :], mask=k[None, :] < left, other=0.0)
            y = tl.load(b + (step * BK + k)[:, None] * N + at_n[None, :], mask=k[:, None] < left, other=0.0)
        total += tl.dot(x, y)
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c + rows[:, None] * N + columns[None, :], total.to(c.dtype.element_ty), mask=inside)


def derived(recorded: Recorded) -> np.ndarray:
    """Seconds of each configuration by derived counts; infinite where there are none."""
    p = recorded.problem
    dtype = torch.float16 if p.a == "f16" else torch.bfloat16
    a, b = (torch.ones(shape, dtype=dtype) for shape in ((p.m, p.k), (p.k, p.n)))
    c = torch.zeros(p.m, p.n, dtype=dtype)
    function, storages = TritonFunction.of(grouped_matmul), Storages()
    arguments = {"a": a, "b": b, "c": c, "M": p.m, "N": p.n, "K": p.k, "GROUP": 8}
    seconds = []
    for config in recorded.configs:
        values = {"BM": config.block_m, "BN": config.block_n, "BK": config.block_k, "EVEN": p.k % config.block_k == 0}
        values |= {"num_warps": config.warps, "num_stages": config.stages}
        grid = (-(-p.m // config.block_m) * -(-p.n // config.block_n),)
        try:
            made = compiled(function, KernelCall(grid, arguments), values, None, recorded.device, storages)
        except NotLaunched:
            seconds.append(np.inf)
            continue
        status, _, found = TritonEstimateRunner(recorded.device, lambda _, made=made: made).estimated(made)
        seconds.append(found if status is Status.OK else np.inf)
    return np.array(seconds)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cost_model.derived_triton", description=__doc__)
    parser.add_argument("folder", type=Path, help="where the *_mm.txt files are")
    parser.add_argument("--problems", type=int, default=12, help="of each device, drawn from the judging files")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    by_device: dict[str, list[Recorded]] = {}
    try:
        for path in files(given.folder):
            if path.stem not in FITTED:
                for recorded in read(path):
                    p = recorded.problem
                    small = p.m * p.k + p.k * p.n + p.m * p.n < 2**27 and 2.0 * 128 * 128 * p.k < MOST_STEPS
                    if comparable(recorded) and small:
                        by_device.setdefault(recorded.device.name, []).append(recorded)
    except (OSError, NotARecording) as error:
        print(f"benchmarks.cost_model.derived_triton: {error}", file=sys.stderr)
        return 2
    print("| device | m n k | configurations | Spearman, derived | by hand | first choice, derived | by hand |")
    print("|---|---|---|---|---|---|---|")
    for device, found in sorted(by_device.items()):
        rows = []
        for recorded in random.Random(given.seed).sample(found, min(given.problems, len(found))):
            ours, hand, seconds = derived(recorded), predicted(recorded), np.array(recorded.seconds)
            known = np.isfinite(ours)
            ours, hand, seconds = ours[known], hand[known], seconds[known]
            if len(ours) < 3:
                continue
            ranks = rank_correlation(ours, seconds), rank_correlation(hand, seconds)
            rows.append((*ranks, regret(ours, seconds), regret(hand, seconds)))
            p = recorded.problem
            a, b, c, d = rows[-1]
            print(f"| {device} | {p.m} {p.n} {p.k} | {len(ours)} | {a:.3f} | {b:.3f} | {c:.1%} | {d:.1%} |", flush=True)
        a, b, c, d = np.median(np.array(rows), axis=0)
        print(
            f"| {device} | **median of {len(rows)}** | | **{a:.3f}** | **{b:.3f}** | **{c:.1%}** | **{d:.1%}** |",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
