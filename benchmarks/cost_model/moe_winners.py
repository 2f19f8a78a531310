"""Compute the time model's ranks of the MoE configurations that were the fastest on GPUs.

``python -m benchmarks.cost_model.moe_winners VLLM SGLANG --out PAGE`` takes the folders of configurations of an
installed vLLM and SGLang, whose tuners have the same space. Files that are only for the second matmul (``_down``) are
skipped. Each entry of a file was the fastest of up to 1,920 configurations. An entry's percentile is the share of the
space's valid configurations that the model ranks before it. The first choice has the percentile 0, and random ranking
gives 50 on average. The files lack the hidden size and top-k. If a public model with the same number of experts and
intermediate size is known, its hidden size and top-k are used, else 4096 and 8.
"""

from __future__ import annotations

import argparse
import itertools
import os
import platform
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

from autosched.integrations.config_files.file_names import Format
from autosched.integrations.config_files.files import read_folder
from autosched.integrations.config_files.layer import Layer
from autosched.integrations.config_files.tuning.layer_counts import SPACE, estimated_seconds, tuner_space

# Hidden size and top-k of public models, by number of experts and intermediate size. An intermediate size of 0 matches
# all sizes that are not listed.
MODELS = {
    (8, 14336): (4096, 2), (8, 16384): (6144, 2), (128, 768): (2048, 8), (128, 1536): (4096, 8), (8, 0): (4096, 2),
    (16, 0): (5120, 1), (32, 0): (2880, 4), (60, 0): (2048, 4), (64, 0): (2048, 6), (72, 0): (2048, 8),
    (128, 0): (2048, 8), (160, 0): (5120, 8), (256, 0): (7168, 8), (257, 0): (7168, 8), (384, 0): (7168, 8),
    (512, 0): (2048, 10), (1, 0): (4096, 1), (2, 0): (4096, 1),
}  # fmt: skip
GOAL = 15.0  # a group of winners meets the goal if its median percentile is at most this
TYPES = ("", "fp8_w8a8", "int8_w8a8", "int8_w8a16")
USUAL = {"num_warps": 4, "num_stages": 3}


def model_of(experts: int, intermediate: int) -> tuple[int, int]:
    """Return hidden size and top-k of the model with this number of experts and this intermediate size per GPU."""
    for ranks in (1, 2, 4, 8, 16):
        if (experts, intermediate * ranks) in MODELS:
            return MODELS[experts, intermediate * ranks]
    return MODELS.get((experts, 0), (4096, 8))


@dataclass(frozen=True)
class Winner:
    """An entry of a file: the fastest configuration of a tuner's space.

    ``percentile`` is its rank by the model, in percent of the space. ``slowdown`` is the fraction by which its
    estimated seconds exceed those of the model's first choice. ``narrow`` is True if its tiles have at most 32 columns.
    """

    percentile: float
    slowdown: float
    narrow: bool


Winners = dict[tuple[str, str], list[Winner]]  # (device, type): winners


def winners(folder: Path, format: Format) -> tuple[Winners, int]:
    """Return the winners, and the number of entries that do not fit on the device according to the model."""
    collected: Winners = defaultdict(list)
    unfit = 0
    for file in read_folder(folder, format)[0]:
        name, row = file.name, file.name.device
        if row is None or name.dtype not in TYPES or not name.is_moe or name.down:
            continue
        hidden, top_k = model_of(name.experts, name.n)
        layer = Layer(name.experts, hidden, name.n, min(top_k, name.experts), name.dtype, name.block_shape)
        space = tuner_space(layer)
        for entry in file.entries:
            # invalid entry, or none of the tuner's tile depths divides the blocks of the scales
            if entry.fault or not space:
                continue
            config = dict(entry.config)
            winner = {key: config.get(key, USUAL.get(key, 1)) for key in SPACE}
            *space_seconds, own = estimated_seconds([*space, winner], layer, entry.size, row).tolist()
            if own == float("inf"):
                unfit += 1
                continue
            times = np.array(space_seconds)
            times = times[np.isfinite(times)]
            same = np.abs(times - own) <= 1e-12 * own
            share = ((times < own) & ~same).mean() + same.mean() / 2
            kind = (name.dtype or "bf16") + (" in blocks" if name.block_shape else "")
            narrow = winner["BLOCK_SIZE_N"] <= 32
            collected[row.name, kind].append(Winner(float(100 * share), float(own / times.min() - 1), narrow))
    return collected, unfit


def table(winners_by_type: Winners, unfit: int) -> list[str]:
    """Return the lines of the table for one folder."""
    everything = [w for ws in winners_by_type.values() for w in ws]
    rows = [(row, kind, ws) for (row, kind), ws in sorted(winners_by_type.items())] + [("**all**", "", everything)]
    return [
        "| device | type | entries | median percentile | worst tenth | behind the first choice |",
        "|---|---|---:|---:|---:|---:|",
        *(
            f"| {row} | {kind} | {len(ws)} | {_median(ws):.1f} | {np.percentile([w.percentile for w in ws], 90):.1f} "
            f"| {statistics.median(w.slowdown for w in ws):.1%} |"
            for row, kind, ws in rows
        ),
        "",
        f"{unfit} further entries do not fit on the device, according to the model.",
        "",
    ]


def _median(group: Sequence[Winner]) -> float:
    return statistics.median(w.percentile for w in group) if group else 0.0


def why_weak(by_package: Mapping[str, Winners]) -> list[str]:
    """Return a table with a row for each package, device and type whose median percentile exceeds the goal."""
    lines = [
        "| files of | device | type | winners with narrow tiles | percentile | winners with wider tiles | percentile "
        "| behind the first choice |",
        "|---|---|---|---:|---:|---:|---:|---:|",
    ]
    for package, groups in by_package.items():
        for (row, kind), ws in sorted(groups.items()):
            if _median(ws) <= GOAL:
                continue
            narrow, wide = [w for w in ws if w.narrow], [w for w in ws if not w.narrow]
            cells = [(str(len(part)), f"{_median(part):.1f}" if part else "") for part in (narrow, wide)]
            slowdown = statistics.median(w.slowdown for w in ws)
            lines.append(f"| {package} | {row} | {kind} | {' | '.join(itertools.chain(*cells))} | {slowdown:.1%} |")
    return lines


def page(vllm: Path, sglang: Path) -> str:
    """Return the page of results."""
    of_vllm, of_sglang = winners(vllm, "vllm"), winners(sglang, "sglang")
    lines = [
        "# The time model's ranking of configurations that won on GPUs",
        "Each entry of vLLM's and SGLang's configuration files was the fastest of up to 1,920 configurations on a GPU.",
        "How well does the time model rank these winners?",
        "",
        f"`python -m benchmarks.cost_model.moe_winners VLLM SGLANG`, {datetime.now(UTC):%Y-%m-%d}, on {os.cpu_count()} "
        f"{platform.machine()} cores without a GPU, with the files of vLLM {_version('vllm')} and SGLang "
        f"{_version('sglang')}.",
        "",
        "- *Percentile*: the share of valid configurations that the model ranks before the winner "
        "(0: the winner is the model's first choice; random ranking gives 50 on average).",
        "- *Behind the first choice*: by how much the winner's estimated time exceeds the time of the model's first "
        "choice (median).",
        "- The model is the general one for Triton launches (`autosched/triton/estimate.py`). Nothing is compiled: the "
        "work of a block is computed from the sizes",
        "  (`autosched/integrations/config_files/tuning/layer_counts.py`).",
        "- One constant was fitted to the files for B200: the overhead of an iteration with tcgen05, 386 cycles (86 "
        "cycles with wgmma).",
        "- The files lack the hidden size and top-k. These come from public models if known.",
        "",
        "## vLLM",
        "",
        *table(*of_vllm),
        "## SGLang",
        "",
        "Only the folder for one version of Triton was used. Files that are only for the second matmul were skipped.",
        "",
        *table(*of_sglang),
        f"## Groups with a median percentile above {GOAL:.0f}",
        "*Narrow* tiles have at most 32 columns.",
        "",
        "- **L40S and L20**: layers with few rows are bound by DRAM, and most configurations take about the same time.",
        "  So if a winner's estimate is a few percent too long, the model ranks half of the space before this winner.",
        "- **H100**: the model is wrong about narrow tiles.",
        "  Winners for up to 256 rows are often 16 x 32 x 128 and 16 x 32 x 256.",
        "  For such tiles, the model counts more reads of L2 than for wide tiles. "
        "It does not model any effect that makes narrow tiles faster.",
        "  From 1,024 rows on, the model's first choices are the winners.",
        "- In an experiment, the model counted each short contiguous access as 64 bytes.",
        "  This halved the percentile of L40S (lower is better) but raised that of RTX PRO 6000, so the change was "
        "rejected.",
        "",
        "A group consists of the winners of one package, GPU and type.",
        "The table shows medians of *percentile* and of *behind the first choice*.",
        "",
        *why_weak({"vLLM": of_vllm[0], "SGLang": of_sglang[0]}),
    ]
    return "\n".join(lines) + "\n"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(unknown version)"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cost_model.moe_winners", description=__doc__)
    parser.add_argument("vllm", type=Path, help="vLLM's folder model_executor/layers/fused_moe/configs")
    parser.add_argument("sglang", type=Path, help="SGLang's folder of configurations for one version of Triton")
    parser.add_argument("--out", type=Path, required=True, help="page to write")
    options = parser.parse_args()
    options.out.write_text(page(options.vllm, options.sglang))


if __name__ == "__main__":
    main()
