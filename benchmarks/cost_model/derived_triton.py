"""Compare work counts from the emulator with hand-written counts, for recorded Triton matmuls.

``python -m benchmarks.cost_model.derived_triton FOLDER``, where FOLDER has the recordings of AutoHeuristic
(``*_mm.txt``, see ``autoheuristic``). Triton compiles each configuration for the recorded device. The emulator counts
the work of some blocks at the true sizes, and the general time model (``launch_time``) ranks the configurations. The
result is compared with the ranking of the matmul model, which uses hand-written counts (``model_against_measured``).
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
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
from measurements.trials.measurement import Status

HEADING = (
    "| device | m n k | configurations | Spearman, derived | by hand | first choice, derived | by hand |\n"
    "|---|---|---|---|---|---|---|"
)
GOAL = 0.02  # allowed loss of Spearman's correlation
KEPT = "\n## Changes of the model\n"  # start of the page's hand-written part, which the script preserves
MOST_STEPS = 2.0e10  # maximum FLOPs of the emulated blocks, which limits the time


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
    """Matmul like torch's template. Tiles are visited in bands of GROUP rows of tiles.

    Indices of rows and columns outside of the matrix wrap around.

    Sizes are constants, as in torch. If they were arguments, Triton would assume alignment only for multiples of 16, so
    not for rows of 1000 elements.
    """
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
    """Return each configuration's seconds, estimated from the emulator's counts; infinity without counts."""
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
            kernel = compiled(function, KernelCall(grid, arguments), values, None, recorded.device, storages)
        except NotLaunched:
            seconds.append(np.inf)
            continue
        status, _, estimate = TritonEstimateRunner(recorded.device, lambda _, kernel=kernel: kernel).estimated(kernel)
        seconds.append(estimate if status is Status.OK else np.inf)
    return np.array(seconds)


@dataclass(frozen=True)
class Row:
    """Quality of the ranking of one problem's configurations, with derived and with hand-written counts.

    For each kind of counts, the row has Spearman's correlation with the recorded times, and the slowdown of the first
    choice relative to the fastest configuration.
    """

    device: str
    problem: str
    configs: int
    derived: float
    by_hand: float
    first_derived: float
    first_by_hand: float

    def cells(self) -> list[str]:
        ranks = (f"{self.derived:.3f}", f"{self.by_hand:.3f}")
        return [self.device, self.problem, str(self.configs), *ranks, *self._first()]

    def _first(self) -> tuple[str, str]:
        return f"{self.first_derived:.1%}", f"{self.first_by_hand:.1%}"


def compared(recorded: Recorded) -> Row | None:
    """Compare derived and hand-written counts for one problem.

    Returns:
        A row of the table; None if fewer than three configurations have a time predicted from derived counts.
    """
    ours, hand, seconds = derived(recorded), predicted(recorded), np.array(recorded.seconds)
    known = np.isfinite(ours)
    ours, hand, seconds = ours[known], hand[known], seconds[known]
    if len(ours) < 3:
        return None
    p = recorded.problem
    ranks = rank_correlation(ours, seconds), rank_correlation(hand, seconds)
    firsts = regret(ours, seconds), regret(hand, seconds)
    return Row(recorded.device.name, f"{p.m} {p.n} {p.k}", len(ours), *ranks, *firsts)


def median_row(rows: Sequence[Row]) -> Row:
    """Return a row with the median of each column over the rows of one device."""
    values = np.median([(r.derived, r.by_hand, r.first_derived, r.first_by_hand) for r in rows], axis=0)
    return Row(rows[0].device, f"median of {len(rows)}", sum(r.configs for r in rows), *map(float, values))


def page(by_device: Mapping[str, Sequence[Row]], command: str) -> str:
    """Return the results page without its hand-written part."""
    lines = [
        "# Work counts from the emulator compared with hand-written work counts, for Triton matmuls",
        "The time model predicts times from counts of a kernel's work, such as instructions and memory accesses.",
        "Are rankings of Triton configurations as accurate with counts from the emulator as with hand-written counts?",
        "",
        "- *Derived*: Triton compiles each configuration of torch's template for the recorded device.",
        "  The emulator executes some blocks of the compiled kernel at the problem's full sizes,",
        "  and the general time model (`cost_models/launch_time.py`) ranks the configurations.",
        "  `autosched tune --triton` ranks configurations by this method.",
        "  `autosched tune --moe` first selects some configurations by counts computed from sizes "
        "([moe_winners.md](moe_winners.md)), and then ranks these configurations by the method of `--triton`.",
        "- *By hand*: the matmul model, which uses hand-written counts.",
        "  This model was fitted to other files of the same recordings.",
        "- *First choice*: how much slower the model's first choice is than the fastest configuration.",
        "",
        f"Computed on {datetime.now(UTC):%Y-%m-%d} on {os.cpu_count()} {platform.machine()} cores without a GPU, with "
        f"Triton {triton.__version__}, on AutoHeuristic's recordings",
        "(not part of this repository, see [model_against_measured.md](model_against_measured.md)):",
        f"`{command}`.",
        "The problems are a random sample from the files to which no model was fitted.",
        "",
        HEADING,
    ]
    medians = {device: median_row(rows) for device, rows in by_device.items()}
    for device, rows in by_device.items():
        lines += [_line(row) for row in rows]
        lines.append(_line(medians[device], bold=True))
    off = {device: m.derived - m.by_hand for device, m in medians.items()}
    ratios = ", ".join(
        f"{m.derived:.3f} (hand-written counts: {m.by_hand:.3f}) on {device}" for device, m in medians.items()
    )
    reach = "reach" if min(off.values()) > -GOAL else "miss"
    further = [f"{r.problem} on {r.device} by {r.by_hand - r.derived:.3f}" for r in _further(by_device)]
    count = sum(map(len, by_device.values()))
    lines += [
        "",
        f"The goal was a rank correlation that is at most {GOAL} lower than with the hand-written counts.",
        f"The medians of these {count} problems {reach} this goal: {ratios}.",
        f"Problems that miss the goal: {', '.join(further) or 'none'}.",
    ]
    return "\n".join(lines) + "\n"


def _further(by_device: Mapping[str, Sequence[Row]]) -> list[Row]:
    return [r for rows in by_device.values() for r in rows if r.by_hand - r.derived > GOAL]


def _line(row: Row, bold: bool = False) -> str:
    device, *cells = row.cells()
    return f"| {device} | {' | '.join(f'**{c}**' if bold else c for c in cells)} |"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cost_model.derived_triton", description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of the *_mm.txt files")
    parser.add_argument("--problems", type=int, default=12, help="number of random problems per device")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="page to write")
    parsed = parser.parse_args(arguments)
    drawn: dict[str, list[Recorded]] = {}
    try:
        for path in files(parsed.folder):
            if path.stem not in FITTED:
                for recorded in read(path):
                    p = recorded.problem
                    small = p.m * p.k + p.k * p.n + p.m * p.n < 2**27 and 2.0 * 128 * 128 * p.k < MOST_STEPS
                    if comparable(recorded) and small:
                        drawn.setdefault(recorded.device.name, []).append(recorded)
    except (OSError, NotARecording) as error:
        print(f"benchmarks.cost_model.derived_triton: {error}", file=sys.stderr)
        return 2
    print(HEADING)
    by_device: dict[str, list[Row]] = {}
    for device, candidates in sorted(drawn.items()):
        for recorded in random.Random(parsed.seed).sample(candidates, min(parsed.problems, len(candidates))):
            row = compared(recorded)
            if row is not None:
                by_device.setdefault(device, []).append(row)
                print(_line(row), flush=True)
        print(_line(median_row(by_device[device]), bold=True), flush=True)
    if parsed.out is not None:
        options = f"--problems {parsed.problems} --seed {parsed.seed} --out {parsed.out}"
        _, heading, notes = parsed.out.read_text().partition(KEPT) if parsed.out.exists() else ("", "", "")
        command = f"python -m benchmarks.cost_model.derived_triton FOLDER {options}"
        parsed.out.write_text(page(by_device, command) + heading + notes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
