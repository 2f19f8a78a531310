"""Where the time model of MoE layers puts the configurations that people's GPUs chose, in the tuner's own space.

``python -m benchmarks.cost_model.moe_winners VLLM SGLANG --out PAGE`` with the folders of configurations of an
installed vLLM and SGLang, whose tuners have the same space. Files for the second matmul alone (``_down``) are left out.
Each entry won among up to 1,920 configurations. Its percentile is the share of those that fit which the model puts
before it: 0 is the first, 50 what a coin would do. Files do not say hidden size and top-k: they are those of the public
model with these experts and this intermediate size, as far as one is known, else 4096 and 8.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
from collections import defaultdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

from autosched.triton.configs.file_names import Format
from autosched.triton.configs.files import read_folder
from autosched.triton.configs.layer import Layer
from autosched.triton.configs.tuning.layer_counts import SPACE, estimated_seconds, tuner_space

# Hidden size and top-k by experts, and where that is not enough by the whole intermediate size.
MODELS = {
    (8, 14336): (4096, 2), (8, 16384): (6144, 2), (128, 768): (2048, 8), (128, 1536): (4096, 8), (8, 0): (4096, 2),
    (16, 0): (5120, 1), (32, 0): (2880, 4), (60, 0): (2048, 4), (64, 0): (2048, 6), (72, 0): (2048, 8),
    (128, 0): (2048, 8), (160, 0): (5120, 8), (256, 0): (7168, 8), (257, 0): (7168, 8), (384, 0): (7168, 8),
    (512, 0): (2048, 10), (1, 0): (4096, 1), (2, 0): (4096, 1),
}  # fmt: skip
TYPES = ("", "fp8_w8a8", "int8_w8a8", "int8_w8a16")
USUAL = {"num_warps": 4, "num_stages": 3}


def model_of(experts: int, intermediate: int) -> tuple[int, int]:
    """Hidden size and top-k."""
    for ranks in (1, 2, 4, 8, 16):
        if (experts, intermediate * ranks) in MODELS:
            return MODELS[experts, intermediate * ranks]
    return MODELS.get((experts, 0), (4096, 8))


def percentiles(folder: Path, format: Format) -> tuple[dict[tuple[str, str], list[float]], int]:
    """By device and type; and how many winners the model has no room for."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    unfit = 0
    for file in read_folder(folder, format)[0]:
        name, row = file.name, file.name.device
        if row is None or name.dtype not in TYPES or not name.is_moe or name.down:
            continue
        hidden, top_k = model_of(name.experts, name.n)
        layer = Layer(name.experts, hidden, name.n, min(top_k, name.experts), name.dtype, name.block_shape)
        space = tuner_space(layer)
        for entry in file.entries:
            if entry.fault or not space:  # of scales that the tuner's depths do not divide
                continue
            config = dict(entry.config)
            winner = {key: config.get(key, USUAL.get(key, 1)) for key in SPACE}
            *others, own = estimated_seconds([*space, winner], layer, entry.size, row).tolist()
            if own == float("inf"):
                unfit += 1
                continue
            times = np.array(others)
            times = times[np.isfinite(times)]
            same = np.abs(times - own) <= 1e-12 * own
            share = ((times < own) & ~same).mean() + same.mean() / 2
            kind = (name.dtype or "bf16") + (" in blocks" if name.block_shape else "")
            found[row.name, kind].append(float(100 * share))
    return found, unfit


def table(folder: Path, format: Format) -> list[str]:
    """Return the lines of a folder's table."""
    found, unfit = percentiles(folder, format)
    everything = [p for ps in found.values() for p in ps]
    rows = [(row, kind, ps) for (row, kind), ps in sorted(found.items())] + [("**all**", "", everything)]
    return [
        "| device | type | entries | median percentile | worst tenth |",
        "|---|---|---:|---:|---:|",
        *(
            f"| {row} | {kind} | {len(ps)} | {statistics.median(ps):.1f} | {np.percentile(ps, 90):.1f} |"
            for row, kind, ps in rows
        ),
        "",
        f"{unfit} further entries do not fit by the model.",
        "",
    ]


def page(vllm: Path, sglang: Path) -> str:
    """Return the page of results."""
    lines = [
        "# Where the time model puts the configurations that GPUs chose",
        "",
        f"Written on {datetime.now(UTC):%Y-%m-%d} by `python -m benchmarks.cost_model.moe_winners VLLM SGLANG` on a "
        f"machine without a GPU ({platform.machine()}, {os.cpu_count()} cores), from the folders of files that vLLM "
        f"{_version('vllm')} and SGLang {_version('sglang')} ship.",
        "",
        "Each entry of these files won on a GPU among up to 1,920 configurations. The tables say which share of those "
        "that fit the model puts before it: 0 is the first choice, 50 what a coin would do. The model is that of all "
        "Triton launches (`autosched/triton/estimate.py`); nothing is compiled here, and what a block executes and "
        "moves is counted from sizes (`configs/tuning/layer_counts.py`). Nothing was fitted to these files but one "
        "constant, which was set with those of B200 in view: the 386 cycles of a turn around tcgen05, where wgmma has "
        "86. Files do not say hidden size and top-k: they are those of public models where these are known.",
        "",
        "## vLLM",
        "",
        *table(vllm, "vllm"),
        "## SGLang",
        "",
        "Of the folder for one Triton. Files for the second matmul alone are left out.",
        "",
        *table(sglang, "sglang"),
        "The model is weakest for L40S: there layers wait for DRAM in most configurations, whose times differ by less "
        "than it can tell, and the files prefer deep and narrow tiles (16 x 32 x 256). Charging short runs of memory "
        "with 64 bytes each halved that percentile and made RTX PRO 6000 worse; it is not in.",
    ]
    return "\n".join(lines) + "\n"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(of no known version)"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cost_model.moe_winners", description=__doc__)
    parser.add_argument("vllm", type=Path, help="vLLM's folder model_executor/layers/fused_moe/configs")
    parser.add_argument("sglang", type=Path, help="SGLang's folder of configurations for one Triton")
    parser.add_argument("--out", type=Path, required=True, help="the page that is written")
    given = parser.parse_args()
    given.out.write_text(page(given.vllm, given.sglang))


if __name__ == "__main__":
    main()
