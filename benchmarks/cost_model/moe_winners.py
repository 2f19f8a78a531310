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

# Hidden size and top-k by experts, and where that is not enough by the whole intermediate size.
MODELS = {
    (8, 14336): (4096, 2), (8, 16384): (6144, 2), (128, 768): (2048, 8), (128, 1536): (4096, 8), (8, 0): (4096, 2),
    (16, 0): (5120, 1), (32, 0): (2880, 4), (60, 0): (2048, 4), (64, 0): (2048, 6), (72, 0): (2048, 8),
    (128, 0): (2048, 8), (160, 0): (5120, 8), (256, 0): (7168, 8), (257, 0): (7168, 8), (384, 0): (7168, 8),
    (512, 0): (2048, 10), (1, 0): (4096, 1), (2, 0): (4096, 1),
}  # fmt: skip
GOAL = 15.0  # in the median
TYPES = ("", "fp8_w8a8", "int8_w8a8", "int8_w8a16")
USUAL = {"num_warps": 4, "num_stages": 3}


def model_of(experts: int, intermediate: int) -> tuple[int, int]:
    """Hidden size and top-k."""
    for ranks in (1, 2, 4, 8, 16):
        if (experts, intermediate * ranks) in MODELS:
            return MODELS[experts, intermediate * ranks]
    return MODELS.get((experts, 0), (4096, 8))


@dataclass(frozen=True)
class Winner:
    """An entry in the tuner's space.

    ``percentile`` is its position there. ``behind`` is its seconds over those of the model's first choice, less one.
    ``narrow`` is true if its tiles have at most 32 columns.
    """

    percentile: float
    behind: float
    narrow: bool


Winners = dict[tuple[str, str], list[Winner]]  # by device and type


def winners(folder: Path, format: Format) -> tuple[Winners, int]:
    """Return them, and how many the model has no room for."""
    found: Winners = defaultdict(list)
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
            narrow = winner["BLOCK_SIZE_N"] <= 32
            found[row.name, kind].append(Winner(float(100 * share), float(own / times.min() - 1), narrow))
    return found, unfit


def table(found: Winners, unfit: int) -> list[str]:
    """Return the lines of a folder's table."""
    everything = [w for ws in found.values() for w in ws]
    rows = [(row, kind, ws) for (row, kind), ws in sorted(found.items())] + [("**all**", "", everything)]
    return [
        "| device | type | entries | median percentile | worst tenth | behind the first choice |",
        "|---|---|---:|---:|---:|---:|",
        *(
            f"| {row} | {kind} | {len(ws)} | {_median(ws):.1f} | {np.percentile([w.percentile for w in ws], 90):.1f} "
            f"| {statistics.median(w.behind for w in ws):.1%} |"
            for row, kind, ws in rows
        ),
        "",
        f"{unfit} further entries do not fit by the model.",
        "",
    ]


def _median(found: Sequence[Winner]) -> float:
    return statistics.median(w.percentile for w in found) if found else 0.0


def why_weak(found: Mapping[str, Winners]) -> list[str]:
    """Return a line for each device and type, by package, whose median is beyond the goal."""
    lines = []
    for package, groups in found.items():
        for (row, kind), ws in sorted(groups.items()):
            if _median(ws) <= GOAL:
                continue
            narrow, wide = [w for w in ws if w.narrow], [w for w in ws if not w.narrow]
            parts = [f"{_median(p):.1f} of {len(p)} {what}" for p, what in ((narrow, "narrow"), (wide, "others")) if p]
            behind = statistics.median(w.behind for w in ws)
            lines.append(f"- {package}, {row}, {kind}: {', '.join(parts)}; {behind:.1%} behind the first choice.")
    return lines


def page(vllm: Path, sglang: Path) -> str:
    """Return the page of results."""
    of_vllm, of_sglang = winners(vllm, "vllm"), winners(sglang, "sglang")
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
        *table(*of_vllm),
        "## SGLang",
        "",
        "Of the folder for one Triton. Files for the second matmul alone are left out.",
        "",
        *table(*of_sglang),
        f"## Where the median is beyond {GOAL:.0f}",
        "",
        "*Narrow*: winners with tiles of at most 32 columns. *Behind the first choice*: how much slower than its first "
        "choice the model takes the winner to be, in the median. Layers of few rows wait for DRAM, and most of the "
        "space has about one time there: a winner that the model puts a few percent behind its first choice has half "
        "of the space before it. That is L40S and L20. On H100 the model is wrong about narrow tiles: many GPUs chose "
        "16 x 32 x 128 and 16 x 32 x 256 for up to 256 rows, for which it sees more reads of L2 and no gain. From "
        "1,024 rows on its first choices are the files'. Charging short runs of memory with 64 bytes each halved "
        "L40S's percentile and made RTX PRO 6000's worse; it is not in.",
        "",
        *why_weak({"vLLM": of_vllm[0], "SGLang": of_sglang[0]}),
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
