"""Where the time model of MoE layers puts the configurations that people's GPUs chose, in the tuner's own space.

``python -m benchmarks.cost_model.moe_winners FOLDER [vllm|sglang]`` with the folder of configurations of an installed
vLLM or SGLang, whose tuner has the same space. SGLang's files for the second matmul alone (``_down``) are left out.
Each entry won among up to 1,920 configurations. Its percentile is the share of those that fit which the model puts
before it: 0 is the first, 50 what a coin would do. Files do not say hidden size and top-k: they are those of the
public model with these experts and this intermediate size, as far as one is known, else 4096 and 8.
"""

from __future__ import annotations

import statistics
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

from autosched.triton.configs.file_names import Format
from autosched.triton.configs.files import read_folder
from autosched.triton.configs.layer import Layer
from autosched.triton.configs.tuning.time_model import SPACE, estimated_seconds, tuner_space

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


def main(arguments: list[str]) -> None:
    found, unfit = percentiles(Path(arguments[0]), "sglang" if arguments[1:] == ["sglang"] else "vllm")
    everything = [p for ps in found.values() for p in ps]
    print("| device | type | entries | median percentile | worst tenth |\n|---|---|---:|---:|---:|")
    for (row, kind), ps in sorted(found.items()):
        print(f"| {row} | {kind} | {len(ps)} | {statistics.median(ps):.1f} | {np.percentile(ps, 90):.1f} |")
    tail = np.percentile(everything, 90)
    print(f"| all | all | {len(everything)} | {statistics.median(everything):.1f} | {tail:.1f} |")
    print(f"\n{unfit} further entries do not fit by the model.")


if __name__ == "__main__":
    main(sys.argv[1:])
